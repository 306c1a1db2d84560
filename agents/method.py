"""Protocols between the trainer and methods of training, and the check that method, network and environment fit.

A method is a frozen data class of settings with `name`, `needs`, `num_episodes`, `num_envs` and `start`. The trainer
knows no method: a YAML file names one as `method._target_`, so a user's own needs no change here.
"""

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Protocol

from torch import nn

from agents.problems.problem import TrainingProblem
from envs.scheduling import Scheduler
from envs.types import MurmurationError


@dataclass(frozen=True, slots=True)
class Needs:
    """Requirements of a method on the environment and its network.

    Attributes:
        faces: of environments that it can train in, see `TrainingProblem.face`.
        advice: options that choose such an environment and network, for a message.
        critic: whether the network must estimate values (`value`).
    """

    faces: tuple[str, ...]
    advice: str
    critic: bool = False


class Algorithm(Protocol):
    """A method at work, with or without Ray."""

    def network(self) -> nn.Module:
        """Return a copy of the policy to validate."""
        ...

    def train(self) -> dict[str, float]:
        """Run one iteration; return figures to log, with the tags of `agents.tags` where it has such a figure."""
        ...

    def save(self, folder: Path) -> None:
        """Write everything that `restore` needs."""
        ...

    def restore(self, folder: Path) -> None:
        """Continue from a saved state.

        Raises:
            CheckpointError: it is missing or corrupt.
        """
        ...

    def stop(self) -> None:
        """Release all resources."""
        ...


class Method(Protocol):
    """Settings of a method, and its start."""

    @property
    def name(self) -> str:
        """In messages and progress bars."""
        ...

    @property
    def needs(self) -> Needs:
        """Requirements on the environment and its network."""
        ...

    @property
    def num_episodes(self) -> int:
        """Training episodes of an iteration; 0 where it has no fixed number."""
        ...

    @property
    def num_envs(self) -> int:
        """Episodes that are stepped in one call; validation does so too where it can."""
        ...

    def start(self, problem: Any, network: nn.Module, seed: int) -> Algorithm:
        """Begin training.

        Args:
            problem: of one of the faces that it needs.
            network: with the weights with which training begins.
            seed: of all random draws.
        """
        ...


class Stage(Protocol):
    """A step that changes a network before a method begins, such as imitation."""

    @property
    def name(self) -> str:
        """In messages and progress bars."""
        ...

    @property
    def needs(self) -> Needs:
        """Requirements on the environment and its network."""
        ...

    @property
    def is_off(self) -> bool:
        """Whether its settings leave it out."""
        ...

    def run(
        self,
        problem: Any,
        network: nn.Module,
        make_teacher: Callable[[], Scheduler],
        seed: int,
        progress: Callable[[int, int, Mapping[str, float]], None],
    ) -> None:
        """Change a network.

        Args:
            problem: of one of the faces that it needs.
            network: changed in place.
            make_teacher: makes a scheduler to learn from.
            seed: of all random draws.
            progress: called with the steps that are done, all steps, and figures to log; of these, `env_steps` counts
                the environment steps since the last call.
        """
        ...


def check_pairing(part: Method | Stage, problem: TrainingProblem) -> None:
    """Check that a method or a stage can train the network of a problem, before anything is built.

    Raises:
        MurmurationError: it cannot; says what to choose.
    """
    if problem.face not in part.needs.faces:
        raise MurmurationError(
            f"trainer: {part.name} trains by {' or '.join(part.needs.faces)}, and nodes of this environment act by "
            f"{problem.face}; choose {part.needs.advice}, or a trainer for {problem.face}"
        )
    cls = problem.blueprint.network_class()
    for method, does in problem.network_methods.items():
        if not callable(getattr(cls, method, None)):
            raise MurmurationError(
                f"agent: {problem.blueprint.target} does not {does}: it has no method {method}; use {problem.advice}"
            )
    if part.needs.critic and not callable(getattr(cls, "value", None)):
        raise MurmurationError(
            f"agent: {problem.blueprint.target} has no method value, which {part.name} needs as its critic; "
            f"add one, or use {problem.advice}"
        )
