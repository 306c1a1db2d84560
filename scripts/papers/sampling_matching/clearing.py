"""The assignment of one category, cleared by two readable algorithms that agree with the compiled kernel.

Jobs are buyers, workers are sellers, and a category sets how many workers each job buys. Prices clear it if all buyers
can have their preferred workers at once; then the sum of values is the largest possible.
"""

from dataclasses import dataclass

import numpy as np
from scipy.optimize import linear_sum_assignment

from baselines.sampling_matching.kernels import clear
from envs.types import BoolArray, FloatArray, IntArray, MurmurationError

_ROUNDING = 1e-9  # of the largest value: utilities that differ by less count as equal


@dataclass(frozen=True)
class ClearedMatching:
    """A cleared assignment.

    Attributes:
        counts: int64[num_jobs, num_types], workers bought.
        prices: float64[num_types].
        welfare: sum of the values of the workers bought.
        raises: number of price rises; 0 for algorithms without them.
    """

    counts: IntArray
    prices: FloatArray
    welfare: float
    raises: int = 0


def clear_by_paths(values: FloatArray, sizes: IntArray, supply: IntArray) -> ClearedMatching:
    """Clear by the compiled `kernels.clear`; arguments, errors and result as for `clear_by_prices`."""
    _check(values, sizes, supply)
    counts, prices = np.zeros(values.shape, np.int64), np.zeros(len(supply))
    welfare = clear(values, sizes, supply, counts, prices)
    if welfare == -np.inf:
        raise _unserved()
    return ClearedMatching(counts, prices, welfare)


def clear_by_assignment(values: FloatArray, sizes: IntArray, supply: IntArray) -> ClearedMatching:
    """Clear by exact assignment, with one buyer per wanted worker and one seller per worker.

    The relaxation of that program is integral, so this is the largest sum of values. Arguments and errors as for
    `clear_by_prices`. Prices are not computed.
    """
    _check(values, sizes, supply)
    buyers, sellers = np.repeat(np.arange(len(sizes)), sizes), np.repeat(np.arange(len(supply)), supply)
    try:
        rows, columns = linear_sum_assignment(values[buyers][:, sellers], maximize=True)
    except ValueError as error:  # infeasible
        raise _unserved() from error
    counts = np.zeros(values.shape, np.int64)
    np.add.at(counts, (buyers[rows], sellers[columns]), 1)
    return ClearedMatching(counts, np.full(len(supply), np.nan), _welfare(values, counts))


def clear_by_prices(values: FloatArray, sizes: IntArray, supply: IntArray) -> ClearedMatching:
    """Clear by the ascending auction: prices of workers in excess demand rise from zero.

    Every buyer prefers the workers of largest value minus price. If not all buyers can be served, there is a
    constricted set: buyers that together prefer fewer workers than there are buyers. The prices of these workers rise
    together until one of the buyers prefers another worker as well (Demange, Gale and Sotomayor, "Multi-item auctions",
    JPE 1986; Easley and Kleinberg, "Networks, crowds, and markets", chapter 10). A job that wants several workers is as
    many buyers with equal values.

    Args:
        values: float64[num_jobs, num_types], worth of one worker of a type; -inf where a job cannot use it.
        sizes: int64[num_jobs], workers that each job buys.
        supply: int64[num_types], workers of each type.

    Raises:
        MurmurationError: shapes do not match, there are more buyers than workers, or not all jobs can be served.
    """
    _check(values, sizes, supply)
    counts, prices, raises = np.zeros(values.shape, np.int64), np.zeros(len(supply)), 0
    finite = np.abs(values[np.isfinite(values)])
    tolerance = _ROUNDING * float(finite.max(initial=0.0))
    while (counts.sum(axis=1) < sizes).any():
        gains = values - prices
        best = gains.max(axis=1)
        if np.isneginf(best).any():
            raise _unserved()
        preferred = gains >= best[:, None] - tolerance
        if _serve_one_more(counts, preferred, sizes, supply):
            continue
        jobs, types = _constricted(counts, preferred, sizes)
        rise = (best[jobs, None] - np.where(types, -np.inf, gains[jobs])).min()
        if np.isinf(rise):
            raise _unserved()
        prices[types] += rise
        raises += 1
    return ClearedMatching(counts, prices, _welfare(values, counts), raises)


def _serve_one_more(counts: IntArray, preferred: BoolArray, sizes: IntArray, supply: IntArray) -> bool:
    """Serve one more buyer with preferred workers, moving others among theirs; return whether it was possible."""
    left = supply - counts.sum(axis=0)
    for start in np.flatnonzero(counts.sum(axis=1) < sizes).tolist():
        came: dict[int, tuple[int, int]] = {}  # type -> (job that takes it, type it gives or -1)
        frontier = [(start, -1)]
        while frontier:
            job, given = frontier.pop()
            for worker_type in np.flatnonzero(preferred[job]).tolist():
                if worker_type in came:
                    continue
                came[worker_type] = (job, given)
                if left[worker_type] > 0:
                    while worker_type >= 0:
                        taker, gives = came[worker_type]
                        counts[taker, worker_type] += 1
                        if gives >= 0:
                            counts[taker, gives] -= 1
                        worker_type = gives
                    return True
                frontier += [(holder, worker_type) for holder in np.flatnonzero(counts[:, worker_type]).tolist()]
    return False


def _constricted(counts: IntArray, preferred: BoolArray, sizes: IntArray) -> tuple[BoolArray, BoolArray]:
    """Jobs and types that unserved buyers reach through preferred workers and their holders."""
    jobs = counts.sum(axis=1) < sizes
    while True:
        types = preferred[jobs].any(axis=0)
        more = jobs | (counts[:, types] > 0).any(axis=1)
        if (more == jobs).all():
            return jobs, types
        jobs = more


def _welfare(values: FloatArray, counts: IntArray) -> float:
    return float((counts * np.where(counts > 0, values, 0.0)).sum())


def _check(values: FloatArray, sizes: IntArray, supply: IntArray) -> None:
    if values.shape != (len(sizes), len(supply)):
        raise MurmurationError(
            f"assignment: values have shape {values.shape}; they must match {len(sizes)} jobs and {len(supply)} types"
        )
    if sizes.sum() > supply.sum():
        raise MurmurationError(
            f"assignment: jobs want {sizes.sum()} workers, there are {supply.sum()}; take smaller sizes"
        )


def _unserved() -> MurmurationError:
    return MurmurationError("assignment: no prices serve all jobs, because some can use too few workers; remove a job")
