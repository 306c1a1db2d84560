"""Estimator of throughputs whose beliefs a trained network forms."""

from pathlib import Path
from typing import NamedTuple

import numpy as np
import torch
from safetensors import SafetensorError
from safetensors.torch import load_file, save_file

from agents.networks.curve_network import PAIR_FEATURES, CurveNetwork
from agents.policies.checkpoint import check_finite
from envs.evaluation.files import whole_file
from envs.simulation.mean_curve import shape_of_others
from envs.types import CheckpointError, EstimatedCurve, FloatArray, IntArray, KnownCurves, ThroughputSamples

LEAST_SPREAD, MOST_SPREAD = 0.01, 3.0  # of the logarithm of a throughput


class LearnedCurves:
    """Estimator that weighs samples as a network has learnt to, on curves of training episodes.

    Of a model it sees where it runs, the mean shape of the other models' curves and their spread about it, and samples.
    Nothing names a model, so that it may be another one than in training. Attributes that a user states of a job are
    not used: the world has none that bear on the shape of its curve.

    Args:
        network: trained, or not yet.
    """

    def __init__(self, network: CurveNetwork) -> None:
        self.network = network.eval()

    def fit(self, known: KnownCurves) -> "LearnedFit":
        """Return the fit for one model; see `envs.scheduling.ThroughputEstimator`."""
        return LearnedFit(self.network, known)


class CurveQuestion(NamedTuple):
    """The question to a network: beliefs about some cells, after samples.

    Attributes:
        pairs: float64[num_cells, num_samples, PAIR_FEATURES]: whether both are of one GPU type; doublings of GPUs and
            of nodes from the sample to the cell, and their magnitudes; the sample's error, and whether it was stated;
            the prior's spread at both; how far the sample is above the mean of all samples, and its magnitude.
        above: float64[num_samples].
        shape: float64[num_cells].
        spread: float64[num_cells].
    """

    pairs: FloatArray
    above: FloatArray
    shape: FloatArray
    spread: FloatArray


class LearnedFit:
    """Beliefs about one model, as `LearnedCurves` forms them.

    Args:
        network: it decides how samples are weighed.
        known: about the model.
    """

    def __init__(self, network: CurveNetwork, known: KnownCurves) -> None:
        self.network, self._runs = network, known.runs
        self._shape, self._spread = shape_of_others(known)
        gpu_type, size, level = np.indices(known.runs.shape)
        gpus = np.maximum(size, 1)
        nodes = np.minimum(known.nodes[level], gpus)
        self._places = np.stack([gpu_type, np.log2(gpus), np.log2(nodes), self._spread], axis=-1)
        self._running: IntArray = np.argwhere(known.runs)

    def ask(self, samples: ThroughputSamples, cells: IntArray) -> CurveQuestion:
        """Return the question about int64[num_cells, 3] cells."""
        at, of = self._places[tuple(cells.T)][:, None], self._places[tuple(samples.cells.T)][None]
        above = np.log(samples.throughput) - self._shape[tuple(samples.cells.T)]
        apart = above - above.mean()
        pairs = np.empty((len(cells), len(above), PAIR_FEATURES))
        pairs[..., 0] = at[..., 0] == of[..., 0]
        pairs[..., 1:3] = at[..., 1:3] - of[..., 1:3]
        pairs[..., 3:5] = np.abs(pairs[..., 1:3])
        pairs[..., 5], pairs[..., 6] = samples.error, samples.stated
        pairs[..., 7], pairs[..., 8] = at[..., 3], of[..., 3]
        pairs[..., 9], pairs[..., 10] = apart, np.abs(apart)
        rows = tuple(cells.T)
        return CurveQuestion(pairs, above, self._shape[rows], self._spread[rows])

    @torch.inference_mode()
    def estimate(self, samples: ThroughputSamples) -> EstimatedCurve:
        """Return the beliefs after some samples; they are 0 in cells in which the model does not run."""
        question = self.ask(samples, self._running)
        mean, log_spread = self.network(*(torch.as_tensor(each, dtype=torch.float32) for each in question))
        throughput, spread = np.zeros(self._runs.shape), np.zeros(self._runs.shape)
        throughput[self._runs] = np.exp(mean.numpy().astype(np.float64))
        spread[self._runs] = np.clip(np.exp(log_spread.numpy().astype(np.float64)), LEAST_SPREAD, MOST_SPREAD)
        return EstimatedCurve(throughput, spread)


def save_curves(network: CurveNetwork, path: Path) -> None:
    """Write a network's weights as safetensors."""
    with whole_file(path) as file:
        save_file({name: tensor.detach().contiguous() for name, tensor in network.state_dict().items()}, str(file))


def load_curves(path: Path) -> LearnedCurves:
    """Return the estimator whose network `save_curves` has written.

    Raises:
        CheckpointError: there is no file, or it has no weights of a `CurveNetwork`, or some are not finite.
    """
    try:
        weights = load_file(path)
        network = CurveNetwork(len(weights["first.bias"]))
        network.load_state_dict(weights)
    except (OSError, SafetensorError, KeyError, RuntimeError, TypeError) as error:
        raise CheckpointError(
            f"{path}: it is no file of a learned estimator's weights; train one with scripts/train_estimator.py"
        ) from error
    check_finite(weights)
    return LearnedCurves(network)
