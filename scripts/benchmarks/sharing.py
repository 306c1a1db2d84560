"""The engine where two jobs may share GPUs: the cost of an event without pairs, and with them, over that without."""

from dataclasses import replace

import numpy as np

from baselines.compiled.fifo import start_from_queue
from baselines.compiled.gang import Gangs
from benchmarks.engine import FRESH, WHOLE
from benchmarks.report import Report
from benchmarks.suite import Suite
from benchmarks.timing import cpu_seconds
from benchmarks.worlds import FULL, FifoEpisode, Size
from envs.simulation import Scenario
from envs.simulation.compiled.jit import kernel, leaf
from envs.simulation.world.arrays import World
from envs.simulation.world.clock import pass_to_decision
from envs.simulation.world.job_throughput import runs_beside
from envs.simulation.world.kernels import LOG_FULL, ROUND, take_effect
from envs.simulation.world.ordered_set import next_member
from envs.simulation.world.shares import join_job
from envs.types import IntArray

MOST_COST = 1.5  # of an event with sharing on, over one with sharing off
SHARED = replace(FULL, sharing="pairs")
LARGEST = 16  # GPUs of a job in these workloads
SIZES = 2  # the smallest ones: the scheduler looks at all jobs in every round


def measure_sharing(report: Report, suite: Suite) -> None:
    """Time FIFO in the full model, with sharing on and unused, and FIFO that puts what waits beside what runs.

    The second scheduler is timed with sharing off too, where it looks for the same pairs and makes none: what it costs
    to look for them is in both times.
    """
    for size in suite.sizes[:SIZES]:
        cost: dict[str, float] = {}
        fresh = FRESH if size.jobs <= WHOLE else 1
        for _ in range(fresh):
            for name, scenario in (("off", FULL), ("on", SHARED)):
                episode = FifoEpisode(size, scenario)
                cost[name] = min(cost.get(name, np.inf), time_event(episode, suite))
                report.same(f"events of {size}, sharing {name}", episode.num_events, 2 * size.jobs)
                pairs = PairsEpisode(size, scenario)
                cost[f"pairs {name}"] = min(cost.get(f"pairs {name}", np.inf), time_event(pairs, suite))
                report.same(f"events of {size} with pairs, sharing {name}", pairs.num_events, 2 * size.jobs)
        report.add("sharing", size, "FIFO, sharing off", 1e9 * cost["off"], "ns/event")
        report.add("sharing", size, "FIFO, sharing on", cost["on"] / cost["off"], "x", most=MOST_COST)
        report.add("sharing", size, "jobs placed beside another one", float(pairs.made[0]), "jobs")
        report.add("sharing", size, "the same with pairs", cost["pairs on"] / cost["pairs off"], "x", most=MOST_COST)


def time_event(episode: FifoEpisode, suite: Suite) -> float:
    """CPU seconds of an event."""
    repeats = suite.repeats if episode.simulator.state.jobs.shape[1] > WHOLE else 5 * suite.repeats
    return cpu_seconds(episode.play, repeats, episode.rewind) / episode.num_events


class PairsEpisode(FifoEpisode):
    """An episode under FIFO that puts waiting jobs beside running ones of their size, if it may.

    Attributes:
        made: int64[1], jobs that were placed beside another one.
    """

    def __init__(self, size: Size, scenario: Scenario) -> None:
        super().__init__(size, scenario)
        self.made = np.zeros(1, np.int64)

    def play(self) -> None:
        """Play until the workload ends or the horizon is reached."""
        self.made[0] = 0
        play_in_pairs(self.simulator.world, self.gangs, np.zeros(LARGEST + 1, np.int64), self.made)


@leaf
def pair_waiting(world: World, owners: IntArray, made: IntArray) -> None:
    """Put waiting jobs, in order of submission, beside the first running job of their size that has no partner."""
    owners[:] = -1
    j = next_member(world.running, len(world.jobs), 0)
    while j >= 0:
        job = world.jobs[j]
        if job.partner < 0 and job.gpus < len(owners) and owners[job.gpus] < 0:
            owners[job.gpus] = j
        j = next_member(world.running, len(world.jobs), j + 1)
    j = next_member(world.queued, len(world.jobs), 0)
    while j >= 0:
        after = next_member(world.queued, len(world.jobs), j + 1)
        owner = owners[world.jobs[j].num_gpus]
        starts = world.jobs[j].touched != 0  # alone, in this round
        if (
            owner >= 0
            and not starts
            and world.pair_factors.size
            and runs_beside(world, world.jobs[j], world.jobs[owner])
        ):
            join_job(world, j, owner)
            owners[world.jobs[j].num_gpus] = -1
            made[0] += 1
        j = after


@kernel
def play_in_pairs(world: World, gangs: Gangs, owners: IntArray, made: IntArray) -> int:
    """Play FIFO that passes no job, and then pairs, until the episode ends.

    Args:
        world: an episode without a log.
        gangs: see `play_fifo`.
        owners: int64[largest size + 1], working memory.
        made: see `PairsEpisode`.
    """
    while True:
        if take_effect(world) < 0:
            return LOG_FULL
        outcome = pass_to_decision(world)
        if outcome != ROUND:
            return outcome
        start_from_queue(world, gangs, next_member(world.queued, len(world.jobs), 0), False)
        pair_waiting(world, owners, made)
