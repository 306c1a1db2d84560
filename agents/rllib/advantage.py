"""Advantages discounted by simulated time, since time stands still between the decisions of one round."""

from typing import Any

import numpy as np
import torch
from ray.rllib.connectors.connector_v2 import ConnectorV2
from ray.rllib.core import DEFAULT_MODULE_ID
from ray.rllib.core.columns import Columns
from ray.rllib.evaluation.postprocessing import Postprocessing

from agents.rllib.columns import AGAINST_GROUP, ELAPSED
from agents.rllib.discount import discounted_rewards
from envs.types import FloatArray

VALUE_RATE = 0.1  # how fast the scale of values follows new targets


def advantages(
    rewards: FloatArray, values: FloatArray, elapsed: FloatArray, ended: bool, time_constant: float, decay: float
) -> FloatArray:
    """Generalised advantage estimates of one stretch of an episode (GAE, ICLR'16), discounted by simulated time.

    A step of `dt` seconds discounts what follows by exp(-dt / time_constant), and its own reward as
    `discounted_rewards` has it. `decay` (GAE's lambda) applies per step.

    Args:
        rewards, elapsed: float64[T].
        values: float64[T + 1], the last one of the observation after the stretch.
        ended: whether the episode ended there, so that nothing follows.
        time_constant: seconds; infinite for no discount.
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
    """Learner connector in place of RLlib's GAE: same inputs and outputs, discount by simulated time.

    Episodes come elongated by one artificial step, as RLlib's `AddOneTsToEpisodesAndTruncate` leaves them.
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
            found[part] = advantages(
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
        module.track_values(targets[torch.as_tensor(real)], VALUE_RATE)
        data[Postprocessing.ADVANTAGES] = _standardised(found, data)
        data[Postprocessing.VALUE_TARGETS] = targets.to(data[Columns.LOSS_MASK].device)
        return batch


class GroupAdvantages(ConnectorV2):
    """Learner connector in place of RLlib's GAE: takes the advantages that `GroupRunner` has found; no critic."""

    def __call__(self, *, batch: dict[str, Any], **_: Any) -> dict[str, Any]:
        """Add advantages (standardised) to the batch."""
        data = batch[DEFAULT_MODULE_ID]
        data[Postprocessing.ADVANTAGES] = _standardised(_array(data[AGAINST_GROUP]), data)
        return batch


def _standardised(found: FloatArray, data: dict[str, Any]) -> torch.Tensor:
    """Advantages of mean 0 and deviation 1 over real rows."""
    real = _array(data[Columns.LOSS_MASK]).astype(bool)
    spread = (found - found[real].mean()) / max(1e-4, float(found[real].std()))
    return torch.as_tensor(spread, dtype=torch.float32, device=data[Columns.LOSS_MASK].device)


def _array(column: Any) -> FloatArray:
    return np.asarray(column.cpu() if isinstance(column, torch.Tensor) else column, np.float64)
