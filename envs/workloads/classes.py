"""Classes of equal rows."""

import numpy as np

from envs.types import IntArray


def classes_of(rows: IntArray) -> tuple[IntArray, IntArray]:
    """Return the distinct rows in ascending order, and the class of each row.

    The result is that of `np.unique` with axis 0, which compares whole rows and takes ten times as long for a million.

    Args:
        rows: int64[num_rows, num_columns].

    Returns:
        int64[num_classes, num_columns] and int64[num_rows].
    """
    which, first = np.zeros(len(rows), np.int64), np.zeros(min(1, len(rows)), np.int64)
    for column in rows.T:
        values, place = np.unique(column, return_inverse=True)
        if len(values) > 1:
            _, first, which = np.unique(which * len(values) + place, return_index=True, return_inverse=True)
    return rows[first], which
