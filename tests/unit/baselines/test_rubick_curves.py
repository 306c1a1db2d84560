"""Sensitivity curves: useful sizes, slopes, and minimum resources of a service level."""

from itertools import pairwise

import pytest
from hypothesis import given
from hypothesis import strategies as st

from baselines.rubick.curves import NOWHERE, CurvePoint, SensitivityCurve, SensitivityCurves, meets, rescaled
from envs.types import ExecutionPlan
from tests.unit.baselines.rubick_worlds import FLAT, LINEAR, Names, Told, first_view, job, nodes

PLAN = ExecutionPlan(data=2)


def curves_of(*jobs, cluster=None, world=None, planner=None, **options):
    """The curves of jobs submitted at 0, and the view of these jobs."""
    cluster = cluster or nodes(4, 4)
    view, _ = first_view(jobs, cluster, world=world)
    return SensitivityCurves(cluster, planner, **options), view


def curve_of(one, **options):
    """The curve of one job on the only GPU type."""
    curves, view = curves_of(one, **options)
    return curves.curve(view, 0, 0)


def test_sizes_that_gain_less_than_one_per_cent_are_left_out():
    world = Told({"linear": {1: 1.0, 2: 2.0, 3: 2.01, 4: 2.03, 5: 3.0}})
    curve = curve_of(job(0, "linear", 1, 1.0), world=world)
    assert curve.sizes == (1, 2, 4, 5)
    assert [point.throughput for point in curve.points] == [1.0, 2.0, 2.03, 3.0]
    assert [point.num_nodes for point in curve.points] == [1, 1, 1, 2]


def test_the_range_of_a_job_bounds_its_curve():
    assert curve_of(job(0, "linear", 3, 1.0, least=2, most=5)).sizes == (2, 3, 4, 5)
    assert curve_of(job(0, "whole", 8, 1.0)).sizes == (8,)
    assert curve_of(job(0, "linear", 1, 1.0), cluster=nodes(2)).sizes == (1, 2)


def test_at_and_below_by_hand():
    curve = curve_of(job(0, "gang", 2, 1.0))
    assert [curve.at(gpus).num_gpus for gpus in (0, 1, 2, 3, 4, 9)] == [0, 0, 2, 2, 4, 4]
    assert [curve.below(gpus).num_gpus for gpus in (2, 3, 4, 5)] == [0, 2, 2, 4]
    assert curve.below(2) is NOWHERE


def test_slopes_are_shares_of_the_requested_throughput():
    """flat requests four GPUs: 2.875 samples/s. Its second GPU adds 0.5."""
    curve = curve_of(job(0, "flat", 4, 1.0))
    assert curve.original == 2.875
    assert curve.slope(2.0, 1, curve.at(2)) == pytest.approx(0.5 / 2.875)
    assert curve.slope(2.0, 1, curve.at(4)) == pytest.approx(0.875 / 2.875 / 3)
    assert curve.first_slope == pytest.approx(2.0 / 2.875)


def test_the_first_slope_is_the_steepest():
    """gang: 1 / 2 per GPU on two and on four; with twice the throughput on four the step to four is steeper."""
    world = Told({"gang": {2: 1.0, 4: 4.0}})
    assert curve_of(job(0, "gang", 4, 1.0), world=world).first_slope == pytest.approx(4.0 / 4.0 / 4)


def test_an_empty_curve_has_no_points():
    empty = SensitivityCurve(())
    assert (empty.minimum, empty.first_slope, empty.at(3), empty.below(3)) == (NOWHERE, 0.0, NOWHERE, NOWHERE)


def test_the_level_is_the_users_plan_on_the_requested_gpus():
    """The user's plan is half as fast as the best: the minimum is half of the GPUs. Best-effort jobs have no level."""
    plan = ExecutionPlan(data=4)
    guaranteed = job(0, "linear", 4, 1.0, plan=plan, guaranteed=True)
    promised = curve_of(guaranteed)
    assert (promised.level, promised.minimum.num_gpus, promised.original) == (2.0, 2, 2.0)
    assert promised.below(3).num_gpus == 2
    assert promised.below(2) is NOWHERE
    assert curve_of(job(0, "linear", 4, 1.0, plan=plan)).minimum.num_gpus == 1
    assert curve_of(guaranteed, slack=2.0).minimum.num_gpus == 1


def test_the_fastest_plan_sets_the_level_if_the_users_plan_does_not_run():
    own = job(0, "linear", 4, 1.0, plan=ExecutionPlan(data=3), guaranteed=True)
    assert curve_of(own).level == 4.0


def test_curves_without_resources_have_one_size():
    assert curve_of(job(0, "linear", 3, 1.0), resources=False).sizes == (3,)


def test_curves_without_plans_scale_the_users_plan():
    curve = curve_of(job(0, "linear", 2, 1.0, plan=PLAN), plans=False)
    assert curve.sizes == tuple(range(1, 9))
    assert [point.plan for point in curve.points[1:4]] == [ExecutionPlan(data=size) for size in (2, 3, 4)]
    assert curve.points[0].plan == ExecutionPlan(data=1, accumulation=2)  # the same micro-batch as before
    assert curve.points[3].throughput == 2.0


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
def test_scaled_plans_by_hand(plan, gpus, becomes):
    assert rescaled(plan, gpus) == becomes


def test_the_planner_proposes_the_plan_and_the_view_its_throughput():
    curves, view = curves_of(job(0, "linear", 1, 1.0), planner=Names(optimism=3.0))
    point = curves.point(view, 0, 0, 4, 1)
    assert point == CurvePoint(4.0, 4, 1, ExecutionPlan(data=4, checkpointing=True))


def test_a_trusted_planner_sets_the_throughput():
    curves, view = curves_of(job(0, "linear", 1, 1.0), planner=Names(optimism=3.0), trust="planner")
    assert curves.point(view, 0, 0, 4, 1).throughput == 12.0


def test_the_world_chooses_if_it_refuses_the_proposed_plan():
    class Wrong(Names):
        def best_plan(self, model, num_gpus, num_nodes=1):
            best = super().best_plan(model, num_gpus, num_nodes)
            return type(best)(best.throughput, ExecutionPlan(data=7), best.num_gpus, best.num_nodes)

    curves, view = curves_of(job(0, "linear", 1, 1.0), planner=Wrong())
    assert curves.point(view, 0, 0, 4, 1) == CurvePoint(4.0, 4, 1, None)


def test_the_world_chooses_plans_of_models_unknown_to_the_planner():
    curves, view = curves_of(job(0, "gang", 2, 1.0), planner=Names())
    assert curves.point(view, 0, 0, 2, 1) == CurvePoint(1.0, 2, 1, None)


def test_a_best_plan_may_leave_gpus_idle_but_not_below_the_range():
    world = Told({"linear": {1: 1.0, 4: 2.0}})
    planner = Names(("linear",), world)
    curves, view = curves_of(job(0, "linear", 1, 1.0), world=world, planner=planner)
    assert curves.point(view, 0, 0, 3, 1).num_gpus == 1
    assert curves.exactly(view, 0, 0, 3, 1) == CurvePoint(1.0, 3, 1, None)
    curves, view = curves_of(job(0, "linear", 3, 1.0, least=2), world=world, planner=planner)
    assert curves.point(view, 0, 0, 3, 1) == CurvePoint(1.0, 3, 1, None)


def test_throughput_on_more_nodes_is_that_of_the_engines_tables():
    curves, view = curves_of(job(0, "linear", 4, 1.0), world=Told(apart=0.75))
    assert [curves.point(view, 0, 0, 4, count).throughput for count in (1, 2)] == [4.0, 3.0]
    assert curves.point(view, 0, 0, 8, 1) is NOWHERE  # a node has four


def test_equal_jobs_share_a_curve():
    curves, view = curves_of(job(0, "flat", 4, 1.0), job(0, "flat", 4, 2.0), job(0, "flat", 2, 1.0))
    assert curves.curve(view, 0, 0) is curves.curve(view, 1, 0)
    assert curves.curve(view, 0, 0) is not curves.curve(view, 2, 0)
    assert curves.curve(view, 2, 0).original == FLAT[2]


@given(st.lists(st.floats(0.0, 5.0), min_size=8, max_size=8), st.integers(0, 9), st.floats(1.0, 4.0))
def test_curves_ascend_and_the_minimum_meets_the_level(gains, gpus, slack):
    """Sizes and throughputs ascend; `at` is the largest point within; `minimum` is the first at the level."""
    throughputs = {size: 0.1 + sum(gains[:size]) for size in LINEAR}
    curve = curve_of(job(0, "any", 4, 1.0, guaranteed=True), world=Told({"any": throughputs}), slack=slack)
    rising = [point.throughput for point in curve.points]
    assert list(curve.sizes) == sorted(set(curve.sizes))
    assert all(after > before * 1.01 for before, after in pairwise(rising))
    inside = [point for point in curve.points if point.num_gpus <= gpus]
    assert curve.at(gpus) == (inside[-1] if inside else NOWHERE)
    enough = [point for point in curve.points if meets(point.throughput, curve.level)]
    assert curve.minimum == (enough[0] if enough else curve.points[-1])
    assert curve.level == pytest.approx(throughputs[4] / slack)
