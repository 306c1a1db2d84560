"""HiGHS, the solver of mixed-integer programs, without its debug output.

The HiGHS in SciPy 1.15 to 1.17 writes a debug line to the process's standard output whenever it repairs a solution that
is out of bounds by rounding (`HighsMipSolverData::transformNewIntegerFeasibleSolution`). It is a plain `printf` in C,
which no option of `milp` turns off, with or without presolve.
"""

import ctypes
import os
import tempfile
import threading
from collections.abc import Iterator, Sequence
from contextlib import ExitStack, contextmanager
from typing import Any

import numpy as np
from scipy.optimize import Bounds, LinearConstraint, linprog
from scipy.optimize import milp as scipy_milp

from envs.types import FloatArray, IntArray

DEBUG_PREFIX = b"HighsMipSolverData::"  # each debug line begins with it
STDOUT = 1  # the file descriptor that C writes to, also if Python's sys.stdout is redirected

_alone = threading.Lock()  # two threads at once would restore each other's redirection


def milp(
    cost: FloatArray,
    *,
    bounds: Bounds,
    constraints: Sequence[LinearConstraint],
    integrality: IntArray | None = None,
    options: dict[str, float],
) -> Any:
    """Run `scipy.optimize.milp` without debug output.

    Args:
        cost: float64[num_columns], to be minimised.
        bounds: bounds of the columns.
        constraints: linear constraints.
        integrality: int64[num_columns], 1 for an integer column; None if no column is integer.
        options: options of SciPy's function, such as node_limit and mip_rel_gap.

    Returns:
        SciPy's result; `x` is None if no solution was found.
    """
    whole = np.zeros(len(cost), np.int64) if integrality is None else integrality
    solve: Any = scipy_milp  # its type stubs require their own TypedDict
    with quiet():
        return solve(cost, integrality=whole, bounds=bounds, constraints=constraints, options=options)


ITERATION_LIMIT = 100_000  # simplex iterations of a linear program; a guard, far above what usual programs need


def solve_linear(
    cost: FloatArray, rows: Any, limits: FloatArray, *, iteration_limit: int = ITERATION_LIMIT
) -> FloatArray | None:
    """Minimise cost @ x with rows @ x <= limits and x >= 0.

    Args:
        cost: float64[num_columns].
        rows: [num_rows, num_columns], dense or sparse.
        limits: float64[num_rows].
        iteration_limit: simplex iterations; a limit of work instead of time makes the answer the same on any machine.

    Returns:
        float64[num_columns]; None if the program was not solved within the limit.
    """
    found = linprog(cost, A_ub=rows, b_ub=limits, bounds=(0.0, None), options={"maxiter": iteration_limit})
    return found.x if found.status == 0 else None


@contextmanager
def quiet() -> Iterator[None]:
    """Remove HiGHS's debug lines from standard output; other output of the block is written at its end.

    Nothing is changed if standard output is closed, if no temporary file can be created, or if C's buffers cannot be
    flushed.
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
    """Write all lines except debug lines to standard output."""
    left = b"".join(line for line in written.splitlines(keepends=True) if not line.startswith(DEBUG_PREFIX))
    while left:
        left = left[os.write(STDOUT, left) :]
