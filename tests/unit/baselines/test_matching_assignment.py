"""Assignments: three clearing algorithms agree, and every job prefers what it gets at the prices."""

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from envs.types import MurmurationError
from papers.sampling_matching.clearing import clear_by_assignment, clear_by_paths, clear_by_prices

ALGORITHMS = (clear_by_prices, clear_by_assignment, clear_by_paths)


@st.composite
def assignments(draw):
    """Up to five jobs and four types, with or without ties and with or without unusable workers."""
    rng = np.random.default_rng(draw(st.integers(0, 100_000)))
    num_types = int(rng.integers(1, 5))
    supply = rng.integers(1, 5, num_types)
    jobs = int(rng.integers(1, min(5, supply.sum()) + 1))
    sizes = rng.multinomial(int(rng.integers(0, supply.sum() - jobs + 1)), np.full(jobs, 1 / jobs)) + 1
    values = rng.uniform(0, 10, (jobs, num_types))
    if draw(st.booleans()):
        values = np.round(values / 3)
    if draw(st.booleans()):
        values[rng.random(values.shape) < 0.2] = -np.inf
    return values, sizes, supply


def outcome(clear, problem):
    """The welfare, or None if the jobs cannot be served."""
    try:
        return clear(*problem).welfare
    except MurmurationError:
        return None


@given(assignments())
def test_three_algorithms_agree(problem):
    values, sizes, supply = problem
    welfares = [outcome(clear, problem) for clear in ALGORITHMS]
    if None in welfares:
        assert welfares == [None] * 3
        return
    assert welfares == pytest.approx([welfares[0]] * 3, rel=1e-9, abs=1e-9)
    for clear in ALGORITHMS:
        cleared = clear(*problem)
        assert (cleared.counts.sum(axis=1) == sizes).all()
        assert (cleared.counts.sum(axis=0) <= supply).all()
        assert (cleared.counts >= 0).all()
        assert np.isfinite(values[cleared.counts > 0]).all()


@pytest.mark.parametrize("clear", [clear_by_prices, clear_by_paths], ids=["prices", "paths"])
@given(assignments())
def test_every_job_gets_its_preferred_workers_at_the_prices(clear, problem):
    if outcome(clear, problem) is None:
        return
    values, _, supply = problem
    cleared = clear(*problem)
    gains = values - cleared.prices
    assert (cleared.prices >= 0).all()
    assert (cleared.prices[cleared.counts.sum(axis=0) < supply] == 0).all()
    for job, counts in enumerate(cleared.counts):
        assert gains[job][counts > 0].min() >= gains[job].max() - 1e-7


def test_a_contested_worker_rises_in_price():
    """Both want worker 0, which is worth 10 and 8 to them against 4 and 5 for worker 1. Job 1 changes to worker 1 at a
    price of 3 (8 - 3 = 5), before job 0 would at 6: job 0 gets worker 0, after one price rise."""
    values = np.array([[10.0, 4.0], [8.0, 5.0]])
    cleared = clear_by_prices(values, np.array([1, 1]), np.array([1, 1]))
    assert cleared.counts.tolist() == [[1, 0], [0, 1]]
    assert cleared.prices.tolist() == [3, 0]
    assert (cleared.welfare, cleared.raises) == (15, 1)


def test_a_job_that_wants_two_bids_for_both():
    """Job 0 takes two of three workers, job 1 one. Alone job 1 would take worker 0; job 0 loses 9 - 2 by giving it up,
    job 1 only 8 - 6: job 1 takes worker 1, and job 0 the first and the last."""
    values = np.array([[9.0, 1.0, 2.0], [8.0, 6.0, 0.0]])
    for clear in ALGORITHMS:
        assert clear(values, np.array([2, 1]), np.array([1, 1, 1])).counts.tolist() == [[1, 0, 1], [0, 1, 0]]


@pytest.mark.parametrize("clear", ALGORITHMS, ids=["prices", "assignment", "paths"])
@pytest.mark.parametrize(
    ("values", "sizes", "supply", "said"),
    [
        (np.ones((2, 2)), [1, 1], [1], "values have shape"),
        (np.ones((1, 2)), [3], [1, 1], "jobs want 3 workers, there are 2"),
        (np.array([[1.0, -np.inf]]), [2], [1, 1], "no prices serve all jobs"),
        (np.array([[1.0, -np.inf], [1.0, -np.inf]]), [1, 1], [1, 1], "no prices serve all jobs"),
    ],
    ids=["shape", "scarce", "unusable", "both want the same"],
)
def test_errors_have_one_line(clear, values, sizes, supply, said):
    with pytest.raises(MurmurationError, match=said) as error:
        clear(values, np.array(sizes), np.array(supply))
    assert "\n" not in str(error.value)
