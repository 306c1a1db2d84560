"""What a performance model must answer, and the simplest one that does."""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Protocol

from envs.types import ExecutionPlan, Gigabytes, PerformanceError


class PerformanceModel(Protocol):
    """How fast a job runs on given resources. Pure: the same question has the same answer.

    Speeds are samples per second, memory is in gigabytes, bandwidth in gigabytes per second. With a plan of None more
    GPUs, more cores or more memory are never slower, and more nodes at equal GPUs never faster: a job leaves idle
    what does not help it. A given plan or batch size is taken as it is.
    """

    @property
    def models(self) -> tuple[str, ...]:
        """Names of the models that have figures."""
        ...

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
        """Samples per second of one job on `num_gpus` GPUs of one type, spread evenly over `num_nodes` nodes.

        What is None is at its best: the model's usual batch size, the fastest plan that fits, saturating
        CPU and memory. What does not fit has speed 0.0.

        Args:
            model: a name that the model knows.
            gpu_type: a GPU type that it has figures for.
            num_gpus: GPUs of the job, at least 1.
            num_nodes: nodes that they stand on, at least 1 and at most `num_gpus`.
            batch_size: samples of one step on all GPUs together.
            plan: needs exactly `num_gpus` GPUs.
            cpus_per_gpu: CPU cores for each GPU.
            memory_per_gpu: host memory in GB for each GPU.

        Raises:
            PerformanceError: model or GPU type without figures, a plan that cannot be laid out on the GPUs,
                a batch size out of the model's range.
        """
        ...


def speed_sources(
    performance: PerformanceModel, models: Sequence[str], gpu_types: Sequence[str]
) -> dict[str, list[str]]:
    """Where speeds come from: "model on GPU type" pairs by what the performance model says of them.

    Returns:
        By "measured", "scaled" or another word of the model's own `provenance(model, gpu_type)`; all under "not stated"
        for a performance model without one.
    """
    provenance = getattr(performance, "provenance", None)
    found: dict[str, list[str]] = {}
    for model in models:
        for gpu_type in gpu_types:
            source = str(provenance(model, gpu_type)) if provenance else "not stated"
            found.setdefault(source, []).append(f"{model} on {gpu_type}")
    return found


@dataclass(frozen=True)
class IdealModel:
    """Every GPU of every type processes one sample per second, wherever it stands.

    Perfect linear scaling: work is GPU-seconds. Used for schedules worked by hand and for comparison with
    simulators that know only durations.
    """

    models: tuple[str, ...] = ("any",)

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
        """One sample per second and GPU."""
        if model not in self.models:
            raise PerformanceError(f"model {model!r} is unknown here; known: {', '.join(self.models)}")
        return float(num_gpus)
