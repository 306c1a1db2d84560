"""Optima and bounds against enumeration of all matchings, and against each other."""

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from baselines.sampling_matching.problem import compute_completion_seconds, objective, problem
from baselines.sampling_matching.search import Sampling, best_matching
from envs.types import MurmurationError
from papers.sampling_matching.bounds import cheapest, price_bound, relaxed
from papers.sampling_matching.exact import certified_optimum, every_split
from tests.unit.baselines.matching_worlds import any_problem, best_slowly, paper_problem

seeds = st.integers(0, 100_000)


@given(seeds)
def test_every_split_finds_the_best_of_all_matchings(seed):
    made = any_problem(seed, most_jobs=3, most_types=2)
    slow = best_slowly(made)
    if np.isinf(slow):
        with pytest.raises(MurmurationError, match="no matching serves all jobs"):
            every_split(made)
        return
    found = every_split(made)
    assert found.worth == pytest.approx(slow)
    assert objective(made, found.counts) == pytest.approx(slow)
    assert found.gap == 0
    if not made.may_idle:
        assert found.counts.sum() == made.assigned


@settings(max_examples=10)
@given(seeds, st.sampled_from([(2, 6), (3, 6), (3, 8)]), st.sampled_from([12.5, 1.25]))
def test_certified_optimum_equals_that_of_every_split(seed, size, link):
    made = paper_problem(seed, *size, link_gb_s=link)
    found, best = certified_optimum(made), every_split(made).worth
    assert found.worth == pytest.approx(best, rel=2e-4)
    assert found.bound <= best * (1 + 1e-6)
    assert found.worth == pytest.approx(objective(made, found.counts))
    assert (found.counts.sum(axis=0) == 1).all()


def test_certified_optimum_handles_types_of_several_workers():
    made = problem([[1.0, 2.0], [3.0, 1.0]], [50, 80], supply=[3, 4], weight=[1, 2])
    assert certified_optimum(made).worth == pytest.approx(best_slowly(made), rel=2e-4)


@settings(max_examples=15)
@given(seeds, st.booleans(), st.sampled_from([12.5, 1.25]))
def test_the_price_bound_is_below_the_optimum(seed, may_idle, link):
    made = paper_problem(seed, 3, 8, link_gb_s=link, may_idle=may_idle)
    best = every_split(made).worth
    assert price_bound(made, best, steps=30) <= best * (1 + 1e-9)
    assert price_bound(made, best * 1.5, steps=3) <= best * (1 + 1e-9)


def test_the_price_bound_is_tight_for_large_types():
    """Forty workers of two types for four jobs: fractions matter little, so the bound is within one per cent."""
    rng = np.random.default_rng(0)
    made = problem(rng.uniform(1, 5, (4, 2)), rng.uniform(1e3, 1e4, 4), supply=[20, 20])
    best = best_matching(made, rng, Sampling()).worth
    assert 0 <= best / price_bound(made, best) - 1 < 0.01


@given(seeds, st.integers(1, 6))
def test_the_cheapest_mixture_costs_no_more_than_any_other(seed, size):
    """Against a thousand random mixtures of three types; the cost equals that of the returned mixture."""
    rng = np.random.default_rng(seed)
    made = problem(rng.uniform(1, 5, (1, 3)), rng.uniform(10, 100, 1), supply=[6, 6, 6])
    prices, wanted = rng.uniform(-2, 5, 3), np.zeros(3)
    least = cheapest(made, 0, size, prices, wanted)
    throughputs = made.throughputs[0, 0, 0]
    mixtures = size * rng.dirichlet(np.full(3, 0.5), 1000)
    others = made.work[0] / (mixtures @ throughputs) + mixtures @ prices
    assert wanted.sum() == pytest.approx(size)
    assert least == pytest.approx(made.work[0] / (wanted @ throughputs) + wanted @ prices)
    assert least <= others.min() + 1e-9


def test_at_zero_prices_every_job_takes_the_fastest_workers():
    """At zero prices both jobs take as many workers of the faster type as they may; the bound follows from that."""
    made = problem([[1.0, 2.0], [1.0, 2.0]], [12, 24], supply=[2, 2])
    wanted = np.zeros(2)
    assert relaxed(made, np.zeros(2), wanted) == 12 / 6 + 24 / 6
    assert wanted.tolist() == [0, 6]


@pytest.mark.parametrize(
    ("ask", "said"),
    [
        (lambda made: every_split(paper_problem(0, 4, 30)), "splits are too many; use `certified_optimum`"),
        (lambda made: certified_optimum(made._replace(may_idle=True)), "works on the paper's model only"),
        (lambda made: certified_optimum(made._replace(restart=np.ones(2))), "works on the paper's model only"),
        (lambda made: certified_optimum(paper_problem(0, 6, 30), time_limit=0.0), "no matching found within 0.0 s"),
        (
            lambda made: price_bound(made._replace(throughputs=np.ones((2, 1, 5, 4))), 1.0),
            "works on the paper's model only",
        ),
    ],
    ids=["splits", "idle", "restarts", "no time", "sizes"],
)
def test_errors_have_one_line(ask, said):
    with pytest.raises(MurmurationError, match=said) as error:
        ask(paper_problem(0, 2, 4))
    assert "\n" not in str(error.value)


def test_every_split_by_hand():
    """Two equal jobs, two fast and two slow workers: 2 x 12 / (2 + 1) = 8, one of each for both, by hand."""
    made = problem([[2.0, 1.0]] * 2, [12, 12], supply=[2, 2])
    found = every_split(made)
    assert found.worth == 8
    assert compute_completion_seconds(made, found.counts).tolist() == [4, 4]
