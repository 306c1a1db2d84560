"""Imitation learning: the agents learn to act like a scheduler before they improve on it.

Dataset aggregation (DAgger, AISTATS'11): in the first pass the teacher acts. In later passes some nodes' choices are
the student's, and the teacher labels every decision with what it would have done. If the student acted alone, eight
nodes that each err a little would hardly ever all pass, rounds would run to their last decision, and the data would
come from states that no good policy visits; a tenth of the choices is enough. Actions of the trained student are
sampled, not maximised: equal nodes share the probability of one choice, so the likeliest action of each is to pass.
Sharpened logits (`sharpness`) sample better than a temperature of one.
"""

import math
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import ClassVar

import numpy as np
import torch
from torch import nn

from agents.method import Needs
from agents.networks import sharpness_of
from agents.packing import PackedStep, StepArrays, pack_step
from agents.policies.scheduler import choose_actions
from agents.problems.choices import ChoiceProblem
from agents.seeding import Phase, derive_seed
from envs.gpu_cluster.columns import PASS
from envs.gpu_cluster.demonstrate import RequestedGpus, demonstrate, requested_gpus
from envs.gpu_cluster.vector import GpuClusterVectorEnv
from envs.scheduling import Scheduler
from envs.simulation import SimulationView
from envs.types import IntArray, MurmurationError

ImitationProgress = Callable[[str, int, int, dict[str, float]], None]  # phase, done, total, figures


@dataclass(frozen=True, slots=True)
class ImitationSettings:
    """Settings of imitation learning, a `Stage` before a method."""

    name: ClassVar[str] = "imitation"
    needs: ClassVar[Needs] = Needs(("choices",), "env=default agent=attention (experiment=discrete)")

    passes: int = 3  # passes of data aggregation; in the first the teacher acts alone
    steps: int = 5000  # joint decisions collected in each pass
    epochs: int = 4  # over all data so far, after each pass
    student_share: float = 0.1  # share of the choices that the student makes in later passes
    batch_size: int = 256
    lr: float = 1e-3
    pass_weight: float = 0.5  # weight of passing in the loss, since nodes pass most of the time
    num_envs: int = 16  # episodes that are stepped in one call
    sharpness: float = 2.0  # factor on the logits afterwards, see `agents.networks.AdjustableSharpness`

    def __post_init__(self) -> None:
        for name in ("steps", "epochs", "batch_size", "lr", "num_envs", "sharpness"):
            if not getattr(self, name) > 0:
                raise MurmurationError(f"imitation.{name} is {getattr(self, name)}; it must be positive")
        for name in ("passes", "pass_weight"):
            if not getattr(self, name) >= 0:
                raise MurmurationError(f"imitation.{name} is {getattr(self, name)}; it must not be negative")
        if not 0 <= self.student_share <= 1:
            raise MurmurationError(f"imitation.student_share is {self.student_share}; it must be between 0 and 1")

    @property
    def is_off(self) -> bool:
        """Whether nothing is imitated."""
        return self.passes == 0

    def run(
        self,
        problem: ChoiceProblem,
        network: nn.Module,
        make_teacher: Callable[[], Scheduler],
        seed: int,
        progress: Callable[[int, int, Mapping[str, float]], None],
    ) -> None:
        """Train a network to choose as a scheduler does."""
        env = problem.training_setup.vector_env(self.num_envs, seed + 1)

        def tell(_phase: str, done: int, total: int, figures: dict[str, float]) -> None:
            progress(done, total, figures)

        imitate(network, env, make_teacher, self, seed, tell)


class Demonstrator:
    """One teacher per episode of a batch; gives the joint action that leads towards its allocation."""

    def __init__(self, env: GpuClusterVectorEnv, teachers: list[Scheduler], rng: np.random.Generator) -> None:
        self.env, self.teachers = env, teachers
        self._rng = rng
        self._requested: list[RequestedGpus | None] = [None] * env.num_envs
        self._views: list[SimulationView] = []

    def begin(self, b: int) -> None:
        """Follow a new episode."""
        batch = self.env.batch
        self.teachers[b].reset(batch.cluster, np.random.default_rng(self._rng.integers(2**63)))
        self._requested[b] = None

    def actions(self) -> IntArray:
        """Return joint actions int64[B, num_nodes]; each teacher schedules once a round, before its first decision."""
        negotiation = self.env.batch.negotiation
        result = np.zeros((self.env.num_envs, self.env.batch.spec.num_nodes), np.int64)
        for b in range(self.env.num_envs):
            requested = self._requested[b]
            if requested is None or negotiation.arrays.rules[b, 0].decision == 0:
                with self.env.batch.view_at_round(b) as view:
                    allocation = self.teachers[b].schedule(view)
                    requested = self._requested[b] = requested_gpus(allocation, negotiation, b)
            result[b] = demonstrate(requested, negotiation, b)
        return result


def imitate(
    network: nn.Module,
    env: GpuClusterVectorEnv,
    make_teacher: Callable[[], Scheduler],
    settings: ImitationSettings,
    seed: int,
    progress: ImitationProgress,
) -> dict[str, float]:
    """Train a network to choose as a scheduler would; return the last loss and the share of equal choices.

    Args:
        network: a `PolicyNetwork`, changed in place. If it has `AdjustableSharpness`, that is set at the end.
        env: training episodes, which are reset.
        make_teacher: makes a fresh scheduler for each episode of the batch.
        settings: length and optimizer.
        seed: seed of the run, for episodes, batches and the teacher's random draws.
        progress: called after every step of work.

    Raises:
        MurmurationError: the loss is not finite.
    """
    rng = np.random.default_rng(derive_seed(seed, Phase.IMITATION))
    demonstrator = Demonstrator(env, [make_teacher() for _ in range(env.num_envs)], rng)
    optimizer = torch.optim.Adam(network.parameters(), lr=settings.lr)
    data: list[PackedStep] = []
    figures: dict[str, float] = {"imitation_loss": float("nan"), "imitation_agreement": float("nan")}
    total = settings.passes * settings.steps * (1 + settings.epochs)
    done = 0
    for number in range(settings.passes):
        share = settings.student_share if number else 0.0
        episodes = derive_seed(seed, Phase.IMITATION, 1 + number)
        for chunk in gather(env, demonstrator, network, share, settings.steps, episodes):
            data.append(pack_step(chunk))
            done += len(chunk["labels"])
            progress("imitation: gather", done, total, figures)
        for _ in range(settings.epochs):
            figures = fit_epoch(network, optimizer, data, settings, rng)
            done += settings.steps
            progress("imitation: fit", done, total, figures)
    sharpness = sharpness_of(network)
    if settings.passes and sharpness is not None:
        sharpness.fill_(settings.sharpness)
    return figures


def gather(
    env: GpuClusterVectorEnv, demonstrator: Demonstrator, student: nn.Module, share: float, steps: int, seed: int
) -> Iterator[StepArrays]:
    """Play about `steps` joint decisions; yield observations and labels. The student makes a `share` of the choices."""
    env.reset(seed=seed)
    for place in range(env.num_envs):
        demonstrator.begin(place)
    rng = np.random.default_rng(seed)
    for _ in range(-(-steps // env.num_envs)):
        labels = demonstrator.actions()
        yield {**{name: array.copy() for name, array in env.batch.observation.items()}, "labels": labels}
        actions = labels
        if share > 0:
            tried = choose_actions(student, env.batch.observation, rng)  # type: ignore[arg-type]
            actions = np.where(rng.random(labels.shape) < share, tried, labels)
        _, _, ended = env.batch.step(actions)
        for b in np.flatnonzero(ended):
            env.begin(int(b))
            demonstrator.begin(int(b))


def fit_epoch(
    network: nn.Module,
    optimizer: torch.optim.Optimizer,
    data: Sequence[PackedStep],
    settings: ImitationSettings,
    rng: np.random.Generator,
) -> dict[str, float]:
    """Train for one pass over all data, in random batches, on weighted cross-entropy per node.

    Raises:
        MurmurationError: the loss is not finite.
    """
    network.train()
    size = len(data[0])
    group = max(1, settings.batch_size // size)  # a chunk is one step of all episodes
    order = rng.permutation(len(data))
    losses, agreements = [], []
    for start in range(0, len(order), group):
        chunks = [data[i].unpacked() for i in order[start : start + group]]
        batch = {name: torch.from_numpy(np.concatenate([chunk[name] for chunk in chunks])) for name in chunks[0]}
        labels = batch.pop("labels")
        logits = network.logits(batch)  # type: ignore[operator]
        weight = torch.where(labels == PASS, settings.pass_weight, 1.0)
        allowed = batch["mask"].gather(-1, labels.unsqueeze(-1)).squeeze(-1) > 0  # on an idle cluster passing is masked
        weight = weight * ((batch["mask"].sum(-1) > 1) & allowed)  # a node without a choice carries no information
        wrong = nn.functional.cross_entropy(logits.flatten(0, 1), labels.flatten(), reduction="none").view_as(weight)
        loss = (wrong * weight).sum() / weight.sum().clamp(min=1.0)
        optimizer.zero_grad()
        loss.backward()
        nn.utils.clip_grad_norm_(network.parameters(), 1.0)
        optimizer.step()
        losses.append(float(loss.detach()))
        if not math.isfinite(losses[-1]):
            raise MurmurationError(f"imitation: the loss is {losses[-1]}; training has diverged, lower imitation.lr")
        agree = (logits.argmax(-1) == labels) & (weight > 0)
        agreements.append(float(agree.sum() / (weight > 0).sum().clamp(min=1)))
    network.eval()
    return {"imitation_loss": float(np.mean(losses)), "imitation_agreement": float(np.mean(agreements))}
