"""Training by evolution strategies: episodes and rounds for a second of CPU time, and what takes how much of it."""

import time
from collections.abc import Callable
from dataclasses import dataclass, field
from typing import ClassVar, TypeVar

import torch
from torch import Tensor

from agents.methods.evolution import EvolutionSettings
from agents.methods.evolution.learning import EvolutionConfig, EvolutionSetup
from agents.networks import Blueprint
from agents.networks.bidding import BiddingPolicy
from agents.on_ray.pieces import LocalTraining
from agents.problems.bids import BiddingTask
from baselines.planner import ForecastMarket
from baselines.starling import Starling
from baselines.starling.market import StarlingMarket
from benchmarks.report import Report
from benchmarks.suite import Suite
from benchmarks.timing import cpu_seconds
from envs.simulation import Setup, SimulationView, State, ThroughputTable
from envs.simulation.seen.market import BidArrays, Changes, Market
from envs.simulation.world.arrays import World
from murmuration.config.describe import describe_further
from murmuration.config.inputs import build_inputs

Answer = TypeVar("Answer")

MARKETS: dict[str, Callable[[], Market]] = {
    "Starling without look-ahead": lambda: StarlingMarket(Starling(look_ahead=0)),
    "Starling": lambda: StarlingMarket(Starling()),
    "forecast planner": ForecastMarket,
}
TASKS = ("shared-16", "full-64")  # the second where the suite has more than two sizes


def measure_evolution(report: Report, suite: Suite) -> None:
    """Time an iteration in one process on one thread in each market, after one of a single pair, which compiles."""
    torch.set_num_threads(1)
    for entry in TASKS[: 1 if suite.num_sizes <= len(TASKS) else None]:
        name, problem = describe_further(entry)
        inputs = build_inputs(problem)
        for market, make in MARKETS.items():
            timed = TimedMarket(make())
            task = BiddingTask(name, inputs.setup, inputs.source, timed)
            _measure_iterations(report, suite, market, task, timed.clock)


def _measure_iterations(report: Report, suite: Suite, market: str, task: BiddingTask, clock: "Clock") -> None:
    spent = 0.0
    for pairs in (1, suite.pairs):
        settings = EvolutionSettings(num_pairs=pairs, num_workloads=1, num_envs=2 * pairs)
        setup = EvolutionSetup((task,), Blueprint("benchmarks.evolution.TimedPolicy"), settings, seed=0)
        algorithm = LocalTraining(setup, EvolutionConfig)
        clock.clear()
        TimedPolicy.clock.clear()
        spent = cpu_seconds(algorithm.train)
        algorithm.stop()

    def add(what: str, value: float, unit: str) -> None:
        report.add("evolution", task.name, f"{market}: {what}", value, unit)

    add("training episodes", 2 * suite.pairs / spent, "1/CPU-s")
    add("rounds (env-steps)", clock.rounds / spent, "1/CPU-s")
    add("bids of nodes (agent-steps)", clock.rounds * task.setup.cluster.num_nodes / spent, "1/CPU-s")
    add("the market's share", clock.seconds / spent, "")
    add("the network's share", TimedPolicy.clock.seconds / spent, "")


@dataclass
class Clock:
    """CPU time and rounds.

    Attributes:
        seconds: CPU time so far.
        rounds: rounds so far, those of all episodes of a batch.
    """

    seconds: float = 0.0
    rounds: int = 0

    def clear(self) -> None:
        """Begin at 0."""
        self.seconds, self.rounds = 0.0, 0

    def time(self, work: Callable[[], Answer]) -> Answer:
        """Add the CPU time of a call, and return what it returns."""
        began = time.process_time()
        answer = work()
        self.seconds += time.process_time() - began
        return answer


@dataclass
class TimedMarket:
    """A market whose CPU time is measured.

    Attributes:
        market: decides.
        clock: shared by this market and all markets attached from it.
    """

    market: Market
    clock: Clock = field(default_factory=Clock)

    def attach(self, setup: Setup, table: ThroughputTable, state: State) -> "TimedMarket":
        """Attach the market."""
        return TimedMarket(self.market.attach(setup, table, state), self.clock)

    def begin(self, worlds: World, b: int, view: SimulationView) -> None:
        """Begin an episode."""
        self.clock.time(lambda: self.market.begin(worlds, b, view))

    def propose(self, worlds: World) -> Changes:
        """Propose."""
        return self.clock.time(lambda: self.market.propose(worlds))

    def clear(self, worlds: World, bids: BidArrays) -> Changes:
        """Clear the bids, and count the episodes that are in a round."""
        self.clock.rounds += int(((worlds.episode["in_round"] != 0) & (worlds.episode["ended"] == 0)).sum())
        return self.clock.time(lambda: self.market.clear(worlds, bids))


class TimedPolicy(BiddingPolicy):
    """The bidding network; the CPU time of its forward passes is measured.

    Attributes:
        clock: of all such networks in this process.
    """

    clock: ClassVar[Clock] = Clock()

    def bids(self, observation: dict[str, Tensor]) -> Tensor:
        """Return bids [B, N, P, num_bids] from -1 to 1."""
        return self.clock.time(lambda: super(TimedPolicy, self).bids(observation))
