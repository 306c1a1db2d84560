"""Runs of the reference engine told act by act."""

from collections.abc import Mapping
from dataclasses import dataclass

import numpy as np

from envs.performance import PerformanceModel
from envs.simulation import EventKind, Scenario
from envs.simulation.reference import ReferenceSimulator
from envs.simulation.scenario import OUTAGES, Failures
from envs.types import (
    ClusterSpec,
    ExecutionPlan,
    FloatArray,
    Gigabytes,
    JobId,
    JobSpec,
    NodeId,
    NodeSpec,
    PerformanceError,
    Placement,
    Seconds,
)
from envs.workloads import Workload

Act = Mapping[JobId, Placement | Mapping[NodeId, int] | None]  # None stops the job
Acts = Mapping[Seconds, Act]


@dataclass(frozen=True)
class Bench:
    """Linear in GPUs: one sample per second and GPU, a "fast" one three; two nodes or more halve the speed.

    vgg16 uses six cores for each GPU, the others one; a job needs 2 GB for each GPU. A batch size of b multiplies the
    speed by b / 64, a plan with tensor parallelism doubles it. bert runs on no slow GPU.
    """

    models: tuple[str, ...] = ("vgg16", "resnet50", "bert")
    spread: float = 0.5

    def throughput(
        self,
        model: str,
        gpu_type: str,
        num_gpus: int,
        num_nodes: int = 1,
        *,
        batch_size: int | None = None,
        plan: ExecutionPlan | None = None,
        cpus_per_gpu: float | None = None,
        memory_per_gpu: Gigabytes | None = None,
    ) -> float:
        """Samples per second."""
        if (model == "bert" and gpu_type == "slow") or (memory_per_gpu is not None and memory_per_gpu < 2.0):
            return 0.0
        if plan is not None and plan.num_gpus != num_gpus:
            raise PerformanceError(f"the plan is for {plan.num_gpus} GPUs")
        speed = num_gpus * (3.0 if gpu_type == "fast" else 1.0) * (self.spread if num_nodes > 1 else 1.0)
        speed *= (batch_size or 64) / 64 * (2.0 if plan and plan.tensor > 1 else 1.0)
        if cpus_per_gpu is not None and model == "vgg16":
            speed *= min(cpus_per_gpu / 6.0, 1.0)
        return speed


@dataclass(frozen=True)
class Written(Failures):
    """Outages as they are written: by node, seconds up and down in turn; up for good after the last."""

    rows: tuple[tuple[Seconds, ...], ...] = ()

    def draw(self, num_nodes: int, rng: np.random.Generator) -> FloatArray:
        """float64[num_nodes, OUTAGES, 2]."""
        times = np.full((num_nodes, 2 * OUTAGES), 1e9)
        for node, row in enumerate(self.rows):
            times[node, : len(row)] = row
        return times.reshape(num_nodes, OUTAGES, 2)


def outages(*rows: tuple[Seconds, ...], every: Seconds = 0.0) -> Failures:
    """Written outages, and a checkpoint every so many seconds."""
    return Written(mtbf=1.0, checkpoint_interval=every, rows=rows)


def cluster_of(*node_gpus: int, kind: str = "plain", cores: float = 32.0, memory: float = 256.0) -> ClusterSpec:
    """Nodes of one type with so many GPUs."""
    return ClusterSpec(tuple(NodeSpec(kind, gpus, cores, memory) for gpus in node_gpus), "small")


def jobs_of(
    *rows: tuple[Seconds, int, float], model: str = "resnet50", elastic: tuple[int, int] | None = None
) -> Workload:
    """Jobs from (submit time, GPUs, samples)."""
    least, most = elastic or (0, 0)
    return Workload.of([JobSpec(i, *row, model, min_gpus=least, max_gpus=most) for i, row in enumerate(rows)])


class Play:
    """One run by script: what is written for the time of a round is done, all else goes on.

    Attributes:
        engine: the reference engine, at the end of the run.
        asked: when the script was asked.
    """

    def __init__(
        self,
        acts: Acts,
        workload: Workload,
        cluster: ClusterSpec,
        scenario: Scenario | None = None,
        performance: PerformanceModel | None = None,
    ) -> None:
        self.engine = ReferenceSimulator(workload, cluster, performance or Bench(), scenario)
        self.asked: list[Seconds] = []
        for view in self.engine.rounds():
            self.asked.append(view.time)
            act = acts.get(view.time, {})
            wish = view.allocation(keep_running=True)
            for job in act:
                wish.stop(job)
            for job, placement in act.items():
                if placement:
                    wish.place(job, placement)
            self.engine.apply(wish)
        self.log = self.engine.log
        self.records = self.engine.result("script").records

    @property
    def told(self) -> list[tuple[Seconds, str, JobId]]:
        """The log as (time, kind, job)."""
        return [(float(row["time"]), EventKind(int(row["kind"])).name, int(row["job"])) for row in self.log.events]

    @property
    def finish(self) -> list[Seconds]:
        """When each job came to its end; NaN if it did not."""
        finish: list[Seconds] = self.records["finish_time"].tolist()
        return finish

    def placement(self, kind: str, job: JobId) -> Placement:
        """The placement that the last event of a kind gave a job."""
        rows = [row for row, (_, name, who) in enumerate(self.told) if (name, who) == (kind, job)]
        return self.log.placement(rows[-1])
