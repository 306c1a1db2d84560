"""Nodes that choose options: the placement environment as the trainer sees it."""

import math
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any, ClassVar, Generic, Protocol, TypeVar

import numpy as np
import torch
from torch import Tensor, nn

from agents.goal import Goal
from agents.listener import TrainingListener
from agents.networks import Blueprint, check_option_network
from agents.policies.options.checkpoint import OptionCheckpoint
from agents.policies.options.playing import Player
from agents.problems.problem import Compared, TaskFigures, TrainingWorld, Validated, ValidationScope
from agents.seeding import Phase, derive_seed
from agents.validation import VALIDATION_SEED, ValidationFigures, ratio_to_best, validation_workloads
from envs.episodes import Reward, TeamReward
from envs.episodes.worlds import WorldDistribution
from envs.evaluation.playing import workload_seed
from envs.options import OptionBatch, OptionRules, OptionSpec
from envs.simulation import Setup
from envs.workloads import Workload, WorkloadSource

MODES = {"greedy": 0.0, "sampled": 1.0}  # temperatures at which policies are validated


@dataclass(frozen=True)
class OptionTask:
    """The world, the workloads and the reward of training episodes; it is sent to the workers."""

    name: str
    setup: Setup
    source: WorkloadSource
    rules: OptionRules = field(default_factory=OptionRules)
    reward: Reward = field(default_factory=TeamReward)

    def under(self, rules: OptionRules) -> "OptionTask":
        """Return the task with other rules."""
        return replace(self, rules=rules)

    def batch(self, num_episodes: int) -> OptionBatch:
        """Make empty episodes for workloads of this task."""
        source = self.source
        return OptionBatch(self.setup, source.models, source.num_jobs, num_episodes, self.rules, self.reward)


class OptionMethod(Protocol):
    """What the parts of a run ask of the settings of a method, besides what the method itself needs."""

    @property
    def num_workloads(self) -> int:
        """Fresh training workloads in an iteration."""
        ...

    @property
    def num_env_runners(self) -> int:
        """Additional Ray workers that play; 0 plays in this process."""
        ...

    def adapt(self, rules: OptionRules, iteration: int) -> OptionRules:
        """Return the rules of an iteration, given those of the environment."""
        ...


S = TypeVar("S", bound=OptionMethod)


@dataclass(frozen=True)
class OptionSetup(Generic[S]):
    """Everything that the parts of a run share: a `PieceSetup` whose pieces are workloads.

    Attributes:
        tasks: workloads are drawn from all of them in turn, unless worlds are drawn.
        blueprint: the network, which has a method `scores` from `Decisions` to scores of options.
        settings: parameters of the method.
        seed: seed of the run.
        start: weights by name with which training begins.
        drawn: worlds of which each workload has one of its own, instead of the tasks; None for none.
    """

    tasks: tuple[OptionTask, ...]
    blueprint: Blueprint
    settings: S
    seed: int
    start: Mapping[str, Tensor]
    drawn: WorldDistribution | None = None

    @classmethod
    def of(cls, problem: "OptionProblem", settings: S, network: nn.Module, seed: int) -> "OptionSetup[S]":
        """Return the setup of a run that begins with a network."""
        start = {name: value.detach().clone() for name, value in network.state_dict().items()}
        return cls(problem.worlds, problem.blueprint, settings, seed, start, problem.drawn)

    @property
    def spec(self) -> OptionSpec:
        """Sizes of the rows, for which networks are built."""
        return OptionSpec()

    @property
    def num_pieces(self) -> int:
        """Workloads of an iteration."""
        return self.settings.num_workloads

    @property
    def num_env_runners(self) -> int:
        """Processes that play, with Ray."""
        return self.settings.num_env_runners

    def build(self) -> Any:
        """Build the network that training begins with."""
        network = self.blueprint.build(self.spec)
        network.load_state_dict(self.start)
        return network

    def rules(self, iteration: int) -> OptionRules:
        """Return the rules of an iteration."""
        return self.settings.adapt(self.tasks[0].rules, iteration)

    def world_of(self, number: int) -> int:
        """Return the number of the world in which the n-th workload of an iteration is played."""
        return number if self.drawn else number % len(self.tasks)

    def draw(self, iteration: int, number: int) -> tuple[OptionTask, Workload, int]:
        """Return a task under the rules of an iteration, its n-th training workload there, and the seed of that."""
        task = self.tasks[number % len(self.tasks)].under(self.rules(iteration))
        seed = derive_seed(self.seed, Phase.SAMPLING, iteration, number)
        if self.drawn:
            name, setup, source = self.drawn.drawn(seed)
            task = replace(task, name=name, setup=setup, source=source)
        return task, task.source.episode(np.random.default_rng(seed), "train"), seed


def rules_of(network: nn.Module, default: OptionRules) -> OptionRules:
    """Return the rules under which a policy was trained last, where a method has noted them on it as `rules`."""
    found = getattr(network, "rules", None)
    return found if isinstance(found, OptionRules) else default


class OptionProblem:
    """The placement environment, as `TrainingProblem` says.

    A policy is validated on many workloads in one batch, by its likeliest options and by options drawn from it; the
    better of both counts. What is better is what the reward of the first task pays for, see `Goal`.

    Args:
        tasks: training episodes are drawn from all of them in turn; all have the same rules.
        blueprint: the network.
        drawn: worlds from which training episodes are drawn instead; tasks only validate.
    """

    face: ClassVar[str] = "options"
    network_methods: ClassVar[Mapping[str, str]] = {"scores": "score options"}
    advice: ClassVar[str] = "agent=options"

    def __init__(
        self, tasks: Sequence[OptionTask], blueprint: Blueprint, drawn: WorldDistribution | None = None
    ) -> None:
        self.worlds, self.blueprint, self.drawn = tuple(tasks), blueprint, drawn
        self.tasks = tuple(task.name for task in tasks)
        self._workloads: dict[str, list[Workload]] = {}
        self._players: dict[tuple[str, OptionRules], Player] = {}
        self._compared = 0

    @property
    def goal(self) -> Goal:
        """The goal that the reward of the first task states; relative to the best baselines where worlds are drawn."""
        own = Goal.of(self.worlds[0].reward, self.worlds[0].source.num_jobs)
        return replace(own, relative=self.drawn is not None)

    @property
    def metric(self) -> str:
        """The tag of the cost."""
        return self.goal.tag

    @property
    def spec(self) -> OptionSpec:
        """Sizes of the rows."""
        return OptionSpec()

    def check(self) -> None:
        """Check a network like the one to be trained."""
        check_option_network(self.build(0, None), self.spec)

    def build(self, seed: int, start: Mapping[str, Tensor] | None) -> nn.Module:
        """Build the network that training begins with."""
        with torch.random.fork_rng(devices=[]):
            torch.manual_seed(derive_seed(seed, Phase.LEARNING))
            network = self.blueprint.build(self.spec)
        if start is not None:
            network.load_state_dict(start, strict=False)
        return network

    def prepare(self, scope: ValidationScope, listener: TrainingListener) -> int:
        """Choose the validation workloads of every task; return the number of the first one."""
        for task in self.worlds:
            self._workloads[task.name] = validation_workloads(task.source, scope.num_validation)
        found = len(self._workloads[self.tasks[0]])
        if found < scope.num_validation:
            listener.note(f"validation uses {found} distinct workloads, not {scope.num_validation}: there are no more")
        self._compared = min(found, scope.num_compared or found)
        return found

    def compared(self) -> Sequence[Compared]:
        """Return the first validation workloads of the first task, or of all worlds where worlds are drawn."""
        worlds = self.worlds if self.goal.relative else self.worlds[:1]
        return [Compared(each.name, each.setup, self._workloads[each.name][: self._compared]) for each in worlds]

    def level(self, baseline: ValidationFigures) -> Mapping[str, float]:
        """Return the cost in hours, or its ratio to the best."""
        return {self.metric: self.goal.cost(baseline) / self.goal.unit}

    def validate(self, network: nn.Module, baselines: Mapping[str, ValidationFigures]) -> Validated:
        """Validate a policy on all tasks."""
        rules = rules_of(network, self.worlds[0].rules)
        found = {task.name: self._figures(task, network, rules) for task in self.worlds}
        scalars = {f"validation/{name}/{key}": value for name, own in found.items() for key, value in own.items()}
        (cost,) = self.standing(found, baselines).values()
        return Validated(found, {**scalars, self.metric: cost / self.goal.unit})

    def _figures(self, task: OptionTask, network: nn.Module, rules: OptionRules) -> ValidationFigures:
        """Return the cost in s of both modes, of the better one and on the compared workloads; its JCT and makespan."""
        workloads = self._workloads[task.name]
        if (key := (task.name, rules)) not in self._players:
            self._players[key] = Player(task.under(rules).batch(len(workloads)))
        seeds = [workload_seed(VALIDATION_SEED, i) for i in range(len(workloads))]
        player, found = self._players[key], {}
        for mode, temperature in MODES.items():
            jct = player.play(workloads, network, seeds, temperature=temperature)
            makespan = np.array([player.batch.makespan(b) for b in range(len(workloads))])
            found[mode] = {"mean_jct": jct, "makespan": makespan}

        def cost(mode: str, count: int | None = None) -> float:
            return self.goal.in_one_world({name: float(own[:count].mean()) for name, own in found[mode].items()})

        better = min(MODES, key=cost)
        return {
            **{mode: cost(mode) for mode in MODES},
            **{name: float(own.mean()) for name, own in found[better].items()},
            "cost": cost(better),
            "compared_cost": cost(better, self._compared),
        }

    def rank(self, figures: TaskFigures) -> tuple[float, ...]:
        """Return minus the logarithm of the geometric mean of costs over tasks, in which each task counts alike.

        Unfinished jobs count up to the end of an episode.
        """
        return (-sum(math.log(own["cost"]) for own in figures.values()) / len(figures),)

    def objective_of(self, figures: TaskFigures) -> float:
        """Return the mean cost over tasks, in s."""
        return sum(own["cost"] for own in figures.values()) / len(figures)

    def standing(self, figures: TaskFigures, baselines: Mapping[str, ValidationFigures]) -> Mapping[str, float]:
        """Return the cost on the workloads that baselines play too in s, or its ratio to the best of theirs."""
        costs = {name: own["compared_cost"] for name, own in figures.items()}
        if self.goal.relative:
            return {"ratio": ratio_to_best(costs, baselines)}
        return {"validated": costs[self.tasks[0]]}

    def validate_anew(self, policy: nn.Module, tell: Callable[[str], None]) -> TaskFigures:
        """Return nothing: the test split is for that."""
        return {}

    def world(self, network: nn.Module, number: int) -> TrainingWorld:
        """Return where a policy plays."""
        task = self.worlds[number % len(self.worlds)]
        return TrainingWorld(self.checkpoint(network, {}).scheduler(), task.setup, task.source)

    def checkpoint(self, network: nn.Module, notes: dict[str, Any]) -> OptionCheckpoint:
        """Return a policy as a checkpoint that plays at the temperature at which it was validated better."""
        figures: TaskFigures = notes.get("validation") or {}
        temperature = 0.0
        if figures:
            totals = {mode: sum(math.log(own[mode]) for own in figures.values()) for mode in MODES}
            temperature = MODES[min(totals, key=lambda mode: totals[mode])]
        rules = rules_of(network, self.worlds[0].rules)
        return OptionCheckpoint(network, self.blueprint, rules, {**notes, "temperature": temperature})

    def load(self, folder: Path) -> nn.Module:
        """Read the policy of a checkpoint."""
        checkpoint = OptionCheckpoint.load(folder, (self.blueprint.target,))
        network: Any = checkpoint.network
        network.rules = checkpoint.rules  # a note, no weight
        loaded: nn.Module = network
        return loaded
