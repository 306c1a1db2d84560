"""Speeds under a given execution plan.

For models that Rubick profiled (zoo models of sharded plans) the plan's step time is that of Rubick's model on A800
(`envs.performance.rubick_model`); on another GPU type it is scaled as every speed is (`envs.performance.scaling`),
within that type's own memory. For the rest of the zoo plain data parallelism is the only plan with figures, and the
table model answers it.
"""

from functools import cache

from envs.performance.gpus import gpu_type as known_gpu
from envs.performance.memory_fit import SHARDED_CAPABILITY
from envs.performance.rubick_model import GPU_TYPE, RubickModel
from envs.performance.scaling import speed_ratio
from envs.performance.zoo import model_profile
from envs.types import ExecutionPlan, Gigabytes, PerformanceError


def planned(model: str, plan: ExecutionPlan, num_gpus: int) -> bool:
    """Whether a plan needs a model of plans; False for plain replicas of a model that knows nothing else.

    Raises:
        PerformanceError: the plan is for another number of GPUs, or one that the model has no figures for.
    """
    profile = model_profile(model)
    if plan.num_gpus != num_gpus:
        raise PerformanceError(
            f"model {profile.name}: plan needs {plan.num_gpus} GPUs (data x tensor x pipeline), {num_gpus} are given; "
            "match them"
        )
    if profile.plans == "sharded":
        return True
    if plan != ExecutionPlan(data=plan.data):
        raise PerformanceError(
            f"model {profile.name}: no figures for {plan}; it was measured in plain replicas: use data={num_gpus}"
        )
    return False


def planned_throughput(
    model: str,
    gpu_type: str,
    num_gpus: int,
    num_nodes: int,
    plan: ExecutionPlan,
    *,
    batch_size: int | None = None,
    cpus_per_gpu: float | None = None,
    memory_per_gpu: Gigabytes | None = None,
    gpus_per_node: int = 8,
) -> float:
    """Samples/s of a model of sharded plans under one plan; 0 where it does not fit.

    Args:
        model: zoo name or alias.
        gpu_type: any type of the zoo; without tensor cores no sharded model runs under a plan.
        num_gpus: GPUs, as the plan needs.
        num_nodes: nodes over which they are spread evenly.
        plan: the plan.
        batch_size: global; None for the usual one.
        cpus_per_gpu: host threads per GPU.
        memory_per_gpu: host memory per GPU in GB.
        gpus_per_node: more on one node do not fit.

    Raises:
        PerformanceError: as `PerformanceModel.throughput`.
    """
    profile = model_profile(model)
    gpu = known_gpu(gpu_type)
    if gpu.capability < SHARDED_CAPABILITY:
        return 0.0
    speed = _rubick(gpu.memory_gb, gpus_per_node).throughput(
        profile.name,
        GPU_TYPE,
        num_gpus,
        num_nodes,
        batch_size=batch_size,
        plan=plan,
        cpus_per_gpu=cpus_per_gpu,
        memory_per_gpu=memory_per_gpu,
    )
    return speed * speed_ratio(profile.name, gpu.name, GPU_TYPE)


@cache
def _rubick(gpu_memory: Gigabytes, gpus_per_node: int) -> RubickModel:
    return RubickModel(gpus_per_node=gpus_per_node, gpu_memory=gpu_memory)
