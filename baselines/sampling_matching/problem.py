"""Several jobs compete for workers of unequal speed: the problem that sampling-based matching solves.

The model is that of sampling-based multi-job placement (TPDS'24, doi 10.1109/TPDS.2024.3390109): a job's mini-batch is
split over its workers in proportion to their speed, so that all finish together, and then a ring all-reduce runs over
the slowest link. A job's completion time is its samples over the sum of its workers' speeds, plus what depends on
their number alone. The paper's body is not public, so this and all `matching_*` modules are a reconstruction.

Workers that are alike are one *kind*: a GPU type of a cluster, or each single worker where no two are equal.
"""

from typing import NamedTuple

import numpy as np
import numpy.typing as npt

from envs.types import FloatArray, IntArray, MurmurationError


class Problem(NamedTuple):
    """One round of matching, as arrays that kernels take as they are; see `problem` for how to make one.

    `mixes` is 1, or 2 where a job on workers of several kinds (index 1) is slower than its kinds alone tell; `sizes` is
    1 where what it tells does not depend on the number of workers, else it reaches up to the largest `most`.
    """

    rates: FloatArray  # float64[num_jobs, mixes, sizes, num_kinds]: samples/s of one worker; 0 where the job cannot run
    work: FloatArray  # float64[num_jobs]: samples to process
    overhead: FloatArray  # float64[num_jobs, sizes]: seconds beside computing, by number of workers
    weight: FloatArray  # float64[num_jobs]: importance of a job's seconds
    least: IntArray  # int64[num_jobs]: fewest workers, at least 1
    most: IntArray  # int64[num_jobs]: most workers
    supply: IntArray  # int64[num_kinds]: workers of each kind
    present: IntArray  # int64[num_jobs, num_kinds]: workers that a job holds now
    restart: FloatArray  # float64[num_jobs]: seconds that any other workers than the present ones cost
    may_idle: bool  # whether workers may stay without a job; the paper gives every worker to a job

    @property
    def num_jobs(self) -> int:
        """Jobs that compete."""
        return len(self.work)

    @property
    def num_workers(self) -> int:
        """Workers of all kinds."""
        return int(self.supply.sum())

    @property
    def assigned(self) -> int:
        """Workers that a category hands out: all, or as many as the jobs can take."""
        return min(self.num_workers, int(self.most.sum()))


def problem(
    rates: npt.ArrayLike,
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
    """A `Problem` with what is left out at its plainest, as contiguous arrays of their own.

    Args:
        rates: float64[num_jobs, num_kinds], or with the axes of `Problem.rates`.
        work: samples of each job.
        supply: workers of each kind; one each if None.
        overhead: float64[num_jobs, sizes]; none if None.
        weight: 1 for every job if None.
        least: 1 for every job if None.
        most: whatever the others' least leaves if None.
        present: nothing if None.
        restart: free of charge if None.
        may_idle: whether workers may stay without a job.

    Raises:
        MurmurationError: shapes that do not match, figures that are not positive, or fewer workers than the jobs need.
    """
    work = np.array(work, np.float64)
    rates = np.array(rates, np.float64)
    rates = rates[:, None, None, :] if rates.ndim == 2 else rates
    jobs, kinds = len(work), rates.shape[-1]
    supply = np.ones(kinds, np.int64) if supply is None else np.array(supply, np.int64)
    least = np.ones(jobs, np.int64) if least is None else np.array(least, np.int64)
    if most is None:
        most = np.maximum(supply.sum() - least.sum() + least, least)
    made = Problem(
        rates=np.ascontiguousarray(rates),
        work=work,
        overhead=np.zeros((jobs, 1)) if overhead is None else np.array(overhead, np.float64, order="C"),
        weight=np.ones(jobs) if weight is None else np.array(weight, np.float64),
        least=least,
        most=np.array(most, np.int64),
        supply=supply,
        present=np.zeros((jobs, kinds), np.int64) if present is None else np.array(present, np.int64, order="C"),
        restart=np.zeros(jobs) if restart is None else np.array(restart, np.float64),
        may_idle=may_idle,
    )
    _check(made)
    return made


def _check(made: Problem) -> None:
    jobs, kinds = made.num_jobs, len(made.supply)
    shapes = {
        "rates": (made.rates.shape[0], made.rates.shape[-1]) == (jobs, kinds) and made.rates.ndim == 4,
        "overhead": made.overhead.ndim == 2 and len(made.overhead) == jobs,
        "weight": made.weight.shape == (jobs,),
        "least": made.least.shape == (jobs,),
        "most": made.most.shape == (jobs,),
        "present": made.present.shape == (jobs, kinds),
        "restart": made.restart.shape == (jobs,),
    }
    for name, fits in shapes.items():
        if not fits:
            shape = getattr(made, name).shape
            raise MurmurationError(f"matching: {name} has shape {shape}; it must match {jobs} jobs and {kinds} kinds")
    for name in ("work", "weight"):
        value = getattr(made, name)
        if not ((value > 0) & np.isfinite(value)).all():
            raise MurmurationError(f"matching: {name} is {value.min()} for a job; it must be positive and finite")
    if not (np.isfinite(made.rates) & (made.rates >= 0)).all():
        raise MurmurationError("matching: a rate is negative or not finite; give samples/s, 0 where a job cannot run")
    if not ((made.least >= 1) & (made.least <= made.most)).all():
        raise MurmurationError("matching: a job's range of workers is empty or begins below 1; need 1 <= least <= most")
    if made.least.sum() > made.num_workers:
        needed = int(made.least.sum())
        raise MurmurationError(
            f"matching: the jobs need {needed} workers and there are {made.num_workers}; admit fewer"
        )


def of_jobs(made: Problem, rows: npt.ArrayLike, supply: IntArray | None = None) -> Problem:
    """The same problem for some of its jobs.

    Args:
        made: the whole problem.
        rows: int64[num_chosen], their places in it.
        supply: int64[num_kinds], the workers that there are for them; all if None.
    """
    rows = np.asarray(rows, np.int64)
    return made._replace(
        rates=made.rates[rows],
        work=made.work[rows],
        overhead=made.overhead[rows],
        weight=made.weight[rows],
        least=made.least[rows],
        most=made.most[rows],
        present=made.present[rows],
        restart=made.restart[rows],
        supply=made.supply if supply is None else np.array(supply, np.int64),
    )


def completion_times(made: Problem, counts: IntArray) -> FloatArray:
    """Seconds to each job's end: float64[num_jobs]; infinite where a job cannot run as it is given.

    The slow twin of `kernels.seconds`.

    Args:
        made: the problem.
        counts: int64[num_jobs, num_kinds], workers of each kind for each job.
    """
    jobs, size = np.arange(made.num_jobs), counts.sum(axis=1)
    mix = np.minimum((counts > 0).sum(axis=1) > 1, made.rates.shape[1] - 1)
    rate = made.rates[jobs, mix, np.minimum(size, made.rates.shape[2] - 1)]
    speed = (counts * rate).sum(axis=1)
    able = (size >= made.least) & (size <= made.most) & ~((counts > 0) & (rate == 0)).any(axis=1)
    with np.errstate(divide="ignore"):
        times = made.work / speed + made.overhead[jobs, np.minimum(size, made.overhead.shape[1] - 1)]
    times = times + made.restart * (counts != made.present).any(axis=1)
    return np.where(able, times, np.inf)


def objective(made: Problem, counts: IntArray) -> float:
    """Weighted sum of completion times; with weights of 1 it is the mean JCT times the number of jobs."""
    return float((made.weight * completion_times(made, counts)).sum())


def ring_overhead(num_workers: int, rounds: npt.ArrayLike, gradient_gb: npt.ArrayLike, link_gb_s: float) -> FloatArray:
    """Seconds that a job spends in all-reduces until its end, by its workers: float64[num_jobs, num_workers + 1].

    A ring over the slowest link takes 2 (k - 1) / k D / r per iteration.

    Args:
        num_workers: the last column.
        rounds: iterations of each job.
        gradient_gb: bytes that each job exchanges, in GB.
        link_gb_s: the slowest link.
    """
    size = np.maximum(np.arange(num_workers + 1), 1)
    each = np.asarray(rounds, np.float64) * np.asarray(gradient_gb, np.float64) / link_gb_s
    return np.asarray(2.0 * (size - 1) / size * each[:, None])


def jain_index(values: npt.ArrayLike) -> float:
    """Jain's fairness index (sum x)^2 / (n sum x^2), from 1 / n to 1."""
    x = np.asarray(values, np.float64)
    return float(x.sum() ** 2 / (len(x) * (x**2).sum()))
