"""A performance model and node failures for runs that can be calculated by hand."""

from dataclasses import dataclass

import numpy as np

from envs.performance import model_profile
from envs.simulation.scenario import OUTAGES, Failures
from envs.types import Configuration, FloatArray, JobSpec, PerformanceError, Seconds

VGG_GB = model_profile("vgg16").gradient_gb  # a step sends twice as much around the ring


@dataclass(frozen=True)
class Bench:
    """Linear in GPUs: one sample per second and GPU, three on a "fast" one; two or more nodes halve the throughput.

    vgg16 uses six cores for each GPU, other models one; a job needs 2 GB for each GPU. A batch size of b multiplies the
    throughput by b / 64, a plan with tensor parallelism doubles it. bert runs on no slow GPU.
    """

    models: tuple[str, ...] = ("any", "vgg16", "resnet50", "bert")
    spread: float = 0.5

    def throughput(self, model: str, configuration: Configuration) -> float:
        """Samples per second."""
        gpu_type, num_gpus, num_nodes = configuration.gpu_type, configuration.num_gpus, configuration.num_nodes
        plan, cpus, memory = configuration.plan, configuration.cpus_per_gpu, configuration.memory_per_gpu
        if (model == "bert" and gpu_type == "slow") or (memory is not None and memory < 2.0):
            return 0.0
        if plan is not None and plan.num_gpus != num_gpus:
            raise PerformanceError(f"the plan is for {plan.num_gpus} GPUs")
        throughput = num_gpus * (3.0 if gpu_type == "fast" else 1.0) * (self.spread if num_nodes > 1 else 1.0)
        throughput *= (configuration.batch_size or 64) / 64 * (2.0 if plan and plan.tensor > 1 else 1.0)
        if cpus is not None and model == "vgg16":
            throughput *= min(cpus / 6.0, 1.0)
        return throughput


@dataclass(frozen=True)
class Written(Failures):
    """Outages given by node as alternating seconds up and down; a node stays up after the last."""

    rows: tuple[tuple[Seconds, ...], ...] = ()

    def draw(self, num_nodes: int, rng: np.random.Generator) -> FloatArray:
        """float64[num_nodes, OUTAGES, 2]."""
        times = np.full((num_nodes, 2 * OUTAGES), 1e9)
        for node, row in enumerate(self.rows):
            times[node, : len(row)] = row
        return times.reshape(num_nodes, OUTAGES, 2)


def outages(*rows: tuple[Seconds, ...], every: Seconds = 0.0) -> Failures:
    """Given outages, and a checkpoint every `every` seconds."""
    return Written(mtbf=1.0, checkpoint_interval=every, rows=rows)


FULL_THROUGHPUT = Bench(spread=128.0)  # 2 GPUs on two nodes: 256 samples/s, one step of vgg16 a second


def alone(model: str, gpus: int, samples: float, *, elastic: tuple[int, int] = (0, 0)) -> JobSpec:
    """A job submitted at 0."""
    return JobSpec(0, 0.0, gpus, samples, model, min_gpus=elastic[0], max_gpus=elastic[1])
