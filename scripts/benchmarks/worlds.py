"""Loaded clusters of three GPU types, from 64 GPUs to 100,000."""

from dataclasses import dataclass

import numpy as np

from envs.performance import default_model
from envs.simulation import Scenario, Simulator, SpeedTable
from envs.types import ClusterSpec, NodeSpec, Seconds
from envs.workloads import Workload
from envs.workloads.workload import JOB_COLUMNS

MODELS = ("resnet18", "resnet50", "bert", "transformer", "lm", "recommendation")
KINDS = ("V100", "P100", "K80")


@dataclass(frozen=True, slots=True)
class Size:
    """Servers of eight GPUs each, and the jobs that come to them."""

    servers: int
    jobs: int
    load: float = 1.5  # asked of the fastest type; queues grow as long as jobs come
    elastic: bool = False  # from half to twice the requested GPUs

    def __str__(self) -> str:
        return f"{self.servers:,}/{self.jobs:,}"

    def cluster(self) -> ClusterSpec:
        """Three types in turn."""
        kinds = (KINDS[i % len(KINDS)] for i in range(self.servers))
        return ClusterSpec(tuple(NodeSpec(kind, 8, 32, 500, inter_node_bandwidth=12.5) for kind in kinds), str(self))

    def workload(self, seed: int = 0) -> Workload:
        """Gangs of 1 to 16 GPUs, log-normal durations, arrivals at random."""
        rng, cluster = np.random.default_rng(seed), self.cluster()
        jobs = np.zeros(self.jobs, JOB_COLUMNS)
        jobs["num_gpus"] = gpus = rng.choice([1, 2, 4, 8, 16], self.jobs, p=[0.6, 0.15, 0.1, 0.1, 0.05])
        jobs["min_gpus"], jobs["max_gpus"] = ((gpus + 1) // 2, 2 * gpus) if self.elastic else (gpus, gpus)
        jobs["model"] = rng.integers(0, len(MODELS), self.jobs)
        seconds = np.exp(rng.normal(np.log(3000), 1.2, self.jobs)).clip(60, 2e5)
        table = SpeedTable.build(cluster, default_model(), MODELS, int(jobs["max_gpus"].max()))
        jobs["work"] = seconds * table.requested_speed(jobs["model"], gpus)
        jobs["duration"] = np.nan
        span: Seconds = (seconds * gpus).sum() / (cluster.num_gpus * self.load)
        jobs["submit_time"] = np.sort(rng.uniform(0, span, self.jobs))
        return Workload(f"loaded {self}", jobs, MODELS)

    def simulator(self, scenario: Scenario) -> Simulator:
        """At t = 0, without a log."""
        return Simulator(self.workload(), self.cluster(), default_model(), scenario, logging=False)
