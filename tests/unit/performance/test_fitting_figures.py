"""Fitting recovers known figures, and its report lists figures that the points do not determine."""

from dataclasses import replace

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from envs.performance.rubick.data import model_shapes
from envs.performance.rubick.fitting import (
    LOWER_BOUNDS,
    SPREAD,
    UPPER_BOUNDS,
    Profile,
    blend,
    empty_profile,
    figure_names,
    fit_figures,
    pack_figures,
    prior_figures,
    unpack_figures,
)
from envs.performance.rubick.iteration import Figures, Forward, Links, PerfParams, iteration_time, points
from envs.types import ExecutionPlan, PerformanceError

SHAPE = model_shapes()["gpt2"]
TRUE = Figures(
    PerfParams(k_bwd=2.2, k_sync=1.6, k_opt=0.05, k_opt_off=4.0, k_const=12.0, k_off=1.8, k_swap=2.5),
    Forward(fixed=5.0, per_sample=60.0, model_parallel=1.1),
    Links(intra=60.0, inter=11.0, pcie=6.0),
)


def grid():
    """Plans of every class on one to four nodes: (plan, shares, batch, threads)."""
    rows = [(ExecutionPlan(data=d, zero_stage=z), shares, 16, 4.0) for z in (0, 2) for d, shares in PLACED]
    rows += [(ExecutionPlan(data=d, zero_stage=2, offload=True), s, 16, c) for d, s in PLACED for c in (2.0, 8.0)]
    rows += [(ExecutionPlan(2, 2, 2), (8,), 16, 4.0), (ExecutionPlan(1, 4, 4), (4, 4, 4, 4), 16, 4.0)]
    return points([*rows, (ExecutionPlan(pipeline=4, accumulation=4), (1, 1, 1, 1), 16, 4.0)])


PLACED = [(1, (1,)), (2, (2,)), (4, (4,)), (8, (8,)), (8, (4, 4)), (4, (1, 1, 1, 1)), (8, (2, 2, 2, 2))]


def measured(figures=TRUE, rows=None, noise=None):
    rows = grid() if rows is None else rows
    parts = iteration_time(SHAPE, figures, rows)
    factor = 1.0 if noise is None else noise
    return Profile.of(
        rows, parts.total * factor, forward=parts.forward, compute=parts.compute, optimizer=parts.optimizer
    )


def test_fit_recovers_the_figures_of_generated_times():
    report = fit_figures(SHAPE, measured())
    assert report.rmsle < 0.01
    assert report.largest_error < 0.02
    assert report.figures.forward.per_sample == pytest.approx(60.0, rel=0.05)
    assert report.figures.params.k_bwd == pytest.approx(2.2, rel=0.05)
    assert report.figures.links.inter == pytest.approx(11.0, rel=0.1)
    assert (report.from_prior, report.at_bound) == ((), ())


def test_fit_predicts_points_that_it_did_not_see():
    rows = grid()
    seen = np.arange(len(rows)) % 2 == 0
    report = fit_figures(SHAPE, measured().take(seen))
    unseen = rows[~seen]
    ratio = iteration_time(SHAPE, report.figures, unseen).total / iteration_time(SHAPE, TRUE, unseen).total
    assert np.median(np.abs(ratio - 1)) < 0.03


def test_fit_is_robust_to_one_wrong_measurement():
    noise = np.ones(len(grid()))
    noise[3] = 6.0
    report = fit_figures(SHAPE, measured(noise=noise))
    ratio = iteration_time(SHAPE, report.figures, grid()).total / iteration_time(SHAPE, TRUE, grid()).total
    assert np.median(np.abs(ratio - 1)) < 0.03


def test_report_lists_figures_that_keep_the_prior():
    """Data-parallel points on one node do not depend on offload, the network or tensor parallelism."""
    rows = points([(ExecutionPlan(data=d), (d,), 16, 4.0) for d in (1, 2, 4, 8)])
    report = fit_figures(SHAPE, measured(rows=rows))
    assert set(report.from_prior) == {"k_opt_off", "k_off", "k_swap", "model_parallel", "inter", "pcie"}
    prior = prior_figures(SHAPE)
    assert report.figures.links.pcie == pytest.approx(prior.links.pcie, rel=1e-6)
    assert report.figures.params.k_swap == pytest.approx(prior.params.k_swap, rel=1e-6)
    assert "from the prior: k_opt_off" in report.summary()


def test_report_lists_figures_at_a_bound():
    no_step = replace(TRUE, params=replace(TRUE.params, k_bwd=9.0))
    report = fit_figures(SHAPE, measured(no_step))
    assert "k_bwd" in report.at_bound
    assert "at a bound" in report.summary()


def test_report_counts_points_and_measurements():
    rows = points([(ExecutionPlan(data=2), (2,), 16, 4.0), (ExecutionPlan(), (1,), 16, 4.0)])
    report = fit_figures(SHAPE, Profile.of(rows, [1000.0, 1900.0], forward=[450.0, 0.0]))
    assert (report.num_points, report.num_measured) == (2, 3)


@pytest.mark.parametrize("value", [np.nan, np.inf, -1.0, 0.0])
def test_invalid_times_are_refused(value):
    rows = points([(ExecutionPlan(), (1,), 16, 4.0), (ExecutionPlan(data=2), (2,), 16, 4.0)])
    with pytest.raises(PerformanceError, match="profile: point 1, total is") as error:
        Profile.of(rows, [10.0, value])
    assert "\n" not in str(error.value)
    if value != 0.0:
        with pytest.raises(PerformanceError, match="profile: point 0, optimizer is"):
            Profile.of(rows, [10.0, 10.0], optimizer=[value, 1.0])


def test_profiles_refuse_wrong_lengths():
    rows = points([(ExecutionPlan(), (1,), 16, 4.0)])
    with pytest.raises(PerformanceError, match="total has 2 values for 1 points"):
        Profile.of(rows, [1.0, 2.0])
    with pytest.raises(PerformanceError, match="forward has 0 values for 1 points"):
        Profile.of(rows, [1.0], forward=[])
    with pytest.raises(PerformanceError, match="no profiled points to fit on"):
        fit_figures(SHAPE, empty_profile())


def test_profiles_join_and_select():
    whole = measured()
    half = np.arange(len(whole)) < 5
    joined = whole.take(half) + whole.take(~half)
    assert len(joined) == len(whole)
    np.testing.assert_array_equal(joined.rows, whole.rows)
    np.testing.assert_array_equal(joined.total, whole.total)
    assert len(empty_profile() + whole) == len(whole)


@given(st.lists(st.floats(0.1, 10), min_size=13, max_size=13))
def test_packing_is_reversible(values):
    np.testing.assert_allclose(pack_figures(unpack_figures(np.array(values))), values)


def test_names_spreads_and_bounds_are_those_of_the_figures():
    assert len(figure_names()) == len(SPREAD) == len(LOWER_BOUNDS) == len(UPPER_BOUNDS) == len(pack_figures(TRUE))
    assert figure_names()[:7] == ("k_bwd", "k_sync", "k_opt", "k_opt_off", "k_const", "k_off", "k_swap")
    assert pack_figures(TRUE)[list(figure_names()).index("inter")] == 11.0
    assert all(low < high for low, high in zip(LOWER_BOUNDS, UPPER_BOUNDS, strict=True))


def test_prior_follows_the_work_of_the_model():
    """Two operations for each parameter and token: LLaMA-7B's forward pass takes 8.65 times that of GPT-2 XL."""
    llama = model_shapes()["llama7b"]
    ratio = prior_figures(llama).forward.per_sample / prior_figures(SHAPE).forward.per_sample
    assert ratio == pytest.approx(llama.parameters * 2048 / (SHAPE.parameters * 1024))


def test_blending_takes_geometric_means_but_the_models_own_work():
    other = Figures(replace(TRUE.params, k_const=48.0), TRUE.forward, replace(TRUE.links, inter=44.0))
    mean = blend([TRUE, other], SHAPE)
    assert mean.params.k_const == pytest.approx(24.0)
    assert mean.links.inter == pytest.approx(22.0)
    assert mean.forward.per_sample == prior_figures(SHAPE).forward.per_sample


@settings(max_examples=8)
@given(st.floats(20, 120), st.floats(1.2, 3.0), st.floats(5, 25))
def test_fit_recovers_arbitrary_main_figures(per_sample, k_bwd, inter):
    figures = Figures(
        replace(TRUE.params, k_bwd=k_bwd),
        replace(TRUE.forward, per_sample=per_sample),
        replace(TRUE.links, inter=inter),
    )
    report = fit_figures(SHAPE, measured(figures))
    assert report.rmsle < 0.02
    assert report.figures.forward.per_sample == pytest.approx(per_sample, rel=0.1)
