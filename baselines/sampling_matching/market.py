"""The matching market of one category, cleared in two ways that people can read; both agree with the compiled kernel.

Jobs are buyers, workers are sellers, a category says how many workers each job buys. Prices at which every buyer's
favourites can be had all at once clear the market, and then the sum of values is the largest there is.
"""

from dataclasses import dataclass

import numpy as np
from scipy.optimize import linear_sum_assignment

from baselines.sampling_matching.kernels import clear
from envs.types import BoolArray, FloatArray, IntArray, MurmurationError

ROUNDING = 1e-9  # of the largest value: utilities that differ by less are equal


@dataclass(frozen=True)
class Market:
    """A cleared market.

    Attributes:
        counts: int64[num_jobs, num_kinds], workers bought.
        prices: float64[num_kinds].
        welfare: sum of the values of what was bought.
        raises: how often prices rose; 0 where they were not found by rising.
    """

    counts: IntArray
    prices: FloatArray
    welfare: float
    raises: int = 0


def clear_by_paths(values: FloatArray, sizes: IntArray, supply: IntArray) -> Market:
    """The compiled form, `kernels.clear`; arguments, errors and result as `clear_by_prices`."""
    _check(values, sizes, supply)
    counts, prices = np.zeros(values.shape, np.int64), np.zeros(len(supply))
    welfare = clear(values, sizes, supply, counts, prices)
    if welfare == -np.inf:
        raise _unserved()
    return Market(counts, prices, welfare)


def clear_by_assignment(values: FloatArray, sizes: IntArray, supply: IntArray) -> Market:
    """The exact assignment: a job as so many buyers as it wants workers, a kind as so many sellers as it has.

    The relaxation of that program is integral, so this is the largest sum of values; arguments and errors as
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
    return Market(counts, np.full(len(supply), np.nan), _welfare(values, counts))


def clear_by_prices(values: FloatArray, sizes: IntArray, supply: IntArray) -> Market:
    """The ascending auction: prices rise from zero on whatever is wanted by more buyers than it can serve.

    Every buyer points at the workers of largest value minus price (preferred sellers). If not all can be served there
    is a constricted set: buyers who together want fewer workers than they are. The prices of these rise
    together until one of the buyers likes something else as well (Demange, Gale and Sotomayor, "Multi-item auctions",
    JPE 1986; Easley and Kleinberg, "Networks, crowds, and markets", chapter 10). A job that wants several workers is as
    many buyers with the same taste.

    Args:
        values: float64[num_jobs, num_kinds], worth of one worker of a kind; -inf where a job cannot use it.
        sizes: int64[num_jobs], workers that each job buys.
        supply: int64[num_kinds], workers of each kind.

    Raises:
        MurmurationError: shapes that do not match, more buyers than workers, or jobs that cannot all be served.
    """
    _check(values, sizes, supply)
    counts, prices, raises = np.zeros(values.shape, np.int64), np.zeros(len(supply)), 0
    finite = np.abs(values[np.isfinite(values)])
    tolerance = ROUNDING * float(finite.max(initial=0.0))
    while (counts.sum(axis=1) < sizes).any():
        gains = values - prices
        best = gains.max(axis=1)
        if np.isneginf(best).any():
            raise _unserved()
        preferred = gains >= best[:, None] - tolerance
        if _serve_one_more(counts, preferred, sizes, supply):
            continue
        jobs, kinds = _constricted(counts, preferred, sizes)
        rise = (best[jobs, None] - np.where(kinds, -np.inf, gains[jobs])).min()
        if np.isinf(rise):
            raise _unserved()
        prices[kinds] += rise
        raises += 1
    return Market(counts, prices, _welfare(values, counts), raises)


def _serve_one_more(counts: IntArray, preferred: BoolArray, sizes: IntArray, supply: IntArray) -> bool:
    """Serve one more buyer from among preferred workers, others changing within theirs; say whether it was possible."""
    left = supply - counts.sum(axis=0)
    for start in np.flatnonzero(counts.sum(axis=1) < sizes).tolist():
        came: dict[int, tuple[int, int]] = {}  # kind -> (job that takes it, kind that this job gives; -1 for none)
        frontier = [(start, -1)]
        while frontier:
            job, given = frontier.pop()
            for kind in np.flatnonzero(preferred[job]).tolist():
                if kind in came:
                    continue
                came[kind] = (job, given)
                if left[kind] > 0:
                    while kind >= 0:
                        taker, gives = came[kind]
                        counts[taker, kind] += 1
                        if gives >= 0:
                            counts[taker, gives] -= 1
                        kind = gives
                    return True
                frontier += [(holder, kind) for holder in np.flatnonzero(counts[:, kind]).tolist()]
    return False


def _constricted(counts: IntArray, preferred: BoolArray, sizes: IntArray) -> tuple[BoolArray, BoolArray]:
    """Jobs and kinds that those who are not served reach over preferred workers and their holders."""
    jobs = counts.sum(axis=1) < sizes
    while True:
        kinds = preferred[jobs].any(axis=0)
        more = jobs | (counts[:, kinds] > 0).any(axis=1)
        if (more == jobs).all():
            return jobs, kinds
        jobs = more


def _welfare(values: FloatArray, counts: IntArray) -> float:
    return float((counts * np.where(counts > 0, values, 0.0)).sum())


def _check(values: FloatArray, sizes: IntArray, supply: IntArray) -> None:
    if values.shape != (len(sizes), len(supply)):
        raise MurmurationError(
            f"market: values have shape {values.shape}; they must match {len(sizes)} jobs and {len(supply)} kinds"
        )
    if sizes.sum() > supply.sum():
        raise MurmurationError(f"market: jobs want {sizes.sum()} workers, there are {supply.sum()}; take smaller sizes")


def _unserved() -> MurmurationError:
    return MurmurationError("market: no prices serve all jobs, some can use too few workers; leave one of them out")
