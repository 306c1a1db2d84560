"""Whole samples for workers of unequal throughput: the division of a mini-batch, and the time of a step.

In synchronous training the slowest worker determines the time of a step. With shares proportional to throughput all
workers finish together. Samples are whole, so the shares are rounded, and rounding to nearest can be slower than equal
shares. The shares here are the exact minimum, over all integer shares, of the largest finishing time.
"""

import heapq

import numpy as np
import numpy.typing as npt

from envs.types import FloatArray, IntArray, PerformanceError, Seconds


def proportional_shares(throughputs: npt.ArrayLike, batch_size: int) -> IntArray:
    """Divide whole samples among workers so that the last worker finishes as early as possible.

    Start from the real-valued proportional shares, rounded down; every optimal share is at least that large. Each
    further sample goes to the worker that would finish it first; ties go to the first worker.

    Args:
        throughputs: float64[num_workers], samples/s of each worker, positive.
        batch_size: samples in all, at least 0.

    Returns:
        int64[num_workers] that sums to `batch_size`.

    Raises:
        PerformanceError: no workers, a throughput that is not positive and finite, or a negative batch.
    """
    checked = _check_throughputs(throughputs, batch_size)
    # One unit in the last place below the quotient, so that rounding errors never lift a share above the optimum.
    quota = np.nextafter(batch_size * (checked / checked.sum()), -np.inf)
    shares: IntArray = np.maximum(np.floor(quota), 0).astype(np.int64)
    finish = [((shares[worker] + 1) / checked[worker], worker) for worker in range(len(checked))]
    heapq.heapify(finish)
    for _ in range(batch_size - int(shares.sum())):
        worker = finish[0][1]
        shares[worker] += 1
        heapq.heapreplace(finish, ((shares[worker] + 1) / checked[worker], worker))
    return shares


def step_seconds(throughputs: npt.ArrayLike, batch_size: int) -> Seconds:
    """Return the seconds until the last worker has finished its share of a mini-batch, without synchronisation.

    Raises:
        PerformanceError: as `proportional_shares`.
    """
    checked = _check_throughputs(throughputs, batch_size)
    return float((proportional_shares(checked, batch_size) / checked).max())


def _check_throughputs(throughputs: npt.ArrayLike, batch_size: int) -> FloatArray:
    checked = np.asarray(throughputs, np.float64)
    if checked.ndim != 1 or not checked.size:
        raise PerformanceError(
            f"worker throughputs: have shape {checked.shape}; give one throughput for each of at least one worker"
        )
    bad = ~(np.isfinite(checked) & (checked > 0))
    if bad.any():
        worker = int(np.flatnonzero(bad)[0])
        raise PerformanceError(
            f"worker {worker}: throughput is {checked[worker]} samples/s; it must be positive and finite"
        )
    if batch_size < 0:
        raise PerformanceError(f"batch_size is {batch_size}; it must be at least 0")
    return checked
