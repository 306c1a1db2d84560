"""Throughputs under a given execution plan.

For models that Rubick profiled (zoo models of sharded plans), the plan's step time is that of Rubick's model on A800
(`envs.performance.rubick.model`). On another GPU type it is scaled like every throughput (`envs.performance.scaling`),
within that type's own memory. For the other models of the zoo only plain data parallelism was measured, and the table
model provides it.
"""

from dataclasses import replace
from functools import cache

from envs.performance.gpus import find_gpu_type, find_parts
from envs.performance.memory_fit import SHARDED_CAPABILITY
from envs.performance.rubick.model import GPU_TYPE, RubickModel
from envs.performance.scaling import throughput_ratio
from envs.performance.slices import part_factor
from envs.performance.zoo import model_profile, zoo
from envs.types import Configuration, ExecutionPlan, Gigabytes, PerformanceError

GPUS_PER_NODE = 8


@cache
def planned_models() -> tuple[str, ...]:
    """Return the zoo models whose throughput is known under several execution plans."""
    return tuple(name for name in RubickModel().models if zoo()[name].plans == "sharded")


def needs_plan_model(model: str, plan: ExecutionPlan, num_gpus: int) -> bool:
    """Return whether a plan needs Rubick's model; False for plain replicas of a model without sharded plans.

    Raises:
        PerformanceError: the plan is for another number of GPUs, or the model was not measured under it.
    """
    profile = model_profile(model)
    if plan.num_gpus != num_gpus:
        raise PerformanceError(
            f"model {profile.name}: plan needs {plan.num_gpus} GPUs (data x tensor x pipeline), {num_gpus} are given; "
            "make them equal"
        )
    if profile.plans == "sharded":
        if profile.name not in planned_models():
            raise PerformanceError(
                f"model {profile.name}: no figures for execution plans, which Rubick's source has for "
                f"{', '.join(planned_models())}; use plan=None, the plan under which it was measured"
            )
        return True
    if plan != ExecutionPlan(data=plan.data):
        raise PerformanceError(
            f"model {profile.name}: no figures for {plan}; only plain replicas were measured: use data={num_gpus}"
        )
    return False


def planned_throughput(model: str, configuration: Configuration, *, gpus_per_node: int = GPUS_PER_NODE) -> float:
    """Return samples/s of a model with sharded plans under one plan; 0 if it does not fit.

    Args:
        model: zoo name or alias.
        configuration: includes a plan and any GPU type of the zoo; on types without tensor cores the result is 0.
        gpus_per_node: most GPUs of the job on one node.

    Raises:
        PerformanceError: as `PerformanceModel.throughput`.
    """
    profile = model_profile(model)
    gpu = find_gpu_type(configuration.gpu_type)
    parts = find_parts(gpu.name)
    if gpu.capability < SHARDED_CAPABILITY or (parts.number > 1 and configuration.num_gpus > 1):
        return 0.0
    throughput = _rubick(gpu.memory_gb, gpus_per_node).throughput(
        profile.name, replace(configuration, gpu_type=GPU_TYPE)
    )
    whole = throughput * throughput_ratio(profile.name, parts.gpu_type, GPU_TYPE)
    return whole * part_factor(profile.name, parts.gpu_type, parts.compute)


@cache
def _rubick(gpu_memory: Gigabytes, gpus_per_node: int) -> RubickModel:
    return RubickModel(gpus_per_node=gpus_per_node, gpu_memory=gpu_memory)
