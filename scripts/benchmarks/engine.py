"""The engine under FIFO: the cost of an event by size and model, beside the reference engine on the same events."""

from benchmarks.beside import WHOLE, beside_reference
from benchmarks.episodes import FifoEpisode
from benchmarks.report import Report
from benchmarks.scenarios import FULL, PLAIN
from benchmarks.suite import Suite
from benchmarks.timing import cpu_seconds
from benchmarks.worlds import Size

GROWTH = 5.0  # of the cost of an event, from the smallest size to the largest
PROTOTYPES = {8: 69, 64: 76, 1000: 192, 12500: 230}  # ns an event, by servers: a plainer world, on a quiet machine


def measure(report: Report, suite: Suite) -> None:
    """Whole episodes in both models of the world, then both engines on the same events."""
    for name, scenario in (("full", FULL), ("plain", PLAIN)):
        costs = []
        for size in suite.sizes:
            episode = FifoEpisode(size, scenario)
            repeats = suite.repeats if size.jobs > WHOLE else 10 * suite.repeats
            costs.append(cpu_seconds(episode.play, repeats, episode.rewind) / episode.num_events)
            report.same(f"events of {size}, {name} model", episode.num_events, 2 * size.jobs)
            report.add(
                "engine", size, f"FIFO, {name} model", 1e9 * costs[-1], "ns/event", most=3 * PROTOTYPES[size.servers]
            )
            report.add("engine", size, f"FIFO, {name} model", 1 / costs[-1], "events/s")
            if name == "full":
                beside_reference(report, suite, episode, size)
        report.add("engine", "all", f"growth of an event's cost, {name} model", costs[-1] / costs[0], "x", most=GROWTH)


def lodestar(size: Size) -> float:
    """Thrice what the prototype took for an event, in ns."""
    return 3.0 * PROTOTYPES[size.servers]
