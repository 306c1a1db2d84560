"""Mean JCT with and without space sharing, on jobs as Gavel's artifact draws them (OSDI'20, single GPUs)."""

import os
from pathlib import Path

import numpy as np
import pandas as pd

from baselines import Fifo, Gavel, Packing
from envs.evaluation.files import write_frame
from envs.performance import PerformanceModel
from envs.performance.gavel_model import GavelModel
from envs.scheduling import Scheduler
from envs.simulation import Rounds, Scenario, Setup, Simulator, run_episode
from envs.types import ClusterSpec, Configuration, JobSpec, NodeSpec, Seconds
from envs.workloads import Workload
from experiments.performance.reproduction import Reproduction

TYPES = ("V100", "P100", "K80")
GPUS_EACH = 36
NUM_JOBS, FIRST_MEASURED = 5000, 4000
PUBLISHED = {  # mean JCT in hours: notebook continuous_jobs.ipynb of the artifact, by jobs an hour
    ("FIFO", 4.8): (22.24, 21.14),
    ("FIFO", 5.2): (56.69, 38.11),
    ("max-min fairness", 4.8): (18.97, 18.67),
    ("max-min fairness", 5.2): (22.02, 19.14),
}
NOTES = (
    "Published: Gavel's artifact, policies that know GPU types, without and with space sharing (fifo_perf, "
    "fifo_packed, max_min_fairness_perf, max_min_fairness_packed), 36 V100, 36 P100 and 36 K80, jobs 4,000 to 5,000.",
    "Here: the same cluster, rounds, distributions and throughputs, other draws. Pairs are made by our Packing rule "
    "around the policy without sharing, and not by the policy's own program over pairs. Gavel's FIFO also moves "
    "running jobs to faster GPUs, ours does not.",
)


def space_sharing(
    data: str, folder: Path, arrivals_per_hour: tuple[float, ...] = (4.8, 5.2), seed: int = 0
) -> Reproduction:
    """Compare policies with and without pairs, at arrivals near what the cluster can do.

    Args:
        data: the folder with `profiles/`; empty for the one that MURMURATION_DATA names.
        folder: of the run.
        arrivals_per_hour: jobs an hour; those of the published figures.
        seed: of the draws of jobs.
    """
    if data:
        os.environ["MURMURATION_DATA"] = data
    rows = []
    for name, per_hour in PUBLISHED:
        if per_hour in arrivals_per_hour:
            alone, shared = (mean_jct(policy, per_hour, seed) for policy in policies(name))
            theirs, packed = PUBLISHED[name, per_hour]
            rows.append((name, per_hour, theirs, packed, packed / theirs, alone, shared, shared / alone))
    columns = ["policy", "jobs/h", "published (h)", "with pairs", "ratio", "here (h)", "with pairs ", "ratio "]
    table = pd.DataFrame(rows, columns=columns)
    write_frame(folder / "space_sharing.csv", table)
    return Reproduction([("mean JCT without and with two jobs on a GPU", table)], list(NOTES))


def policies(name: str) -> tuple[Scheduler, Scheduler]:
    """Return a policy without and with pairs."""
    if name == "FIFO":
        return Fifo(), Packing(Fifo(), urgency=0.0)
    return Gavel(), Packing(Gavel(), urgency=0.0)


def mean_jct(scheduler: Scheduler, per_hour: float, seed: int) -> float:
    """Return the mean JCT of the measured jobs, in hours."""
    performance = GavelModel()
    cluster = ClusterSpec(tuple(NodeSpec(each, 1) for each in TYPES for _ in range(GPUS_EACH)), "gavel_108")
    scenario = Scenario(restart_delay=0.0, rounds=Rounds(False, 360.0), sharing="pairs")
    jobs = artifact_jobs(per_hour, np.random.default_rng((seed, round(100 * per_hour))), performance)
    result = run_episode(scheduler, Simulator(jobs, Setup(cluster, performance, scenario), seed))
    done = result.records["finish_time"] - result.records["submit_time"]
    return float(done[FIRST_MEASURED:NUM_JOBS].mean() / 3600)


def artifact_jobs(per_hour: float, rng: np.random.Generator, performance: PerformanceModel) -> Workload:
    """Draw jobs as the artifact does: Poisson arrivals, one of the job types each, one GPU.

    Four fifths take 10 ** U(1.5, 3) minutes on a V100, the others 10 ** U(3, 4). As many follow as were measured.
    """
    time: Seconds = 0.0
    specs = []
    for i in range(NUM_JOBS + NUM_JOBS - FIRST_MEASURED):
        time += float(rng.exponential(3600 / per_hour))
        long = rng.random() >= 0.8
        minutes = 10 ** (rng.uniform(3, 4) if long else rng.uniform(1.5, 3))
        model = performance.models[int(rng.integers(len(performance.models)))]
        work = 60 * minutes * performance.throughput(model, Configuration("V100", 1))
        specs.append(JobSpec(id=i, submit_time=time, num_gpus=1, work=work, model=model))
    return Workload.of(specs, f"gavel at {per_hour:g} jobs an hour")
