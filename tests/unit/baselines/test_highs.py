"""HiGHS's debug lines are removed from standard output; other output is kept."""

import ctypes
import os
import subprocess
import sys
import tempfile
import threading
from typing import Any

import numpy as np
import pytest
import scipy.optimize
from scipy.optimize import Bounds, LinearConstraint

from baselines.parts.highs import DEBUG_PREFIX, milp, quiet

LIBC = ctypes.CDLL(None)


def test_the_result_is_scipys():
    """A knapsack of capacity 4 with items of sizes 2, 2, 3: the first two are the most valuable choice."""
    found = milp(
        np.array([-2.0, -2.0, -3.0]),
        integrality=np.ones(3, np.int64),
        bounds=Bounds(0.0, 1.0),
        constraints=[LinearConstraint(np.array([[2.0, 2.0, 3.0]]), -np.inf, 4.0)],
        options={"mip_rel_gap": 0.0},
    )
    assert (found.status, found.x.round().tolist()) == (0, [1.0, 1.0, 0.0])


def test_without_integrality_it_is_a_linear_program():
    room = LinearConstraint(np.array([[2.0]]), -np.inf, 1.0)
    found = milp(np.array([-1.0]), bounds=Bounds(0.0, 1.0), constraints=[room], options={})
    assert found.x.tolist() == [0.5]


def test_debug_lines_are_dropped_and_other_output_is_kept(capfd):
    os.write(1, b"before\n")
    with quiet():
        LIBC.printf(DEBUG_PREFIX + b"transformNewIntegerFeasibleSolution tmpSolver.run();\n")
        LIBC.printf(b"a word in C\n")
        os.write(1, b"beside\n")
    os.write(1, b"after\n")
    out = capfd.readouterr().out
    assert sorted(out.split("\n")) == sorted(["", "before", "beside", "a word in C", "after"])
    assert (out.index("before"), out.index("after")) == (0, len(out) - len("after\n"))


def test_output_buffered_by_c_is_not_lost(capfd):
    LIBC.printf(b"held back\n")
    with quiet():
        pass
    assert capfd.readouterr().out == "held back\n"


def test_an_error_restores_standard_output(capfd):
    with pytest.raises(ZeroDivisionError), quiet():
        raise ZeroDivisionError
    os.write(1, b"still there\n")
    assert capfd.readouterr().out == "still there\n"


def test_threads_wait_for_each_other(capfd):
    """Fifty blocks in each of four threads: every line is written exactly once."""

    def write_lines(name: int) -> None:
        for block in range(50):
            with quiet():
                os.write(1, f"{name} {block}\n".encode())

    threads = [threading.Thread(target=write_lines, args=(name,)) for name in range(4)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    expected = sorted(f"{name} {block}" for name in range(4) for block in range(50))
    assert sorted(capfd.readouterr().out.splitlines()) == expected


@pytest.mark.parametrize("missing", ["TemporaryFile", "dup"])
def test_without_a_temporary_file_output_is_not_filtered(missing, monkeypatch, capfd):
    def refuse(*_: object) -> None:
        raise OSError

    monkeypatch.setattr(tempfile if missing == "TemporaryFile" else os, missing, refuse)
    with quiet():
        os.write(1, b"aloud\n")
    monkeypatch.undo()
    assert capfd.readouterr().out == "aloud\n"


def test_a_program_that_makes_highs_print_is_quiet():
    """In a separate process, so that C's buffers are flushed: a program for which SciPy's own function prints."""
    line = "from tests.unit.baselines.test_highs import loud; loud({})"
    aloud, silent = (
        subprocess.run([sys.executable, "-c", line.format(own)], capture_output=True, check=True, timeout=600)
        for own in (False, True)
    )
    assert silent.stdout == b""
    assert DEBUG_PREFIX in aloud.stdout, "HiGHS no longer prints debug lines: use SciPy's milp instead of ours"


def loud(own: bool) -> None:
    """Choose one of six sizes for each of twelve items in three knapsacks, by our function or by SciPy's."""
    rng = np.random.default_rng(9)
    owner, columns = np.repeat(np.arange(12), 6), np.arange(72)
    size = rng.integers(1, 17, 72)
    worth = 1.1 - (size * rng.random(72) + 0.2) ** -0.5
    rows = np.zeros((15, 72))
    rows[owner, columns] = 1
    rows[12 + rng.integers(0, 3, 72), columns] = size
    solve: Any = milp if own else scipy.optimize.milp
    solve(
        -worth,
        integrality=np.ones(72, np.int64),
        bounds=Bounds(0.0, 1.0),
        constraints=[LinearConstraint(rows, -np.inf, np.array([1.0] * 12 + [30.0, 40.0, 50.0]))],
        options={"mip_rel_gap": 1e-6},
    )
