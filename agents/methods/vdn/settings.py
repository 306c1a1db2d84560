"""Settings of value decomposition on options."""

from dataclasses import dataclass, replace
from typing import ClassVar, Literal

from torch import nn

from agents.method import Algorithm, Needs
from agents.on_options.schedule import falling
from agents.problems.options import OptionProblem, OptionSetup
from envs.options import OptionRules
from envs.types import MurmurationError


@dataclass(frozen=True, slots=True)
class VDNSettings:
    """Parameters of value decomposition on options (`agents.methods.vdn.learning`); nodes take turns.

    Attributes:
        num_workloads: fresh training workloads in an iteration.
        group_size: episodes of each.
        compares_groups: whether returns are those above the mean of the group's other episodes at this time, with much
            less noise; it needs groups of at least 2.
        horizon: in mean JCTs of the workload's episodes, so that it suits jobs of minutes and of days; a cost that
            lies t of them ahead counts exp(-t / horizon).
        trace_decay: lambda of the returns, for each round; 0 trusts the values of the next round, 1 the episode.
        utility_scale: of a utility of 1, in standard deviations of returns.
        temperature: of the softmax over utilities by which episodes explore, at the beginning; it falls linearly.
        final_temperature: at the end, as a fraction of `temperature`.
        lr: step size of Adam at the beginning; it falls linearly.
        critic_lr: the same for the value of states.
        final_lr: at the end, as a fraction of both.
        critic_hidden: width of the layers of the value of states.
        num_epochs: passes over the rounds of an iteration.
        num_minibatches: steps in each pass.
        max_grad_norm: gradients are scaled down to this norm.
        iterations: after which step sizes and temperature have fallen to their last values; those of the run.
        num_env_runners: additional Ray workers that play; 0 plays in this process.
    """

    name: ClassVar[str] = "vdn"
    needs: ClassVar[Needs] = Needs(("options",), "env=options agent=options (experiment=from_nothing)")
    has_critic: ClassVar[bool] = True
    critic: ClassVar[Literal["all"]] = "all"
    decisions_of_workload: ClassVar[int | None] = None  # all: the decisions of a round are learnt from together

    num_workloads: int = 8
    group_size: int = 8
    compares_groups: bool = True
    horizon: float = 5.0
    trace_decay: float = 0.9
    utility_scale: float = 0.1
    temperature: float = 0.5
    final_temperature: float = 0.1
    lr: float = 1e-2
    critic_lr: float = 1e-2
    final_lr: float = 0.03
    critic_hidden: int = 32
    num_epochs: int = 2
    num_minibatches: int = 6
    max_grad_norm: float = 0.5
    iterations: int = 200
    num_env_runners: int = 0

    def __post_init__(self) -> None:
        for name in ("num_workloads", "group_size", "critic_hidden", "num_epochs", "num_minibatches", "iterations"):
            if getattr(self, name) < 1:
                self._refuse(name, "at least 1")
        if self.compares_groups and self.group_size < 2:
            self._refuse("group_size", "at least 2 with compares_groups=true")
        for name in ("horizon", "utility_scale", "temperature", "lr", "critic_lr", "max_grad_norm"):
            if not getattr(self, name) > 0:
                self._refuse(name, "positive")
        for name in ("trace_decay", "final_lr"):
            if not 0 <= getattr(self, name) <= 1:
                self._refuse(name, "from 0 to 1")
        if not 0 < self.final_temperature <= 1:
            self._refuse("final_temperature", "above 0 and at most 1")
        if self.num_env_runners < 0:
            self._refuse("num_env_runners", "0 or more")

    def _refuse(self, name: str, allowed: str) -> None:
        raise MurmurationError(f"{self.name}.{name} is {getattr(self, name)}; it must be {allowed}")

    @property
    def num_episodes(self) -> int:
        """Training episodes of an iteration."""
        return self.num_workloads * self.group_size

    @property
    def num_envs(self) -> int:
        """Episodes that are played in one call."""
        return self.group_size

    def step_sizes(self, iteration: int) -> list[float]:
        """Return the step sizes of an iteration, of the utilities and of the value of states."""
        return [falling(lr, self.final_lr, iteration, self.iterations) for lr in (self.lr, self.critic_lr)]

    def temperature_at(self, iteration: int) -> float:
        """Return the temperature of an iteration."""
        return falling(self.temperature, self.final_temperature, iteration, self.iterations)

    def adapt(self, rules: OptionRules, iteration: int) -> OptionRules:
        """Return the rules of the environment, in which nodes take turns."""
        return replace(rules, turn="turns")

    def start(self, problem: OptionProblem, network: nn.Module, seed: int) -> Algorithm:
        """Begin training from a network."""
        from agents.methods.vdn.learning import VDNConfig
        from agents.on_options.learner import start_on_options

        return start_on_options(OptionSetup.of(problem, self, network, seed), VDNConfig)
