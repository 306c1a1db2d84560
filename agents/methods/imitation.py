"""Imitation learning: a policy learns to choose the options that lead to a scheduler's allocations.

Dataset aggregation (DAgger; Ross, Gordon and Bagnell, AISTATS'11): in the first pass the teacher acts alone. In later
passes the student takes a share of the decisions, and the teacher says in each of them which option it would have
taken. So the data also has the states that a student gets into by its own errors. The loss is the cross-entropy of the
policy's softmax over the options of a decision.
"""

import math
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any, ClassVar

import numpy as np
import torch
from torch import nn

from agents.method import Needs
from agents.networks.decisions import segment_log_softmax
from agents.policies.options.demonstrations import OptionDemonstrator
from agents.policies.options.lesson import Lesson
from agents.policies.options.rows import Rows, gather_decisions
from agents.policies.options.tape import MOMENTS
from agents.problems.options import OptionProblem
from agents.seeding import Phase, derive_seed
from envs.scheduling import Scheduler
from envs.types import IntArray, MurmurationError

ImitationProgress = Callable[[int, int, Mapping[str, float]], None]  # what is done, of how much, and figures


@dataclass(frozen=True, slots=True)
class ImitationSettings:
    """Settings of imitation learning, a `Stage` before a method.

    Attributes:
        passes: of data aggregation; 0 for no imitation.
        num_workloads: training workloads that are played in each pass, of all tasks in turn.
        record_fraction: of the decisions, recorded at random.
        student_share: of the decisions in later passes, taken by the student.
        epochs: over all data so far, after each pass.
        batch_size: decisions of a step.
        lr: learning rate of Adam.
    """

    name: ClassVar[str] = "imitation"
    needs: ClassVar[Needs] = Needs(("options",), "env=options agent=options (trainer=imitation)")

    passes: int = 2
    num_workloads: int = 48
    record_fraction: float = 0.5
    student_share: float = 0.2
    epochs: int = 12
    batch_size: int = 256
    lr: float = 2e-3

    def __post_init__(self) -> None:
        for name in ("num_workloads", "epochs", "batch_size", "lr"):
            if not getattr(self, name) > 0:
                raise MurmurationError(f"imitation.{name} is {getattr(self, name)}; it must be positive")
        if self.passes < 0:
            raise MurmurationError(f"imitation.passes is {self.passes}; it must not be negative")
        if not 0 <= self.student_share <= 1:
            raise MurmurationError(f"imitation.student_share is {self.student_share}; it must be between 0 and 1")
        if not 0 < self.record_fraction <= 1:
            raise MurmurationError(
                f"imitation.record_fraction is {self.record_fraction}; it must be above 0 and at most 1"
            )

    @property
    def is_off(self) -> bool:
        """Whether nothing is imitated."""
        return self.passes == 0

    def run(
        self,
        problem: OptionProblem,
        network: nn.Module,
        make_teacher: Callable[[], Scheduler],
        seed: int,
        progress: ImitationProgress,
    ) -> None:
        """Train a network to choose as a scheduler does.

        Raises:
            MurmurationError: the loss is not finite.
        """
        demonstrators = [OptionDemonstrator(task.batch(1), make_teacher()) for task in problem.worlds]
        optimizer = torch.optim.Adam(network.parameters(), lr=self.lr)
        lessons: list[Lesson] = []
        total = self.passes * (self.num_workloads + self.epochs)
        for number in range(self.passes):
            for index in range(self.num_workloads):
                world = (number * self.num_workloads + index) % len(demonstrators)
                source = problem.worlds[world].source
                workload_seed = derive_seed(seed, Phase.IMITATION, 1 + number, index)
                workload = source.episode(np.random.default_rng(workload_seed), "train")
                lessons.append(self._demonstrate(demonstrators[world], workload, workload_seed, network, number))
                steps = float(demonstrators[world].tape.arrays.counts[MOMENTS])
                progress(number * (self.num_workloads + self.epochs) + index + 1, total, {"env_steps": steps})
            rng = np.random.default_rng(derive_seed(seed, Phase.IMITATION, 1 + number, self.num_workloads))
            lesson = Lesson.join(lessons)
            for epoch in range(self.epochs):
                figures = fit_epoch(network, optimizer, lesson, self.batch_size, rng)
                progress((number + 1) * (self.num_workloads + self.epochs) - self.epochs + epoch + 1, total, figures)

    def _demonstrate(
        self, demonstrator: OptionDemonstrator, workload: Any, seed: int, network: nn.Module, number: int
    ) -> Lesson:
        """Play a workload; return the recorded decisions with what the teacher would choose."""
        share = self.student_share if number else 0.0
        demonstrator.play([workload], [seed], fraction=self.record_fraction, student=network, share=share)
        return Lesson.of(demonstrator.tape, np.zeros(int(demonstrator.tape.arrays.counts[MOMENTS])))


def fit_epoch(
    network: nn.Module, optimizer: torch.optim.Optimizer, lesson: Lesson, batch_size: int, rng: np.random.Generator
) -> dict[str, float]:
    """Train for one pass over all recorded decisions in random batches; return loss, agreement and norm of gradients.

    Raises:
        MurmurationError: the loss is not finite.
    """
    rows, losses, norms, equal = Rows.of(lesson), [], [], 0.0
    order = rng.permutation(lesson.num_decisions)
    for chosen in np.array_split(order, max(1, len(order) // batch_size)):
        loss, agreeing = imitation_loss(network, lesson, rows, chosen)
        losses.append(float(loss.detach()))
        equal += agreeing
        if not math.isfinite(losses[-1]):
            raise MurmurationError(f"imitation: the loss is {losses[-1]}; training has diverged, lower imitation.lr")
        optimizer.zero_grad()
        loss.backward()
        norms.append(float(nn.utils.clip_grad_norm_(network.parameters(), 1.0)))
        optimizer.step()
    agreement = equal / max(len(order), 1)
    return {"loss": float(np.mean(losses)), "agreement": agreement, "gradient_norm": float(np.mean(norms))}


def imitation_loss(network: Any, lesson: Lesson, rows: Rows, chosen: IntArray) -> tuple[torch.Tensor, float]:
    """Return the mean cross-entropy over some decisions, and in how many of them the likeliest option is the teacher's.

    Args:
        network: has a method `scores`.
        lesson: recorded decisions.
        rows: where their rows begin.
        chosen: int64[D], which decisions.
    """
    decisions = gather_decisions(lesson, rows, chosen)
    log_probability = segment_log_softmax(network.scores(decisions), decisions.decision_of, decisions.num_decisions)
    wanted = log_probability[decisions.first + torch.from_numpy(lesson.chosen[chosen])]
    highest = torch.full((decisions.num_decisions,), -torch.inf)
    highest = highest.scatter_reduce(0, decisions.decision_of, log_probability.detach(), "amax")
    return -wanted.mean(), float((wanted.detach() >= highest).sum())
