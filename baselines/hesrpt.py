"""heSRPT: the optimal allocation where every job speeds up by the same power law."""

import math

import numpy as np

from baselines.parts.one_heap import Heap, OneHeap
from envs.scheduling import ClusterView
from envs.types import Allocation, ClusterSpec, FloatArray, IntArray, MurmurationError

STEEPEST = 0.99  # at 1 the shares of the formula degenerate to all for the shortest


class HeSrpt:
    """High-efficiency shortest remaining processing time (Berg, Vesilo, Harchol-Balter, "heSRPT", PEVA 2020).

    If k GPUs are k^p times as fast as one and nobody else comes, the mean completion time of m jobs is least if the
    i-th longest gets the share (i/m)^(1/(1-p)) - ((i-1)/m)^(1/(1-p)) of the cluster: between SRPT, which gives all to
    the shortest, and equal shares.

    A reconstruction for this world, of which the paper leaves open:
    - Exponent: the mean over the elastic jobs present of log(speedup) / log(GPUs), between least and most GPUs;
      among rigid jobs alone the shortest come first.
    - Whole GPUs within each job's range: shortest jobs first, what rounding or a range leaves over goes to the next.
      What does not get its least size waits.
    - GPU types: one heap, in which a job's speed is that on its fastest type.
    - Restarts are not looked at: a job whose share changes is resized.

    Args:
        exponent: p, 0 to 1; None estimates it.
    """

    information = "estimate"
    preemptive = True
    elastic = True

    def __init__(self, exponent: float | None = None) -> None:
        if exponent is not None and not (0 <= exponent < 1):
            raise MurmurationError(f"HeSrpt: exponent is {exponent}; it must be at least 0 and below 1, or null")
        self.exponent = exponent
        self._heap = OneHeap("HeSrpt")

    def reset(self, cluster: ClusterSpec, rng: np.random.Generator) -> None:
        """Forget the jobs of the last episode."""
        self._heap.forget()

    def schedule(self, view: ClusterView) -> Allocation:
        """Shares by rank, in whole GPUs.

        Raises:
            MurmurationError: the scenario hides remaining work.
        """
        return self._heap.schedule(view, lambda heap: heap.work / heap.speeds.max(axis=1), self._sizes)

    def _sizes(self, heap: Heap) -> IntArray:
        """int64[num_jobs]: what the shares come to in whole GPUs, shortest job first."""
        return whole_shares(shares(len(heap.work), self._exponent(heap.speeds)), heap.speeds, heap.num_gpus)

    def _exponent(self, speeds: FloatArray) -> float:
        """The exponent given, or that of the jobs with these curves; the steepest if none of them is elastic."""
        if self.exponent is not None:
            return self.exponent
        found = [scaling for curve in speeds if not math.isnan(scaling := scaling_exponent(curve))]
        return float(np.clip(np.mean(found), 0.0, STEEPEST)) if found else STEEPEST


def scaling_exponent(curve: FloatArray) -> float:
    """The exponent of the power law through a job's least and largest size; NaN for a rigid one.

    Args:
        curve: float64[sizes], samples/s; 0 where the job does not run.
    """
    able = np.flatnonzero(curve > 0)
    if len(able) < 2:
        return float("nan")
    least, most = int(able[0]), int(able[-1])
    return float(np.log(curve[most] / curve[least]) / np.log(most / least))


def shares(num_jobs: int, exponent: float) -> FloatArray:
    """float64[num_jobs]: share of the cluster for each job, shortest first; they sum to 1."""
    steps = (np.arange(num_jobs + 1) / num_jobs) ** (1.0 / (1.0 - exponent)) if num_jobs else np.zeros(1)
    return np.asarray(np.diff(steps)[::-1])


def whole_shares(wanted: FloatArray, speeds: FloatArray, num_gpus: int) -> IntArray:
    """GPUs for jobs in order: the runnable size nearest below what they are due, the rest goes on to the next.

    Args:
        wanted: float64[num_jobs], shares.
        speeds: float64[num_jobs, sizes], samples/s; 0 where a job does not run.
        num_gpus: to share out.
    """
    sizes = np.zeros(len(wanted), np.int64)
    left, due = num_gpus, 0.0
    for place, share in enumerate(wanted.tolist()):
        due += share * num_gpus
        able = np.flatnonzero(speeds[place, : min(left, int(np.rint(due))) + 1])
        if able.size:
            sizes[place] = able[-1]
            left -= int(able[-1])
            due -= int(able[-1])
    return sizes
