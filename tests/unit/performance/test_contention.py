"""Contention factors are in [0, 1], and the modes are ordered."""

from typing import Any

import numpy as np
import pandas as pd
import pytest
from hypothesis import given
from hypothesis import strategies as st

from envs.performance import Contention
from envs.performance.contention import MODES, max_min_shares, stage_profile
from envs.performance.zoo import zoo, zoo_name
from envs.types import PerformanceError

OFF, MEASURED, WORST, MAX_MIN = (Contention(mode) for mode in MODES)
models = st.sampled_from(sorted(zoo()))
traffics = st.lists(st.floats(0, 20), min_size=1, max_size=6)


def test_the_mode_is_one_of_four():
    wrong: Any = "on"
    with pytest.raises(PerformanceError, match="mode is 'on'; choose one of off, measured, worst_case, max_min"):
        Contention(wrong)


@given(traffics, st.floats(0.1, 10))
def test_network_factors_are_ordered_by_mode(traffic, capacity):
    off, fair, measured, worst = (mode.network_factors(traffic, capacity) for mode in (OFF, MAX_MIN, MEASURED, WORST))
    assert (off == 1).all()
    assert (fair <= 1).all()
    assert (measured > 0).all()
    assert (measured <= fair).all()
    assert (worst <= measured + 1e-9).all()


@given(st.sampled_from([MEASURED, MAX_MIN]), traffics, st.floats(0.1, 10))
def test_the_link_carries_no_more_than_it_can(mode, traffic, capacity):
    served = mode.network_factors(traffic, capacity) * np.minimum(traffic, capacity)
    assert served.sum() <= capacity * (1 + 1e-9)
    if mode is MAX_MIN and np.minimum(traffic, capacity).sum() <= capacity:
        assert mode.network_factors(traffic, capacity) == pytest.approx(np.ones(len(traffic)))


@given(st.sampled_from([MEASURED, WORST, MAX_MIN]), traffics, st.floats(0, 20), st.floats(0.1, 10))
def test_a_new_job_never_accelerates_co_located_jobs(mode, traffic, newcomer, capacity):
    before = mode.network_factors(traffic, capacity)
    after = mode.network_factors([*traffic, newcomer], capacity)[:-1]
    assert (after <= before + 1e-9).all()


@given(st.sampled_from([MEASURED, MAX_MIN]), traffics, st.integers(0, 5), st.floats(0, 20), st.floats(0.1, 10))
def test_more_traffic_of_one_job_never_accelerates_the_others(mode, traffic, which, more, capacity):
    job = which % len(traffic)
    changed = [have + more * (i == job) for i, have in enumerate(traffic)]
    before, after = (np.delete(mode.network_factors(wanted, capacity), job) for wanted in (traffic, changed))
    assert (after <= before + 1e-9).all()


@given(st.sampled_from([MEASURED, WORST, MAX_MIN]), traffics, st.randoms(use_true_random=False), st.floats(0.1, 10))
def test_the_order_of_jobs_on_a_link_does_not_matter(mode, traffic, random, capacity):
    order = random.sample(range(len(traffic)), len(traffic))
    expected = mode.network_factors(traffic, capacity)[order]
    assert mode.network_factors([traffic[i] for i in order], capacity) == pytest.approx(expected, rel=1e-12)


@given(st.floats(0, 1e6), st.floats(0.1, 10), st.integers(0, 3))
def test_a_job_alone_on_a_link_is_not_slowed(traffic, capacity, others):
    """Jobs without traffic across the link do not count."""
    for mode in (MEASURED, WORST, MAX_MIN):
        assert (mode.network_factors([traffic, *[0.0] * others], capacity) == 1).all()


def test_the_measured_law_by_hand():
    """10 GB/s. Traffic of 5 and 2 is a half and a fifth of the time: 1 / (1 + 1/2 * 1/5) = 10/11 for both.

    A third job with 2 more: the first meets the others 2/5 of the time, 1 / (1 + 1/2 * 2/5) = 5/6; the second and the
    third meet 7/10, 1 / (1 + 1/5 * 7/10) = 50/57.
    """
    assert MEASURED.network_factors([5.0, 2.0], 10.0) == pytest.approx([10 / 11, 10 / 11])
    assert MEASURED.network_factors([5.0, 2.0, 2.0], 10.0) == pytest.approx([5 / 6, 50 / 57, 50 / 57])


def test_the_measured_law_stays_within_the_link_by_hand():
    """Shares of 0.9, 0.9 and 0.01: by chance 1 / (1 + 0.9 * 0.91) = 0.5498 for the first two, together 0.9896.

    Max-min fairness leaves them 0.99 / 2 = 0.495 each, 0.55 of what they request: chance is just below. With 0.1 in
    place of 0.01, fairness limits them: 0.45 of 0.9 is 0.5, below 1 / (1 + 0.9) = 0.526; the small job has chance's
    1 / (1 + 0.1 * 1.8).
    """
    first, second, third = MEASURED.network_factors([0.9, 0.9, 0.01], 1.0)
    assert first == second == pytest.approx(1 / (1 + 0.9 * 0.91))
    assert third == pytest.approx(1 / (1 + 0.01 * 1.8))
    assert MEASURED.network_factors([0.9, 0.9, 0.1], 1.0) == pytest.approx([0.5, 0.5, 1 / 1.18])


def test_max_min_by_hand():
    """10 GB/s for requests of 2, 8 and 10: the first is met, the other two share 8 evenly."""
    assert max_min_shares(np.array([2.0, 8.0, 10.0]), 10.0).tolist() == [2, 4, 4]


def test_worst_case_by_hand():
    """Two jobs each send half of the time; this half doubles, so a step takes 1.5 times as long."""
    assert WORST.network_factors([5.0, 5.0], 10.0) == pytest.approx([1 / 1.5, 1 / 1.5])
    assert WORST.network_factors([5.0, 0.0], 10.0).tolist() == [1, 1]


@pytest.mark.parametrize(("traffic", "capacity"), [([-1.0], 1.0), ([np.nan], 1.0), ([1.0], 0.0)])
def test_impossible_traffic_is_refused(traffic, capacity):
    with pytest.raises(PerformanceError, match="traffic must be at least 0"):
        MEASURED.network_factors(traffic, capacity)


@given(models)
def test_stage_shares_are_shares(name):
    for gpus in (1, 8):
        profile = stage_profile(name, gpus)
        assert all(0 <= share <= 1 for share in (profile.cpu, profile.gpu, profile.network))


def test_stages_are_muris(real_data):
    table = pd.read_csv(real_data("traces/muri/muri_model_resource_profile.csv"))
    alone = table[(table["src"] == "trace1.csv") & (table["resource_time_2"] == 0)]
    assert len(alone) == 7
    for row in alone.to_dict("records"):
        profile = stage_profile(zoo_name(row["model_name"]))
        assert profile.measured
        assert profile.gpu == pytest.approx(min(row["resource_time_1"] / row["iteration_time"], 1))
        assert profile.cpu == pytest.approx(min(row["resource_time_0"] / row["iteration_time"], 1))


def test_an_unknown_model_has_no_stages():
    with pytest.raises(PerformanceError, match="did you mean 'resnet50'"):
        stage_profile("resnet5")
