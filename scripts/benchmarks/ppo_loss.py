"""PPO's loss as `agents.rllib.learner` has it, without RLlib."""

import torch
from torch import Tensor, nn

from agents.networks import PolicyNetwork
from agents.rllib import PPOSettings
from agents.rllib.distribution import chosen, entropies
from benchmarks.rollout import Columns


def loss(network: PolicyNetwork, seen: Columns, done: Columns, settings: PPOSettings) -> Tensor:
    """Clipped policy loss server by server, Huber value loss and entropy bonus.

    Args:
        network: policy and critic.
        seen: observations [rows, ...].
        done: `actions` and their `log_probs` then [rows, servers], `gains` and normalised value `targets` [rows].
        settings: clip and weights.
    """
    log_probs = network.logits(seen).log_softmax(-1)
    ratio = (chosen(log_probs, done["actions"]) - done["log_probs"]).exp()
    gain, clip = done["gains"].unsqueeze(1), settings.clip_param
    gained = torch.minimum(gain * ratio, gain * ratio.clamp(1 - clip, 1 + clip)).mean()
    missed = nn.functional.huber_loss(network.value(seen), done["targets"], delta=10.0)
    total: Tensor = settings.vf_loss_coeff * missed - gained - settings.entropy_coeff * entropies(log_probs).mean()
    return total
