"""What a performance model must answer, and the simplest one that does."""

from dataclasses import dataclass
from typing import Protocol

from envs.types import ExecutionPlan, Gigabytes, PerformanceError


class PerformanceModel(Protocol):
    """How fast a job runs on given resources. Pure: the same question has the same answer."""

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

        Raises:
            PerformanceError: model or GPU type without figures, a plan that cannot be laid out on the GPUs,
                a batch size out of the model's range.
        """
        ...


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
