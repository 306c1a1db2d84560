"""How long the schedulers of the library think about a decision on a loaded cluster."""

import statistics
import time
from collections.abc import Iterator
from dataclasses import replace
from itertools import islice

from benchmarks.episodes import FifoEpisode
from benchmarks.limit import OutOfTimeError, time_limit
from benchmarks.report import Report
from benchmarks.suite import Suite
from benchmarks.worlds import Size
from envs.scheduling import Scheduler
from envs.simulation import Scenario
from envs.types import MurmurationError

LARGEST = 1000  # servers
COMPILING = 100.0  # seconds that the very first decision may take


def measure(report: Report, suite: Suite) -> None:
    """All schedulers at the sizes up to 8,000 GPUs; who runs out of time at one is spared the larger ones."""
    out: dict[str, str] = {}
    for size in (size for size in suite.sizes if size.servers <= LARGEST):
        episode = FifoEpisode(replace(size, elastic=True), Scenario(cpu_memory="shared"))
        episode.load(3 * size.jobs // 4)
        count = 1 + suite.decisions
        for name in [name for name in suite.schedulers if name not in out]:
            scheduler = suite.schedulers[name]
            try:
                if size == suite.sizes[0]:  # let it compile before anything is timed
                    next(decisions(scheduler, episode, COMPILING))
                tell(report, name, size, list(islice(decisions(scheduler, episode, suite.decision_limit), count)))
            except (OutOfTimeError, MurmurationError) as refusal:
                out[name] = f"thinking: {name} is left out from {size} on: {refusal}"
            except Exception:
                out[name] = report.broke(f"thinking: {name} from {size} on")
    report.notes.extend(out.values())


def decisions(scheduler: Scheduler, episode: FifoEpisode, limit: float) -> Iterator[float]:
    """CPU seconds of one round after the other from the loaded instant on."""
    episode.rewind()
    simulator = episode.simulator
    scheduler.reset(simulator.cluster, simulator.rng)
    for view in simulator.rounds():
        with time_limit(limit):
            began = time.process_time()
            wish = scheduler.schedule(view)
            spent = time.process_time() - began
        yield spent
        simulator.apply(wish)


def tell(report: Report, name: str, size: Size, spent: list[float]) -> None:
    """The first decision, which meets a cluster that FIFO has filled, and those after it."""
    report.add("thinking", size, f"{name}, first decision", 1e3 * spent[0], "ms")
    report.add("thinking", size, f"{name}, median of later ones", 1e3 * statistics.median(spent[1:]), "ms")
