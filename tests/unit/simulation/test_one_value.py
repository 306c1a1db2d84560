"""Functions that would use a tuple after its place has made the next one are refused, and others are not."""

from typing import Any, NamedTuple

import numpy as np
import pytest
from numba.core.errors import NumbaError

from envs.simulation.compiled.by_reference import by_reference
from envs.simulation.compiled.jit import COMPILES, kernel, leaf

pytestmark = pytest.mark.skipif(not COMPILES, reason="nothing is compiled")


@by_reference
class Row(NamedTuple):
    amounts: Any
    number: int


class Pair(NamedTuple):
    """A tuple that numba copies around one that it does not."""

    row: Row
    factor: float


@leaf
def row_of(table, b):
    return Row(table[b], b)


@kernel
def add_previous(table, totals):
    """Numbers of two rows at once: both have the memory of one place."""
    previous = row_of(table, 0)
    for b in range(len(table)):
        row = row_of(table, b)
        totals[b] = previous.number + row.number
        previous = row


@kernel
def add_previous_pair(table, totals):
    previous = Pair(row_of(table, 0), 1.0)
    for b in range(len(table)):
        pair = Pair(row_of(table, b), 1.0)
        totals[b] = previous.row.number + pair.row.number
        previous = pair


@kernel
def add_every_other(table, totals):
    """Every other turn uses the pair of the turn before, whose row has the memory of its own row."""
    for b in range(len(table)):
        row = row_of(table, b)
        if b % 2 == 0:
            pair = Pair(row, 1.0)
        totals[b] = pair.row.number


@kernel
def choose(table, totals):
    if len(table) > 1:
        row = row_of(table, 1)
    else:
        row = row_of(table, 0)
    totals[0] = row.number


@kernel
def add_twice(table, totals):
    """Each turn ends with its rows."""
    for b in range(len(table)):
        row = row_of(table, b)
        for i in range(len(table)):
            other = row_of(table, i)
            pair = Pair(row, 2.0)
            if i != b:
                totals[b] += pair.row.number + pair.factor * other.number
        row = row_of(table, 0)
        totals[b] += row.number


@pytest.fixture
def table():
    return np.zeros((3, 2))


@pytest.mark.parametrize("function", [add_previous, add_previous_pair, add_every_other, choose])
def test_a_variable_gets_such_a_tuple_at_one_place_before_all_uses(function, table):
    with pytest.raises(NumbaError, match="must get its value at one place"):
        function(table, np.zeros(3))


def test_each_turn_may_make_tuples_of_its_own(table):
    totals = np.zeros(3)
    add_twice(table, totals)
    assert totals.tolist() == [0 + 2 * (1 + 2), 2 + 2 * (0 + 2), 4 + 2 * (0 + 1)]
