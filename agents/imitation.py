"""Learning from a scheduler: the agents imitate it before they try to beat it.

Dataset aggregation (DAgger, AISTATS'11): in the first pass the teacher plays; in later ones some servers' choices are
the student's, and the teacher says at every decision what it would have done from there. When the student plays alone,
eight servers that each err a little hardly ever pass all at once, rounds run to their last decision, and the data come
from states that no good policy visits; a tenth of the choices is enough. The clone is to be sampled, not maximised:
equal servers share the probability of one choice, and each by itself would rather pass. Sharpened logits (`sharpness`)
sample better than temperature one.
"""

import math
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass

import numpy as np
import torch
from torch import nn

from agents.packing import Arrays, PackedStep, pack
from agents.scheduler import choose
from agents.seeding import Phase, spread
from envs.gpu_cluster.demonstrate import Wish, demonstrate, wish_of
from envs.gpu_cluster.vector import GpuClusterVectorEnv
from envs.scheduling import Scheduler
from envs.simulation import SimulationView
from envs.types import IntArray, MurmurationError

Progress = Callable[[str, int, int, dict[str, float]], None]  # phase, done, total, figures


@dataclass(frozen=True, slots=True)
class ImitationSettings:
    """How long and how to imitate."""

    passes: int = 3  # rounds of data aggregation; the first is played by the teacher alone
    steps: int = 5000  # joint decisions gathered in each pass
    epochs: int = 4  # over all data so far, after each pass
    student_share: float = 0.1  # of the choices in later passes
    batch_size: int = 256
    lr: float = 1e-3
    pass_weight: float = 0.5  # weight of a choice of nothing in the loss, since most servers mostly pass
    sharpness: float = 2.0  # factor on the logits afterwards

    def __post_init__(self) -> None:
        for name in ("steps", "epochs", "batch_size", "lr", "sharpness"):
            if not getattr(self, name) > 0:
                raise MurmurationError(f"imitation.{name} is {getattr(self, name)}; it must be positive")
        for name in ("passes", "pass_weight"):
            if not getattr(self, name) >= 0:
                raise MurmurationError(f"imitation.{name} is {getattr(self, name)}; it must not be negative")
        if not 0 <= self.student_share <= 1:
            raise MurmurationError(f"imitation.student_share is {self.student_share}; it must be between 0 and 1")


class Demonstrator:
    """A teacher beside every episode of a batch: says which joint action leads towards its wish."""

    def __init__(self, env: GpuClusterVectorEnv, teachers: list[Scheduler], rng: np.random.Generator) -> None:
        self.env, self.teachers = env, teachers
        self._rng = rng
        self._wishes: list[Wish | None] = [None] * env.num_envs
        self._views: list[SimulationView] = []

    def begin(self, b: int) -> None:
        """Follow a new episode."""
        batch = self.env.batch
        self.teachers[b].reset(batch.cluster, np.random.default_rng(self._rng.integers(2**63)))
        self._wishes[b] = None

    def actions(self) -> IntArray:
        """Joint actions int64[B, num_servers]; the teacher is asked once a round, before anything has changed in it."""
        negotiation = self.env.batch.negotiation
        result = np.zeros((self.env.num_envs, self.env.batch.spec.num_servers), np.int64)
        for b in range(self.env.num_envs):
            wish = self._wishes[b]
            if wish is None or negotiation.arrays.rules[b, 0].decision == 0:
                wish = self._wishes[b] = wish_of(self.teachers[b].schedule(self.env.batch.view(b)), negotiation, b)
            result[b] = demonstrate(wish, negotiation, b)
        return result


def imitate(
    network: nn.Module,
    env: GpuClusterVectorEnv,
    make_teacher: Callable[[], Scheduler],
    settings: ImitationSettings,
    seed: int,
    progress: Progress,
) -> dict[str, float]:
    """Train a network to choose as a scheduler would; return the last loss and the share of choices that agree.

    Args:
        network: a `PolicyNetwork`, changed in place.
        env: training episodes; they are begun anew.
        make_teacher: a fresh scheduler for each episode of the batch.
        settings: how long.
        seed: of the run, for episodes, batches and the teacher's own randomness.
        progress: called as work goes on.

    Raises:
        MurmurationError: the loss is not finite.
    """
    rng = np.random.default_rng(spread(seed, Phase.IMITATION))
    demonstrator = Demonstrator(env, [make_teacher() for _ in range(env.num_envs)], rng)
    optimizer = torch.optim.Adam(network.parameters(), lr=settings.lr)
    data: list[PackedStep] = []
    figures: dict[str, float] = {"imitation_loss": float("nan"), "imitation_agreement": float("nan")}
    total = settings.passes * settings.steps * (1 + settings.epochs)
    done = 0
    for number in range(settings.passes):
        share = settings.student_share if number else 0.0
        episodes = spread(seed, Phase.IMITATION, 1 + number)
        for chunk in gather(env, demonstrator, network, share, settings.steps, episodes):
            data.append(pack(chunk))
            done += len(chunk["labels"])
            progress("imitation: gather", done, total, figures)
        for _ in range(settings.epochs):
            figures = fit_epoch(network, optimizer, data, settings, rng)
            done += settings.steps
            progress("imitation: fit", done, total, figures)
    if settings.passes and isinstance(getattr(network, "sharpness", None), torch.Tensor):
        network.sharpness.fill_(settings.sharpness)  # type: ignore[operator]
    return figures


def gather(
    env: GpuClusterVectorEnv, demonstrator: Demonstrator, student: nn.Module, share: float, steps: int, seed: int
) -> Iterator[Arrays]:
    """Play about `steps` joint decisions, a `share` of the choices the student's; yield observations with labels."""
    env.reset(seed=seed)
    for place in range(env.num_envs):
        demonstrator.begin(place)
    rng = np.random.default_rng(seed)
    for _ in range(-(-steps // env.num_envs)):
        labels = demonstrator.actions()
        yield {**{name: array.copy() for name, array in env.batch.observation.items()}, "labels": labels}
        actions = labels
        if share > 0:
            tried = choose(student, env.batch.observation, rng)  # type: ignore[arg-type]
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
    """One pass over all data in random batches of weighted cross-entropy per server.

    Raises:
        MurmurationError: the loss is not finite.
    """
    network.train()
    size = len(data[0])
    group = max(1, settings.batch_size // size)  # chunks of one step of all episodes make up a batch
    order = rng.permutation(len(data))
    losses, agreements = [], []
    for start in range(0, len(order), group):
        chunks = [data[i].unpacked() for i in order[start : start + group]]
        batch = {name: torch.from_numpy(np.concatenate([chunk[name] for chunk in chunks])) for name in chunks[0]}
        labels = batch.pop("labels")
        logits = network.logits(batch)  # type: ignore[operator]
        weight = torch.where(labels == 0, settings.pass_weight, 1.0)
        allowed = batch["mask"].gather(-1, labels.unsqueeze(-1)).squeeze(-1) > 0  # an idle cluster may not pass
        weight = weight * ((batch["mask"].sum(-1) > 1) & allowed)  # a server without a choice teaches nothing
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
