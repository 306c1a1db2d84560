"""Pollux's form as an estimator: values by hand, exact curves of its family, spreads, and wrong options."""

import numpy as np
import pytest

from baselines.parts.pollux_form import PolluxCells, PolluxForm
from envs.types import KnownCurves, MurmurationError
from tests.unit.baselines.test_linear_gaussian import known, samples

SHAPE, NODES = (2, 9, 2), np.array([1, 2])
CELLS = PolluxCells.all_of(SHAPE, NODES)


def curve(heights, *form):
    """A curve of the form, without 0 GPUs and one GPU on two nodes."""
    table = np.exp(CELLS.logarithm(np.array([*heights, *form], np.float64))).reshape(SHAPE)
    table[:, 0] = table[:, 1, 1] = 0.0
    return table


def of_family(seed):
    """A random curve of the form, as other models have it."""
    draw = np.random.default_rng(seed).standard_normal(9)
    return curve(draw[:2], *(np.array([-2.0, 0.0, -2.0, -4.0, -1.0, -3.0, -1.0]) + 0.5 * draw[2:]))


def test_the_form_by_hand():
    """T_grad = 1/8 s on one GPU, none of it fixed, weak scaling, gamma = 1: T_sync adds to it.

    Four GPUs of a node: T_sync = (0.5 + 2 x 0.25)/8 s, so that a step takes twice as long: 4 x 8/2 = 16 samples/s. On
    two nodes it is (1 + 2 x 1)/8 s: 4 x 8/4 = 8 samples/s.
    """
    form = [-50.0, -50.0, *np.log([0.5, 0.25, 1.0, 1.0]), -50.0]
    found = curve([np.log(8.0), np.log(8.0)], *form)
    assert found[0, 1, 0] == pytest.approx(8.0)
    assert found[0, 4] == pytest.approx([16.0, 8.0])


def test_strong_scaling_divides_the_batch():
    """r = 1 and half of T_grad fixed: on four GPUs it is 0.5 + 0.5/4 of that on one, for the same samples."""
    found = curve([0.0, 0.0], 0.0, 50.0, -50.0, -50.0, -50.0, -50.0, 0.0)
    assert found[1, 4, 0] == pytest.approx(1.0 / 0.625, rel=1e-6)


def test_the_norm_hides_the_shorter_time():
    """With the largest gamma, T_sync of half T_grad costs next to nothing: (1 + 0.5^10)^0.1."""
    found = curve([0.0, 0.0], -50.0, -50.0, np.log(0.5), -50.0, -50.0, -50.0, 50.0)
    assert found[0, 2, 0] == pytest.approx(2.0 / (1.0 + 0.5**10) ** 0.1)


def test_it_finds_a_curve_of_its_own_family():
    """From measurements in half of the cells, to within a few per cent in the others."""
    truth = of_family(100)
    fit = PolluxForm().fit(KnownCurves(np.stack([of_family(seed) for seed in range(12)]), truth > 0, NODES))
    cells = np.argwhere(truth > 0)[::2]
    found = fit.estimate(samples(*((*cell, truth[tuple(cell)], 0.01) for cell in cells)))
    assert found.throughput[truth > 0] == pytest.approx(truth[truth > 0], rel=0.03)
    assert not found.throughput[truth == 0].any()


def test_the_spread_shrinks_with_samples():
    truth = of_family(100)
    fit = PolluxForm().fit(KnownCurves(np.stack([of_family(seed) for seed in range(12)]), truth > 0, NODES))
    rows = [(gpu_type, size, 0, truth[gpu_type, size, 0], 0.05) for size in (1, 8, 4) for gpu_type in (0, 1)]
    spreads = [fit.estimate(samples(*rows[:count])).spread[truth > 0] for count in (1, 2, 4, 6)]
    assert all((np.diff([spread.mean() for spread in spreads])) < 0)
    assert spreads[-1].mean() < 0.5 * spreads[0].mean()


def test_equal_samples_give_equal_beliefs():
    first, second = (
        PolluxForm().fit(known((0, 1, 2), (0, 1, 1))).estimate(samples((0, 1, 0, 4.0, 0.4))) for _ in range(2)
    )
    assert (first.throughput == second.throughput).all()
    assert (first.spread == second.spread).all()


def test_no_other_model_is_needed_for_the_form():
    alone = KnownCurves(np.zeros((0, 1, 3, 1)), np.ones((1, 3, 1), bool), np.array([1]))
    found = PolluxForm().fit(alone).estimate(samples((0, 1, 0, 2.0, 0.01)))
    assert found.throughput[0, 1, 0] == pytest.approx(2.0, rel=0.05)


def test_a_residual_must_be_positive():
    with pytest.raises(MurmurationError, match=r"estimator.least_residual is 0.0; it must be positive"):
        PolluxForm(least_residual=0.0)
