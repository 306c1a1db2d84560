"""Arrays that nobody can write: not through the array, nor through its base."""

from typing import Any, TypeVar

import numpy as np
import numpy.typing as npt

Array = TypeVar("Array", bound=npt.NDArray[Any])


def seal(array: Array) -> Array:
    """Return a read-only copy whose memory belongs to an immutable object; a sealed array is returned as it is.

    NumPy lets the owner of memory make a read-only array writable again. Here the owner is a `bytes` object.
    """
    if isinstance(array.base, bytes) and not array.flags.writeable:
        return array
    sealed: Any = np.frombuffer(array.tobytes(), array.dtype).reshape(array.shape)
    return sealed  # type: ignore[no-any-return]


class _Window:
    """Read-only memory of the first rows of an array, for NumPy's array interface."""

    def __init__(self, rows: npt.NDArray[Any], count: int) -> None:
        self._engine_side = rows  # keeps the memory alive
        address = rows.__array_interface__["data"][0]
        self.__array_interface__ = {
            "shape": (count,),
            "typestr": rows.dtype.str,
            "data": (address, True),
            "version": 3,
        }


class SealedColumn:
    """A column of an array, of which only the first rows may be seen: a copy that grows with their number.

    Args:
        column: the column; its first rows do not change once they have been seen.
    """

    def __init__(self, column: npt.NDArray[Any]) -> None:
        self._engine_side = column
        self._rows = np.empty(0, column.dtype)
        self._shown: npt.NDArray[Any] = self._rows

    def first(self, count: int) -> npt.NDArray[Any]:
        """Return the first rows, read-only; neither the array nor its base gives access to later rows."""
        if count != len(self._shown):
            seen = len(self._shown)
            if count < seen or count > len(self._rows):
                seen, self._rows = 0, np.zeros(max(64, 2 * count), self._engine_side.dtype)
            self._rows[seen:count] = self._engine_side[seen:count]
            self._shown = np.asarray(_Window(self._rows, count))
        return self._shown
