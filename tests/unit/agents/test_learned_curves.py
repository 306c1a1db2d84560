"""The learned estimator: what its weights keep, that it learns, its file, and its command."""

import numpy as np
import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st

from agents.estimators import LearnedCurves, load_curves, save_curves
from agents.networks.curve_network import CurveNetwork
from envs.types import CheckpointError, KnownCurves
from experiments.estimators.calibration import calibrate
from experiments.estimators.held_out import held_out_jobs
from experiments.estimators.training import train_curves
from tests.conformance.test_estimators import NODES, cases, some_curves
from tests.unit.baselines.test_calibration import JOBS, SETUP
from tests.unit.scripts.test_training_scripts import run_here


def random_network(seed):
    """A network whose weights of samples are negative, too."""
    torch.manual_seed(seed)
    network = CurveNetwork(8)
    with torch.no_grad():
        for parameter in network.parameters():
            parameter.normal_()
    return network


@settings(max_examples=12)
@given(case=cases(), seed=st.integers(0, 20))
def test_the_order_of_samples_does_not_matter(case, seed):
    known, samples = case
    fit = LearnedCurves(random_network(seed)).fit(known)
    one = fit.estimate(samples)
    other = fit.estimate(samples._make(column[::-1] for column in samples))
    np.testing.assert_allclose(np.log(other.throughput[known.runs]), np.log(one.throughput[known.runs]), atol=1e-3)
    np.testing.assert_allclose(other.spread[known.runs], one.spread[known.runs], rtol=1e-3)


@settings(max_examples=12)
@given(case=cases(), seed=st.integers(0, 20))
def test_weights_add_up_to_one(case, seed):
    """Samples that are all equally far above the shape of the others put the curve there, whatever the weights."""
    known, samples = case
    fit = LearnedCurves(random_network(seed)).fit(known)
    question = fit.ask(samples, samples.cells)
    shape = question.shape.astype(np.float64)
    found = fit.estimate(samples._replace(throughput=7.0 * np.exp(shape)))
    at = np.log(found.throughput[tuple(samples.cells.T)])
    np.testing.assert_allclose(at, np.log(7.0) + shape, atol=1e-3 * max(1.0, np.abs(shape).max()))


def test_it_learns_what_a_measurement_says():
    """Of drawn curves: after 200 steps beliefs are better than before, and better with more measurements."""
    jobs = list(held_out_jobs([JOBS], SETUP, 3, seed=0))
    network = train_curves(jobs[:30], SETUP, 200, seed=0, hidden=16)
    torch.manual_seed(0)
    estimators = {"trained": LearnedCurves(network), "at first": LearnedCurves(CurveNetwork(16))}
    scores = calibrate(estimators, jobs[30:], SETUP, [0, 3]).groupby(["estimator", "measured"])["crps"].mean()
    assert scores["trained", 3] < 0.5 * scores["at first", 3]
    assert scores["trained", 3] < 0.5 * scores["trained", 0]


def test_a_file_gives_the_same_beliefs(tmp_path):
    curves, runs = some_curves(0, 3)
    jobs = list(held_out_jobs([JOBS], SETUP, 1, seed=0))
    network = random_network(3)
    save_curves(network, tmp_path / "curves.safetensors")
    known = KnownCurves(curves, runs, NODES)
    samples = jobs[0].samples._replace(cells=np.argwhere(runs)[:2])
    one, other = (
        each.fit(known).estimate(samples)
        for each in (LearnedCurves(network), load_curves(tmp_path / "curves.safetensors"))
    )
    np.testing.assert_array_equal(one.throughput, other.throughput)
    np.testing.assert_array_equal(one.spread, other.spread)


def no_file(path):
    path.unlink()


def not_weights(path):
    path.write_bytes(b"weights")


def of_another_network(path):
    from safetensors.torch import save_file

    save_file({"first.bias": torch.zeros(8)}, str(path))


def not_finite(path):
    network = CurveNetwork(8)
    with torch.no_grad():
        network.spread.bias.fill_(torch.nan)
    save_curves(network, path)


@pytest.mark.parametrize("spoil", [no_file, not_weights, of_another_network, not_finite])
def test_a_spoilt_file_is_an_error_of_one_line(tmp_path, spoil):
    path = tmp_path / "curves.safetensors"
    save_curves(CurveNetwork(8), path)
    spoil(path)
    with pytest.raises(CheckpointError) as error:
        load_curves(path)
    assert len(str(error.value).splitlines()) == 1


def test_the_command_trains_and_its_file_is_an_estimator(tmp_path):
    options = ["task=profile-24", "training_episodes=2", "steps=20", "hidden=8", "episodes=1", "measured=[0,1]"]
    done = run_here(tmp_path, "train_estimator", f"hydra.run.dir={tmp_path}", *options)
    assert done.returncode == 0, done.stderr
    assert "learned" in done.stdout
    assert "linear_gaussian" in done.stdout
    weights = tmp_path / "curves.safetensors"
    options = ["task=profile-24", "scheduler=[srtf]", "episodes=1", "estimator=learned_curves"]
    played = run_here(
        tmp_path, "compare", f"hydra.run.dir={tmp_path / 'played'}", f"estimator.file={weights}", *options
    )
    assert played.returncode == 0, played.stderr
    assert "srtf" in played.stdout
