"""Comparisons in which figures that differ by rounding alone are equal, so that a stated order breaks their ties.

The last bits of throughputs and times depend on the processor, since BLAS and NumPy choose their kernels by it. Jobs of
one model often have equal gains or priorities up to these bits. Compared exactly, such jobs would be served in another
order on another processor, and the episode would end differently.
"""

import math
from collections.abc import Callable, Iterable
from typing import Any, TypeVar

import numpy as np

from envs.simulation.compiled.jit import jit
from envs.types import FloatArray

CLOSE = 1e-9  # relative difference up to which figures are equal: far above rounding, far below what matters

T = TypeVar("T")


def merge_ties(values: FloatArray, nothing: float = 0.0) -> FloatArray:
    """Replace figures that are equal up to rounding by the least of them, so that sorting finds exact ties.

    Args:
        values: float64, of any shape.
        nothing: difference up to which figures are equal whatever their size; for figures around 0, in their unit.
    """
    order = np.argsort(values, axis=None, kind="stable")
    ascending = np.asarray(values, dtype=np.float64).ravel()[order]
    below, above = ascending[:-1], ascending[1:]
    step = np.subtract(above, below, out=np.zeros(len(below)), where=above > below)  # 0 between equal infinities
    far = step > CLOSE * np.maximum(np.abs(below), np.abs(above)) + nothing
    starts = np.concatenate([[True], far | np.isinf(step)])[: len(order)]
    settled = np.empty_like(ascending)
    settled[order] = ascending[np.flatnonzero(starts)[np.cumsum(starts) - 1]]
    return settled.reshape(values.shape)


def least_first(items: Iterable[T], worth: Callable[[T], float], order: Callable[[T], Any] = lambda item: 0) -> T:
    """Return the item of least worth; of those that are equal up to rounding, the first in order.

    Args:
        items: at least one.
        worth: the figure to be minimised.
        order: breaks ties; by default the items are in order.
    """
    found = [(worth(item), item) for item in items]
    least = min(value for value, _ in found)
    return min((item for value, item in found if math.isclose(value, least, rel_tol=CLOSE)), key=order)


@jit
def less(one: float, other: float) -> bool:
    """Whether a figure is below another one by more than rounding."""
    if not one < other:
        return False
    return bool(other == np.inf or one == -np.inf or other - one > CLOSE * max(abs(one), abs(other)))


@jit
def first_largest(values: FloatArray) -> int:
    """Index of the largest figure; of those that are equal up to rounding, the first. -1 without figures."""
    found = -1
    for place in range(len(values)):
        if found < 0 or less(values[found], values[place]):
            found = place
    return found
