"""Steps of evolution strategies: shaped merits, Adam, weight decay, and a moving average of the weights."""

import copy
from collections.abc import Mapping
from typing import Any

import numpy as np
import torch
from torch import Tensor, nn

from agents.methods.evolution.perturbations import LowRankPerturbations
from envs.types import FloatArray, MurmurationError


def rank_shaped(merits: FloatArray) -> FloatArray:
    """Replace merits by their ranks, from -0.5 for the worst to 0.5 for the best; equal merits share a rank.

    As in Salimans et al. (2017, section 2.1): one extreme episode then counts no more than any other.

    Args:
        merits: float64[n], higher is better; n at least 2.
    """
    _, inverse, counts = np.unique(merits, return_inverse=True, return_counts=True)
    first = np.concatenate([[0], np.cumsum(counts)[:-1]])
    mean_rank = first + (counts - 1) / 2
    return np.asarray(mean_rank[inverse] / max(len(merits) - 1, 1) - 0.5)


class Ascent:
    """The state of a search: a network, Adam's moments, and a moving average of the weights, which is what is played.

    A step follows the estimated gradient of the merit (Wierstra et al., "Natural Evolution Strategies", JMLR 2014;
    Salimans et al., "Evolution Strategies as a Scalable Alternative to Reinforcement Learning", 2017).

    Args:
        network: its linear layers are trained, in place.
        lr: learning rate of Adam.
        decay: share of the weights that each step takes away, times `lr`.
        averaging: weight of the newest weights in the moving average, from 0 (exclusive) to 1 (no average).

    Raises:
        MurmurationError: a number is out of range.
    """

    def __init__(self, network: nn.Module, lr: float, decay: float = 0.0, averaging: float = 1.0) -> None:
        if not lr > 0 or decay < 0 or not 0 < averaging <= 1:
            raise MurmurationError(
                f"evolution: lr is {lr}, decay {decay}, averaging {averaging}; lr must be positive, decay not "
                "negative, averaging above 0 and at most 1"
            )
        self.network, self.averaging, self.steps = network, averaging, 0
        self._trained = {name: value for name, value in network.named_parameters() if value.requires_grad}
        self._adam = torch.optim.AdamW(self._trained.values(), lr=lr, betas=(0.9, 0.99), weight_decay=decay)
        self.average = {name: value.detach().clone() for name, value in self._trained.items()}

    def step(self, perturbations: LowRankPerturbations, merits: FloatArray) -> dict[str, float]:
        """Take one step towards higher merit.

        Args:
            perturbations: the variants that played.
            merits: float64[num_pairs, 2, num_workloads]: the merit, higher is better, of the two variants of each pair
                on its workloads. The two play the same workloads; pairs may play different ones.

        Returns:
            Figures to log: the share of the variance of the pairs' differences that belongs to the weights (the rest
            is noise of the workloads; NaN with one workload), and the lengths of gradient and weights.

        Raises:
            MurmurationError: a merit is not finite.
        """
        if not np.isfinite(merits).all():
            raise MurmurationError("evolution: the merit of an episode is not finite; check the objective")
        differences = merits[:, 0] - merits[:, 1]
        by_pair = differences.mean(axis=1)
        shaped = rank_shaped(np.concatenate([by_pair, -by_pair]))[: len(by_pair)]
        gradient = perturbations.gradient(shaped)
        for name, value in self._trained.items():
            value.grad = -gradient[name] if name in gradient else None
        self._adam.step()
        self.steps += 1
        newest = max(self.averaging, 1.0 / self.steps)
        for name, value in self._trained.items():
            self.average[name].lerp_(value.detach(), newest)
        return {
            "signal_share": signal_share(differences),
            "gradient_norm": float(torch.stack([g.norm() for g in gradient.values()]).norm()),
            "weight_norm": float(torch.stack([value.detach().norm() for value in self._trained.values()]).norm()),
        }

    def state(self) -> dict[str, Any]:
        """Return everything that `restore` needs: tensors and plain values."""
        return {
            "weights": {name: value.detach().clone() for name, value in self._trained.items()},
            "average": {name: value.clone() for name, value in self.average.items()},
            "adam": copy.deepcopy(self._adam.state_dict()),
            "steps": self.steps,
        }

    def restore(self, state: Mapping[str, Any]) -> None:
        """Continue from the result of `state`.

        Raises:
            KeyError: a part is missing.
            ValueError: the parts belong to another network.
        """
        with torch.no_grad():
            for name, value in self._trained.items():
                value.copy_(state["weights"][name])
                self.average[name].copy_(state["average"][name])
        self._adam.load_state_dict(state["adam"])
        self.steps = int(state["steps"])

    def averaged(self) -> Mapping[str, Tensor]:
        """Return the averaged weights by parameter name."""
        return self.average


def signal_share(differences: FloatArray) -> float:
    """Return the share of the variance of pair means that is not explained by the noise of workloads, from 0 to 1.

    The variance of a mean over workloads is estimated within pairs and deducted from the variance between pairs.

    Args:
        differences: float64[num_pairs, num_workloads], of merit within each pair.
    """
    num_pairs, num_workloads = differences.shape
    if num_workloads < 2 or num_pairs < 2:
        return float("nan")
    between = float(np.mean(differences.mean(axis=1) ** 2))  # the mean over pairs is 0 by symmetry
    noise = float(differences.var(axis=1, ddof=1).mean()) / num_workloads
    return max(1.0 - noise / between, 0.0) if between > 0 else 0.0
