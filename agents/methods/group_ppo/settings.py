"""Settings of PPO with a group baseline."""

from dataclasses import dataclass
from typing import ClassVar

from torch import nn

from agents.method import Algorithm, Needs
from agents.problems.options import OptionProblem
from envs.types import MurmurationError


@dataclass(frozen=True, slots=True)
class GroupPPOSettings:
    """Parameters of PPO with a group baseline (`agents.methods.group_ppo.learning`).

    Attributes:
        num_workloads: fresh training workloads in an iteration.
        group_size: episodes of each, at least 2; the others are the baseline of each one.
        horizon: in s of simulated time; a cost that lies t seconds ahead counts exp(-t / horizon).
        lr: step size of Adam at the beginning; it falls linearly.
        final_lr: at the end, as a fraction of `lr`.
        entropy: weight of the bonus on the entropy of the choice.
        clip: PPO's clip of the ratio of probabilities.
        num_epochs: passes over the decisions of an iteration.
        num_minibatches: steps in each pass.
        max_grad_norm: gradients are scaled down to this norm.
        temperature: of the softmax over scores, in sampling and learning.
        record_fraction: of the decisions that are learnt from, drawn at random; fewer save memory and time.
        start_only: fraction of the iterations, the first ones, in which jobs are only started, whatever else the rules
            of the environment allow. The option scorer needs no such curriculum: it begins reluctant to change jobs.
        iterations: after which the step size has fallen to its last value; those of the run.
        num_env_runners: additional Ray workers that play; 0 plays in this process.
    """

    name: ClassVar[str] = "group_ppo"
    needs: ClassVar[Needs] = Needs(("options",), "env=options agent=options (experiment=from_nothing)")

    num_workloads: int = 16
    group_size: int = 8
    horizon: float = 30_000.0
    lr: float = 2e-3
    final_lr: float = 0.03
    entropy: float = 0.003
    clip: float = 0.2
    num_epochs: int = 2
    num_minibatches: int = 6
    max_grad_norm: float = 0.5
    temperature: float = 1.0
    record_fraction: float = 1.0
    start_only: float = 0.0
    iterations: int = 200
    num_env_runners: int = 0

    def __post_init__(self) -> None:
        for name in ("num_workloads", "num_epochs", "num_minibatches", "iterations"):
            if getattr(self, name) < 1:
                raise MurmurationError(f"group_ppo.{name} is {getattr(self, name)}; it must be at least 1")
        if self.group_size < 2:
            raise MurmurationError(f"group_ppo.group_size is {self.group_size}; it must be at least 2")
        for name in ("horizon", "lr", "clip", "max_grad_norm", "temperature"):
            if not getattr(self, name) > 0:
                raise MurmurationError(f"group_ppo.{name} is {getattr(self, name)}; it must be positive")
        for name in ("final_lr", "entropy", "num_env_runners"):
            if not getattr(self, name) >= 0:
                raise MurmurationError(f"group_ppo.{name} is {getattr(self, name)}; it must not be negative")
        if not 0 <= self.start_only <= 1:
            raise MurmurationError(f"group_ppo.start_only is {self.start_only}; it must be from 0 to 1")
        if not 0 < self.record_fraction <= 1:
            raise MurmurationError(
                f"group_ppo.record_fraction is {self.record_fraction}; it must be above 0 and at most 1"
            )

    @property
    def num_episodes(self) -> int:
        """Training episodes of an iteration."""
        return self.num_workloads * self.group_size

    @property
    def num_envs(self) -> int:
        """Episodes that are played in one call."""
        return self.group_size

    def learning_rate(self, iteration: int) -> float:
        """Return the step size of an iteration."""
        done = min(iteration / self.iterations, 1.0)
        return self.lr * (1.0 - done * (1.0 - self.final_lr))

    def only_starts(self, iteration: int) -> bool:
        """Whether jobs are only started in an iteration."""
        return iteration < self.start_only * self.iterations

    def start(self, problem: OptionProblem, network: nn.Module, seed: int) -> Algorithm:
        """Begin training from a network."""
        from agents.methods.group_ppo.learning import GroupPPOOnRay, GroupSetup, LocalGroupPPO

        start = {name: value.detach().clone() for name, value in network.state_dict().items()}
        setup = GroupSetup(problem.worlds, problem.blueprint, self, seed, start)
        return LocalGroupPPO(setup) if self.num_env_runners == 0 else GroupPPOOnRay(setup)
