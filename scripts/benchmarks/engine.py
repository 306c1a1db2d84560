"""The engine under FIFO: the cost of an event by size and scenario, and the reference engine on the same events."""

import numpy as np

from baselines import Fifo
from benchmarks.report import Report
from benchmarks.suite import Suite
from benchmarks.timing import cpu_seconds
from benchmarks.worlds import FULL, PLAIN, FifoEpisode, Size
from envs.simulation.reference import ReferenceSimulator, reference_at

MOST_GROWTH = 5.0  # of the cost of an event, from the smallest size to the largest
PROTOTYPES = {8: 69, 64: 76, 1000: 192, 12500: 230}  # ns per event, by nodes: a simpler world, on an idle machine
LEAST_SPEEDUP = {8: 60, 64: 100, 1000: 400, 12500: 2000}  # over the reference engine, by nodes
WHOLE = 1000  # the reference engine plays workloads of up to this many jobs completely, larger ones in part
CALLS = 1000  # of the compiled function on an episode that has ended: what a call takes is deducted
FRESH = 8  # times that a small episode is built anew: where its arrays lie in memory changes its time by some per cent
COMPARED = ("start", "finish", "remaining")


def measure_engine(report: Report, suite: Suite) -> None:
    """Time whole episodes in both scenarios, then both engines on the same events."""
    for name, scenario in (("full", FULL), ("plain", PLAIN)):
        costs = []
        for size in suite.sizes:
            repeats = suite.repeats if size.jobs > WHOLE else 10 * suite.repeats
            best = np.inf
            for _ in range(FRESH if size.jobs <= WHOLE else 1):
                episode = FifoEpisode(size, scenario)
                best = min(best, cpu_seconds(episode.play, repeats, episode.rewind))
            call = cpu_seconds(episode.play, CALLS)  # of an episode that has ended
            costs.append((best - call) / episode.num_events)
            report.same(f"events of {size}, {name} model", episode.num_events, 2 * size.jobs)
            report.add(
                "engine", size, f"FIFO, {name} model", 1e9 * costs[-1], "ns/event", most=3 * PROTOTYPES[size.nodes]
            )
            report.add("engine", size, f"FIFO, {name} model", 1 / costs[-1], "events/s")
            if name == "full":
                measure_reference_engine(report, suite, episode, size)
        growth = costs[-1] / costs[0]
        report.add("engine", "all", f"growth of an event's cost, {name} model", growth, "x", most=MOST_GROWTH)


def measure_reference_engine(report: Report, suite: Suite, episode: FifoEpisode, size: Size) -> None:
    """Time both engines on the same events and check that they agree.

    They play a small workload completely. Of a large one they play `suite.part` arrivals, after three quarters of all.
    """
    episode.rewind()
    if size.jobs > WHOLE:
        first = 3 * size.jobs // 4
        episode.load(first)
        episode.set_horizon(float(episode.simulator.workload.jobs["submit_time"][first + suite.part]))
    simulator = episode.simulator
    reference = reference_at(episode.start, 0, simulator.workload, simulator.setup)
    slow = cpu_seconds(lambda: _play_reference(reference))
    fast = cpu_seconds(episode.play, 10 * suite.repeats, episode.rewind)
    compare_engines(report, episode, reference, f"of {size} beside the reference")
    report.add("engine", size, "events that both engines play", episode.num_events, "events")
    report.add("engine", size, "jobs in the system at their end", len(reference.active), "jobs")
    report.add("engine", size, "reference engine", 1e9 * slow / episode.num_events, "ns/event")
    report.add("engine", size, "faster than the reference", slow / fast, "x", least=LEAST_SPEEDUP[size.nodes])


def compare_engines(report: Report, episode: FifoEpisode, reference: ReferenceSimulator, which: str) -> None:
    """Add the counts of both engines: time, rounds, jobs submitted, and the columns in which jobs differ."""
    record, jobs = episode.simulator.state.episode[0, 0], episode.simulator.state.jobs[0]
    expected = np.array([[getattr(job, name) for name in COMPARED] for job in reference.jobs[: record.next_job]])
    columns = [jobs[name][: record.next_job] for name in COMPARED]
    differ = [
        name
        for name, one, other in zip(COMPARED, columns, expected.T, strict=True)
        if not np.array_equal(one, other, True)
    ]
    report.same(f"instant {which}", float(record.time), reference.time)
    report.same(f"rounds {which}", int(record.num_rounds), reference.num_rounds)
    report.same(f"jobs submitted {which}", int(record.next_job), reference.num_submitted)
    report.same(f"what differs between jobs {which}", differ, [])


def _play_reference(reference: ReferenceSimulator) -> None:
    """Play FIFO until the workload ends or the horizon is reached."""
    scheduler = Fifo()
    for view in reference.rounds():
        reference.apply(scheduler.schedule(view))
