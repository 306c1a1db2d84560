"""Gavel's programs over pairs of jobs, the division of their time, and rounds in which pairs run."""

from dataclasses import replace

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from scipy.optimize import linprog

from baselines import Gavel
from baselines.gavel.pairs import PairRule, split_pair
from baselines.gavel.rounds import place_combinations
from baselines.gavel.scheduler import OBJECTIVES
from baselines.gavel.shares import (
    Sharing,
    TimeShares,
    maximise_least_throughput,
    maximise_total_throughput,
    minimise_finish_time_ratio,
    minimise_makespan,
    worst_ratio,
)
from baselines.parts.grants import Grant
from envs.evaluation.audit import Audit
from envs.simulation import EventKind, Information, RunResult, Simulator, run_episode
from envs.types import Placement
from tests.conformance.random_worlds import random_world
from tests.unit.simulation.test_sharing import place, simulator


@st.composite
def sharings(draw):
    """Up to 7 jobs of three models on up to 2 types, which keep 0 to 1 of their throughputs beside each other."""
    num_types = draw(st.integers(1, 2))
    models = np.array(draw(st.lists(st.integers(0, 2), min_size=1, max_size=7)))
    curves = np.array([[draw(st.sampled_from([0.5, 1.0, 3.0])) for _ in range(num_types)] for _ in range(3)])
    factors = np.array([draw(st.sampled_from([0.0, 0.4, 0.6, 0.9])) for _ in range(9 * num_types)]).reshape(-1, 3, 3)
    factors[(factors == 0) | (factors.transpose(0, 2, 1) == 0)] = 0.0
    gpus = np.array([draw(st.sampled_from([1, 2])) for _ in models])
    capacity = np.array([draw(st.integers(2, 4)) for _ in range(num_types)])
    return Sharing(curves[models], gpus, capacity, pair_rule=PairRule(models, factors, 1.0, 16))


def check(sharing: Sharing, found: TimeShares) -> None:
    """Check that shares are feasible, and that pairs are of equal size and gain enough."""
    rule = sharing.pair_rule
    assert rule is not None
    time = found.shares.sum(axis=1)
    for (one, other), shares in zip(found.pairs.tolist(), found.pair_shares, strict=True):
        assert one < other
        assert sharing.gpus[one] == sharing.gpus[other]
        kept = rule.factors[:, rule.models[one], rule.models[other]]
        left = rule.factors[:, rule.models[other], rule.models[one]]
        assert (shares[(kept * left == 0) | (kept + left < rule.least_together)] == 0).all()
        time[[one, other]] += shares.sum()
    assert (found.shares >= 0).all()
    assert (found.pair_shares >= 0).all()
    assert (time <= 1 + 1e-6).all()
    taken = sharing.gpus @ found.shares
    if len(found.pairs):
        taken = taken + sharing.gpus[found.pairs[:, 0]] @ found.pair_shares
    assert (taken <= sharing.capacity * (1 + 1e-6)).all()


def level_slowly(sharing: Sharing, weight: np.ndarray) -> float:
    """The largest least throughput times weight, by a dense program with a column for every pair of jobs."""
    rule = sharing.pair_rule
    assert rule is not None
    (jobs, types), columns = sharing.throughput.shape, []
    for one in range(jobs):
        for other in range(one, jobs):
            for gpu_type in range(types):
                gain = np.zeros(jobs)
                kept = rule.factors[gpu_type, rule.models[one], rule.models[other]]
                left = rule.factors[gpu_type, rule.models[other], rule.models[one]]
                if one == other:
                    gain[one] = 1.0
                elif sharing.gpus[one] == sharing.gpus[other] and kept + left >= rule.least_together:
                    gain[one], gain[other] = kept, left
                room = np.zeros(types)
                room[gpu_type] = sharing.gpus[one]
                time = np.zeros(jobs)
                time[[one, other]] = 1.0
                columns.append(np.concatenate([time, room, -gain * sharing.throughput[:, gpu_type] * weight]))
    level = np.concatenate([np.zeros(jobs + types), np.ones(jobs)])
    bounds = np.concatenate([np.ones(jobs), sharing.capacity, np.zeros(jobs)])
    cost = np.zeros(len(columns) + 1)
    cost[-1] = -1.0
    found = linprog(cost, A_ub=np.column_stack([*columns, level]), b_ub=bounds, method="highs")
    assert found.x is not None
    return float(found.x[-1])


@settings(max_examples=15)
@given(sharing=sharings())
def test_max_min_matches_the_reference_implementation(sharing):
    found = maximise_least_throughput(sharing)
    check(sharing, found)
    weight = sharing.gpus / sharing.proportional
    reached = sharing.reach(found) * weight
    assert reached.min() == pytest.approx(level_slowly(sharing, weight), rel=1e-5)
    alone = maximise_least_throughput(replace(sharing, pair_rule=None))
    assert reached.min() >= (sharing.reach(alone) * weight).min() * (1 - 1e-6)


@settings(max_examples=5)
@given(sharing=sharings())
def test_other_objectives_are_feasible_and_no_worse_than_without_pairs(sharing):
    apart = replace(sharing, pair_rule=None)
    work = np.linspace(5.0, 9.0, sharing.num_jobs)
    found = minimise_makespan(sharing, work)
    check(sharing, found)
    least = (sharing.reach(found) / work).min()
    assert least == pytest.approx(level_slowly(sharing, 1 / work), rel=1e-5)
    total, before = maximise_total_throughput(sharing), maximise_total_throughput(apart)
    check(sharing, total)
    assert (sharing.reach(total) / sharing.proportional).sum() >= (
        (apart.reach(before) / sharing.proportional).sum() * (1 - 1e-6)
    )
    waited = np.linspace(0.0, 3.0, sharing.num_jobs)
    deserved = waited + work / (sharing.throughput * sharing.isolated).sum(axis=1)
    ratio, former = (minimise_finish_time_ratio(each, work, waited, deserved) for each in (sharing, apart))
    check(sharing, ratio)
    assert worst_ratio(sharing.reach(ratio), work, waited, deserved) <= 1.002 * worst_ratio(
        apart.reach(former), work, waited, deserved
    )


@settings(max_examples=15)
@given(sharing=sharings())
def test_equal_jobs_have_equal_throughputs(sharing):
    reached = sharing.reach(maximise_least_throughput(sharing))
    assert sharing.pair_rule is not None
    for one in range(sharing.num_jobs):
        for other in range(one):
            if sharing.gpus[one] == sharing.gpus[other] and (
                sharing.pair_rule.models[one] == sharing.pair_rule.models[other]
            ):
                assert reached[one] == pytest.approx(reached[other])


def test_two_jobs_on_one_gpu_by_hand():
    """Each keeps 0.75 beside the other: 0.75 each all the time, where turns give 0.5."""
    rule = PairRule(np.array([0, 0]), np.full((1, 1, 1), 0.75), 1.0, 16)
    sharing = Sharing(np.ones((2, 1)), np.array([1, 1]), np.array([1]), pair_rule=rule)
    found = maximise_least_throughput(sharing)
    assert found.pairs.tolist() == [[0, 1]]
    assert found.pair_shares == pytest.approx(np.array([[1.0]]))
    assert sharing.reach(found) == pytest.approx([0.75, 0.75])
    turns = maximise_least_throughput(replace(sharing, pair_rule=replace(rule, least_together=1.6)))
    assert not len(turns.pairs)
    assert sharing.reach(turns) == pytest.approx([0.5, 0.5])


def test_the_number_of_pairs_grows_with_the_jobs():
    """Ten models that keep the more the nearer they are, with two partners each: no program has all 55 pairs."""
    models = np.arange(10)
    factors = (0.9 - 0.02 * np.abs(models[:, None] - models))[None]
    rule = PairRule(models, factors, 1.0, 2)
    sharing = Sharing(np.ones((10, 1)), np.ones(10, np.int64), np.array([3]), pair_rule=rule)
    found = maximise_least_throughput(sharing)
    check(sharing, found)
    assert (np.diff(found.pairs, axis=1) <= 2).all()  # at the ends, the second nearest is two steps away
    assert 5 <= len(found.pairs) <= 19


@given(one=st.integers(1, 9), other=st.integers(1, 9), alike=st.booleans())
def test_the_time_of_a_pair_of_classes_is_divided_equally(one, other, alike):
    first = np.arange(one + alike)
    second = first if alike else 100 + np.arange(other)
    pairs, time = split_pair(np.array([3.0, 1.0]), first, second)
    assert time.sum(axis=0) == pytest.approx([3.0, 1.0])
    assert (time > 0).all()
    assert len({tuple(pair) for pair in np.sort(pairs, axis=1).tolist()}) == len(pairs) <= len(first) + len(second)
    assert (pairs[:, 0] != pairs[:, 1]).all()
    for jobs in (first, second):
        received = [time[(pairs == job).any(axis=1), 0].sum() for job in jobs]
        assert received == pytest.approx([received[0]] * len(jobs))


def test_a_guest_that_inherits_gpus_can_be_placed_anew():
    """Job 0 leaves its guest 1, and job 3 wants a whole node of the two on which jobs 1 and 2 hold half: one moves."""
    rows = (("light", 0.0, 90.0, 2), ("light", 0.0, 90.0, 2), ("light", 0.0, 90.0, 2), ("light", 1.0, 90.0, 4))
    engine = simulator(*rows, gpus=4, nodes=2)
    rounds = engine.rounds()
    next(rounds)
    place(engine, j0=Placement({1: 2}), j1=Placement({1: 2}, beside=0), j2=Placement({0: 2}))
    view = next(rounds)
    allocation = view.allocation(keep_running=True)
    place_combinations(view, allocation, {(1,): Grant(0, 2), (2,): Grant(0, 2), (3,): Grant(0, 4)})
    engine.apply(allocation)
    assert allocation.placement(0) is None
    placed = [allocation.placement(job) for job in (1, 2, 3)]
    assert [each and each.num_gpus for each in placed] == [2, 2, 4]
    assert placed[0] == Placement({1: 2})
    assert placed[2] == Placement({0: 4})


def test_a_pair_that_continues_costs_no_restart():
    """Jobs 0 and 1 are chosen together again, in whichever order: neither of their placements changes."""
    engine = simulator(("light", 0.0, 90.0, 2), ("light", 0.0, 90.0, 2), ("light", 1.0, 90.0, 2), gpus=2)
    rounds = engine.rounds()
    next(rounds)
    place(engine, j1=Placement({0: 2}), j0=Placement({0: 2}, beside=1))
    view = next(rounds)
    allocation = view.allocation(keep_running=True)
    place_combinations(view, allocation, {(0, 1): Grant(0, 2)})
    engine.apply(allocation)
    assert engine.view.pairs == {1: 0}
    assert engine.result("").log.events["kind"].tolist().count(int(EventKind.RESIZE)) == 0


@pytest.mark.parametrize("objective", OBJECTIVES)
def test_it_plays_random_worlds_with_pairs(objective):
    """No allocation is refused, and what comes out can be, with failures, contention and hidden work."""
    pairs = 0
    for seed in range(4 if objective == "finish_time" else 10):
        world = random_world(seed, plain=seed % 2 == 0, pairs=True)
        result = played(Gavel(objective, round_length=30.0, reset_interval=60.0, pairs=True), world, seed)
        pairs += int((result.log.events["beside"] >= 0).sum())
    assert pairs > 5 or objective == "isolated"


def test_where_jobs_may_not_share_it_is_gavel():
    for seed in range(6):
        world = random_world(seed, plain=True)
        assert played(Gavel(pairs=True), world, seed).log == played(Gavel(), world, seed).log


def played(scheduler: Gavel, world, seed: int) -> RunResult:
    information = Information("exact" if scheduler.information == "estimate" else "none")
    setup = replace(world.setup, scenario=replace(world.setup.scenario, information=information))
    result = run_episode(scheduler, Simulator(world.workload, setup, seed))
    Audit(setup).check(result)
    return result
