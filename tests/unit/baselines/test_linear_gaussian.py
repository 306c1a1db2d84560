"""The estimator of throughputs: a posterior worked by hand, and how well its beliefs are calibrated."""

import numpy as np
import pytest

from baselines.parts.linear_gaussian import LEAST_RESIDUAL, LinearGaussian
from envs.performance import default_model
from envs.simulation.mean_curve import MeanCurve
from envs.types import Configuration, KnownCurves, MurmurationError, ThroughputSamples


def samples(*rows):
    """Samples from rows (GPU type, GPUs, level, samples/s, error)."""
    cells = np.array([row[:3] for row in rows], np.int64).reshape(-1, 3)
    throughput, error = (np.array([row[place] for row in rows], np.float64) for place in (3, 4))
    return ThroughputSamples(cells, throughput, error, np.zeros(len(rows), bool))


def known(*curves):
    """Curves by number of GPUs, on one type and one node; 0 GPUs first."""
    table = np.array(curves, np.float64)[:, None, :, None]
    return KnownCurves(table, np.ones(table.shape[1:], bool), np.array([1]))


@pytest.mark.parametrize("estimator", [LinearGaussian(), MeanCurve()], ids=["linear_gaussian", "mean_curve"])
def test_one_exact_sample_sets_the_height(estimator):
    """All other models double with twice the GPUs; so does a model of which one point is known."""
    fit = estimator.fit(known((0, 1, 2, 3, 4), (0, 10, 20, 30, 40)))
    found = fit.estimate(samples((0, 2, 0, 6.0, 1e-6)))
    assert found.throughput[0, 1:, 0] == pytest.approx([3.0, 6.0, 9.0, 12.0], rel=0.01)
    assert found.spread[0, 2, 0] < 0.1


def test_samples_choose_between_the_curves_of_other_models():
    """Half of the models scale, half do not; two points of a curve that does not show that it does not."""
    flat, steep = (0, 1, 1, 1, 1), (0, 1, 2, 3, 4)
    fit = LinearGaussian(0.0, 0.0, 0.0).fit(known(flat, steep, flat, steep))
    found = fit.estimate(samples((0, 1, 0, 5.0, 0.01), (0, 2, 0, 5.0, 0.01)))
    assert found.throughput[0, 1:, 0] == pytest.approx([5.0] * 4, rel=0.05)
    steeper = fit.estimate(samples((0, 1, 0, 5.0, 0.01), (0, 2, 0, 10.0, 0.01)))
    assert steeper.throughput[0, 4, 0] == pytest.approx(20.0, rel=0.05)
    assert fit.estimate(samples((0, 1, 0, 5.0, 0.01))).spread[0, 4, 0] > 3 * found.spread[0, 4, 0]


def test_the_posterior_by_hand():
    """With a single direction, the height of prior spread 3: mean and spread are those of two normal factors."""
    fit = LinearGaussian(0.0, 0.0, 0.0, directions="none").fit(known((0, 1, 1), (0, 1, 1)))
    found = fit.estimate(samples((0, 1, 0, np.e, 1.0)))
    noise, prior = 1.0 + LEAST_RESIDUAL**2, 9.0
    assert np.log(found.throughput[0, 1, 0]) == pytest.approx(prior / (prior + noise))
    assert found.spread[0, 1, 0] == pytest.approx(np.hypot(np.sqrt(prior * noise / (prior + noise)), LEAST_RESIDUAL))


def test_equal_samples_average_out():
    fit = LinearGaussian().fit(known((0, 1, 2), (0, 1, 1)))
    once = fit.estimate(samples((0, 1, 0, 4.0, 0.4)))
    often = fit.estimate(samples(*[(0, 1, 0, 4.0, 0.4)] * 16))
    assert often.spread[0, 1, 0] == pytest.approx(once.spread[0, 1, 0] / 4, rel=0.1)


def test_the_posterior_is_that_of_the_whole_covariance():
    """Against the textbook formula with a matrix over all cells, on samples of which some repeat a cell."""
    curves = zoo_curves()
    runs = curves[0] > 0
    runs[2, 5:] = False
    fit = LinearGaussian().fit(KnownCurves(curves[1:], runs, np.array([1])))
    taken = samples((0, 2, 0, 90.0, 0.5), (1, 4, 0, 70.0, 0.05), (1, 4, 0, 75.0, 0.05), (2, 1, 0, 12.0, 0.05))
    found = fit.estimate(taken)
    cells = np.ravel_multi_index(tuple(taken.cells.T), runs.shape)
    covariance = fit.features @ fit.features.T
    noise = np.diag(taken.error**2 + LEAST_RESIDUAL**2)
    gain = np.linalg.solve(covariance[np.ix_(cells, cells)] + noise, covariance[cells]).T
    mean = fit.shape.reshape(-1) + gain @ (np.log(taken.throughput) - fit.shape.reshape(-1)[cells])
    variance = np.diag(covariance - gain @ covariance[cells]) + LEAST_RESIDUAL**2
    assert np.log(found.throughput[runs]) == pytest.approx(mean[runs.reshape(-1)], rel=1e-9)
    assert found.spread[runs] == pytest.approx(np.sqrt(variance[runs.reshape(-1)]), rel=1e-9)
    assert not found.throughput[~runs].any()
    assert not found.spread[~runs].any()


def zoo_curves():
    """float64[models, types, GPUs, 1] of the zoo's models that run on one GPU of each type, on one node."""
    performance, types = default_model(), ("V100", "P100", "K80")
    rows = [
        [[0.0, *(performance.throughput(model, Configuration(name, n)) for n in range(1, 9))] for name in types]
        for model in performance.models
        if all(performance.throughput(model, Configuration(name, 1)) > 0 for name in types)
    ]
    return np.array(rows)[..., None]


@pytest.mark.parametrize(("estimator", "most"), [(LinearGaussian(), 0.35), (MeanCurve(), 0.4)])
def test_beliefs_about_held_out_models_are_calibrated(estimator, most):
    """Each model of the zoo is predicted from all others and one sample; 90 % intervals hold most of the truth."""
    curves = zoo_curves()
    runs = curves[0] > 0
    inside, errors = [], []
    for own in range(len(curves)):
        fit = estimator.fit(KnownCurves(np.delete(curves, own, axis=0), runs, np.array([1])))
        found = fit.estimate(samples((0, 2, 0, curves[own, 0, 2, 0], 0.05)))
        error = np.log(found.throughput[runs] / curves[own][runs])
        errors.append(np.abs(error).mean())
        inside.append((np.abs(error) < 1.645 * found.spread[runs]).mean())
    assert len(curves) > 15
    assert np.mean(errors) < most
    assert 0.8 < np.mean(inside) <= 1.0


def test_no_other_model_is_needed():
    """A performance model may know one model only; its shape is then that of the estimator's own directions."""
    alone = KnownCurves(np.zeros((0, 1, 3, 1)), np.ones((1, 3, 1), bool), np.array([1]))
    for estimator in (LinearGaussian(), MeanCurve()):
        found = estimator.fit(alone).estimate(samples((0, 1, 0, 2.0, 0.01)))
        assert found.throughput[0, 1, 0] == pytest.approx(2.0, rel=0.05)


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"nodes_spread": -1.0}, "estimator.nodes_spread is -1.0; it must not be negative"),
        ({"directions": "mine"}, "estimator.directions is 'mine'; it must be others or none"),
    ],
)
def test_wrong_options_are_refused(options, message):
    with pytest.raises(MurmurationError, match=message):
        LinearGaussian(**options)
