"""The batch sizes at which the throughput of a zoo model was measured."""

from collections import defaultdict
from functools import cache

from envs.performance.measurements import measured_points, measured_types
from envs.performance.scaling import nearest_type


@cache
def local_batches(model: str, gpu_type: str) -> tuple[float, float] | None:
    """Return the least and most samples per GPU at which throughput was measured; None if at one batch size only.

    Only GPU counts at which several batch sizes were measured count: where each count was measured at one batch size,
    the effect of the batch size cannot be told from that of the GPUs. NCF, fitted so, is off by a factor of ten at the
    median at other batch sizes. If the GPU type was not measured, the range is that of the type from which throughputs
    are scaled, with at most the samples that every measured type held, since its memory may be smaller.

    Args:
        model: zoo name.
        gpu_type: any GPU type.
    """
    gpu_types = measured_types(model)
    source = gpu_type if gpu_type in gpu_types else nearest_type(model, gpu_type)
    by_count: dict[tuple[int, int], set[float]] = defaultdict(set)
    for point in measured_points()[model, source]:
        by_count[point.num_gpus, point.num_nodes].add(point.batch_size / point.num_gpus)
    measured = [batch for batches in by_count.values() if len(batches) > 1 for batch in batches]
    if not measured:
        return None
    low, high = min(measured), max(measured)
    if source != gpu_type:
        held = (max(point.batch_size / point.num_gpus for point in measured_points()[model, one]) for one in gpu_types)
        high = min(high, *held)
    return (low, high) if low < high else None
