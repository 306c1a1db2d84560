"""Check whether a zoo model fits the memory of a number of GPUs, by a coarse rule that needs no execution plan."""

from envs.performance.gpus import find_gpu_type
from envs.performance.measurements import measured_types
from envs.performance.zoo import ModelProfile

OFFLOAD_BYTES = 2  # per parameter: the half-precision weight that stays on the GPU under ZeRO-Offload
SHARDED_CAPABILITY = 7.0  # ZeRO, offload and tensor parallelism run in half precision: tensor cores, V100 and later


def fits_memory(profile: ModelProfile, gpu_type: str, num_gpus: int) -> bool:
    """Return whether weights, gradients, optimizer states and one micro-batch fit the memory of `num_gpus` GPUs.

    Plain replicas hold everything on each GPU. Sharded plans, on GPUs with tensor cores, hold 1/n of everything
    (ZeRO; tensor and pipeline parallelism) or the half-precision weights (ZeRO-Offload), whichever is less. A batch
    that does not fit is accumulated in micro-batches, so the batch size is ignored. If the source's own smallest
    placement has more than one GPU, GPUs with less memory need proportionally more GPUs, those with more memory
    proportionally fewer, and no offload is assumed.
    """
    gpu = find_gpu_type(gpu_type)
    needs = profile.state_gb
    if profile.plans == "sharded" and gpu.capability >= SHARDED_CAPABILITY:
        needs /= num_gpus
        if profile.min_gpus == 1:
            needs = min(needs, OFFLOAD_BYTES * profile.params_millions / 1000.0)
        elif num_gpus < profile.min_gpus * _reference_memory(profile) / gpu.memory_gb:
            return False
    return needs <= gpu.usable_gb - profile.working_gb


def _reference_memory(profile: ModelProfile) -> float:
    return find_gpu_type(measured_types(profile.name)[0]).memory_gb
