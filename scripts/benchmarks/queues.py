"""Two settings of Kueue's queues beside each other: 100,000 jobs of 50 queues on 1,000 nodes, as compiled code."""

from collections.abc import Sequence
from dataclasses import replace

import numpy as np

from baselines import Fifo, Kueue
from baselines.kueue import QueueSettings
from benchmarks.report import Report
from benchmarks.suite import Suite
from benchmarks.timing import cpu_seconds
from envs.metrics import jain_index, job_completion_times
from envs.performance import IdealModel
from envs.simulation import RunResult, Scenario, Setup, Simulator, run_episode
from envs.types import ClusterSpec, NodeSpec
from envs.types.units import DAY
from envs.workloads import Workload
from envs.workloads.workload import JOB_COLUMNS

NODES, GPUS, JOBS, QUEUES, COHORTS, LOAD = 1000, 8, 100_000, 50, 5, 0.95
MOST = 10.0  # CPU seconds of a setting


def measure_queues(report: Report, suite: Suite) -> None:
    """Time a month under fair sharing, and without it and with borrowing limits; a small one compiles the kernels."""
    play_queued(queued_month(300), queue_tree(), fair=True)
    workload = queued_month(JOBS if suite.million else JOBS // 10)
    size = f"{NODES}/{len(workload)}"
    half = NODES * GPUS / QUEUES / 2
    limited = [replace(queue, borrowing_limit=half) if queue.nominal else queue for queue in queue_tree()]
    for name, queues, fair in (("fair sharing", queue_tree(), True), ("limits", limited, False)):
        results: list[RunResult] = []

        def play(queues: Sequence[QueueSettings] = queues, fair: bool = fair, to: list[RunResult] = results) -> None:
            to.append(play_queued(workload, queues, fair=fair))

        spent = cpu_seconds(play)
        records, tenant = results[0].records, workload.jobs["tenant"]
        jct = job_completion_times(records)
        report.same(f"jobs of {size} that ended, {name}", int(results[0].finished.sum()), len(workload))
        report.add("queues", size, f"{name}: {results[0].num_rounds:,} rounds", spent, "CPU-s", most=MOST)
        report.add("queues", size, f"{name}: mean JCT", float(jct.mean()) / 3600, "h")
        report.add("queues", size, f"{name}: preemptions", float(records["num_preemptions"].sum()), "")
        means = np.bincount(tenant, jct) / np.bincount(tenant)
        report.add("queues", size, f"{name}: Jain index of the queues' mean JCTs", jain_index(means), "")


def play_queued(workload: Workload, queues: Sequence[QueueSettings], *, fair: bool) -> RunResult:
    """Play a workload behind queues, with first in, first out that skips jobs without room."""
    cluster = ClusterSpec(tuple(NodeSpec("A100", GPUS) for _ in range(NODES)))
    setup = Setup(cluster, IdealModel(), Scenario())
    return run_episode(Kueue(Fifo("skip"), queues, fair), Simulator(workload, setup, logging=False))


def queue_tree() -> list[QueueSettings]:
    """50 queues in five cohorts of one root, with equal quotas."""
    own = NODES * GPUS / QUEUES
    cohorts = [QueueSettings(f"cohort {i}", "root") for i in range(COHORTS)]
    queues = [QueueSettings(f"queue {i}", f"cohort {i % COHORTS}", own) for i in range(QUEUES)]
    return [QueueSettings("root"), *cohorts, *queues]


def queued_month(jobs: int) -> Workload:
    """Jobs of 1 to 32 GPUs, most of them of few queues, in bursts, with three priorities."""
    rng = np.random.default_rng(1)
    table = np.zeros(jobs, JOB_COLUMNS)
    span = 30 * DAY * jobs / JOBS
    table["duration"] = np.nan
    table["tenant"] = np.minimum(rng.exponential(QUEUES / 4, jobs), QUEUES - 1)
    burst = rng.uniform(0, span, (QUEUES, 8))[table["tenant"], rng.integers(8, size=jobs)]
    later = burst + rng.exponential(DAY / 8, jobs)
    table["submit_time"] = np.where(rng.random(jobs) < 0.5, rng.uniform(0, span, jobs), later)
    table["priority"] = rng.integers(3, size=jobs)
    gpus = rng.choice([1, 2, 4, 8, 16, 32], jobs, p=[0.55, 0.12, 0.13, 0.14, 0.04, 0.02])
    for column in ("num_gpus", "min_gpus", "max_gpus"):
        table[column] = gpus
    seconds = np.minimum(rng.lognormal(7.5, 1.8, jobs), 4 * DAY)
    seconds *= LOAD * span * NODES * GPUS / (seconds * gpus).sum()
    table["work"] = seconds * gpus
    table = table[np.argsort(table["submit_time"], kind="stable")]
    return Workload("queued month", table, ("any",), tuple(f"queue {i}" for i in range(QUEUES)))
