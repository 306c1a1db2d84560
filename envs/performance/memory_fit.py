"""Whether a zoo model fits the GPUs at all, by a rule coarse enough to need no execution plan."""

from envs.performance.gpus import gpu_type
from envs.performance.measurements import measured_types
from envs.performance.zoo import ModelProfile

OFFLOAD_BYTES = 2  # per parameter: the half-precision weight that stays on the GPU under ZeRO-Offload
SHARDED_CAPABILITY = 7.0  # ZeRO, offload and tensor parallelism run in half precision: tensor cores, V100 and later


def fits(profile: ModelProfile, kind: str, num_gpus: int) -> bool:
    """Whether weights, gradients, optimizer states and one micro-batch fit the memory of `num_gpus` GPUs of a type.

    Plain replicas hold everything on each GPU. Sharded plans, on GPUs with tensor cores, hold 1/n of everything
    (ZeRO; tensor and pipeline parallelism) or the half-precision weights (ZeRO-Offload), whichever is less. A batch
    larger than what fits is accumulated in micro-batches, so batch size plays no part. Where the source's own smallest
    placement is larger than one GPU, smaller memories need as many times more GPUs, and no offload is assumed.
    """
    gpu = gpu_type(kind)
    needs = profile.state_gb
    if profile.plans == "sharded" and gpu.capability >= SHARDED_CAPABILITY:
        needs /= num_gpus
        if profile.min_gpus == 1:
            needs = min(needs, OFFLOAD_BYTES * profile.params_millions / 1000.0)
        elif num_gpus < profile.min_gpus * max(1.0, _reference_memory(profile) / gpu.memory_gb):
            return False
    return needs <= gpu.usable_gb - profile.working_gb


def _reference_memory(profile: ModelProfile) -> float:
    return gpu_type(measured_types(profile.name)[0]).memory_gb
