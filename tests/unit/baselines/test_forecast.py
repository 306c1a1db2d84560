"""Look-ahead, against the reference implementation on random clusters, and by hand."""

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from baselines.starling import round
from baselines.starling.forecast import advance_jobs, choose_ahead, forecast, next_end, weights, with_backlog
from baselines.starling.scratch import new_scratch
from baselines.starling.two_candidates import writing
from envs.types import IntArray
from tests.unit.baselines import slow_candidates as slow
from tests.unit.baselines.slow_candidates import (
    Ahead,
    Jobs,
    Rules,
    arrays,
    drawn,
    grid_of,
    is_sound,
    kernel_jobs,
    nodes_of,
)

seeds = st.integers(0, 1_000_000)


def looked(
    orders: list[list[int]], jobs: Jobs, rules: Rules, ahead: Ahead, wanted: list[IntArray] | None = None
) -> IntArray:
    """Run `choose_ahead` on a drawn world, in one variant or in several."""
    its, outlook = arrays(jobs), ahead.outlook
    variants = round.Variants(np.array(orders), np.array(wanted or [its.wanted]))
    its = its._replace(weight=weights(its.work, outlook.knee_throughput, rules.numbers))
    nodes = nodes_of(jobs)
    write = writing(its, nodes, rules.numbers)
    return choose_ahead(write, variants, its, outlook, nodes, rules.numbers, ahead.depth)


def drawn_ways(seed: int) -> tuple[list[list[int]], Jobs, Rules, Ahead, list[IntArray]]:
    """Draw a world, and one to three variants to plan by: orders, and sizes that are at most those drawn."""
    order, jobs, rules, ahead = drawn(seed)
    rng = np.random.default_rng(seed)
    orders, wanted = [order], [jobs.wanted]
    for _ in range(int(rng.integers(3))):
        orders.append(rng.permutation(order).tolist())
        sizes = np.minimum(jobs.wanted, rng.integers(0, 9, jobs.wanted.shape))
        for job, gpu_type in np.argwhere(sizes > 0).tolist():
            if jobs.throughputs[job, gpu_type, sizes[job, gpu_type]] <= 0:
                sizes[job, gpu_type] = jobs.wanted[job, gpu_type]
        wanted.append(sizes)
    return orders, jobs, rules, ahead, wanted


def foreseen(order: list[int], jobs: Jobs, rules: Rules, ahead: Ahead, stall: list[float]) -> float:
    """Run `forecast` for the jobs that run now."""
    its, nodes = arrays(jobs), nodes_of(jobs)
    return forecast(
        writing(its, nodes, rules.numbers), its.present.copy(), np.array(order), its, ahead.outlook, np.array(stall),
        nodes, rules.numbers, ahead.depth, new_scratch(its, nodes),
    )  # fmt: skip


@settings(max_examples=20)
@given(seed=seeds)
def test_the_forecast_equals_the_reference(seed):
    order, jobs, rules, ahead = drawn(seed)
    stall = [10.0 * (job % 2) for job in order]
    expected = slow.forecast(jobs.at, order, jobs, rules, ahead, stall)
    assert foreseen(order, jobs, rules, ahead, stall) == pytest.approx(expected, rel=1e-9)


@settings(max_examples=20)
@given(seed=seeds)
def test_the_candidate_equals_the_reference_and_is_valid(seed):
    """Where two candidates end equally soon up to rounding, either may be taken."""
    orders, jobs, rules, ahead, wanted = drawn_ways(seed)
    expected, ends = slow.choose_ahead(orders, jobs, rules, ahead, wanted)
    found = looked(orders, jobs, rules, ahead, wanted)
    assert is_sound([{n: int(g) for n, g in enumerate(row) if g} for row in found], jobs)
    close = sorted(ends)[:2]
    if len(close) < 2 or close[1] - close[0] > 1e-6 * close[0]:
        assert found.tolist() == grid_of(expected, len(jobs.types)).tolist()


@settings(max_examples=20)
@given(seed=seeds)
def test_arguments_are_not_changed(seed):
    order, jobs, rules, ahead = drawn(seed)
    before = [array.copy() for array in arrays(jobs)]
    looked([order], jobs, rules, ahead)
    foreseen(order, jobs, rules, ahead, [0.0] * len(order))
    assert all((one == other).all() for one, other in zip(before, arrays(jobs), strict=True))


def two_rigid(at: list[dict[int, int]], restart: float = 0.0, depth: int = 10) -> tuple[list[int], Jobs, Rules, Ahead]:
    """On one node of 4 GPUs: a short job (40 samples) and a long one (400), both of exactly 4 GPUs at 4 samples/s."""
    jobs = Jobs(
        throughputs=np.array([[[0.0, 0, 0, 0, 4]]] * 2),
        work=[40.0, 400.0],
        delay=[restart if place else 0.0 for place in at],
        weight=[1.0, 1.0],
        wanted=np.array([[4], [4]]),
        at=at,
        capacity=[4],
        types=[0],
    )
    ahead = Ahead([restart] * 2, [bool(place) for place in at], [4.0, 4.0], [4, 4], depth)
    return [0, 1], jobs, Rules(urgency=0.0), ahead


@pytest.mark.parametrize("depth", [0, 1, 2, 10])
def test_two_jobs_in_turn(depth):
    """10 s, then 100 s: they end at 10 and 110, both in the forecast and in the estimate."""
    assert foreseen(*two_rigid([{0: 4}, {}], depth=depth), [0.0, 0.0]) == 120.0


def test_a_pause_counts():
    """The short one begins at 5: 15 and 115."""
    assert foreseen(*two_rigid([{0: 4}, {}]), [5.0, 0.0]) == 130.0


def test_a_change_that_pays_later_is_found():
    """The long job runs, the short one arrives. By present throughputs with equal weights (urgency 0), a change gains
    nothing. By the forecast, they end at 100 and 110 if kept (sum 210). If the long job is displaced, they end at 10
    and, after a restart of 5 s, at 115 (sum 125).
    """
    order, jobs, rules, ahead = two_rigid([{}, {0: 4}], restart=5.0, depth=0)
    assert looked([order], jobs, rules, ahead).tolist() == [[0], [4]]
    order, jobs, _, ahead = two_rigid([{}, {0: 4}], restart=5.0)
    assert looked([order], jobs, Rules(urgency=0.0, hysteresis=-0.5), ahead).tolist() == [[4], [0]]


def test_another_variant_is_taken_if_it_ends_sooner():
    """Both wait. Long first ends at 100 and 110, short first at 10 and 110; the first variant alone misses it."""
    order, jobs, rules, ahead = two_rigid([{}, {}])
    back = order[::-1]
    assert looked([back], jobs, rules, ahead).tolist() == [[0], [4]]
    assert looked([back, order], jobs, rules, ahead, [jobs.wanted] * 2).tolist() == [[4], [0]]


def test_only_the_first_of_equal_candidates_is_followed():
    """The second variant has the first one's candidate; its different continuation does not make it another one."""
    order, jobs, rules, ahead = two_rigid([{0: 4}, {}])
    both = looked([order, order[::-1]], jobs, rules, ahead, [jobs.wanted] * 2)
    assert both.tolist() == looked([order], jobs, rules, ahead).tolist() == [[4], [0]]


def test_time_advances():
    """At 3 s the first job has worked 1 s at 4 samples/s after a pause of 2 s, and the second has finished."""
    grid, work, stalled = np.array([[4], [2], [0]]), np.array([40.0, 6.0, 9.0]), np.array([2.0, 0.0, 0.0])
    throughputs = np.array([[[0.0, 0, 2, 0, 4]]] * 3)
    types = np.array([0])
    its = kernel_jobs(throughputs, work, np.zeros(3), np.ones(3), np.ones((3, 1), np.int64), grid)
    whole = np.ones(3)
    assert next_end(grid, its, stalled, types, whole) == 3.0
    assert advance_jobs(3.0, grid, its, stalled, types, whole) == 1
    assert (work.tolist(), stalled.tolist()) == ([36.0, 0.0, 9.0], [0.0, 0.0, 0.0])
    assert grid.tolist() == [[4], [0], [0]]
    assert next_end(np.zeros((3, 1), np.int64), its, stalled, types, whole) == np.inf


def test_time_advances_more_slowly_beside_others():
    """4 samples/s at half throughput: 40 samples last 20 s after a pause of 2 s, and 10 s work off 16 of them."""
    grid, work, stalled = np.array([[4]]), np.array([40.0]), np.array([2.0])
    its = kernel_jobs(np.array([[[0.0, 0, 2, 0, 4]]]), work, np.zeros(1), np.ones(1), np.ones((1, 1), np.int64), grid)
    half, types = np.array([0.5]), np.array([0])
    assert next_end(grid, its, stalled, types, half) == 22.0
    assert advance_jobs(10.0, grid, its, stalled, types, half) == 0
    assert work.tolist() == [24.0]


@pytest.mark.parametrize(("discount", "expected"), [(0.0, 250.0), (36.0, 50 + 110 / 2.1 + 120 / 2.2)])
def test_the_backlog_is_worked_off_in_order(discount, expected):
    """Alone 10, 20 and 0 s on 4 of 8 GPUs, from 100 s on: the first ends at 110 (not at 105), the second at 120.

    At a discount of 36 / h, a completion in 100 s counts half.
    """
    outlook = round.JobForecast(np.zeros(3), np.zeros(3, np.bool_), np.full(3, 4.0), np.full(3, 4))
    order, work, rules = np.array([0, 1, 2]), np.array([40.0, 80.0, 0.0]), Rules(discount=discount).numbers
    counted = 20.0 if discount == 0 else 50.0
    assert with_backlog(counted, 100.0, order, work, outlook, 8, rules) == pytest.approx(expected)


def test_late_completions_count_less():
    """They end at 10 and 110 s; at 36 / h these count as 10 / 1.1 and 110 / 2.1."""
    order, jobs, _, ahead = two_rigid([{0: 4}, {}])
    rules = Rules(urgency=0.0, discount=36.0)
    assert foreseen(order, jobs, rules, ahead, [0.0, 0.0]) == pytest.approx(10 / 1.1 + 110 / 2.1)


def test_the_worth_of_a_job():
    """100 samples at 4/s and a floor of 75 s: 1 / 100 s at exponent 1, per sample/s."""
    assert weights(np.array([100.0]), np.array([4.0]), Rules(floor=75.0, urgency=1.0).numbers).tolist() == [1 / 100 / 4]
