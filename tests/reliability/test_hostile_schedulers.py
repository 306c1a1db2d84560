"""Schedulers that return, raise, change or keep anything: each works or costs its own row, in one line."""

import math
import warnings
from typing import Any

import numpy as np
import pytest
from hypothesis import example, given
from hypothesis import strategies as st

from baselines import Fifo, Las
from envs.evaluation import compare_schedulers
from envs.evaluation.failure import LONGEST
from envs.simulation import Scenario, Setup
from envs.types import AllocationError, ExecutionPlan, MurmurationError, Placement
from murmuration.config.errors import one_line_errors
from tests.unit.simulation.bench import Bench
from tests.unit.simulation.plays import cluster_of, jobs_of

SETUP = Setup(cluster_of(4, 4), Bench(), Scenario(cpu_memory="shared", restart_delay=3.0))
WORKLOADS = [
    jobs_of((0, 4, 40), (3, 2, 40), (5, 8, 40), (5, 1, 9), (9, 4, 20), model="vgg16"),
    jobs_of((0, 2, 9), (1, 3, 30), (2, 1, 5), model="vgg16"),
]
HUGE = [2**31, 2**63 - 1, 2**63, 2**70, -(2**70), 10**400]
ODD = [
    math.nan,
    math.inf,
    -math.inf,
    -0.0,
    2.5,
    1e308,
    True,
    None,
    "abc",
    "",
    b"x",
    (),
    [],
    {},
    [1],
    {"a": 5},
    object(),
]
ARRAYS = [np.array([], np.int64), np.array(2), np.int8(1), np.float32(1), np.array([1.5]), np.datetime64("NaT")]
NUMBERS = st.one_of(st.integers(-2, 9), st.sampled_from(HUGE))
ANYTHING = st.one_of(NUMBERS, st.sampled_from(ODD), st.sampled_from(ARRAYS))
BY_NODE = st.one_of(ANYTHING, st.dictionaries(NUMBERS, ANYTHING, max_size=3))
PLACEMENTS = st.builds(
    Placement,
    gpus=st.one_of(BY_NODE, st.dictionaries(st.integers(0, 1), st.integers(1, 4), max_size=2)),
    cpus=st.one_of(st.none(), BY_NODE),
    memory=st.one_of(st.none(), BY_NODE),
    plan=st.one_of(st.none(), st.just(ExecutionPlan()), ANYTHING),
    batch_size=st.one_of(st.none(), ANYTHING),
)
JOBS = st.one_of(st.integers(0, 4), NUMBERS, st.sampled_from([math.nan, 1.0, 0.5, "0", None, (0,), np.int64(0)]))


class UnspeakableError(Exception):
    """An error that cannot say what it is."""

    def __str__(self) -> str:
        raise ValueError("no")


RAISED = [
    SystemExit(0),
    SystemExit("over\nand out"),
    GeneratorExit(),
    StopIteration(),
    StopAsyncIteration(),
    RecursionError("deep"),
    MemoryError(),
    AssertionError("x" * 10_000),
    OSError(28, "No space left on device"),
    UnspeakableError(),
    ExceptionGroup("two\nerrors", [ValueError("a"), KeyError("b")]),
    AllocationError("not\nthis"),
    MurmurationError("mine"),
    UnicodeDecodeError("utf-8", b"\xff", 0, 1, "no"),
]


class Hostile:
    """FIFO that does something else in one round of each episode, and remembers the views and allocations it had."""

    def __init__(self, act, after: int) -> None:
        self.act, self.after, self.fifo = act, after, Fifo("skip")
        self.seen: list[Any] = []

    def reset(self, cluster, rng) -> None:
        """Begin an episode."""
        self.rounds = 0
        self.fifo.reset(cluster, rng)

    def schedule(self, view):
        """Decide as FIFO, or do the other thing."""
        self.rounds += 1
        self.seen.append((view, self.fifo.schedule(view)))
        return self.act(self, view) if self.rounds == self.after else self.seen[-1][1]


def figures(schedulers):
    """What a comparison says of schedulers that do nothing unusual, to the bit."""
    found = compare_schedulers(schedulers, WORKLOADS, SETUP, resamples=10)
    return {name: [played(run) for run in found.runs[name]] for name in HONEST}, found


def played(run):
    """All that a run says, to the bit."""
    return run.records.tobytes(), run.log.events.tobytes()


HONEST = ("fifo", "las")
UNDISTURBED = figures({"fifo": Fifo(), "las": Las()})[0]


def harmless(act, after=2):
    """Check that a hostile scheduler works, or fails in one line, and that the others, before and after it, do not."""
    hostile = Hostile(act, after)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # such as a cast of NaN, which is refused afterwards
        runs, found = figures({"fifo": Fifo(), "hostile": hostile, "las": Las()})
    assert runs == UNDISTURBED
    assert ("hostile" in found.runs) != ("hostile" in found.failures)
    for failure in found.failures.values():
        assert "\n" not in str(failure)
        assert 0 < len(failure.message) < LONGEST + 100
        assert failure.trace()
    return found


@given(ANYTHING, st.integers(1, 3))
@example(iter(()), 1)
@example(Fifo, 1)
def test_anything_is_returned(value, after):
    assert "hostile" in harmless(lambda *_: value, after).failures


@pytest.mark.parametrize("error", RAISED, ids=lambda error: type(error).__name__)
def test_anything_is_raised(error):
    def act(*_):
        raise error

    assert "hostile" in harmless(act).failures


def test_an_endless_recursion_is_one_line():
    def act(hostile, view):
        return act(hostile, view)

    assert "RecursionError" in harmless(act).failures["hostile"].message


def test_an_interrupt_ends_the_comparison_in_one_line(capsys):
    """Ctrl-C cannot be told from a scheduler that raises the same error."""

    def act(*_):
        raise KeyboardInterrupt

    with pytest.raises(SystemExit) as ended, one_line_errors():
        compare_schedulers({"hostile": Hostile(act, 1), "fifo": Fifo()}, WORKLOADS, SETUP)
    assert ended.value.code == 130
    assert capsys.readouterr().err == "interrupted\n"


@pytest.mark.parametrize("error", [SystemExit(3), GeneratorExit(), MemoryError()])
def test_the_only_scheduler_cannot_end_the_process(error):
    def act(*_):
        raise error

    with pytest.raises((MurmurationError, MemoryError)) as raised:
        compare_schedulers({"hostile": Hostile(act, 1)}, WORKLOADS, SETUP)
    assert "\n" not in str(raised.value)


@given(st.dictionaries(JOBS, st.one_of(PLACEMENTS, ANYTHING), max_size=3), st.booleans(), st.integers(1, 3))
@example({0: Placement({0: 2}), True: Placement({1: 2})}, False, 1)
def test_any_changes_are_requested(changes, keep_running, after):
    def act(_, view):
        allocation = view.allocation(keep_running=keep_running)
        allocation.changes = changes
        return allocation

    harmless(act, after)


@given(
    st.sampled_from(["place", "stop", "keep", "pack"]),
    JOBS,
    st.one_of(PLACEMENTS, BY_NODE),
    st.one_of(
        st.just({}), st.fixed_dictionaries({"gpu_types": ANYTHING}), st.fixed_dictionaries({"scatter": ANYTHING})
    ),
    st.booleans(),
)
def test_the_builder_gets_anything(method, job, value, options, keep_running):
    def act(_, view):
        allocation = view.allocation(keep_running=keep_running)
        arguments = {"place": (job, value), "stop": (job,), "keep": (job,), "pack": (job, value)}[method]
        getattr(allocation, method)(*arguments, **(options if method == "pack" else {}))
        return allocation

    harmless(act)


@given(
    st.sampled_from(["next_decision", "changes", "keep_running", "free_gpus", "cluster", "_running", "_prefer"]),
    st.one_of(ANYTHING, st.just(iter([(0, None)]))),
)
def test_an_allocation_is_filled_with_anything(name, value):
    def act(hostile, view):
        allocation = hostile.seen[-1][1]
        setattr(allocation, name, value)
        return allocation

    harmless(act)


def spoil(thing, depth=3, known=None):
    """Try to change everything that public attributes lead to, as a careless scheduler might."""
    known = set() if known is None else known
    if depth == 0 or id(thing) in known or isinstance(thing, str | int | float | bytes | type | None):
        return
    known.add(id(thing))
    for change in (
        lambda: thing.setflags(write=True),
        lambda: thing.fill(7),
        lambda: thing.__setitem__(slice(None), 7),
        lambda: thing.clear(),
        lambda: thing.sort(reverse=True),
        lambda: thing.append(7),
    ):
        attempt(change)
    for name in dir(thing):
        if not name.startswith("_") and name != "base":
            value = attempt(lambda name=name: getattr(thing, name))
            if not callable(value):
                spoil(value, depth - 1, known)
                attempt(lambda name=name: setattr(thing, name, None))
    if isinstance(thing, list | tuple | dict):
        for value in list(thing.values() if isinstance(thing, dict) else thing)[:4]:
            spoil(value, depth - 1, known)


def attempt(change):
    try:
        return change()
    except Exception:
        return None


def test_everything_that_a_view_shows_is_overwritten():
    def act(_, view):
        allocation = view.allocation(keep_running=True)
        spoil(view)
        return allocation

    harmless(act)


def test_a_snapshot_and_what_it_leads_to_are_overwritten():
    def act(hostile, view):
        spoil(view.snapshot())
        return hostile.seen[-1][1]

    harmless(act)


def test_views_and_allocations_of_earlier_rounds_and_episodes_are_used():
    """They are of another time or another workload, so that what they offer may be refused, but harms nothing."""

    def act(hostile, view):
        for earlier, _ in hostile.seen:
            attempt(lambda earlier=earlier: hostile.fifo.schedule(earlier))
            attempt(lambda earlier=earlier: earlier.snapshot().advance())
        return hostile.seen[0][1]

    for after in (1, 2, 4):
        harmless(act, after)
