"""Tuples that compiled functions refer to by their address behave like those that numba copies."""

from typing import Any, NamedTuple

import numpy as np
import pytest

from envs.simulation.compiled.by_reference import by_reference, copy_fields
from envs.simulation.compiled.jit import inlined, jit, kernel, leaf, part


@by_reference
class Inner(NamedTuple):
    amounts: Any
    number: int


@by_reference
class Outer(NamedTuple):
    inner: Inner
    weights: Any


class Copied(NamedTuple):
    amounts: Any
    number: int


@leaf
def dot(a, b):
    total = 0.0
    for i in range(len(a)):
        total += a[i] * b[i]
    return total


class Mixed(NamedTuple):
    """A tuple that numba copies around one that it does not."""

    inner: Inner
    factor: float


@leaf
def mixed_row(batch, b):
    return Mixed(Inner(batch.inner.amounts[b], batch.inner.number), 0.5)


@kernel
def weigh_mixed(batch, totals):
    for b in range(len(totals)):
        mixed = mixed_row(batch, b)
        totals[b] = mixed.factor * dot(mixed.inner.amounts, batch.weights)


@leaf
def row_of(batch, b):
    """A result that is made of two tuples, in the memory of another function."""
    return Outer(Inner(batch.inner.amounts[b], batch.inner.number + b), batch.weights)


@part
def weigh(one, two):
    one.inner.amounts[0] += 100.0
    return dot(one.inner.amounts, two.weights) + one.inner.number


@kernel
def weigh_all(batch, totals):
    """Each turn of the loop makes its tuple in the same memory."""
    batch = copy_fields(batch)
    for b in range(len(totals)):
        row = row_of(batch, b)
        totals[b] = weigh(row, row_of(batch, 0))


@jit
def doubled(inner):
    """Code that allocates, and returns a tuple to Python's side of a call."""
    return 2 * inner.amounts, inner.number


@inlined
def sum_row(inner, total):
    for amount in inner.amounts:
        total[0] += amount
    return inner.number


@jit
def sum_rows(batch):
    """Numba lets go of what `inner` holds before each turn of the loop, and nothing before the first."""
    total, numbers = np.zeros(1), 0
    for b in range(len(batch.inner.amounts)):
        inner = Inner(batch.inner.amounts[b] + 0.5, batch.inner.number + b)
        numbers += sum_row(inner, total)
        total[0] += len(inner.amounts)
    return total[0], numbers


@kernel
def sum_copied(copied):
    return dot(copied.amounts, copied.amounts) + copied.number


@pytest.fixture
def batch():
    return Outer(Inner(np.arange(6.0).reshape(3, 2), 7), np.array([1.0, 10.0]))


def test_rows_of_a_batch_are_passed_returned_and_written_through(batch):
    totals = np.zeros(3)
    weigh_all(batch, totals)
    assert totals.tolist() == [100 + 10 + 7, 102 + 30 + 8, 104 + 50 + 9]
    assert batch.inner.amounts[:, 0].tolist() == [100, 102, 104]


def test_a_copied_tuple_may_hold_one_that_is_referred_to(batch):
    totals = np.zeros(3)
    weigh_mixed(batch, totals)
    assert totals.tolist() == [5, 16, 27]


def test_code_that_allocates_reads_such_tuples(batch):
    amounts, number = doubled(batch.inner)
    assert amounts.tolist() == [[0, 2], [4, 6], [8, 10]]
    assert number == 7


def test_code_that_allocates_makes_such_tuples_turn_by_turn(batch):
    """The arrays of a row belong to its tuple alone."""
    assert sum_rows(batch) == (15 + 6 * 0.5 + 3 * 2, 7 + 8 + 9)


def test_other_tuples_are_passed_as_before():
    assert sum_copied(Copied(np.array([3.0, 4.0]), 5)) == 30
