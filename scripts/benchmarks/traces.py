"""Whole traces in one go: all of Philly, and a million jobs on 100,000 GPUs."""

import resource
from pathlib import Path

from baselines import Fifo, Srtf
from benchmarks.philly import FILE, philly
from benchmarks.report import Report
from benchmarks.scenarios import FULL, PLAIN, in_rounds
from benchmarks.suite import Suite
from benchmarks.timing import cpu_seconds
from benchmarks.worlds import Size
from envs.performance import default_model
from envs.scheduling import Scheduler
from envs.simulation import Scenario, Simulator, run_episode
from envs.types import ClusterSpec
from envs.workloads import Workload

LOAD = 0.8  # of Philly
MILLION = Size(12500, 1_000_000, load=1.0)
MINUTE = 60.0


def measure(report: Report, suite: Suite) -> None:
    """Philly where the data is, the million where the suite asks for it."""
    for scheduler in (Fifo(), Srtf()):  # compile before anything is timed
        run_episode(scheduler, Size(8, 160).simulator(FULL))
    path = Path(suite.data) / FILE
    if suite.data and path.exists():
        play(report, "Philly", Fifo(), philly(path, LOAD), PLAIN, 10.0)
    else:
        report.notes.append(f"traces: Philly is left out, there is no {path}; data=<folder> says where traces/ is")
    if suite.million:
        world = MILLION.workload(), MILLION.cluster()
        play(report, "million", Fifo(), world, FULL, MINUTE)
        play(report, "million", Srtf(), world, in_rounds(FULL, 5 * MINUTE), 10 * MINUTE)


def play(
    report: Report, size: str, scheduler: Scheduler, world: tuple[Workload, ClusterSpec], rules: Scenario, most: float
) -> None:
    """One run without a log: seconds and memory; every job has come to its end."""
    workload, cluster = world
    name = type(scheduler).__name__
    simulator = Simulator(workload, cluster, default_model(), rules, logging=False)
    spent = cpu_seconds(lambda: run_episode(scheduler, simulator, name))
    done = simulator.result(name).finished.sum()
    rounds, each = int(simulator.state.episode["num_rounds"][0, 0]), f"{len(workload):,} jobs under {name}"
    peak = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1e3  # kB on Linux
    report.same(f"finished of {each}", int(done), len(workload))
    report.add("traces", size, f"{each}, {cluster.num_gpus:,} GPUs, {rounds:,} rounds", spent, "s", most=most)
    report.add("traces", size, f"{each}: state of the engine", simulator.state.nbytes / 1e6, "MB")
    report.add("traces", size, f"{each}: most memory of the process so far", peak, "MB")
