"""Slurm's policy as compiled code: a month of 100,000 jobs on 200 nodes, with a queue for most of the time."""

import numpy as np

from baselines.slurm import Slurm
from benchmarks.report import Report
from benchmarks.suite import Suite
from benchmarks.timing import cpu_seconds
from envs.performance import IdealModel
from envs.simulation import Information, RunResult, Scenario, Setup, Simulator, run_episode
from envs.types import ClusterSpec, NodeSpec
from envs.types.units import DAY
from envs.workloads import Workload
from envs.workloads.workload import JOB_COLUMNS

NODES, GPUS, JOBS, SPAN, LOAD = 200, 8, 100_000, 30 * DAY, 0.97
MOST = 60.0  # CPU seconds
LIMITS = np.array([1 / 24, 1 / 6, 0.5, 1, 2, 7, 14]) * DAY  # the least one that a user's guess does not exceed
SETTINGS = {"PriorityWeightAge": 1000, "PriorityWeightFairshare": 10000, "PriorityWeightJobSize": 100}


def measure_slurm(report: Report, suite: Suite) -> None:
    """Time a month under multifactor priority with Fair Tree, after a small one that compiles the kernels."""
    play_month(month(300))
    results: list[RunResult] = []
    workload = month(JOBS if suite.million else JOBS // 10)
    spent = cpu_seconds(lambda: results.append(play_month(workload)))
    size = f"{NODES}/{len(workload)}"
    report.same(f"jobs of {size} that ended", int(results[0].finished.sum()), len(workload))
    waits = results[0].records["start_time"] - results[0].records["submit_time"]
    report.add("slurm", size, f"{results[0].num_rounds:,} rounds", spent, "CPU-s", most=MOST)
    report.add("slurm", size, "mean wait", float(waits.mean()) / 3600, "h")


def play_month(workload: Workload) -> RunResult:
    """Play a workload on 200 nodes of 8 GPUs, with limits as all that is known."""
    cluster = ClusterSpec(tuple(NodeSpec("A100", GPUS) for _ in range(NODES)))
    setup = Setup(cluster, IdealModel(), Scenario(information=Information("limit")))
    return run_episode(Slurm(settings=SETTINGS), Simulator(workload, setup, logging=False))


def month(jobs: int) -> Workload:
    """Jobs of 200 users in 20 accounts, who overstate their run times by up to five times."""
    rng = np.random.default_rng(1)
    table = np.zeros(jobs, JOB_COLUMNS)
    span = SPAN * jobs / JOBS
    table["submit_time"] = np.sort(rng.uniform(0, span, jobs))
    table["duration"] = np.nan
    gpus = rng.choice([1, 2, 4, 8, 16, 32], jobs, p=[0.55, 0.12, 0.13, 0.14, 0.04, 0.02])
    for column in ("num_gpus", "min_gpus", "max_gpus"):
        table[column] = gpus
    seconds = np.minimum(rng.lognormal(7.5, 1.8, jobs), 4 * DAY)
    seconds *= LOAD * span * NODES * GPUS / (seconds * gpus).sum()
    guesses = seconds * rng.uniform(1, 5, jobs)
    limits = LIMITS[np.minimum(np.searchsorted(LIMITS, guesses), len(LIMITS) - 1)]
    table["time_limit"] = np.maximum(limits, seconds * 1.01)
    table["work"] = seconds * gpus
    table["tenant"] = rng.integers(0, 20, jobs)
    users = [f"user-{user}" for user in table["tenant"] * 10 + rng.integers(0, 10, jobs)]
    return Workload("month", table, ("any",), tuple(f"account-{i}" for i in range(20)), users=users)
