"""A network for options as an RLlib module: action masks, the edges of the coordination graph, and a critic."""

from typing import Any

import torch
from ray.rllib.core.columns import Columns
from ray.rllib.core.rl_module.apis import ValueFunctionAPI
from ray.rllib.core.rl_module.torch import TorchRLModule
from torch import Tensor, nn

from agents.networks.decisions import Decisions
from agents.networks.edge_attention import EdgeAttention
from agents.networks.option_critic import OptionCritic
from envs.options import OptionSpec

FORBIDDEN = -1e9  # the score of what a mask forbids


class NodeModule(TorchRLModule, ValueFunctionAPI):
    """The network of all nodes, asked for one node at a time, with a critic of its own.

    `model_config` has the entries `blueprint`, `start` (weights by name), `hidden` and `state` (the length of the joint
    state, 0 for a critic of own observations).
    """

    def setup(self) -> None:
        """Build network and critic."""
        spec, config = OptionSpec(), self.model_config
        self.network: Any = config["blueprint"].build(spec)
        self.network.load_state_dict(config["start"])
        self.critic = OptionCritic(spec, config["hidden"], own=True)
        self.central: nn.Module | None = None
        if config["state"]:
            hidden = config["hidden"]
            self.central = nn.Sequential(nn.Linear(config["state"], hidden), nn.Tanh(), nn.Linear(hidden, 1))

    def _forward(self, batch: dict[str, Any], **_: Any) -> dict[str, Tensor]:
        seen = batch[Columns.OBS]
        allowed, decisions = seen["action_mask"] > 0, decisions_of(seen)
        if isinstance(self.network, EdgeAttention):
            heard = seen["edges"] >= 0
            scores = self.network.scores_among(decisions, seen["linked"][heard], torch.nonzero(heard)[:, 0])
        else:
            scores = self.network.scores(decisions)
        logits = torch.full(allowed.shape, FORBIDDEN)
        logits[allowed] = scores
        return {Columns.ACTION_DIST_INPUTS: logits}

    def compute_values(self, batch: dict[str, Any], embeddings: Any = None) -> Tensor:
        """Return float32[B], the critic's estimates."""
        seen = batch[Columns.OBS]
        if self.central is not None:
            values: Tensor = self.central(seen["state"]).squeeze(-1)
            return values
        found: Tensor = self.critic(decisions_of(seen))
        return found


def decisions_of(seen: dict[str, Tensor]) -> Decisions:
    """Return the observations of single nodes as decisions of one node each; only allowed options have rows.

    Args:
        seen: observations of `NodesOfRLlib` by name, with a leading axis.
    """
    decision, place = torch.nonzero(seen["action_mask"] > 0, as_tuple=True)
    count, is_job = len(seen["node"]), place > 0
    every = torch.arange(count)
    job_of = torch.where(is_job, is_job.cumsum(0) - 1, -1)
    options = seen["options"][decision, place]
    first = torch.searchsorted(decision, every)
    return Decisions(
        options=options,
        decision_of=decision,
        job_of=job_of,
        node_of=decision,
        choice_of=decision,
        choice_decision=every,
        first=first,
        jobs=seen["jobs"][decision, place][is_job],
        job_decision=decision[is_job],
        nodes=seen["node"],
        node_decision=every,
        cluster=seen["cluster"],
    )
