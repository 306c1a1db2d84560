"""Nodes that bid: the bidding environment as the trainer sees it. Policies are measured by gains over their market."""

import math
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, ClassVar

import numpy as np
import torch
from torch import Tensor, nn

from agents.goal import Goal
from agents.listener import TrainingListener
from agents.networks import Blueprint, check_bid_network
from agents.networks.bidding import BidNetwork
from agents.policies import BiddingCheckpoint, BiddingScheduler
from agents.problems.gain import Gain, gain_of
from agents.problems.objective import EpisodeObjective, LogMerit
from agents.problems.playing import Game, Score, play
from agents.problems.problem import Compared, TaskFigures, TrainingWorld, Validated, ValidationScope
from agents.seeding import Phase, derive_seed
from agents.tags import GAIN
from agents.validation import VALIDATION_SEED, ValidationFigures, validation_workloads
from envs.bidding import BiddingBatch, BiddingRules, BiddingSpec
from envs.episodes import Reward
from envs.episodes.worlds import WorldDistribution
from envs.evaluation.playing import workload_seed
from envs.simulation import Setup
from envs.simulation.seen.market import Market
from envs.workloads import WorkloadSource


@dataclass(frozen=True)
class BiddingTask:
    """The world, the workloads and the market of training episodes; it is sent to the workers."""

    name: str
    setup: Setup
    source: WorkloadSource
    market: Market
    rules: BiddingRules = field(default_factory=BiddingRules)
    reward: Reward | None = None  # None for minus the total JCT

    @property
    def spec(self) -> BiddingSpec:
        """Sizes of observation and action."""
        return BiddingSpec.of(self.setup.cluster, self.rules, self.setup.scenario)

    def batch(self, num_envs: int) -> BiddingBatch:
        """Make empty episodes for workloads of this task."""
        source = self.source
        return BiddingBatch(self.setup, source.models, source.num_jobs, num_envs, self.market, self.rules, self.reward)


def spec_of(tasks: Sequence[BiddingTask]) -> BiddingSpec:
    """Return the sizes of the first task with most bids. A network for it plays in the others too, where it may."""
    return max((task.spec for task in tasks), key=lambda spec: spec.num_bids)


def build_policy(blueprint: Blueprint, spec: BiddingSpec, seed: int, start: Mapping[str, Tensor] | None) -> Any:
    """Build the network that training starts with; see `TrainingProblem.build`."""
    with torch.random.fork_rng(devices=[]):
        torch.manual_seed(derive_seed(seed, Phase.LEARNING))
        network = blueprint.build(spec)
    if start is not None:
        network.load_state_dict(start, strict=False)
    return network


class Silence:
    """A policy that bids nothing, so that the market decides by itself."""

    def __init__(self, num_bids: int) -> None:
        self._num_bids = num_bids

    def bids(self, observation: dict[str, torch.Tensor]) -> torch.Tensor:
        """Return bids of 0."""
        return torch.zeros((*observation["pair_jobs"].shape, self._num_bids))


class BidProblem:
    """The bidding environment, as `TrainingProblem` says.

    Args:
        worlds: the tasks; training draws from all in turn, and they share the market's name and options.
        blueprint: the network.
        market: name and options of the market, for checkpoints.
        objective: what is to be maximised, and by which checkpoints are compared.
        drawn: worlds from which training episodes are drawn instead; the tasks only validate.
    """

    face: ClassVar[str] = "bids"
    network_methods: ClassVar[Mapping[str, str]] = {"bids": "bid"}
    advice: ClassVar[str] = "agent=bidding"
    metric: ClassVar[str] = GAIN
    goal: ClassVar[Goal] = Goal()

    def __init__(
        self,
        worlds: Sequence[BiddingTask],
        blueprint: Blueprint,
        market: dict[str, Any],
        objective: EpisodeObjective | None = None,
        drawn: WorldDistribution | None = None,
    ) -> None:
        self.worlds, self.blueprint, self.market, self.drawn = tuple(worlds), blueprint, market, drawn
        self.objective: EpisodeObjective = objective or LogMerit()
        self.tasks = tuple(world.name for world in self.worlds)
        self._games: dict[str, list[Game]] = {}
        self._batches: dict[str, BiddingBatch] = {}
        self._own: dict[str, list[Score]] = {}
        self._count = self._num_compared = 0

    @property
    def spec(self) -> BiddingSpec:
        """Sizes of observation and action of the first task with most bids, for which networks are built."""
        return spec_of(self.worlds)

    def check(self) -> None:
        """Check a network like the one to be trained."""
        world, spec = max(((each, each.spec) for each in self.worlds), key=lambda each: each[1].num_bids)
        batch, workload = world.batch(2), world.source.episode(np.random.default_rng(0), "train")
        for b in range(2):
            batch.load(b, workload, np.random.default_rng(0))
        observation = {name: torch.from_numpy(array) for name, array in batch.observation.items()}
        check_bid_network(self.blueprint.build(spec), observation, spec.num_bids)

    def build(self, seed: int, start: Mapping[str, Tensor] | None) -> nn.Module:
        """Build the network that training begins with."""
        network: nn.Module = build_policy(self.blueprint, self.spec, seed, start)
        return network

    def prepare(self, scope: ValidationScope, listener: TrainingListener) -> int:
        """Choose the validation workloads, and play them without bids; return how many there are of each task."""
        self._count = scope.num_validation
        for world in self.worlds:
            workloads = validation_workloads(world.source, 2 * self._count)
            self._games[world.name] = [
                Game(0, workload, workload_seed(VALIDATION_SEED, i)) for i, workload in enumerate(workloads)
            ]
        self._batches = {world.name: world.batch(scope.num_envs) for world in self.worlds}
        self._num_compared = self._count if scope.num_compared is None else min(self._count, scope.num_compared)
        silent = Silence(self.worlds[0].spec.num_bids)
        listener.phase("market", len(self.worlds))
        for done, name in enumerate(self.tasks, 1):
            self._own[name] = play(silent, self._batches[name], self._games[name])
            jct = np.mean([score.mean_jct for score in self._own[name]])
            listener.step(done, {})
            listener.note(f"{name}: the market alone has a mean JCT of {jct:,.0f} s")
        return self._count

    def compared(self) -> Sequence[Compared]:
        """Return the first workloads of the first task."""
        games = self._games[self.tasks[0]][: self._num_compared]
        return (Compared(self.tasks[0], self.worlds[0].setup, [game.workload for game in games]),)

    def level(self, baseline: ValidationFigures) -> Mapping[str, float]:
        """Return the gain over the market alone on the same workloads, in %, as that of a policy; 0 is the market."""
        own = self._own[self.tasks[0]][: self._num_compared]
        market = np.exp(np.mean([np.log(score.mean_jct) for score in own]))
        return {GAIN: 100.0 * (1.0 - baseline.get("geometric_mean_jct", math.nan) / float(market))}

    def validate(self, network: nn.Module, baselines: Mapping[str, ValidationFigures]) -> Validated:
        """Compare a policy with the market alone on all tasks."""
        scores = {name: self._scores(network, name, 0, self._count) for name in self.tasks}
        gains = {name: self._gain(found, name, 0) for name, found in scores.items()}
        scalars = {
            f"validation/{name}/{part}": value for name, gain in gains.items() for part, value in gain._asdict().items()
        }
        scalars[GAIN] = 100.0 * gains[self.tasks[0]].jct
        return Validated({name: gain._asdict() for name, gain in gains.items()}, scalars)

    def _scores(self, network: nn.Module, task: str, first: int, last: int) -> list[Score]:
        return play(network, self._batches[task], self._games[task][first:last])  # type: ignore[arg-type]

    def _gain(self, scores: list[Score], task: str, first: int) -> Gain:
        """Compare the scores of validation workloads, from the first on, with those of the market alone."""
        return gain_of(scores, self._own[task][first : first + len(scores)], self.objective)

    def rank(self, figures: TaskFigures) -> tuple[float, ...]:
        """Return the mean over tasks of the gain in the objective."""
        return (float(np.mean([each["merit"] for each in figures.values()])),)

    def objective_of(self, figures: TaskFigures) -> float:
        """Return minus that gain."""
        return -self.rank(figures)[0]

    def standing(self, figures: TaskFigures, baselines: Mapping[str, ValidationFigures]) -> Mapping[str, float]:
        """Return the mean gain in mean JCT, and its standard error."""
        gains = [Gain(**each) for each in figures.values()]
        return {
            "gain": float(np.mean([gain.jct for gain in gains])),
            "gain_error": float(np.sqrt(np.sum([gain.jct_error**2 for gain in gains]))) / len(gains),
        }

    def validate_anew(self, policy: nn.Module, tell: Callable[[str], None]) -> TaskFigures:
        """Compare the best policy with the market alone on workloads that did not choose it."""
        found: TaskFigures = {}
        for name in self.tasks:
            fresh = len(self._games[name]) - self._count
            if fresh < 2:
                tell(f"{name}: the validation split has no further workloads for a second validation")
                continue
            gain = self._gain(self._scores(policy, name, self._count, self._count + fresh), name, self._count)
            found[name] = gain._asdict()
            tell(f"{name}: best checkpoint on {fresh} fresh workloads, against the market alone: {gain}")
        return found

    def world(self, network: nn.Module, number: int) -> TrainingWorld:
        """Return where a policy plays: the tasks in turn."""
        world = self.worlds[number % len(self.worlds)]
        scheduler = BiddingScheduler(network, world.market, world.rules)  # type: ignore[arg-type]
        return TrainingWorld(scheduler, world.setup, world.source)

    def checkpoint(self, network: nn.Module, notes: dict[str, Any]) -> BiddingCheckpoint:
        """Return a policy as a checkpoint."""
        rules, num_bids = self.worlds[0].rules, self.spec.num_bids
        return BiddingCheckpoint(network, self.blueprint, rules, self.market, notes, num_bids)

    def load(self, folder: Path) -> nn.Module:
        """Read the policy of a checkpoint."""
        return BiddingCheckpoint.load(folder, (self.blueprint.target,)).network


_: type[BidNetwork] = Silence  # checked by mypy
