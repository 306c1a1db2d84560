"""Classes of equal rows are those of NumPy."""

import numpy as np
from hypothesis import given
from hypothesis import strategies as st

from envs.workloads.classes import classes_of


@given(rows=st.lists(st.tuples(*[st.integers(-2, 3), st.just(7), st.integers(0, 2**62)]), min_size=1, max_size=20))
def test_classes_are_those_of_numpy(rows):
    """Also with a constant column, and with numbers whose product is out of range."""
    table = np.array([*rows, rows[0]], np.int64)
    distinct, which = classes_of(table)
    expected, places = np.unique(table, axis=0, return_inverse=True)
    assert np.array_equal(distinct, expected)
    assert np.array_equal(which, places.ravel())


def test_without_rows_there_are_no_classes():
    distinct, which = classes_of(np.zeros((0, 3), np.int64))
    assert (distinct.shape, which.shape) == ((0, 3), (0,))
