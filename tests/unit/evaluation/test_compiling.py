"""The column that says what is being compiled."""

import io
import re
from typing import Any

import numba
import pytest
from numba.core.event import end_event, start_event
from rich.progress import Progress

from envs.evaluation.compiling import CompilingColumn, telling_compilations
from envs.pictures.texts import TextConsole
from envs.simulation.compiled.jit import COMPILES


def shown(bar):
    """The text of a bar that has one task."""
    page = io.StringIO()
    TextConsole(page, width=80).print(bar.make_tasks_table(bar.tasks))
    return page.getvalue().strip()


def test_a_column_counts_functions_while_they_are_compiled():
    bar = Progress(CompilingColumn(), auto_refresh=False)
    bar.add_task("play")
    assert not shown(bar)
    start_event("numba:compile")
    before = counted(bar)
    start_event("numba:compile")
    assert counted(bar) == before
    end_event("numba:compile")
    assert counted(bar) == before + 1
    end_event("numba:compile")
    assert not shown(bar)


def test_one_line_says_what_is_compiled_and_one_how_much_it_was(monkeypatch):
    told: list[str] = []
    announced: list[Any] = []
    monkeypatch.setattr("envs.evaluation.compiling.on_first_compilation", announced.append)
    with telling_compilations(["srtf", "starling"], told.append):
        for event in (announced[0], start_event, start_event, end_event, end_event):
            event(*["numba:compile"] if event in (start_event, end_event) else [])
            assert len(told) == 1
    assert told[0].startswith("compiling what srtf, starling need: once, about a minute")
    assert re.fullmatch(r"compiled 2 functions in \d+ s; they are kept", told[1])
    with telling_compilations(["srtf"], told.append):
        pass
    assert len(told) == 2, "nothing was compiled"


@pytest.mark.skipif(not COMPILES, reason="nothing is compiled")
def test_functions_that_numba_compiles_are_counted():
    bar = Progress(CompilingColumn(), auto_refresh=False)
    bar.add_task("play")
    numbers = []
    for _ in range(2):
        start_event("numba:compile")
        numbers.append(counted(bar))
        end_event("numba:compile")
        numba.njit(lambda a: a + 1)(1)
    assert numbers[1] >= numbers[0] + 2  # one of ours, and the lambda


def counted(bar):
    """The number in the column's text."""
    found = re.fullmatch(r"compiling: (\d+) functions", shown(bar))
    assert found
    return int(found[1])
