"""What HiGHS prints stays away from the terminal; what others print does not."""

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

from baselines.parts.highs import NOISE, milp, quiet

LIBC = ctypes.CDLL(None)


def test_the_solver_is_scipys():
    """The most valuable two of three things of sizes 2, 2, 3 in a room of 4."""
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


def test_noise_is_dropped_and_all_else_passed_on_in_order(capfd):
    os.write(1, b"before\n")
    with quiet():
        LIBC.printf(NOISE + b"transformNewIntegerFeasibleSolution tmpSolver.run();\n")
        LIBC.printf(b"a word in C\n")
        os.write(1, b"beside\n")
    os.write(1, b"after\n")
    out = capfd.readouterr().out
    assert sorted(out.split("\n")) == sorted(["", "before", "beside", "a word in C", "after"])
    assert (out.index("before"), out.index("after")) == (0, len(out) - len("after\n"))


def test_what_c_has_held_back_before_is_not_lost(capfd):
    LIBC.printf(b"held back\n")
    with quiet():
        pass
    assert capfd.readouterr().out == "held back\n"


def test_an_error_within_leaves_standard_output_as_it_was(capfd):
    with pytest.raises(ZeroDivisionError), quiet():
        raise ZeroDivisionError
    os.write(1, b"still there\n")
    assert capfd.readouterr().out == "still there\n"


def test_threads_wait_for_each_other(capfd):
    """Fifty spells in each of four threads: every line comes out, once."""

    def talk(name: int) -> None:
        for spell in range(50):
            with quiet():
                os.write(1, f"{name} {spell}\n".encode())

    threads = [threading.Thread(target=talk, args=(name,)) for name in range(4)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    expected = sorted(f"{name} {spell}" for name in range(4) for spell in range(50))
    assert sorted(capfd.readouterr().out.splitlines()) == expected


@pytest.mark.parametrize("missing", ["TemporaryFile", "dup"])
def test_where_nothing_can_be_kept_it_goes_on_aloud(missing, monkeypatch, capfd):
    def refuse(*_: object) -> None:
        raise OSError

    monkeypatch.setattr(tempfile if missing == "TemporaryFile" else os, missing, refuse)
    with quiet():
        os.write(1, b"aloud\n")
    monkeypatch.undo()
    assert capfd.readouterr().out == "aloud\n"


def test_a_program_that_makes_highs_print_is_quiet():
    """In a process of its own, so that nothing that C holds back is missed: a program for which SciPy alone prints."""
    line = "from tests.unit.baselines.test_highs import loud; loud({})"
    aloud, silent = (
        subprocess.run([sys.executable, "-c", line.format(own)], capture_output=True, check=True, timeout=60)
        for own in (False, True)
    )
    assert silent.stdout == b""
    assert NOISE in aloud.stdout, "HiGHS is quiet by itself now: SciPy's milp will do instead of ours"


def loud(own: bool) -> None:
    """Twelve things to have of six sizes each, in three rooms, chosen by our function or by SciPy's."""
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
