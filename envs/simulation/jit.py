"""How kernels are compiled: once, cached on disk, without checks for division by zero, releasing the GIL."""

from collections.abc import Callable
from typing import ParamSpec, TypeVar, cast

import numba

P = ParamSpec("P")
R = TypeVar("R")


def jit(function: Callable[P, R]) -> Callable[P, R]:
    """Compile a kernel on its first call; `NUMBA_DISABLE_JIT=1` leaves it plain Python."""
    return cast(Callable[P, R], numba.njit(cache=True, error_model="numpy", nogil=True)(function))
