"""The batch size of highest throughput or goodput within a range.

Without an efficiency every sample counts alike, as in elastic scheduling with batch ranges (MASCOTS'20, doi
10.1109/MASCOTS50786.2020.9285954). With one, larger batches make less progress per sample: goodput = throughput x
efficiency, see `envs.performance.statistical_efficiency`.
"""

from dataclasses import dataclass

from envs.performance.model import PerformanceModel, find_throughput
from envs.performance.statistical_efficiency import StatisticalEfficiency
from envs.performance.zoo import model_profile
from envs.types import Configuration, PerformanceError


@dataclass(frozen=True, slots=True)
class BatchChoice:
    """A global batch size with its throughput and goodput."""

    batch_size: int
    throughput: float  # samples/s
    goodput: float  # throughput times statistical efficiency; equals the throughput without an efficiency


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


def best_batch(
    performance: PerformanceModel,
    model: str,
    gpu_type: str,
    num_gpus: int,
    num_nodes: int = 1,
    *,
    min_batch: int = 0,
    max_batch: int = 0,
    efficiency: StatisticalEfficiency | None = None,
) -> BatchChoice:
    """Return the batch size of highest throughput, or of highest goodput if an `efficiency` is given.

    Of equal batch sizes the smallest is chosen. The throughput is 0 if no batch size gives every GPU a sample, or if
    the model does not fit.

    Raises:
        PerformanceError: the model or GPU type is unknown, or the range exceeds the profile's.
    """
    best = BatchChoice(min_batch or model_profile(model).min_batch, 0.0, 0.0)
    for size in batch_sizes(model, num_gpus, min_batch, max_batch):
        throughput = find_throughput(performance, model, Configuration(gpu_type, num_gpus, num_nodes, batch_size=size))
        choice = BatchChoice(size, throughput, throughput * (efficiency.at(size) if efficiency else 1.0))
        if choice.goodput > best.goodput * (1 + 1e-12):
            best = choice
    return best
