"""The options of jobs with their costs, and a greedy choice among them."""

from dataclasses import dataclass

import numpy as np
from scipy.optimize import LinearConstraint
from scipy.sparse import coo_array, csr_array, vstack

from envs.types import FloatArray, IntArray


@dataclass(frozen=True)
class Options:
    """The sizes and types that jobs may have, with their costs.

    Attributes:
        job: int64[num_options], position of the job, 0 to num_jobs - 1.
        gpu_type: int64[num_options], index into the cluster's types.
        num_gpus: int64[num_options], at least 1.
        cost: float64[num_options].
        idle: float64[num_jobs], the cost of giving a job nothing.
    """

    job: IntArray
    gpu_type: IntArray
    num_gpus: IntArray
    cost: FloatArray
    idle: FloatArray

    @property
    def saving(self) -> FloatArray:
        """float64[num_options]: the idle cost of the job minus the cost of the option."""
        saving: FloatArray = self.idle[self.job] - self.cost
        return saving

    def total(self, chosen: IntArray) -> float:
        """Return the cost of a choice."""
        return float(self.idle.sum()) - self.saved(chosen)

    def saved(self, chosen: IntArray) -> float:
        """Return what a choice costs less than giving no GPUs to any job."""
        return float(self.saving[chosen[chosen >= 0]].sum())

    def taken(self, chosen: IntArray, num_gpu_types: int) -> IntArray:
        """int64[num_gpu_types]: GPUs that a choice takes."""
        picked = chosen[chosen >= 0]
        return np.bincount(self.gpu_type[picked], self.num_gpus[picked], num_gpu_types).astype(np.int64)

    def constraints(self, capacity: IntArray) -> list[LinearConstraint]:
        """Return `limits` in the form that the solver of integer programs takes."""
        rows, limits = self.limits(capacity)
        return [LinearConstraint(rows, -np.inf, limits)]

    def limits(self, capacity: IntArray) -> tuple[csr_array, FloatArray]:
        """Return A and b of A x <= b over a column per option: one option per job, `capacity` GPUs per type."""
        columns = np.arange(len(self.job))
        once = coo_array((np.ones(len(columns)), (self.job, columns)), shape=(len(self.idle), len(columns)))
        room = coo_array((self.num_gpus, (self.gpu_type, columns)), shape=(len(capacity), len(columns)))
        limits = np.concatenate([np.ones(len(self.idle)), capacity.astype(np.float64)])
        return vstack([once, room]).tocsr(), limits

    def only(self, kept: IntArray) -> "Options":
        """Return the options of these indices, of the same jobs."""
        return Options(self.job[kept], self.gpu_type[kept], self.num_gpus[kept], self.cost[kept], self.idle)


def greedy(options: Options, capacity: IntArray) -> IntArray:
    """int64[num_jobs]: in order of saving per GPU, the first option of each job that fits and saves something."""
    left = capacity.astype(np.int64)
    chosen = np.full(len(options.idle), -1, np.int64)
    worth = options.saving / options.num_gpus
    for option in np.lexsort((options.job, -worth)).tolist():
        job, gpu_type, gpus = options.job[option], options.gpu_type[option], options.num_gpus[option]
        if worth[option] > 0 and chosen[job] < 0 and gpus <= left[gpu_type]:
            chosen[job] = option
            left[gpu_type] -= gpus
    return chosen
