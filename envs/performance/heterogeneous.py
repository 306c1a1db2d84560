"""Workers of unequal speed in one job: how the mini-batch is shared among them, and what a step then takes.

In synchronous training the slowest worker gates the step. With the shares proportional to speed all finish together;
samples are whole, so the shares are rounded, and the rounding decides: rounding to nearest can lose to equal shares.
Here the shares are the exact minimum over all integer shares of the largest finishing time. (Sampling-based multi-job
placement, TPDS'24, doi 10.1109/TPDS.2024.3390109: proportional assignment and a ring all-reduce over the slowest
link; its body is not public, so this is a reconstruction.)
"""

import heapq
from collections.abc import Mapping, Sequence
from typing import Literal

import numpy as np
import numpy.typing as npt

from envs.performance.model import PerformanceModel
from envs.performance.zoo import model_profile
from envs.types import FloatArray, Gigabytes, IntArray, PerformanceError, Seconds

Shares = Literal["proportional", "equal"]


def proportional_shares(rates: npt.ArrayLike, batch_size: int) -> IntArray:
    """Whole samples for each worker such that the last to finish finishes as early as possible.

    Begins with the real-valued proportional shares rounded down, which no optimum falls below, and gives every
    further sample to the worker that would finish it first; ties go to the first worker.

    Args:
        rates: float64[num_workers], samples/s of each worker, positive.
        batch_size: samples in all, at least 0.

    Returns:
        int64[num_workers] that sums to `batch_size`.

    Raises:
        PerformanceError: no workers, a rate that is not positive and finite, or a negative batch.
    """
    speed = _rates(rates, batch_size)
    # One unit of least precision below the quotient, lest 2.9999... of an exact 3 be rounded up past the optimum.
    quota = np.nextafter(batch_size * (speed / speed.sum()), -np.inf)
    shares: IntArray = np.maximum(np.floor(quota), 0).astype(np.int64)
    finish = [((shares[worker] + 1) / speed[worker], worker) for worker in range(len(speed))]
    heapq.heapify(finish)
    for _ in range(batch_size - int(shares.sum())):
        worker = finish[0][1]
        shares[worker] += 1
        heapq.heapreplace(finish, ((shares[worker] + 1) / speed[worker], worker))
    return shares


def equal_shares(rates: npt.ArrayLike, batch_size: int) -> IntArray:
    """Shares that differ by at most one sample, the surplus at the fastest workers: int64[num_workers].

    Raises:
        PerformanceError: as `proportional_shares`.
    """
    speed = _rates(rates, batch_size)
    shares = np.full(len(speed), batch_size // len(speed), np.int64)
    fastest = np.argsort(-speed, kind="stable")
    shares[fastest[: batch_size % len(speed)]] += 1
    return shares


def ring_all_reduce(num_workers: int, size: Gigabytes, link_gb_s: npt.ArrayLike) -> Seconds:
    """Seconds of 2 (K - 1) / K size / r, where r is the slowest link of the ring.

    Args:
        num_workers: K.
        size: gradients in GB.
        link_gb_s: bandwidth of the ring's links in GB/s, one or many.

    Raises:
        PerformanceError: a link that is not positive.
    """
    slowest = float(np.min(np.asarray(link_gb_s, np.float64)))
    if not slowest > 0:
        raise PerformanceError(f"all-reduce: the slowest link has {slowest} GB/s; every link must be positive")
    return 2.0 * (num_workers - 1) / num_workers * size / slowest


def step_seconds(
    rates: npt.ArrayLike,
    batch_size: int,
    *,
    shares: Shares = "proportional",
    gradient_gb: Gigabytes = 0.0,
    link_gb_s: npt.ArrayLike = np.inf,
) -> Seconds:
    """Duration of one synchronous step: the last worker's samples, then a ring all-reduce over the slowest link.

    Workers without a sample (more workers than samples) still take part in the all-reduce.
    """
    speed = _rates(rates, batch_size)
    given = proportional_shares(speed, batch_size) if shares == "proportional" else equal_shares(speed, batch_size)
    return float((given / speed).max()) + ring_all_reduce(len(speed), gradient_gb, link_gb_s)


def mixed_throughput(
    rates: Sequence[float],
    batch_size: int,
    *,
    shares: Shares = "proportional",
    gradient_gb: Gigabytes = 0.0,
    link_gb_s: npt.ArrayLike = np.inf,
) -> float:
    """Samples/s of a job whose workers process `rates` samples/s each; arguments as `step_seconds`.

    A worker of speed 0 (its GPU cannot hold the model) makes the placement impossible: 0.
    """
    if len(rates) and min(rates) == 0:
        return 0.0
    return batch_size / step_seconds(rates, batch_size, shares=shares, gradient_gb=gradient_gb, link_gb_s=link_gb_s)


def mixed_speed(
    performance: PerformanceModel,
    model: str,
    workers: Mapping[str, int],
    num_nodes: int = 1,
    *,
    batch_size: int | None = None,
    shares: Shares = "proportional",
) -> float:
    """Samples/s of one job whose workers are GPUs of several types.

    A step is the last worker's samples at the speed of one GPU of its type, and then the synchronisation of the type
    that takes longest for it: what a job of that type alone, on as many GPUs and nodes, needs beyond computing. With
    one type it is the performance model's own speed.

    Args:
        performance: speeds on GPUs of one type.
        model: zoo name or alias.
        workers: GPU type -> GPUs, all positive.
        num_nodes: nodes over which all of them are spread.
        batch_size: global; None for the model's usual one on so many GPUs.
        shares: of the batch.

    Raises:
        PerformanceError: no workers, a count that is not positive, or as `PerformanceModel.throughput`.
    """
    if not workers or min(workers.values()) < 1:
        raise PerformanceError(f"workers are {dict(workers)}; give at least one GPU type, each with at least one GPU")
    total = sum(workers.values())
    together = {kind: performance.throughput(model, kind, total, num_nodes, batch_size=batch_size) for kind in workers}
    alone = {kind: performance.throughput(model, kind, 1) for kind in workers}
    if len(workers) == 1 or min(*together.values(), *alone.values()) == 0:
        return min(together.values())
    batch = model_profile(model).usual_batch(total) if batch_size is None else batch_size
    waiting = max(batch / together[kind] - batch / (total * alone[kind]) for kind in workers)
    rates = [alone[kind] for kind, count in workers.items() for _ in range(count)]
    return batch / (step_seconds(rates, batch, shares=shares) + max(waiting, 0.0))


def _rates(rates: npt.ArrayLike, batch_size: int) -> FloatArray:
    speed = np.asarray(rates, np.float64)
    if speed.ndim != 1 or not speed.size:
        raise PerformanceError(f"worker rates: have shape {speed.shape}; give one rate for each of at least one worker")
    bad = ~(np.isfinite(speed) & (speed > 0))
    if bad.any():
        worker = int(np.flatnonzero(bad)[0])
        raise PerformanceError(f"worker {worker}: rate is {speed[worker]} samples/s; it must be positive and finite")
    if batch_size < 0:
        raise PerformanceError(f"batch_size is {batch_size}; it must be at least 0")
    return speed
