"""The compiled engine and the reference engine on the same events of one world."""

import numpy as np

from baselines import Fifo
from benchmarks.episodes import FifoEpisode
from benchmarks.report import Report
from benchmarks.suite import Suite
from benchmarks.timing import cpu_seconds
from benchmarks.worlds import Size
from envs.performance import default_model
from envs.simulation.reference import ReferenceSimulator
from envs.simulation.reference_state import reference_at

FASTER = {8: 60, 64: 100, 1000: 400, 12500: 2000}  # than the reference engine, by servers
WHOLE = 1000  # jobs that the reference plays from the first to the last; of more it plays a part
FATE = ("start", "finish", "remaining")


def beside_reference(report: Report, suite: Suite, episode: FifoEpisode, size: Size) -> None:
    """All events of a small world; of a large one those of `suite.part` arrivals when three quarters have come."""
    episode.rewind()
    if size.jobs > WHOLE:
        first = 3 * size.jobs // 4
        episode.load(first)
        episode.set_horizon(float(episode.simulator.workload.jobs["submit_time"][first + suite.part]))
    simulator = episode.simulator
    reference = reference_at(
        episode.start, 0, simulator.workload, simulator.cluster, default_model(), simulator.scenario
    )
    slow = cpu_seconds(lambda: play(reference))
    fast = cpu_seconds(episode.play, 10 * suite.repeats, episode.rewind)
    compare(report, episode, reference, f"of {size} beside the reference")
    report.add("engine", size, "events that both engines play", episode.num_events, "events")
    report.add("engine", size, "jobs in the system at their end", len(reference.active), "jobs")
    report.add("engine", size, "reference engine", 1e9 * slow / episode.num_events, "ns/event")
    report.add("engine", size, "faster than the reference", slow / fast, "x", least=FASTER[size.servers])


def compare(report: Report, episode: FifoEpisode, reference: ReferenceSimulator, which: str) -> None:
    """Both have come to the same instant by as many rounds, and every job to the same state."""
    record, jobs = episode.simulator.state.episode[0, 0], episode.simulator.state.jobs[0]
    fates = np.array([[getattr(job, name) for name in FATE] for job in reference.jobs[: record.next_job]])
    known = [jobs[name][: record.next_job] for name in FATE]
    differ = [
        name for name, one, other in zip(FATE, known, fates.T, strict=True) if not np.array_equal(one, other, True)
    ]
    report.same(f"instant {which}", float(record.time), reference.time)
    report.same(f"rounds {which}", int(record.num_rounds), reference.num_rounds)
    report.same(f"jobs submitted {which}", int(record.next_job), reference.num_submitted)
    report.same(f"what differs between jobs {which}", differ, [])


def play(reference: ReferenceSimulator) -> None:
    """FIFO to the end or the horizon."""
    scheduler = Fifo()
    for view in reference.rounds():
        reference.apply(scheduler.schedule(view))
