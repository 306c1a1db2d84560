"""Train the network of a learned estimator on jobs of training episodes."""

from collections.abc import Sequence
from dataclasses import replace
from typing import cast

import numpy as np
import torch
from rich.progress import track
from torch import Tensor
from torch.optim import Adam
from torch.optim.lr_scheduler import CosineAnnealingLR

from agents.estimators.learned_curves import CurveQuestion, LearnedCurves, LearnedFit
from agents.networks.curve_network import CurveNetwork
from envs.pictures.texts import wide_console
from envs.simulation import Setup
from envs.simulation.known.beliefs import Prior
from envs.types import FloatArray
from experiments.estimators.held_out import HeldOutJob

BATCH = 64  # jobs
CELLS = 24  # of a job, drawn
FIRST_STEP = 0.003  # of Adam; it falls to nothing
LONGEST_GRADIENT = 1.0  # its norm, above which it is cut


def train_curves(jobs: Sequence[HeldOutJob], setup: Setup, steps: int, seed: int, hidden: int = 32) -> CurveNetwork:
    """Return a network that has learnt from jobs by maximum likelihood.

    A step takes some jobs, a number of measurements that is the same for all of them, and some of the cells in which
    each may run that were not measured. Each job's model is left out of what is known, as in an episode.

    Args:
        jobs: of training episodes.
        setup: whose performance model has the curves of the other models.
        steps: of the optimiser.
        seed: of weights and draws.
        hidden: see `CurveNetwork`.
    """
    torch.manual_seed(seed)
    rng = np.random.default_rng(seed)
    network = CurveNetwork(hidden)
    prior = Prior.of(kept := replace(setup, estimator=LearnedCurves(network)), jobs[0].throughputs.shape[1] - 1)
    assert kept is not None  # a prior lives as long as its setup
    fits = {model: cast(LearnedFit, prior.fit(model)) for model in sorted({job.model for job in jobs})}
    most = min(len(job.samples.error) for job in jobs) - 1
    optimiser = Adam(network.parameters(), FIRST_STEP)
    schedule = CosineAnnealingLR(optimiser, steps)
    network.train()
    for _ in track(range(steps), "training", console=wide_console(), transient=True):
        measured = int(rng.integers(most + 1))
        chosen = [jobs[i] for i in rng.choice(len(jobs), BATCH)]
        loss = surprise(network, chosen, fits, measured, rng)
        optimiser.zero_grad()
        torch.autograd.backward(loss)
        torch.nn.utils.clip_grad_norm_(network.parameters(), LONGEST_GRADIENT)
        optimiser.step()
        schedule.step()
    return network.eval()


def surprise(
    network: CurveNetwork,
    jobs: Sequence[HeldOutJob],
    fits: dict[str, LearnedFit],
    measured: int,
    rng: np.random.Generator,
) -> Tensor:
    """Return the mean negative log likelihood of jobs' throughputs in drawn cells, after some measurements."""
    questions, truths = [], []
    for job in jobs:
        cells = np.argwhere(job.unseen(measured))
        cells = cells[rng.choice(len(cells), CELLS)]
        questions.append(fits[job.model].ask(job.after(measured), cells))
        truths.append(np.log(job.throughputs[tuple(cells.T)]))
    asked = CurveQuestion._make(_stacked(column) for column in zip(*questions, strict=True))
    mean, log_spread = network(*asked)
    error = (_stacked(truths) - mean) / log_spread.exp()
    loss: Tensor = (log_spread + error**2 / 2).mean()
    return loss


def _stacked(arrays: Sequence[FloatArray]) -> Tensor:
    return torch.as_tensor(np.stack(arrays), dtype=torch.float32)
