"""The matching problem: several jobs compete for workers of unequal throughput.

The model is that of sampling-based multi-job placement (TPDS'24, doi 10.1109/TPDS.2024.3390109). A job's mini-batch is
split over its workers in proportion to their throughput, so that all finish together; then a ring all-reduce runs over
the slowest link. A job's completion time is its samples over the sum of its workers' throughputs, plus a term that
depends only on their number. The paper's body is not public, so this package is a reconstruction.

Equal workers form one *worker type*: a GPU type of a cluster, or a single worker where no two are equal.
"""

from typing import NamedTuple

import numpy as np
import numpy.typing as npt

from envs.types import FloatArray, IntArray, MurmurationError


class Problem(NamedTuple):
    """One round of matching, as arrays for the kernels; `problem` builds one.

    `mixes` is 1, or 2 if throughput differs on workers of several types (index 1). `sizes` is 1 if the values do not
    depend on the number of workers, else it reaches up to the largest `most`.
    """

    throughputs: FloatArray  # float64[num_jobs, mixes, sizes, num_types]: samples/s of a worker; 0 if it cannot run
    work: FloatArray  # float64[num_jobs]: samples to process
    overhead: FloatArray  # float64[num_jobs, sizes]: seconds besides computing, by number of workers
    weight: FloatArray  # float64[num_jobs]: weight of a job's seconds
    least: IntArray  # int64[num_jobs]: fewest workers, at least 1
    most: IntArray  # int64[num_jobs]: most workers
    supply: IntArray  # int64[num_types]: workers of each type
    present: IntArray  # int64[num_jobs, num_types]: workers that a job holds now
    restart: FloatArray  # float64[num_jobs]: seconds for changing a job's present workers
    may_idle: bool  # whether workers may stay unassigned; the paper assigns all

    @property
    def num_jobs(self) -> int:
        """Number of jobs."""
        return len(self.work)

    @property
    def num_workers(self) -> int:
        """Number of workers of all types."""
        return int(self.supply.sum())

    @property
    def assigned(self) -> int:
        """Number of workers in a category: all, or as many as the jobs can take."""
        return min(self.num_workers, int(self.most.sum()))


def problem(
    throughputs: npt.ArrayLike,
    work: npt.ArrayLike,
    *,
    supply: npt.ArrayLike | None = None,
    overhead: npt.ArrayLike | None = None,
    weight: npt.ArrayLike | None = None,
    least: npt.ArrayLike | None = None,
    most: npt.ArrayLike | None = None,
    present: npt.ArrayLike | None = None,
    restart: npt.ArrayLike | None = None,
    may_idle: bool = False,
) -> Problem:
    """Build a `Problem` from contiguous copies, with defaults for omitted arguments.

    Args:
        throughputs: float64[num_jobs, num_types], or with the axes of `Problem.throughputs`.
        work: samples of each job.
        supply: workers of each type; one each if None.
        overhead: float64[num_jobs, sizes]; zero if None.
        weight: 1 for every job if None.
        least: 1 for every job if None.
        most: all workers beyond the other jobs' least if None.
        present: nothing held if None.
        restart: zero if None.
        may_idle: whether workers may stay unassigned.

    Raises:
        MurmurationError: shapes do not match, values are not positive, or the jobs need more workers than there are.
    """
    work = np.array(work, np.float64)
    throughputs = np.array(throughputs, np.float64)
    throughputs = throughputs[:, None, None, :] if throughputs.ndim == 2 else throughputs
    jobs, num_types = len(work), throughputs.shape[-1]
    supply = np.ones(num_types, np.int64) if supply is None else np.array(supply, np.int64)
    least = np.ones(jobs, np.int64) if least is None else np.array(least, np.int64)
    if most is None:
        most = np.maximum(supply.sum() - least.sum() + least, least)
    made = Problem(
        throughputs=np.ascontiguousarray(throughputs),
        work=work,
        overhead=np.zeros((jobs, 1)) if overhead is None else np.array(overhead, np.float64, order="C"),
        weight=np.ones(jobs) if weight is None else np.array(weight, np.float64),
        least=least,
        most=np.array(most, np.int64),
        supply=supply,
        present=np.zeros((jobs, num_types), np.int64) if present is None else np.array(present, np.int64, order="C"),
        restart=np.zeros(jobs) if restart is None else np.array(restart, np.float64),
        may_idle=may_idle,
    )
    _check(made)
    return made


def _check(made: Problem) -> None:
    jobs, num_types = made.num_jobs, len(made.supply)
    shapes = {
        "throughputs": (made.throughputs.shape[0], made.throughputs.shape[-1]) == (jobs, num_types)
        and made.throughputs.ndim == 4,
        "overhead": made.overhead.ndim == 2 and len(made.overhead) == jobs,
        "weight": made.weight.shape == (jobs,),
        "least": made.least.shape == (jobs,),
        "most": made.most.shape == (jobs,),
        "present": made.present.shape == (jobs, num_types),
        "restart": made.restart.shape == (jobs,),
    }
    for name, fits in shapes.items():
        if not fits:
            shape = getattr(made, name).shape
            raise MurmurationError(
                f"matching: {name} has shape {shape}; it must match {jobs} jobs and {num_types} worker types"
            )
    for name in ("work", "weight"):
        value = getattr(made, name)
        if not ((value > 0) & np.isfinite(value)).all():
            raise MurmurationError(f"matching: {name} is {value.min()} for a job; it must be positive and finite")
    if not (np.isfinite(made.throughputs) & (made.throughputs >= 0)).all():
        raise MurmurationError(
            "matching: a throughput is negative or not finite; give samples/s, 0 where a job cannot run"
        )
    if not ((made.least >= 1) & (made.least <= made.most)).all():
        raise MurmurationError("matching: a job's range of workers is empty or starts below 1; need 1 <= least <= most")
    if made.least.sum() > made.num_workers:
        needed = int(made.least.sum())
        raise MurmurationError(
            f"matching: the jobs need {needed} workers and there are {made.num_workers}; admit fewer jobs"
        )


def of_jobs(made: Problem, rows: npt.ArrayLike, supply: IntArray | None = None) -> Problem:
    """Restrict a problem to some of its jobs.

    Args:
        made: the whole problem.
        rows: int64[num_chosen], their indices.
        supply: int64[num_types], the workers available to them; all if None.
    """
    rows = np.asarray(rows, np.int64)
    return made._replace(
        throughputs=made.throughputs[rows],
        work=made.work[rows],
        overhead=made.overhead[rows],
        weight=made.weight[rows],
        least=made.least[rows],
        most=made.most[rows],
        present=made.present[rows],
        restart=made.restart[rows],
        supply=made.supply if supply is None else np.array(supply, np.int64),
    )


def compute_completion_seconds(made: Problem, counts: IntArray) -> FloatArray:
    """Seconds to each job's end, float64[num_jobs]; infinite for a job that cannot run on its workers.

    The reference implementation of `kernels.seconds`.

    Args:
        made: the problem.
        counts: int64[num_jobs, num_types], workers of each type for each job.
    """
    jobs, size = np.arange(made.num_jobs), counts.sum(axis=1)
    mix = np.minimum((counts > 0).sum(axis=1) > 1, made.throughputs.shape[1] - 1)
    throughput = made.throughputs[jobs, mix, np.minimum(size, made.throughputs.shape[2] - 1)]
    gang_throughput = (counts * throughput).sum(axis=1)
    able = (size >= made.least) & (size <= made.most) & ~((counts > 0) & (throughput == 0)).any(axis=1)
    with np.errstate(divide="ignore"):
        times = made.work / gang_throughput + made.overhead[jobs, np.minimum(size, made.overhead.shape[1] - 1)]
    times = times + made.restart * (counts != made.present).any(axis=1)
    return np.where(able, times, np.inf)


def objective(made: Problem, counts: IntArray) -> float:
    """Weighted sum of completion times; with weights of 1 it is the mean JCT times the number of jobs."""
    return float((made.weight * compute_completion_seconds(made, counts)).sum())
