"""Whole workloads in one run: all of Philly, and a million jobs on 100,000 GPUs."""

import resource
from pathlib import Path

from baselines import Fifo, Srtf
from benchmarks.report import Report
from benchmarks.suite import Suite
from benchmarks.timing import cpu_seconds
from benchmarks.worlds import FULL, MINUTE, PLAIN, Size, decide_in_rounds
from envs.cluster import NodeGroup, build_cluster
from envs.performance import default_model
from envs.scheduling import Scheduler
from envs.simulation import Scenario, Setup, Simulator, run_episode
from envs.types import ClusterSpec
from envs.workloads import TraceSource, Workload
from envs.workloads.readers import PhillyTrace

PHILLY_FILE = Path("traces") / "philly" / "philly_jobs.csv.gz"
PHILLY_LOAD = 0.8
TRIAL_NODES = 100  # the cluster on which Philly's offered load is measured first
MILLION = Size(12500, 1_000_000, load=1.0)


def measure_traces(report: Report, suite: Suite) -> None:
    """Play Philly if its file exists, and the million jobs if the suite asks for them."""
    for scheduler in (Fifo(), Srtf()):  # compile before anything is timed
        run_episode(scheduler, Size(8, 160).simulator(FULL))
    path = Path(suite.data) / PHILLY_FILE
    if suite.data and path.exists():
        measure_run(report, "Philly", Fifo(), load_philly(path, PHILLY_LOAD), PLAIN, 10.0)
    else:
        report.notes.append(f"traces: Philly is left out, there is no {path}; data=<folder> says where traces/ is")
    if suite.million:
        world = MILLION.workload(), MILLION.cluster()
        measure_run(report, "million", Fifo(), world, FULL, MINUTE)
        measure_run(report, "million", Srtf(), world, decide_in_rounds(FULL, 5 * MINUTE), 10 * MINUTE)


def measure_run(
    report: Report,
    name: str,
    scheduler: Scheduler,
    world: tuple[Workload, ClusterSpec],
    scenario: Scenario,
    most: float,
) -> None:
    """Time one run without an event log, add its memory, and check that every job finished."""
    workload, cluster = world
    method = type(scheduler).__name__
    simulator = Simulator(workload, Setup(cluster, default_model(), scenario), logging=False)
    spent = cpu_seconds(lambda: run_episode(scheduler, simulator, method))
    done = simulator.result(method).finished.sum()
    rounds, jobs = int(simulator.state.episode["num_rounds"][0, 0]), f"{len(workload):,} jobs under {method}"
    peak = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1e3  # kB on Linux
    report.same(f"finished of {jobs}", int(done), len(workload))
    report.add("traces", name, f"{jobs}, {cluster.num_gpus:,} GPUs, {rounds:,} rounds", spent, "s", most=most)
    report.add("traces", name, f"{jobs}: state of the engine", simulator.state.nbytes / 1e6, "MB")
    report.add("traces", name, f"{jobs}: peak memory of the process so far", peak, "MB")


def load_philly(path: Path, load: float) -> tuple[Workload, ClusterSpec]:
    """All jobs of all virtual clusters, and as many nodes of 8 P100 as give the offered load."""
    workload, cluster = _philly_on(path, TRIAL_NODES)
    return _philly_on(path, round(TRIAL_NODES * workload.offered_load(cluster, default_model())["all"] / load))


def _philly_on(path: Path, num_nodes: int) -> tuple[Workload, ClusterSpec]:
    cluster = build_cluster(f"{8 * num_nodes} P100", [NodeGroup("P100", num_nodes, 8)])
    return TraceSource(cluster, default_model(), PhillyTrace(), path=str(path), elastic=1.0).workload, cluster
