"""The batch sizes that are tried within the range of a model or a job."""

from envs.performance.zoo import model_profile
from envs.types import PerformanceError


def batch_sizes(model: str, num_gpus: int, min_batch: int = 0, max_batch: int = 0) -> tuple[int, ...]:
    """Return the global batch sizes to try, ascending: num_gpus times a power of two, and the ends of the range.

    Args:
        model: zoo name or alias.
        num_gpus: GPUs of the job; every GPU gets at least one sample.
        min_batch: the job's own lower end; 0 uses the profile's.
        max_batch: the job's own upper end; 0 uses the profile's.

    Raises:
        PerformanceError: the job's range exceeds the profile's, or is empty.
    """
    profile = model_profile(model)
    low = profile.check_batch(min_batch) if min_batch else profile.min_batch
    high = profile.check_batch(max_batch) if max_batch else profile.max_batch
    if low > high:
        raise PerformanceError(f"model {profile.name}: min_batch {low} is above max_batch {high}; swap or widen them")
    low = max(low, num_gpus)
    sizes = {low, high} if low <= high else set()
    doubled = num_gpus
    while doubled <= high:
        if doubled >= low:
            sizes.add(doubled)
        doubled *= 2
    return tuple(sorted(sizes))
