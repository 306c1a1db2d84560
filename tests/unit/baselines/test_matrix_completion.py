"""Matrix completion as an estimator: values by hand, exact rows of its family, spreads, and wrong options."""

import numpy as np
import pytest

from baselines.parts.matrix_completion import LEAST_RESIDUAL, MatrixCompletion, factorise
from envs.types import KnownCurves, MurmurationError
from tests.unit.baselines.test_linear_gaussian import known, samples

FLAT, STEEP = (0, 1, 1, 1, 1), (0, 1, 2, 3, 4)


def test_a_job_gets_the_curve_of_the_nearest_reference_by_hand():
    """Two exact points of ratio 1.9 are nearer to the models that double than to those that stay: 5 x 3 and 5 x 4."""
    fit = MatrixCompletion().fit(known(FLAT, STEEP, FLAT, STEEP))
    found = fit.estimate(samples((0, 1, 0, 5.0, 1e-6), (0, 2, 0, 9.5, 1e-6)))
    height = np.log(5.0) / 2 + np.log(9.5 / 2) / 2  # of the reference between both points
    assert np.log(found.throughput[0, 3:, 0]) == pytest.approx(height + np.log([3.0, 4.0]), abs=1e-6)
    assert np.log(found.throughput[0, 1, 0]) == pytest.approx(np.log(5.0), abs=0.03), "measured cells stay"


def test_a_completed_row_lies_between_the_references():
    fit = MatrixCompletion(matched=False).fit(known(FLAT, STEEP, FLAT, STEEP))
    found = fit.estimate(samples((0, 1, 0, 5.0, 0.01), (0, 2, 0, 5.0 * 2**0.5, 0.01)))
    assert found.throughput[0, 4, 0] == pytest.approx(5.0 * 2.0, rel=0.03)


def test_it_finds_a_row_of_low_rank():
    """Rows of rank 2: heights and two factors determine all, of which four cells are measured."""
    rng = np.random.default_rng(0)
    logarithms = rng.standard_normal((21, 2)) @ rng.standard_normal((2, 24)) * 0.3
    curves = np.exp(logarithms).reshape(21, 3, 8, 1)
    runs = np.ones(curves.shape[1:], bool)
    fit = MatrixCompletion(rank=2, ridge=1e-6, matched=False).fit(KnownCurves(curves[:-1], runs, np.array([1])))
    cells = [(0, 1, 0), (1, 3, 0), (2, 6, 0), (0, 7, 0), (1, 5, 0)]
    found = fit.estimate(samples(*((*cell, 7.0 * curves[-1][cell], 1e-6) for cell in cells)))
    assert found.throughput == pytest.approx(7.0 * curves[-1], rel=0.02)
    assert found.spread.max() < 0.1


def test_the_factorisation_passes_over_what_is_missing():
    """A matrix of rank 1 of which an entry is missing: its factors restore it."""
    whole = np.outer([1.0, 2.0, 3.0], [1.0, -1.0, 2.0, 4.0])
    entries = whole.copy()
    entries[1, 2] = np.nan
    columns = factorise(entries, 1, 1e-9)
    row, there = entries[1], np.isfinite(entries[1])
    factor = row[there] @ columns[there] / (columns[there] ** 2).sum()
    assert factor * columns[2] == pytest.approx(whole[1, 2], rel=1e-3)


@pytest.mark.parametrize("matched", [True, False])
def test_spreads_shrink_where_something_was_measured(matched):
    fit = MatrixCompletion(matched=matched).fit(known(FLAT, STEEP, (0, 1, 1.5, 2, 2.5), (0, 1, 1.8, 2.6, 3.4)))
    rows = [(0, 1, 0, 5.0, 0.05), (0, 4, 0, 12.0, 0.05)]
    one, two = (fit.estimate(samples(*rows[:count])).spread[0, :, 0] for count in (1, 2))
    assert two[4] < 0.2 * one[4]
    assert one[1] == pytest.approx(np.hypot(0.05, LEAST_RESIDUAL), rel=0.1)
    assert two[1:].mean() < one[1:].mean()


def test_a_statement_is_no_measurement():
    """It sets the height; what the user says of its cell does not stay as it is."""
    fit = MatrixCompletion().fit(known(FLAT, STEEP))
    stated = samples((0, 1, 0, 5.0, 0.5))._replace(stated=np.array([True]))
    assert fit.estimate(stated).spread[0, 1, 0] >= 0.5


@pytest.mark.parametrize("count", [0, 1])
def test_few_references_are_enough(count):
    curves = np.array([STEEP][:count], np.float64).reshape(count, 1, 5, 1)
    fit = MatrixCompletion().fit(KnownCurves(curves, np.ones((1, 5, 1), bool), np.array([1])))
    found = fit.estimate(samples((0, 1, 0, 2.0, 0.01), (0, 2, 0, 4.0, 0.01)))
    assert found.throughput[0, 1, 0] == pytest.approx(2.0, rel=0.5)
    assert np.isfinite(found.throughput).all()
    assert (found.spread > 0).all()


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"rank": 0}, "estimator.rank is 0; it must be at least 1"),
        ({"ridge": 0.0}, "estimator.ridge is 0.0; it must be positive"),
    ],
)
def test_wrong_options_of_the_completion_are_refused(options, message):
    with pytest.raises(MurmurationError, match=message):
        MatrixCompletion(**options)
