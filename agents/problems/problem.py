"""The protocol between the trainer and what is trained: an environment with network, tasks and checkpoints."""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, ClassVar, NamedTuple, Protocol

from torch import Tensor, nn

from agents.goal import Goal
from agents.listener import TrainingListener
from agents.networks import Blueprint
from agents.validation import ValidationFigures
from envs.scheduling import Scheduler
from envs.simulation import Setup
from envs.workloads import Workload, WorkloadSource

TaskFigures = dict[str, ValidationFigures]  # by task


class TrainingWorld(NamedTuple):
    """What an episode of training is drawn from, and the policy as a scheduler in it."""

    scheduler: Scheduler
    setup: Setup
    source: WorkloadSource


class Compared(NamedTuple):
    """The workloads of a world on which policy and baselines are compared.

    The seed of the workload at index i is `workload_seed(VALIDATION_SEED, i)`.
    """

    name: str
    setup: Setup
    workloads: Sequence[Workload]


class Validated(NamedTuple):
    """What a validation has found.

    Attributes:
        figures: by task, as they are kept in the state of the run.
        scalars: for TensorBoard, by tag.
    """

    figures: TaskFigures
    scalars: Mapping[str, float]


@dataclass(frozen=True, slots=True)
class ValidationScope:
    """How often and on what a policy is validated.

    Attributes:
        num_validation: distinct workloads of each task's validation split.
        num_compared: the first of these, of the first task, on which baselines are played too; None for all.
        num_envs: episodes that are stepped in one call.
    """

    num_validation: int
    num_compared: int | None
    num_envs: int


class SavesPolicy(Protocol):
    """A checkpoint."""

    def save(self, folder: Path) -> None:
        """Write the policy with all that is needed to run it again."""
        ...


class TrainingProblem(Protocol):
    """What the trainer needs of an environment. Another environment is one class with these members.

    Attributes:
        face: what its policies state, such as "bids"; methods name the faces that they can train.
        network_methods: methods that a network must have for it, in the words of a message: name -> what it does.
        advice: options that choose networks which have them.
        blueprint: the network.
        tasks: names of the tasks on which it is validated.
    """

    face: ClassVar[str]
    network_methods: ClassVar[Mapping[str, str]]
    advice: ClassVar[str]

    @property
    def metric(self) -> str:
        """The tag by which TensorBoard compares runs."""
        ...

    @property
    def goal(self) -> Goal:
        """What policies are compared with baselines by."""
        ...

    @property
    def blueprint(self) -> Blueprint:
        """The network."""
        ...

    @property
    def tasks(self) -> Sequence[str]:
        """Names of the tasks on which it is validated."""
        ...

    def check(self) -> None:
        """Check a network like the one to be trained.

        Raises:
            NetworkError: it breaks its protocol.
        """
        ...

    def build(self, seed: int, start: Mapping[str, Tensor] | None) -> nn.Module:
        """Build the network that training begins with; random weights follow from the seed.

        Args:
            seed: of the run.
            start: weights by name; None for random ones. Layers that it lacks keep these.
        """
        ...

    def prepare(self, scope: ValidationScope, listener: TrainingListener) -> int:
        """Choose the validation workloads, and measure what policies are compared with; return their number."""
        ...

    def compared(self) -> Sequence[Compared]:
        """Return what baselines are played on: the first task, or all worlds if the goal is relative."""
        ...

    def level(self, baseline: ValidationFigures) -> Mapping[str, float]:
        """Return the scalars of a baseline's horizontal line, by tag: its figure in the first chart, `metric`."""
        ...

    def validate(self, network: nn.Module, baselines: Mapping[str, ValidationFigures]) -> Validated:
        """Validate a policy on all tasks; with a relative goal, it is compared with these baselines.

        Raises:
            ImpossibleResultError: the event log of a run contradicts its result.
        """
        ...

    def rank(self, figures: TaskFigures) -> tuple[float, ...]:
        """Return that by which checkpoints are compared; the largest is the best."""
        ...

    def objective_of(self, figures: TaskFigures) -> float:
        """Return what a sweeper minimises."""
        ...

    def standing(self, figures: TaskFigures, baselines: Mapping[str, ValidationFigures]) -> Mapping[str, float]:
        """Return the figures of a progress bar."""
        ...

    def validate_anew(self, policy: nn.Module, tell: Callable[[str], None]) -> TaskFigures:
        """Validate the best policy on workloads that did not choose it; nothing where there are none."""
        ...

    def world(self, network: nn.Module, number: int) -> TrainingWorld:
        """Return where a policy plays; the number selects one of the tasks in turn, the first for 0."""
        ...

    def checkpoint(self, network: nn.Module, notes: dict[str, Any]) -> SavesPolicy:
        """Return a policy as a checkpoint with these notes on its origin."""
        ...

    def load(self, folder: Path) -> nn.Module:
        """Read the policy of a checkpoint.

        Raises:
            CheckpointError: it is missing or corrupt.
        """
        ...
