"""Advantages discounted by simulated time, which does not advance between the decisions of one round."""

from typing import Any

import numpy as np
import torch
from ray.rllib.connectors.connector_v2 import ConnectorV2
from ray.rllib.core import DEFAULT_MODULE_ID
from ray.rllib.core.columns import Columns
from ray.rllib.evaluation.postprocessing import Postprocessing

from agents.methods.ppo.columns import AGAINST_GROUP, ELAPSED
from agents.methods.ppo.discount import discounted_rewards
from envs.types import FloatArray

VALUE_SCALE_WEIGHT = 0.1  # weight of new targets in the running scale of values


def generalised_advantages(
    rewards: FloatArray, values: FloatArray, elapsed: FloatArray, ended: bool, time_constant: float, decay: float
) -> FloatArray:
    """Compute generalised advantage estimates of a part of an episode (GAE, ICLR'16), discounted by simulated time.

    A step of `dt` seconds discounts later rewards by exp(-dt / time_constant), and its own reward as in
    `discounted_rewards`. `decay` (GAE's lambda) applies per step.

    Args:
        rewards, elapsed: float64[T].
        values: float64[T + 1]; the last one is of the observation after the part.
        ended: whether the episode ended there, so that no rewards follow.
        time_constant: in seconds; infinite for no discount.
        decay: lambda, 0 to 1.

    Returns:
        float64[T].
    """
    discount = np.exp(-elapsed / time_constant)
    following = values[1:].copy()
    if ended:
        following[-1] = 0.0
    surprise = discounted_rewards(rewards, elapsed, time_constant) + discount * following - values[:-1]
    result = np.empty(len(rewards))
    carried = 0.0
    for t in range(len(rewards) - 1, -1, -1):
        carried = surprise[t] + discount[t] * decay * carried
        result[t] = carried
    return result


class TimeDiscountedAdvantages(ConnectorV2):
    """Learner connector that replaces RLlib's GAE: same inputs and outputs, discount by simulated time.

    Each episode has one artificial step at its end, which RLlib's `AddOneTsToEpisodesAndTruncate` adds.
    """

    def __init__(self, *, time_constant: float, decay: float) -> None:
        super().__init__()
        self.time_constant, self.decay = time_constant, decay

    def __call__(self, *, rl_module: Any, episodes: list[Any], batch: dict[str, Any], **_: Any) -> dict[str, Any]:
        """Add advantages (standardised) and value targets to the batch."""
        module = rl_module[DEFAULT_MODULE_ID].unwrapped()
        data = batch[DEFAULT_MODULE_ID]
        with torch.no_grad():
            values = module.compute_values(data).cpu().numpy().astype(np.float64)
        rewards = _array(data[Columns.REWARDS])
        elapsed = _array(data[ELAPSED])
        ended = _array(data[Columns.TERMINATEDS])
        found = np.zeros(len(values))
        at = 0
        for episode in episodes:
            steps = len(episode) - 1
            part = slice(at, at + steps)
            found[part] = generalised_advantages(
                rewards[part],
                values[at : at + steps + 1],
                elapsed[part],
                bool(ended[at + steps - 1]),
                self.time_constant,
                self.decay,
            )
            at += len(episode)
        real = _array(data[Columns.LOSS_MASK]).astype(bool)
        targets = torch.as_tensor(values + found, dtype=torch.float32)
        module.track_values(targets[torch.as_tensor(real)], VALUE_SCALE_WEIGHT)
        data[Postprocessing.ADVANTAGES] = _standardised(found, data)
        data[Postprocessing.VALUE_TARGETS] = targets.to(data[Columns.LOSS_MASK].device)
        return batch


class GroupAdvantages(ConnectorV2):
    """Learner connector that replaces RLlib's GAE: uses the advantages from `GroupRunner`, without a critic."""

    def __call__(self, *, batch: dict[str, Any], **_: Any) -> dict[str, Any]:
        """Add advantages (standardised) to the batch."""
        data = batch[DEFAULT_MODULE_ID]
        data[Postprocessing.ADVANTAGES] = _standardised(_array(data[AGAINST_GROUP]), data)
        return batch


def _standardised(found: FloatArray, data: dict[str, Any]) -> torch.Tensor:
    """Scale advantages to mean 0 and deviation 1 over real rows."""
    real = _array(data[Columns.LOSS_MASK]).astype(bool)
    scaled = (found - found[real].mean()) / max(1e-4, float(found[real].std()))
    return torch.as_tensor(scaled, dtype=torch.float32, device=data[Columns.LOSS_MASK].device)


def _array(column: Any) -> FloatArray:
    return np.asarray(column.cpu() if isinstance(column, torch.Tensor) else column, np.float64)
