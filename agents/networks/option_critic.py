"""A critic for options: the return that is expected when a decision is due."""

import torch
from torch import Tensor, nn

from agents.networks.decisions import Decisions
from envs.options import OptionSpec

JOBS = 10.0  # by which sums over jobs are divided


class OptionCritic(nn.Module):
    """Estimates a return from sums over jobs, means over nodes, and the cluster. It is no part of the policy.

    Estimates are `mean + scale * output`, where mean and scale follow the returns that are seen (`observe`). The output
    layer changes with them so that estimates stay as they are (van Hasselt et al. 2016, "Learning values across many
    orders of magnitude").

    Args:
        spec: sizes of the rows.
        hidden: width of the layers.
        own: whether only the node that decides is seen, in place of all nodes; for nodes that take turns.
    """

    mean: Tensor
    scale: Tensor

    def __init__(self, spec: OptionSpec, hidden: int = 32, own: bool = False) -> None:
        super().__init__()
        self.own = own
        self.job, self.node = nn.Linear(spec.job_features, hidden), nn.Linear(spec.node_features, hidden)
        self.cluster = nn.Linear(spec.cluster_features, hidden)
        self.middle, self.last = nn.Linear(3 * hidden, hidden), nn.Linear(hidden, 1)
        nn.init.zeros_(self.last.weight)
        self.register_buffer("mean", torch.zeros(()))
        self.register_buffer("scale", torch.zeros(()))  # 0: nothing has been seen

    def forward(self, decisions: Decisions) -> Tensor:
        """Return float32[D], estimates in units of `scale` above `mean`, one for each decision."""
        count, width = decisions.num_decisions, self.job.out_features
        jobs = torch.zeros(count, width).index_add(0, decisions.job_decision, torch.relu(self.job(decisions.jobs)))
        if self.own:
            row = torch.zeros(count, dtype=torch.int64)
            row = row.scatter_reduce(0, decisions.decision_of, decisions.node_of, "amax")
            nodes = torch.relu(self.node(decisions.nodes[row]))
        else:
            nodes = torch.zeros(count, width)
            nodes = nodes.index_add(0, decisions.node_decision, torch.relu(self.node(decisions.nodes)))
            nodes = nodes / torch.bincount(decisions.node_decision, minlength=count)[:, None]
        seen = torch.cat((jobs / JOBS, nodes, torch.relu(self.cluster(decisions.cluster))), -1)
        found: Tensor = self.last(torch.relu(self.middle(seen))).squeeze(-1)
        return found

    @torch.no_grad()
    def observe(self, returns: Tensor, weight: float = 0.1) -> None:
        """Move mean and scale towards those of some returns by this weight; the first ones count fully."""
        fresh_mean, fresh_scale = returns.mean(), returns.std().clamp(min=1e-6)
        share = weight if self.scale > 0 else 1.0
        mean, scale = torch.lerp(self.mean, fresh_mean, share), torch.lerp(self.scale, fresh_scale, share)
        if self.scale > 0:
            self.last.weight.mul_(self.scale / scale)
            self.last.bias.mul_(self.scale).add_(self.mean - mean).div_(scale)
        self.mean.copy_(mean)
        self.scale.copy_(scale)

    def normalised(self, returns: Tensor) -> Tensor:
        """Return float32, returns in the units of `forward`."""
        return (returns - self.mean) / self.scale

    def returns(self, output: Tensor) -> Tensor:
        """Return float32, what `forward` has given as returns."""
        return self.mean + self.scale * output
