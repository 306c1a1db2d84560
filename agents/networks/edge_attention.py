"""Nodes that attend to the rows of linked nodes in the coordination graph: messages that need no second pass."""

import torch
from torch import Tensor, nn

from agents.networks.decisions import Decisions
from agents.networks.graph import softmax_by_target, start_at_zero
from agents.networks.option_attention import OptionAttention, coordination_graph
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
        heard, hearing = coordination_graph(decisions)
        return self.scores_among(decisions, decisions.nodes[heard], hearing)

    def scores_among(self, decisions: Decisions, rows: Tensor, hearing: Tensor) -> Tensor:
        """Return float32[M], the score of every option.

        Args:
            decisions: the decisions.
            rows: float32[E, columns], of each edge the row of the node that is heard.
            hearing: int64[E], the node of the decisions that attends to it.
        """
        state = self._states(decisions)
        own = self._own(decisions, state)
        received = torch.cat((own + self._received(own, rows, hearing), torch.zeros(1, state.shape[1])))
        scores: Tensor = self.last(torch.cat((state, received[decisions.node_of]), -1)).squeeze(-1)
        runs = torch.cat((decisions.jobs[:, JOB_RUNS], torch.zeros(1)))[decisions.job_of]
        return scores - self.reluctance * torch.relu(runs - decisions.options[:, OPTION_START])

    def _received(self, own: Tensor, rows: Tensor, hearing: Tensor) -> Tensor:
        """Return float32[N, width], what each node receives; zeros without edges."""
        query = self.query(own).unflatten(-1, (self.heads, -1))
        key, value = self.key_value(rows).unflatten(-1, (2, self.heads, -1)).unbind(1)
        scores = (query[hearing] * key).sum(-1) / query.shape[-1] ** 0.5
        weights = softmax_by_target(scores, hearing, len(own))
        mixed = torch.zeros_like(query).index_add(0, hearing, weights[..., None] * value)
        hears = torch.zeros(len(own), 1).index_fill(0, hearing, 1.0)
        found: Tensor = self.out(mixed.flatten(1)) * hears
        return found
