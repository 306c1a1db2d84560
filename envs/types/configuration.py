"""The resources, plan and batch size under which a job runs."""

from dataclasses import KW_ONLY, dataclass

from envs.types.plan import ExecutionPlan
from envs.types.units import Gigabytes


@dataclass(frozen=True, slots=True)
class Configuration:
    """GPUs of one type and everything else that the throughput of a model depends on.

    A value of None stands for the best choice: the model's usual batch size, the fastest plan that fits, saturating
    CPU and memory.
    """

    gpu_type: str  # name, for example "V100"
    num_gpus: int  # at least 1
    num_nodes: int = 1  # nodes over which the GPUs are spread evenly; at least 1 and at most `num_gpus`
    _: KW_ONLY
    batch_size: int | None = None  # samples of one step on all GPUs together
    plan: ExecutionPlan | None = None  # needs exactly `num_gpus` GPUs
    cpus_per_gpu: float | None = None  # CPU cores for each GPU
    memory_per_gpu: Gigabytes | None = None  # CPU memory in GB for each GPU
