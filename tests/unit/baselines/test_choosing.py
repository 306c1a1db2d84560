"""The integer program against enumeration, the greedy choice, and the counters."""

from itertools import product

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from baselines.parts import choosing
from baselines.parts.choosing import SizeChoice, Solver
from baselines.parts.options import Options, greedy


@st.composite
def problems(draw):
    """Draw up to 4 jobs with up to 4 options each on up to 2 types: the options and the capacity."""
    num_jobs, num_types = draw(st.integers(1, 4)), draw(st.integers(1, 2))
    rows = [
        (job, draw(st.integers(0, num_types - 1)), draw(st.integers(1, 6)), draw(st.floats(-5.0, 5.0)))
        for job in range(num_jobs)
        for _ in range(draw(st.integers(0, 4)))
    ]
    idle = np.array([draw(st.floats(-2.0, 8.0)) for _ in range(num_jobs)])
    whole = np.array([row[:3] for row in rows], dtype=np.int64).reshape(-1, 3)
    cost = np.array([row[3] for row in rows], dtype=np.float64)
    capacity = np.array([draw(st.integers(0, 8)) for _ in range(num_types)])
    return Options(whole[:, 0], whole[:, 1], whole[:, 2], cost, idle), capacity


def cost_slowly(options: Options, chosen: tuple[int, ...]) -> float:
    """Return the cost of a choice, job by job."""
    return sum(float(options.idle[job] if pick < 0 else options.cost[pick]) for job, pick in enumerate(chosen))


def fits(options: Options, chosen: tuple[int, ...], capacity: np.ndarray) -> bool:
    """Whether a choice takes at most the capacity, and each job has one of its own options."""
    used = np.zeros(len(capacity), np.int64)
    for job, pick in enumerate(chosen):
        if pick >= 0:
            assert options.job[pick] == job
            used[options.gpu_type[pick]] += options.num_gpus[pick]
    return bool((used <= capacity).all())


@given(problem=problems())
def test_the_program_finds_the_cheapest_of_all_choices(problem):
    options, capacity = problem
    found = Solver("test").choose(options, capacity)
    mine = [[-1, *np.flatnonzero(options.job == job).tolist()] for job in range(len(options.idle))]
    best = min(cost_slowly(options, chosen) for chosen in product(*mine) if fits(options, chosen, capacity))
    chosen = tuple(found.chosen.tolist())
    assert found.solved
    assert fits(options, chosen, capacity)
    assert cost_slowly(options, chosen) == pytest.approx(best, abs=1e-3 * (1 + abs(best)))
    assert options.total(found.chosen) == pytest.approx(cost_slowly(options, chosen))


@given(problem=problems())
def test_the_greedy_choice_fits_and_costs_no_more_than_nothing(problem):
    options, capacity = problem
    chosen = greedy(options, capacity)
    assert fits(options, tuple(chosen.tolist()), capacity)
    assert options.total(chosen) <= options.idle.sum() + 1e-9


def two_jobs() -> Options:
    """Two jobs that need one GPU each; the second saves more."""
    return Options(np.array([0, 1]), np.array([0, 0]), np.array([1, 1]), np.array([0.0, 0.0]), np.array([1.0, 2.0]))


@pytest.fixture
def _without_shortcut(monkeypatch):
    """Leave all programs to the solver, also those with a single best choice."""
    monkeypatch.setattr(choosing, "unique_choice", lambda *arguments: None)


def stopped_with(answer):
    """A program that its time limit stops."""
    return lambda *arguments: answer


@pytest.mark.usefixtures("_without_shortcut")
def test_the_greedy_choice_replaces_a_missing_answer(monkeypatch):
    monkeypatch.setattr(choosing, "_program", stopped_with(None))
    solver = Solver("test")
    found = solver.choose(two_jobs(), np.array([1]))
    assert (found.chosen.tolist(), found.solved) == ([-1, 1], False)
    told = {"programs": 1, "reduced_programs": 0, "stopped_programs": 1, "greedy_choices": 1, "worst_gap_ppm": 0}
    assert solver.counters == told


@pytest.mark.usefixtures("_without_shortcut")
@pytest.mark.parametrize(("stopped_at", "kept", "greedy_choices"), [([0, -1], [-1, 1], 1), ([-1, 1], [-1, 1], 0)])
def test_the_better_of_a_stopped_and_a_greedy_choice_is_taken(stopped_at, kept, greedy_choices, monkeypatch):
    monkeypatch.setattr(choosing, "_program", stopped_with(SizeChoice(np.array(stopped_at), False, 0.25)))
    solver = Solver("test")
    assert solver.choose(two_jobs(), np.array([1])).chosen.tolist() == kept
    assert solver.counters["greedy_choices"] == greedy_choices
    assert solver.counters["worst_gap_ppm"] == 250_000
    solver.forget()
    assert set(solver.counters.values()) == {0}


@pytest.mark.usefixtures("_without_shortcut")
def test_the_limit_of_nodes_reaches_the_solver_and_a_stopped_program_keeps_its_best(monkeypatch):
    asked = {}

    def solver(cost, *, integrality, bounds, constraints, options):
        asked.update(options)
        return type("Stopped", (), {"status": 1, "x": np.array([0.0, 1.0]), "mip_gap": 0.5})

    monkeypatch.setattr(choosing, "milp", solver)
    ours = Solver("test", 125, gap=0.01)
    assert ours.choose(two_jobs(), np.array([1])).chosen.tolist() == [-1, 1]
    assert asked == {"node_limit": 125, "mip_rel_gap": 0.01}
    assert (ours.counters["stopped_programs"], ours.counters["greedy_choices"]) == (1, 0)


def test_programs_with_expected_ties_go_to_the_solver_at_once(monkeypatch):
    monkeypatch.setattr(choosing, "unique_choice", None)
    assert Solver("test", expect_ties=True).choose(two_jobs(), np.array([1])).chosen.tolist() == [-1, 1]


def test_without_options_no_program_is_solved():
    none = np.zeros(0, np.int64)
    empty = Options(none, none, none, np.zeros(0), np.array([1.0, 1.0]))
    solver = Solver("test")
    assert solver.choose(empty, np.array([4])).chosen.tolist() == [-1, -1]
    assert solver.counters["programs"] == 0
