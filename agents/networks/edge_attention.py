"""Nodes that attend to the rows of linked nodes in the coordination graph: messages that need no second pass."""

import torch
from torch import Tensor, nn

from agents.networks.decisions import Decisions
from agents.networks.graph import start_at_zero
from agents.networks.option_attention import OptionAttention, coordination_graph, places
from envs.options import OptionSpec
from envs.options.columns import JOB_RUNS, OPTION_START


class EdgeAttention(OptionAttention):
    """Scores of options by attention to the rows of neighbouring nodes, from what a single agent observes.

    1. An option's state follows from its features and those of its job, its node and the cluster; a node's own state is
       the mean over its options.
    2. The node attends to the rows of its neighbours (free GPUs, jobs, load, see `envs.options.columns`), nodes that
       have an option for the same job.
    3. A score follows from the option's state and from what its node has received.

    `OptionAttention` passes on what other nodes have learnt of all their options; an agent of RLlib is asked for itself
    alone and cannot know that. So this network is a smaller form of MAIFS's attention along the dynamic coordination
    graph. A reconstruction: its equations are not public.

    Args:
        spec: sizes of the rows.
        width: of states; a multiple of `heads`.
        heads: of attention.
        reluctance: by how much lower the options that change a running job score at first, see `OptionScorer`.

    Raises:
        MurmurationError: an option is out of range.
    """

    def __init__(self, spec: OptionSpec, width: int = 32, heads: int = 2, reluctance: float = 8.0) -> None:
        super().__init__(spec, width, heads, 1, "none", reluctance)
        self.query = nn.Linear(width, width)
        self.key_value = nn.Linear(spec.node_features, 2 * width)
        self.out = nn.Linear(width, width)
        start_at_zero(self.out)

    def scores(self, decisions: Decisions) -> Tensor:
        """Return float32[M], the score of every option."""
        place, width = places(decisions.node_decision, decisions.num_decisions)
        allowed = coordination_graph(decisions, place, width) & ~torch.eye(width, dtype=torch.bool)
        rows = torch.zeros(decisions.num_decisions, width, decisions.nodes.shape[1])
        rows[decisions.node_decision, place] = decisions.nodes
        return self.scores_among(decisions, rows[decisions.node_decision], allowed[decisions.node_decision, place])

    def scores_among(self, decisions: Decisions, rows: Tensor, edges: Tensor) -> Tensor:
        """Return float32[M], the score of every option.

        Args:
            decisions: the decisions.
            rows: float32[N, W, columns], for each node of the decisions the rows of nodes that it might attend to.
            edges: bool[N, W], those to which it does.
        """
        state = self._states(decisions)
        own = self._own(decisions, state)
        received = torch.cat((own + self._received(own, rows, edges), torch.zeros(1, state.shape[1])))
        scores: Tensor = self.last(torch.cat((state, received[decisions.node_of]), -1)).squeeze(-1)
        runs = torch.cat((decisions.jobs[:, JOB_RUNS], torch.zeros(1)))[decisions.job_of]
        return scores - self.reluctance * torch.relu(runs - decisions.options[:, OPTION_START])

    def _received(self, own: Tensor, rows: Tensor, edges: Tensor) -> Tensor:
        """Return float32[N, width], what each node receives; zeros without edges."""
        query = self.query(own).unflatten(-1, (self.heads, -1))
        key, value = self.key_value(rows).unflatten(-1, (2, self.heads, -1)).unbind(2)
        scores = torch.einsum("nhd,nwhd->nhw", query, key) / query.shape[-1] ** 0.5
        weights = scores.masked_fill(~edges[:, None], -1e9).softmax(-1) * edges[:, None]
        mixed = torch.einsum("nhw,nwhd->nhd", weights, value).flatten(1)
        found: Tensor = self.out(mixed) * edges.any(-1, keepdim=True)
        return found
