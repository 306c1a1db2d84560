"""HiGHS, the solver of mixed-integer programs, without what it prints.

The HiGHS in SciPy 1.15 to 1.17 writes a debug line to the process's standard output whenever it repairs a solution that
rounding has put out of bounds (`HighsMipSolverData::transformNewIntegerFeasibleSolution`): a plain `printf` in C, which
no option of `milp` turns off, presolve or not.
"""

import ctypes
import os
import tempfile
import threading
from collections.abc import Iterator, Sequence
from contextlib import ExitStack, contextmanager
from typing import Any

import numpy as np
from scipy.optimize import Bounds, LinearConstraint
from scipy.optimize import milp as scipy_milp

from envs.types import FloatArray, IntArray

NOISE = b"HighsMipSolverData::"  # what the lines begin with
STDOUT = 1  # the file descriptor that C writes to, wherever Python's sys.stdout goes

_alone = threading.Lock()  # two threads would give back each other's output


def milp(
    cost: FloatArray,
    *,
    bounds: Bounds,
    constraints: Sequence[LinearConstraint],
    integrality: IntArray | None = None,
    options: dict[str, float],
) -> Any:
    """`scipy.optimize.milp`, quiet.

    Args:
        cost: float64[num_columns], to be minimised.
        bounds: of the columns.
        constraints: linear ones.
        integrality: int64[num_columns], 1 for a column that is to be whole; none is if None.
        options: of SciPy's function, such as time_limit and mip_rel_gap.

    Returns:
        SciPy's result; `x` is None where nothing was found.
    """
    whole = np.zeros(len(cost), np.int64) if integrality is None else integrality
    solve: Any = scipy_milp  # its type stubs want a TypedDict of their own
    with quiet():
        return solve(cost, integrality=whole, bounds=bounds, constraints=constraints, options=options)


@contextmanager
def quiet() -> Iterator[None]:
    """Standard output of this process without HiGHS's lines; what else is written meanwhile comes at the end.

    Nothing is done where standard output is closed, nothing can be kept, or C cannot be told to write what it holds
    back.
    """
    with _alone, ExitStack() as closing:
        try:
            flush = ctypes.CDLL(None).fflush
            kept = closing.enter_context(tempfile.TemporaryFile())
            shown = os.dup(STDOUT)
        except (AttributeError, OSError, TypeError):
            yield
            return
        closing.callback(os.close, shown)
        flush(None)
        os.dup2(kept.fileno(), STDOUT)
        try:
            yield
        finally:
            flush(None)
            os.dup2(shown, STDOUT)
            kept.seek(0)
            _pass_on(kept.read())


def _pass_on(written: bytes) -> None:
    """Write what is not noise to standard output."""
    left = b"".join(line for line in written.splitlines(keepends=True) if not line.startswith(NOISE))
    while left:
        left = left[os.write(STDOUT, left) :]
