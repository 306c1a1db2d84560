"""The market alone, with which policies that amend its proposals are compared."""

import torch

from agents.evolution.playing import Score
from agents.validation import ValidationFigures
from envs.gpu_cluster.columns import PASS


class AlwaysPass:
    """A policy of the discrete environment whose nodes leave proposals as they are."""

    def logits(self, observation: dict[str, torch.Tensor]) -> torch.Tensor:
        """Return scores [B, N, A] that favour passing."""
        scores = torch.zeros(observation["mask"].shape)
        scores[..., PASS] = 1.0
        return scores

    def value(self, observation: dict[str, torch.Tensor]) -> torch.Tensor:
        """Return estimates of 0, [B]."""
        return torch.zeros(len(observation["mask"]))


def score_from(figures: ValidationFigures) -> Score:
    """Return the score of one validation workload."""
    return Score(figures["mean_jct"], figures["makespan"], int(figures["num_unfinished"]))
