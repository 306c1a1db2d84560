"""Execution plans: the parallelism of a job over its GPUs."""

from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class ExecutionPlan:
    """Degrees of parallelism and memory savings of one training job (Rubick, MLSys'25, section 2).

    The plan needs `num_gpus = data * tensor * pipeline` GPUs.
    """

    data: int = 1  # data-parallel replicas
    tensor: int = 1  # tensor-parallel ranks per replica
    pipeline: int = 1  # pipeline stages per replica
    zero_stage: int = 0  # sharded over replicas: 0 nothing, 1 optimizer states, 2 also gradients, 3 also weights
    offload: bool = False  # optimizer states and step in CPU memory and on the CPU (ZeRO-Offload)
    accumulation: int = 1  # micro-batches per optimizer step
    checkpointing: bool = False  # recompute activations in the backward pass

    def __post_init__(self) -> None:
        for name in ("data", "tensor", "pipeline", "accumulation"):
            if getattr(self, name) < 1:
                raise ValueError(f"ExecutionPlan.{name} is {getattr(self, name)}; it must be at least 1")
        if self.zero_stage not in (0, 1, 2, 3):
            raise ValueError(f"ExecutionPlan.zero_stage is {self.zero_stage}; it must be 0, 1, 2 or 3")

    @property
    def num_gpus(self) -> int:
        """GPUs that the plan occupies."""
        return self.data * self.tensor * self.pipeline
