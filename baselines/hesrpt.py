"""heSRPT: the optimal allocation where the throughput of every job follows the same power law."""

import math

import numpy as np

from baselines.parts.gpu_pool import GpuPool, PooledRounds
from baselines.parts.sizing import largest_fastest
from envs.scheduling import ClusterView
from envs.types import Allocation, ClusterSpec, FloatArray, IntArray, MurmurationError

STEEPEST = 0.99  # at 1 the formula would give all GPUs to the shortest job


class HeSrpt:
    """High-efficiency shortest remaining processing time (Berg, Vesilo, Harchol-Balter, "heSRPT", PEVA 2020).

    If k GPUs are k^p times as fast as one and no further job arrives, the mean completion time of m jobs is least if
    the i-th longest job gets the share (i/m)^(1/(1-p)) - ((i-1)/m)^(1/(1-p)) of the cluster. This lies between SRPT,
    which gives all GPUs to the shortest job, and equal shares.

    A reconstruction for this world. The paper leaves open:
    - Exponent: the mean over the elastic jobs present of log(speedup) / log(GPUs), between the least and the fastest
      size. Among rigid jobs alone the shortest come first.
    - Whole GPUs within each job's range: shortest jobs first. GPUs left over by rounding or by a range, or with which a
      job would be slower, go to the next job. A job that does not get its least size waits.
    - GPU types: all types are one pool, in which a job has the throughput of its fastest type.
    - Restarts are ignored: a job whose share changes is resized.

    Args:
        exponent: p, at least 0 and below 1; None estimates it.
    """

    information = "estimate"
    preemptive = True
    elastic = True

    def __init__(self, exponent: float | None = None) -> None:
        if exponent is not None and not (0 <= exponent < 1):
            raise MurmurationError(f"HeSrpt: exponent is {exponent}; it must be at least 0 and below 1, or null")
        self.exponent = exponent
        self._rounds = PooledRounds("HeSrpt")

    def reset(self, cluster: ClusterSpec, rng: np.random.Generator) -> None:
        """Forget the jobs of the last episode."""
        self._rounds.forget()

    def schedule(self, view: ClusterView) -> Allocation:
        """Choose shares by rank, in whole GPUs.

        Raises:
            MurmurationError: the scenario hides remaining work.
        """
        return self._rounds.schedule(view, lambda pool: pool.work / pool.throughputs.max(axis=1), self._sizes)

    def _sizes(self, pool: GpuPool) -> IntArray:
        """int64[num_jobs]: the shares in whole GPUs, shortest job first."""
        return whole_shares(shares(len(pool.work), self._exponent(pool.throughputs)), pool.throughputs, pool.num_gpus)

    def _exponent(self, throughputs: FloatArray) -> float:
        """Return the given exponent, or estimate it from these curves; `STEEPEST` if no job is elastic."""
        if self.exponent is not None:
            return self.exponent
        found = [scaling for curve in throughputs if not math.isnan(scaling := scaling_exponent(curve))]
        return float(np.clip(np.mean(found), 0.0, STEEPEST)) if found else STEEPEST


def scaling_exponent(curve: FloatArray) -> float:
    """Estimate the exponent of the power law through a job's least and fastest size; NaN if these are the same.

    Args:
        curve: float64[sizes], samples/s; 0 where the job does not run.
    """
    able = np.flatnonzero(curve > 0)
    least, most = int(able[0]), largest_fastest(curve)
    if least == most:
        return float("nan")
    return float(np.log(curve[most] / curve[least]) / np.log(most / least))


def shares(num_jobs: int, exponent: float) -> FloatArray:
    """float64[num_jobs]: the share of the cluster of each job, shortest first; they sum to 1."""
    steps = (np.arange(num_jobs + 1) / num_jobs) ** (1.0 / (1.0 - exponent)) if num_jobs else np.zeros(1)
    return np.asarray(np.diff(steps)[::-1])


def whole_shares(wanted: FloatArray, throughputs: FloatArray, num_gpus: int) -> IntArray:
    """Round shares to whole GPUs: each job gets the fastest size within its due; the rest goes to the next.

    Args:
        wanted: float64[num_jobs], shares, in order of priority.
        throughputs: float64[num_jobs, sizes], samples/s; 0 where a job does not run.
        num_gpus: GPUs to share out.
    """
    sizes = np.zeros(len(wanted), np.int64)
    left, due = num_gpus, 0.0
    for place, share in enumerate(wanted.tolist()):
        due += share * num_gpus
        within = throughputs[place, : min(left, int(np.rint(due))) + 1]
        if within.any():
            sizes[place] = largest_fastest(within)
            left -= int(sizes[place])
            due -= int(sizes[place])
    return sizes
