"""How kernels are compiled: once, cached on disk, without checks for division by zero, releasing the GIL."""

import inspect
from collections.abc import Callable
from pathlib import Path
from typing import Any, ParamSpec, TypeVar, cast

import numba

P = ParamSpec("P")
R = TypeVar("R")

_sources: dict[str, tuple[float, int]] = {}  # files of all kernels so far: when and how large they were written


def jit(function: Callable[P, R]) -> Callable[P, R]:
    """Compile a kernel on its first call; `NUMBA_DISABLE_JIT=1` leaves it plain Python."""
    compiled = numba.njit(cache=True, error_model="numpy", nogil=True)(function)
    _outdate_with_sources(compiled, inspect.getfile(function))
    return cast(Callable[P, R], compiled)


def _outdate_with_sources(compiled: Any, path: str) -> None:
    """Let a kernel's cache expire when a file that it may call into changes.

    Numba looks at the kernel's own file only, so callers in other files would go on with the old callee compiled into
    them. What a kernel calls was compiled before it, so the files seen so far cover it.
    """
    stat = Path(path).stat()
    _sources[path] = (stat.st_mtime, stat.st_size)
    cache_file = getattr(getattr(compiled, "_cache", None), "_cache_file", None)
    if cache_file is not None:
        cache_file._source_stamp = tuple(sorted(_sources.items()))
