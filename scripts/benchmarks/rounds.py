"""Rounds of a minute, as most published simulators have them."""

import time
from dataclasses import replace
from itertools import islice

from benchmarks.episodes import FifoEpisode
from benchmarks.scenarios import PLAIN, in_rounds
from benchmarks.worlds import Size
from envs.scheduling import Scheduler

MINUTE = 60.0


def rounds_per_second(scheduler: Scheduler, size: Size, rounds: int) -> float:
    """Rounds per CPU second, decision and simulation together, from the loaded instant on and after the first."""
    episode = FifoEpisode(replace(size, elastic=True), in_rounds(PLAIN, MINUTE))
    episode.load(3 * size.jobs // 4)
    simulator = episode.simulator
    scheduler.reset(simulator.cluster, simulator.rng)
    began, count = 0.0, -1
    for view in islice(simulator.rounds(), rounds + 1):
        simulator.apply(scheduler.schedule(view))
        count += 1
        began = began or time.process_time()
    return count / (time.process_time() - began)
