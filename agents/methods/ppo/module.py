"""The RLlib module of a policy network: one module for the joint agent."""

from typing import Any

import torch
from ray.rllib.core.columns import Columns
from ray.rllib.core.rl_module.apis.value_function_api import ValueFunctionAPI
from ray.rllib.core.rl_module.torch import TorchRLModule
from torch import Tensor

from agents.methods.ppo.distribution import NodeCategorical
from agents.networks import Blueprint, PolicyNetwork
from envs.gpu_cluster import EnvSpec


class JointModule(TorchRLModule, ValueFunctionAPI):
    """A policy network, the running scale of its value targets and its number of updates.

    `model_config` holds `blueprint` (a `Blueprint` as dict) and `spec` (an `EnvSpec` as dict).
    """

    network: PolicyNetwork
    value_mean: Tensor
    value_scale: Tensor
    num_updates: Tensor  # so far; a buffer, because checkpoints and remote learners share only the module's state

    def setup(self) -> None:
        """Build the network."""
        spec = EnvSpec(**self.model_config["spec"])
        self.network = Blueprint.from_dict(self.model_config["blueprint"]).build(spec)  # type: ignore[assignment]
        self.register_buffer("value_mean", torch.zeros(()))
        self.register_buffer("value_scale", torch.ones(()))
        self.register_buffer("num_updates", torch.zeros((), dtype=torch.int64))
        self.action_dist_cls = NodeCategorical.for_nodes(spec.num_nodes)

    def _forward(self, batch: dict[str, Any], **_: Any) -> dict[str, Any]:
        return {Columns.ACTION_DIST_INPUTS: self.network.logits(batch[Columns.OBS]).flatten(1)}

    def normalised_values(self, batch: dict[str, Any]) -> Tensor:
        """Return values [B] in units of `value_scale` around `value_mean`, for the value loss."""
        return self.network.value(batch[Columns.OBS])

    def compute_values(self, batch: dict[str, Any], embeddings: Any | None = None) -> Tensor:
        """Return values [B] in units of reward; `embeddings` is ignored."""
        return self.normalised_values(batch) * self.value_scale + self.value_mean

    @torch.no_grad()
    def track_values(self, targets: Tensor, weight: float) -> None:
        """Move mean and scale of the values towards new targets (PopArt, NeurIPS'16).

        The network's value head is not rewritten: at a small rate the next epochs absorb the change, as in MAPPO's
        value normalisation.
        """
        if float(self.value_scale) == 1.0 and float(self.value_mean) == 0.0:
            weight = 1.0  # first targets: adopt them
        self.value_mean += weight * (targets.mean() - self.value_mean)
        self.value_scale += weight * (targets.std().clamp(min=1e-3) - self.value_scale)
