"""The step-time surface: recovers known parameters, passes through measured points, refuses invalid values."""

import numpy as np
import pytest
from hypothesis import assume, given
from hypothesis import strategies as st

from envs.performance.step_time import Priors, StepPoints, StepTime, cards_in_use, coordinates, features, fit_step_time
from envs.types import PerformanceError

TRUE = np.array([0.010, 0.002, 0.030, 0.004, 0.050, 0.006])  # seconds


def grid(parameters=TRUE, noise=0.0, seed=0):
    """Points for combinations of GPUs, nodes and batches, with the times that the parameters give."""
    rows = [
        (n, nodes, b)
        for n in (1, 2, 4, 8, 16, 32)
        for nodes in (1, 2, 4)
        for b in (4, 16, 64)
        if nodes <= n <= 8 * nodes
    ]
    n, nodes, b = np.array(rows, np.float64).T
    seconds = features(n, nodes, b, np.ones_like(n)) @ parameters
    seconds = seconds * np.exp(np.random.default_rng(seed).normal(0, noise, len(seconds)))
    return StepPoints(n, nodes, b, seconds)


@pytest.mark.parametrize(
    ("gpus", "nodes", "cards", "factors"),
    [
        (1, 1, 1, [1, 5, 0, 0, 0, 0]),
        (8, 1, 4, [1, 5, 7 / 8, 3, 0, 0]),  # nothing crosses a link between nodes
        (8, 2, 1, [1, 5, 7 / 8, 3, 7 / 8, 0]),
        (8, 4, 1, [1, 5, 7 / 8, 3, 7 / 8, 1]),
        (8, 2, 2, [1, 5, 7 / 8, 3, 7 / 16, 0]),
        (32, 16, 2, [1, 5, 31 / 32, 5, 31 / 64, 3 / 2]),
    ],
)
def test_features_by_hand(gpus, nodes, cards, factors):
    arrays = (np.array(float(value)) for value in (gpus, nodes, 5, cards))
    assert features(*arrays).tolist() == factors


@pytest.mark.parametrize(
    ("gpus", "nodes", "cards"),
    [(8, 1, 4), (8, 2, 2), (7, 2, 2), (8, 3, 1), (8, 8, 1), (16, 2, 4), (2, 1, 1), (64, 4, 4)],
)
def test_two_gpus_share_a_network_card(gpus, nodes, cards):
    """The node with the fewest GPUs counts: 7 GPUs on 2 nodes are 4 and 3, which use two cards each."""
    assert cards_in_use(np.array(float(gpus)), np.array(float(nodes)), 8, 4) == cards
    assert cards_in_use(np.array(float(gpus)), np.array(float(nodes)), 8, 1) == 1


def test_cards_between_nodes_change_the_fit():
    """Points of a machine with cards are fitted exactly by the form with cards, and not without."""
    points = grid()
    cards = cards_in_use(points.num_gpus, points.num_nodes, 8, 4)
    seconds = features(points.num_gpus, points.num_nodes, points.local_batch, cards) @ TRUE
    measured = StepPoints(points.num_gpus, points.num_nodes, points.local_batch, seconds)
    found = fit_step_time(measured, Priors(), 8, network_cards=4, carry=False)
    assert found.parameters == pytest.approx(TRUE, rel=0.02)
    assert fit_step_time(measured, Priors(), 8, carry=False).parameters != pytest.approx(TRUE, rel=0.02)
    assert found.scale(2.0, 1.0).network_cards == 4


def test_coordinates_count_spread_from_the_fewest_nodes():
    """16 GPUs need two nodes of 8: the spread is 1 there and four on 8 nodes. The batch counts half."""
    there = coordinates(np.array([16, 16]), np.array([2, 8]), np.array([4, 4]), 8)
    assert there.tolist() == [[4, 1, 0], [4, 1, 2]]


def test_the_fit_recovers_the_parameters_of_generated_data():
    found = fit_step_time(grid(), Priors(), carry=False)
    assert found.parameters == pytest.approx(TRUE, rel=0.02)


def test_the_fit_is_robust_to_noise():
    points = grid(noise=0.05)
    found = fit_step_time(points, Priors(), carry=False)
    truth = StepTime(TRUE, 8).fitted_seconds(points.num_gpus, points.num_nodes, points.local_batch)
    relative = found.fitted_seconds(points.num_gpus, points.num_nodes, points.local_batch) / truth - 1
    assert np.abs(relative).max() < 0.06


parameters = st.lists(st.floats(1e-4, 0.1), min_size=6, max_size=6).map(np.array)


@given(parameters, st.integers(0, 5))
def test_the_surface_passes_through_every_measured_point(true, seed):
    points = grid(true, noise=0.3, seed=seed)
    surface = fit_step_time(points, Priors())
    assert surface.seconds(points.num_gpus, points.num_nodes, points.local_batch) == pytest.approx(points.seconds)


@given(parameters, st.integers(0, 5))
def test_parameters_are_never_negative(true, seed):
    assert (fit_step_time(grid(true, noise=0.5, seed=seed), Priors()).parameters >= 0).all()


@given(parameters)
def test_the_bare_surface_grows_with_batch_nodes_and_gpus_at_equal_local_batch(true):
    surface = StepTime(true, 8)
    n = np.arange(1, 65)
    for nodes in (1, 2, 8):
        assert (np.diff(surface.fitted_seconds(n, np.array(nodes), np.array(16))) >= 0).all()
    assert (np.diff(surface.fitted_seconds(np.array(8), np.array(1), n)) > 0).all()
    assert (np.diff(surface.fitted_seconds(np.array(64), n, np.array(1))) >= 0).all()


def test_residuals_vanish_far_from_all_points():
    points = grid(noise=0.3)
    surface, bare = fit_step_time(points, Priors()), fit_step_time(points, Priors(), carry=False)
    far = (np.array(2.0**40), np.array(2.0**40), np.array(1e12))
    assert surface.seconds(*far) == pytest.approx(bare.seconds(*far), rel=1e-3)


@given(st.integers(1, 64), st.integers(1, 8), st.floats(1, 256))
def test_between_points_residuals_stay_within_their_range(n, nodes, batch):
    assume(nodes <= n)
    points = grid(noise=0.3)
    surface = fit_step_time(points, Priors())
    assert surface.residuals is not None
    here = (np.array(float(n)), np.array(float(nodes)), np.array(batch))
    carried = float(np.log(surface.seconds(*here) / surface.fitted_seconds(*here)))
    assert min(surface.residuals.min(), 0) - 1e-9 <= carried <= max(surface.residuals.max(), 0) + 1e-9


def test_parameters_without_points_come_from_the_priors():
    """One point on one GPU: a tenth of it is fixed, and communication follows from the links."""
    one = StepPoints(np.array([1.0]), np.array([1.0]), np.array([10.0]), np.array([1.0]))
    found = fit_step_time(one, Priors(fixed_share=0.1, intra_seconds=0.02, inter_seconds=0.3)).parameters
    assert found == pytest.approx([0.1, 0.09, 0.02, 0.0, 0.3, 0.0], rel=1e-3, abs=1e-9)


def test_scaling_does_not_change_communication_and_cpu_work():
    surface = StepTime(TRUE, 8)
    faster = surface.scale(4.0, gpu_share=1.0).parameters
    assert faster == pytest.approx([*(TRUE[:2] / 4), *TRUE[2:]])
    half = surface.scale(4.0, gpu_share=0.5).parameters
    assert half[:2] == pytest.approx(TRUE[:2] * (0.5 + 0.5 / 4))
    assert surface.scale(1e9, gpu_share=0.0).parameters == pytest.approx(TRUE)


@pytest.mark.parametrize("column", ["num_gpus", "num_nodes", "local_batch", "seconds"])
@pytest.mark.parametrize("value", [np.nan, 0.0, -1.0, np.inf])
def test_invalid_values_in_a_profile_are_refused_with_their_row(column, value):
    columns = {name: np.ones(3) for name in ("num_gpus", "num_nodes", "local_batch", "seconds")}
    columns[column] = np.array([1.0, 1.0, value])
    with pytest.raises(PerformanceError, match=rf"^profile: row 2: {column} is .*; it must be positive and finite"):
        StepPoints(**columns)


def test_a_profile_without_points_is_refused():
    empty = np.empty(0)
    with pytest.raises(PerformanceError, match="no measured point"):
        fit_step_time(StepPoints(empty, empty, empty, empty), Priors())
