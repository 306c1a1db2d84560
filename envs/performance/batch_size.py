"""Batch size within its range.

By default a batch size within the range changes only the throughput. The number of samples to process stays the same
(`JobSpec.work`), as in elastic scheduling with batch ranges (MASCOTS'20, doi 10.1109/MASCOTS50786.2020.9285954). As an
option, larger batches make less progress per sample: goodput = throughput x efficiency, with the statistical
efficiency of Pollux (Qiao et al., OSDI'21, section 3).
"""

from dataclasses import dataclass

from envs.performance.model import PerformanceModel
from envs.performance.zoo import model_profile
from envs.types import Configuration, PerformanceError


@dataclass(frozen=True, slots=True)
class BatchChoice:
    """A global batch size with its throughput and goodput."""

    batch_size: int
    throughput: float  # samples/s
    goodput: float  # throughput times statistical efficiency; equals the throughput without an efficiency


@dataclass(frozen=True, slots=True)
class StatisticalEfficiency:
    """Progress per sample relative to that at a reference batch size (Pollux, equation 4).

    efficiency(M) = (phi + M0) / (phi + M), where phi is the gradient noise scale and M0 the reference batch size.
    At M = M0 it is 1. For M far below phi a larger batch loses almost no efficiency; for M far above phi the efficiency
    falls in proportion to 1 / M.
    """

    noise_scale: float  # phi, in samples: variance of the gradient over its squared norm; 0: progress is by steps
    reference_batch: int  # M0

    def __post_init__(self) -> None:
        if not self.noise_scale >= 0:
            raise PerformanceError(f"noise_scale is {self.noise_scale}; it must be a number of at least 0")
        if self.reference_batch < 1:
            raise PerformanceError(f"reference_batch is {self.reference_batch}; it must be at least 1")

    def at(self, batch_size: float) -> float:
        """Efficiency at a global batch size, at most 1 for batches of the reference size or more."""
        return (self.noise_scale + self.reference_batch) / (self.noise_scale + batch_size)


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
        throughput = performance.throughput(model, Configuration(gpu_type, num_gpus, num_nodes, batch_size=size))
        choice = BatchChoice(size, throughput, throughput * (efficiency.at(size) if efficiency else 1.0))
        if choice.goodput > best.goodput * (1 + 1e-12):
            best = choice
    return best
