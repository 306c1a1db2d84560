"""Sensitivity curves: which sizes are worth having, what a GPU is worth, what a service level needs."""

from itertools import pairwise

import pytest
from hypothesis import given
from hypothesis import strategies as st

from baselines.rubick.curves import NOWHERE, Choice, Curve, Curves, meets, rescaled
from envs.types import ExecutionPlan
from tests.unit.baselines.rubick_worlds import FLAT, LINEAR, Names, Told, first_view, job, nodes

PLAN = ExecutionPlan(data=2)


def curves_of(*jobs, cluster=None, world=None, planner=None, **options):
    """The curves of jobs that come at 0, and the view that knows them."""
    cluster = cluster or nodes(4, 4)
    view, _ = first_view(jobs, cluster, world=world)
    return Curves(cluster, planner, **options), view


def curve_of(one, **options):
    """The curve of one job on the one GPU type."""
    curves, view = curves_of(one, **options)
    return curves.curve(view, 0, 0)


def test_sizes_that_bring_less_than_a_per_cent_are_left_out():
    world = Told({"linear": {1: 1.0, 2: 2.0, 3: 2.01, 4: 2.03, 5: 3.0}})
    curve = curve_of(job(0, "linear", 1, 1.0), world=world)
    assert curve.sizes == (1, 2, 4, 5)
    assert [choice.speed for choice in curve.choices] == [1.0, 2.0, 2.03, 3.0]
    assert [choice.num_nodes for choice in curve.choices] == [1, 1, 1, 2]


def test_the_range_of_a_job_bounds_its_curve():
    assert curve_of(job(0, "linear", 3, 1.0, least=2, most=5)).sizes == (2, 3, 4, 5)
    assert curve_of(job(0, "whole", 8, 1.0)).sizes == (8,)
    assert curve_of(job(0, "linear", 1, 1.0), cluster=nodes(2)).sizes == (1, 2)


def test_at_and_below():
    curve = curve_of(job(0, "gang", 2, 1.0))
    assert [curve.at(gpus).num_gpus for gpus in (0, 1, 2, 3, 4, 9)] == [0, 0, 2, 2, 4, 4]
    assert [curve.below(gpus).num_gpus for gpus in (2, 3, 4, 5)] == [0, 2, 2, 4]
    assert curve.below(2) is NOWHERE


def test_slopes_are_shares_of_what_the_user_asked_for():
    """flat asks for four: 2.875 samples/s. Its second GPU brings 0.5."""
    curve = curve_of(job(0, "flat", 4, 1.0))
    assert curve.original == 2.875
    assert curve.slope(2.0, 1, curve.at(2)) == pytest.approx(0.5 / 2.875)
    assert curve.slope(2.0, 1, curve.at(4)) == pytest.approx(0.875 / 2.875 / 3)
    assert curve.first_slope == pytest.approx(2.0 / 2.875)


def test_the_first_slope_is_the_steepest():
    """gang: 1 / 2 per GPU on two and on four; with twice the speed on four the step to four is steeper."""
    world = Told({"gang": {2: 1.0, 4: 4.0}})
    assert curve_of(job(0, "gang", 4, 1.0), world=world).first_slope == pytest.approx(4.0 / 4.0 / 4)


def test_a_curve_without_choices_says_nothing():
    empty = Curve(())
    assert (empty.least, empty.first_slope, empty.at(3), empty.below(3)) == (NOWHERE, 0.0, NOWHERE, NOWHERE)


def test_the_level_is_the_users_plan_on_the_gpus_asked_for():
    """The user's plan is half as fast as the best: the minimum is half of the GPUs. Best-effort jobs have no level."""
    plan = ExecutionPlan(data=4)
    guaranteed = job(0, "linear", 4, 1.0, plan=plan, guaranteed=True)
    promised = curve_of(guaranteed)
    assert (promised.level, promised.least.num_gpus, promised.original) == (2.0, 2, 2.0)
    assert promised.below(3).num_gpus == 2
    assert promised.below(2) is NOWHERE
    assert curve_of(job(0, "linear", 4, 1.0, plan=plan)).least.num_gpus == 1
    assert curve_of(guaranteed, slack=2.0).least.num_gpus == 1


def test_a_plan_that_does_not_run_promises_the_fastest():
    own = job(0, "linear", 4, 1.0, plan=ExecutionPlan(data=3), guaranteed=True)
    assert curve_of(own).level == 4.0


def test_without_resources_there_is_one_size():
    assert curve_of(job(0, "linear", 3, 1.0), resources=False).sizes == (3,)


def test_without_plans_the_users_is_scaled():
    curve = curve_of(job(0, "linear", 2, 1.0, plan=PLAN), plans=False)
    assert curve.sizes == tuple(range(1, 9))
    assert [choice.plan for choice in curve.choices[1:4]] == [ExecutionPlan(data=size) for size in (2, 3, 4)]
    assert curve.choices[0].plan == ExecutionPlan(data=1, accumulation=2)  # as many samples at a time as before
    assert curve.choices[3].speed == 2.0


def test_a_tensor_group_stays_whole():
    own = job(0, "linear", 4, 1.0, plan=ExecutionPlan(data=2, tensor=2))
    assert curve_of(own, plans=False).sizes == (2, 4, 6, 8)


@pytest.mark.parametrize(
    ("plan", "gpus", "becomes"),
    [
        (ExecutionPlan(data=2, accumulation=4), 4, ExecutionPlan(data=4, accumulation=2)),
        (ExecutionPlan(data=4, accumulation=1), 8, ExecutionPlan(data=8, accumulation=1)),
        (ExecutionPlan(data=2, offload=True), 1, ExecutionPlan(data=1, offload=True, accumulation=2)),
        (ExecutionPlan(2, 2, 3, accumulation=8), 18, ExecutionPlan(3, 2, 3, accumulation=8)),
        (ExecutionPlan(2, 2, 3), 8, None),
    ],
)
def test_scaled_plans(plan, gpus, becomes):
    assert rescaled(plan, gpus) == becomes


def test_planners_name_plans_and_the_view_says_how_fast_they_are():
    curves, view = curves_of(job(0, "linear", 1, 1.0), planner=Names(optimism=3.0))
    choice = curves.choice(view, 0, 0, 4, 1)
    assert choice == Choice(4.0, 4, 1, ExecutionPlan(data=4, checkpointing=True))


def test_a_trusted_planner_decides():
    curves, view = curves_of(job(0, "linear", 1, 1.0), planner=Names(optimism=3.0), trust="planner")
    assert curves.choice(view, 0, 0, 4, 1).speed == 12.0


def test_a_plan_that_the_world_refuses_is_left_to_it():
    class Wrong(Names):
        def best_plan(self, model, num_gpus, num_nodes=1):
            best = super().best_plan(model, num_gpus, num_nodes)
            return type(best)(best.throughput, ExecutionPlan(data=7), best.num_gpus, best.num_nodes)

    curves, view = curves_of(job(0, "linear", 1, 1.0), planner=Wrong())
    assert curves.choice(view, 0, 0, 4, 1) == Choice(4.0, 4, 1, None)


def test_models_unknown_to_the_planner_are_left_to_the_world():
    curves, view = curves_of(job(0, "gang", 2, 1.0), planner=Names())
    assert curves.choice(view, 0, 0, 2, 1) == Choice(1.0, 2, 1, None)


def test_a_best_plan_may_leave_gpus_idle_but_not_below_the_range():
    world = Told({"linear": {1: 1.0, 4: 2.0}})
    planner = Names(("linear",), world)
    curves, view = curves_of(job(0, "linear", 1, 1.0), world=world, planner=planner)
    assert curves.choice(view, 0, 0, 3, 1).num_gpus == 1
    assert curves.exactly(view, 0, 0, 3, 1) == Choice(1.0, 3, 1, None)
    curves, view = curves_of(job(0, "linear", 3, 1.0, least=2), world=world, planner=planner)
    assert curves.choice(view, 0, 0, 3, 1) == Choice(1.0, 3, 1, None)


def test_over_more_nodes_speeds_are_those_of_the_engines_tables():
    curves, view = curves_of(job(0, "linear", 4, 1.0), world=Told(apart=0.75))
    assert [curves.choice(view, 0, 0, 4, count).speed for count in (1, 2)] == [4.0, 3.0]
    assert curves.choice(view, 0, 0, 8, 1) is NOWHERE  # a node has four


def test_jobs_of_a_kind_share_a_curve():
    curves, view = curves_of(job(0, "flat", 4, 1.0), job(0, "flat", 4, 2.0), job(0, "flat", 2, 1.0))
    assert curves.curve(view, 0, 0) is curves.curve(view, 1, 0)
    assert curves.curve(view, 0, 0) is not curves.curve(view, 2, 0)
    assert curves.curve(view, 2, 0).original == FLAT[2]


@given(st.lists(st.floats(0.0, 5.0), min_size=8, max_size=8), st.integers(0, 9), st.floats(1.0, 4.0))
def test_curves_ascend_and_the_least_meets_the_level(gains, gpus, slack):
    """Whatever the speeds: sizes and speeds ascend; `at` is the best within; `least` is the first to meet the level."""
    speeds = {size: 0.1 + sum(gains[:size]) for size in LINEAR}
    curve = curve_of(job(0, "any", 4, 1.0, guaranteed=True), world=Told({"any": speeds}), slack=slack)
    rising = [choice.speed for choice in curve.choices]
    assert list(curve.sizes) == sorted(set(curve.sizes))
    assert all(after > before * 1.01 for before, after in pairwise(rising))
    inside = [choice for choice in curve.choices if choice.num_gpus <= gpus]
    assert curve.at(gpus) == (inside[-1] if inside else NOWHERE)
    enough = [choice for choice in curve.choices if meets(choice.speed, curve.level)]
    assert curve.least == (enough[0] if enough else curve.choices[-1])
    assert curve.level == pytest.approx(speeds[4] / slack)
