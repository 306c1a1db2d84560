"""A performance model and outages with which runs can be worked by hand."""

from dataclasses import dataclass

import numpy as np

from envs.performance import model_profile
from envs.simulation.scenario import OUTAGES, Failures
from envs.types import ExecutionPlan, FloatArray, Gigabytes, JobSpec, PerformanceError, Seconds

VGG_GB = model_profile("vgg16").gradient_gb  # a step sends twice as much around the ring


@dataclass(frozen=True)
class Bench:
    """Linear in GPUs: one sample per second and GPU, a "fast" one three; two nodes or more halve the speed.

    vgg16 uses six cores for each GPU, the others one; a job needs 2 GB for each GPU. A batch size of b multiplies the
    speed by b / 64, a plan with tensor parallelism doubles it. bert runs on no slow GPU.
    """

    models: tuple[str, ...] = ("any", "vgg16", "resnet50", "bert")
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


FULL_SPEED = Bench(spread=128.0)  # 2 GPUs on two nodes: 256 samples/s, one step of vgg16 a second


def alone(model: str, gpus: int, samples: float, *, elastic: tuple[int, int] = (0, 0)) -> JobSpec:
    """A job from 0."""
    return JobSpec(0, 0.0, gpus, samples, model, min_gpus=elastic[0], max_gpus=elastic[1])
