"""A network that places a throughput curve by samples of it."""

from typing import NamedTuple

import torch
from torch import Tensor, nn
from torch.nn import functional

PAIR_FEATURES = 11


class CurveBelief(NamedTuple):
    """Beliefs about the logarithms of throughputs.

    Attributes:
        mean: float32[..., num_cells].
        log_spread: float32[..., num_cells], logarithms of standard deviations.
    """

    mean: Tensor
    log_spread: Tensor


class CurveNetwork(nn.Module):
    """Weighs samples of a curve for each cell that it is asked about, as a conditional neural process does.

    The mean is the prior's shape at the cell, plus a weighted sum of what the samples are above it. Weights follow from
    what is known of a cell and a sample (`envs.types.KnownCurves`, `ThroughputSamples`), through two layers; between
    them each sample sees the mean over all of them. They add up to 1 and may be negative, so that a curve that is twice
    as fast everywhere is believed to be so, and slopes go on.

    After Garnelo et al., "Conditional Neural Processes", ICML 2018, with attention to samples as in Kim et al.,
    "Attentive Neural Processes", ICLR 2019; the features and the weights that add up to 1 are ours.

    Args:
        hidden: units of each layer.
    """

    def __init__(self, hidden: int = 32) -> None:
        super().__init__()
        self.first = nn.Linear(PAIR_FEATURES, hidden)
        self.second = nn.Linear(2 * hidden, hidden)
        self.weights = nn.Linear(hidden, 2)
        self.third = nn.Linear(2 * hidden + 1, hidden)
        self.spread = nn.Linear(hidden, 1)
        nn.init.zeros_(self.weights.weight[1])  # at first a weighted mean

    def forward(self, pairs: Tensor, above: Tensor, shape: Tensor, spread: Tensor) -> CurveBelief:
        """Return the beliefs.

        Args:
            pairs: float32[..., num_cells, num_samples, PAIR_FEATURES], see `agents.estimators.learned_curves`.
            above: float32[..., num_samples], logarithms of the samples less the shape at their cells.
            shape: float32[..., num_cells], the prior's mean logarithm.
            spread: float32[..., num_cells], the prior's standard deviation.
        """
        seen = functional.relu(self.first(pairs))
        context = seen.mean(dim=-2, keepdim=True)
        joint = functional.relu(self.second(torch.cat((seen, context.expand_as(seen)), dim=-1)))
        attention, added = self.weights(joint).unbind(dim=-1)
        weights = torch.softmax(attention, dim=-1) + added - added.mean(dim=-1, keepdim=True)
        mean = shape + (weights * above[..., None, :]).sum(dim=-1)
        what = torch.cat((joint.mean(dim=-2), joint.amax(dim=-2), spread[..., None]), dim=-1)
        return CurveBelief(mean, self.spread(functional.relu(self.third(what)))[..., 0])
