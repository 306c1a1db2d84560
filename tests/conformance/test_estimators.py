"""Requirements on every estimator of `conf/estimator`."""

import numpy as np
import pytest
from hydra import compose, initialize_config_dir
from hydra.utils import instantiate
from hypothesis import given, settings
from hypothesis import strategies as st

from envs.scheduling import ThroughputEstimator
from envs.types import KnownCurves, ThroughputSamples
from murmuration.config.choices import CONF
from murmuration.config.tables import read_choices

NAMES = list(read_choices(CONF / "estimator"))
NODES = np.array([1, 2, 4])


def build(name: str) -> ThroughputEstimator:
    """Build the estimator of a YAML file as the scripts do."""
    with initialize_config_dir(str(CONF), version_base="1.3"):
        estimator: ThroughputEstimator = instantiate(compose(overrides=[f"+estimator={name}"]).estimator)
    return estimator


ESTIMATORS = {name: build(name) for name in NAMES}


def some_curves(seed, num_curves):
    """Random curves on two types, 1 to 6 GPUs and three levels; the last one lacks a GPU type."""
    rng = np.random.default_rng(seed)
    size, level = np.indices((7, 3))
    runs = np.broadcast_to((size >= NODES[level]), (2, 7, 3))
    steps = rng.uniform(0.0, 1.2, (num_curves, 1, 7, 1)).cumsum(axis=2) * rng.uniform(1.0, 100.0, (num_curves, 2, 1, 1))
    curves = np.where(runs, (steps + 0.1) * rng.uniform(0.5, 1.0, (num_curves, 1, 1, 3)), 0.0)
    curves[2:, 1] = 0.0
    return curves, runs


@st.composite
def cases(draw):
    """What is known of a model, and one to five samples of it."""
    curves, runs = some_curves(draw(st.integers(0, 50)), draw(st.integers(0, 4)))
    cells = np.argwhere(runs)
    chosen = draw(st.lists(st.integers(0, len(cells) - 1), min_size=1, max_size=5))
    throughput = draw(st.lists(st.floats(1e-3, 1e6), min_size=len(chosen), max_size=len(chosen)))
    error = np.where(stated := np.arange(len(chosen)) == 0, 0.5, draw(st.sampled_from([0.0, 0.05])))
    return KnownCurves(curves, runs, NODES), ThroughputSamples(cells[chosen], np.array(throughput), error, stated)


@pytest.mark.parametrize("name", NAMES)
@settings(max_examples=25)
@given(case=cases())
def test_beliefs_are_finite_and_positive_and_the_same_for_equal_samples(name, case):
    """Whatever a throughput is, and however little is known of other models."""
    known, samples = case
    before = [column.copy() for column in samples]
    found, again = (ESTIMATORS[name].fit(known).estimate(samples) for _ in range(2))
    assert found.throughput.shape == found.spread.shape == known.runs.shape
    for table in found:
        assert np.isfinite(table[known.runs]).all()
        assert (table[known.runs] > 0).all()
    assert all((one == other).all() for one, other in zip(found, again, strict=True))
    assert all((column == old).all() for column, old in zip(samples, before, strict=True)), "it changed its samples"


@pytest.mark.parametrize("name", NAMES)
def test_beliefs_follow_the_height_of_the_samples(name):
    """A model that is ten times as fast everywhere is believed to be so; spreads stay."""
    curves, runs = some_curves(1, 4)
    cells = np.argwhere(runs)[[0, 5, 9]]
    samples = ThroughputSamples(cells, curves[0][tuple(cells.T)], np.full(3, 0.05), np.arange(3) == 0)
    fit = ESTIMATORS[name].fit(KnownCurves(curves[1:], runs, NODES))
    once, tenfold = fit.estimate(samples), fit.estimate(samples._replace(throughput=10 * samples.throughput))
    assert tenfold.throughput[runs] == pytest.approx(10 * once.throughput[runs], rel=0.02)
    assert tenfold.spread[runs] == pytest.approx(once.spread[runs], rel=0.02)


@pytest.mark.parametrize("name", NAMES)
def test_measured_cells_become_less_uncertain(name):
    curves, runs = some_curves(2, 4)
    cells = np.argwhere(runs)
    fit = ESTIMATORS[name].fit(KnownCurves(curves[1:], runs, NODES))
    first, whole = (
        fit.estimate(ThroughputSamples(cells[:n], curves[0][runs][:n], np.full(n, 0.05), np.zeros(n, bool)))
        for n in (1, len(cells))
    )
    assert whole.spread[runs].mean() < first.spread[runs].mean()
