"""The category of marginal gain: against a reference implementation, all categories, and in sampling."""

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from baselines.sampling_matching.categories import Categories
from baselines.sampling_matching.problem import Problem, problem
from baselines.sampling_matching.search import (
    MOST_WORKERS_PER_SIZE_STEP,
    Sampling,
    best_matching,
    drawn_categories,
    expected_seconds,
    expected_sizes,
    match,
    sampled_matching,
)
from tests.unit.baselines.matching_optima import FAST_LINKS, draw, every_split
from tests.unit.baselines.matching_worlds import any_problem, paper_problem, throughput_slowly

seeds = st.integers(0, 100_000)


def seconds_slowly(made: Problem, job: int, size: int) -> float:
    """Time on `size` workers of mean throughput, weighted by the supply of each type that runs the job."""
    throughputs = [(throughput_slowly(made, job, size, at), int(count)) for at, count in enumerate(made.supply)]
    able = [(throughput, count) for throughput, count in throughputs if throughput > 0]
    if not sum(count for _, count in able):
        return float("inf")
    mean = sum(throughput * count for throughput, count in able) / sum(count for _, count in able)
    if size * mean <= 0:
        return float("inf")
    return float(made.weight[job] * (made.work[job] / (size * mean) + made.overhead[job, :][: size + 1][-1]))


def sizes_slowly(made: Problem, workers: int) -> list[int]:
    """Sizes by a full search over all steps of all jobs each time."""
    sizes: list[int] = made.least.tolist()
    while workers > sum(sizes):
        steps = []
        for job, size in enumerate(sizes):
            now = seconds_slowly(made, job, size)
            for more in range(1, min(workers - sum(sizes), int(made.most[job]) - size, MOST_WORKERS_PER_SIZE_STEP) + 1):
                then = seconds_slowly(made, job, size + more)
                if then < float("inf"):
                    steps.append(((now - then) / more, -job, -more))
        if not steps:
            break
        _, job, more = max(steps)
        sizes[-job] -= more
    return sizes


@given(seeds)
def test_expected_seconds_match_the_reference_implementation(seed):
    made = any_problem(seed)
    for job in range(made.num_jobs):
        for size in range(int(made.least[job]), int(made.most[job]) + 1):
            assert expected_seconds(made, job, size) == pytest.approx(seconds_slowly(made, job, size), rel=1e-9)


@settings(max_examples=50)
@given(seeds)
def test_expected_sizes_match_the_worth_of_the_reference_implementation(seed):
    """Steps of equal gain up to rounding may come in another order; the categories have the same worth."""
    made = any_problem(seed)
    found, slow = expected_sizes(made, made.assigned), sizes_slowly(made, made.assigned)
    assert found.sum() == sum(slow)
    assert ((found >= made.least) & (found <= made.most)).all()
    worths = [sum(seconds_slowly(made, job, int(size)) for job, size in enumerate(sizes)) for sizes in (found, slow)]
    assert worths[0] == pytest.approx(worths[1], rel=1e-6)


@settings(max_examples=30)
@given(seeds)
def test_expected_sizes_are_optimal_if_time_is_convex(seed):
    """Without communication, marginal gain is exact for average workers."""
    made = paper_problem(seed, 3, 9)._replace(overhead=np.zeros((3, 1)))
    sizes = expected_sizes(made, made.assigned)
    worths = [
        sum(expected_seconds(made, job, int(size)) for job, size in enumerate(row))
        for row in Categories(made.least, made.most, made.assigned).all()
    ]
    assert sum(expected_seconds(made, job, int(size)) for job, size in enumerate(sizes)) == pytest.approx(min(worths))


def test_expected_sizes_by_hand():
    """Loads 100, 400 and 900 worker-seconds on 12 equal workers: proportional to the square roots, 2, 4 and 6."""
    made = problem([[1.0] * 12] * 3, [100, 400, 900])
    assert expected_sizes(made, 12).tolist() == [2, 4, 6]


def test_workers_beyond_all_ranges_stay_free():
    made = problem([[1.0]] * 2, [10, 20], supply=[8], least=[1, 1], most=[2, 3])
    assert expected_sizes(made, 8).tolist() == [2, 3]


def test_few_samples_suffice_near_good_categories():
    """20 jobs on 100 workers: 100 samples from all categories are far from the best matching, guided ones are not."""
    rows = []
    for seed in range(3):
        made = draw(np.random.default_rng(seed), 20, 100, FAST_LINKS, alike=True)
        best = best_matching(made, np.random.default_rng(0), Sampling()).worth
        uniform = sampled_matching(made, np.random.default_rng(0), Sampling(spread=1.0)).worth
        rows.append((uniform / best, sampled_matching(made, np.random.default_rng(0), Sampling()).worth / best))
    uniform, guided = np.mean(rows, axis=0) - 1
    assert uniform > 0.1
    assert guided < 0.05


@settings(max_examples=20)
@given(seeds)
def test_all_categories_are_examined_if_the_samples_suffice(seed):
    made = paper_problem(seed, 3, 8)
    matching = sampled_matching(made, np.random.default_rng(0), Sampling(samples=21))
    assert matching.categories == 21
    assert matching.worth <= every_split(made) * 1.25


@settings(max_examples=20)
@given(seeds)
def test_a_spread_of_one_is_plain_sampling(seed):
    made, sampling = paper_problem(seed, 4, 15), Sampling(samples=20, spread=1.0)
    drawn = drawn_categories(made, np.random.default_rng(seed), sampling)
    matching = sampled_matching(made, np.random.default_rng(seed), sampling)
    assert matching.counts.tolist() == match(made, drawn, sampling).counts.tolist()
    guided = sampled_matching(made, np.random.default_rng(seed), Sampling(samples=20))
    assert guided.categories <= 22
    centre = expected_sizes(made, made.assigned)[None]
    assert guided.worth <= match(made, centre, sampling).worth  # it examines the sizes of marginal gain, too
