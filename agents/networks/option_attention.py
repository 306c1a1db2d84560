"""The MAIFS policy on options: nodes attend to each other along the dynamic coordination graph."""

import numpy as np
import torch
from torch import Tensor, nn

from agents.networks.decisions import Decisions
from agents.networks.graph import start_at_zero
from envs.options import OptionSpec
from envs.options.columns import JOB_RUNS, OPTION_START
from envs.options.graph import linked_nodes, wanted_jobs
from envs.types import MurmurationError

MIXINGS = ("graph", "dense", "none")


class OptionAttention(nn.Module):
    """Scores of options by attention among the nodes that have them; the same weights for all nodes.

    1. An option's state follows from its features and those of its job, its node and the cluster.
    2. A node's state is the mean of the states of its options.
    3. Nodes attend to each other, `rounds` times: along the edges of the coordination graph, or to all nodes.
    4. A score follows from the option's state and from what its node has received.

    Two nodes are linked in the graph if both have an option for the same job: a waiting job that both could start, or a
    job that holds GPUs on one and could use the other's. So the graph changes from decision to decision.

    A reconstruction: MAIFS (TPDS'25) combines multi-agent attention with a dynamic coordination graph, and its
    equations are not public. Its agents act at the same time, as here with
    `env.rules.turn=together`; in an auction the highest of all scores decides.

    Args:
        spec: sizes of the rows.
        width: of states; a multiple of `heads`.
        heads: of attention.
        rounds: of messages.
        mixing: "graph", "dense" (all nodes attend to all) or "none" (no messages).
        reluctance: by how much lower the options that change a running job score at first, see `OptionScorer`.

    Raises:
        MurmurationError: an option is out of range.
    """

    def __init__(
        self,
        spec: OptionSpec,
        width: int = 32,
        heads: int = 2,
        rounds: int = 1,
        mixing: str = "graph",
        reluctance: float = 8.0,
    ) -> None:
        super().__init__()
        if min(width, heads, rounds) < 1 or width % heads:
            raise MurmurationError(
                f"network: width {width}, heads {heads}, rounds {rounds}; all must be positive, and width a "
                "multiple of heads"
            )
        if mixing not in MIXINGS:
            raise MurmurationError(f"network: mixing is {mixing!r}; it must be one of {', '.join(MIXINGS)}")
        self.heads, self.mixing = heads, mixing
        self.option, self.job = nn.Linear(spec.option_features, width), nn.Linear(spec.job_features, width, bias=False)
        self.node = nn.Linear(spec.node_features, width, bias=False)
        self.cluster = nn.Linear(spec.cluster_features, width, bias=False)
        self.messages = nn.ModuleList([nn.Linear(width, 3 * width) for _ in range(rounds)] if mixing != "none" else [])
        outs = [nn.Linear(width, width) for _ in self.messages]
        for out in outs:
            start_at_zero(out)
        self.outs = nn.ModuleList(outs)
        self.last = nn.Sequential(nn.Linear(2 * width, width), nn.ReLU(), nn.Linear(width, 1))
        self.reluctance = nn.Parameter(torch.tensor(float(reluctance)))

    def scores(self, decisions: Decisions) -> Tensor:
        """Return float32[M], the score of every option."""
        none = torch.zeros(1, self.option.out_features)
        state = self._states(decisions)
        received = self._mix(decisions, state)
        received = torch.cat((received, none))[decisions.node_of]
        scores: Tensor = self.last(torch.cat((state, received), -1)).squeeze(-1)
        runs = torch.cat((decisions.jobs[:, JOB_RUNS], none[:, 0]))[decisions.job_of]
        return scores - self.reluctance * torch.relu(runs - decisions.options[:, OPTION_START])

    def attention(self, decisions: Decisions) -> Tensor | None:
        """Return how nodes attend to each other in the first messages, float32[D, N, N]; None without messages.

        Rows are nodes that attend, columns those that they attend to; heads are averaged. N is the most nodes of a
        decision.
        """
        if not len(self.messages):
            return None
        padded, allowed, _ = self._padded(decisions, self._own(decisions, self._states(decisions)))
        query, key, _ = self._parts(self.messages[0], padded)
        scores = query @ key.transpose(-1, -2) / query.shape[-1] ** 0.5
        weights: Tensor = scores.masked_fill(~allowed[:, None], -torch.inf).softmax(-1).mean(1)
        return weights

    def _states(self, decisions: Decisions) -> Tensor:
        """Return float32[M, width], the states of all options."""
        none = torch.zeros(1, self.option.out_features)
        jobs = torch.cat((self.job(decisions.jobs), none))  # index -1, of waiting, is the last row
        nodes = torch.cat((self.node(decisions.nodes), none))
        state = self.option(decisions.options) + self.cluster(decisions.cluster)[decisions.decision_of]
        return torch.relu(state + jobs[decisions.job_of] + nodes[decisions.node_of])

    def _mix(self, decisions: Decisions, state: Tensor) -> Tensor:
        """Return float32[N, width], the states of all nodes after their messages."""
        own = self._own(decisions, state)
        if not len(self.messages):
            return own
        padded, allowed, place = self._padded(decisions, own)
        for message, out in zip(self.messages, self.outs, strict=True):
            query, key, value = self._parts(message, padded)
            mixed = nn.functional.scaled_dot_product_attention(query, key, value, attn_mask=allowed[:, None])
            padded = padded + out(mixed.transpose(1, 2).flatten(-2))
        return padded[decisions.node_decision, place]

    def _parts(self, message: nn.Module, padded: Tensor) -> tuple[Tensor, Tensor, Tensor]:
        """Return query, key and value, float32[D, heads, N, width / heads] each."""
        query, key, value = message(padded).unflatten(-1, (3, self.heads, -1)).permute(2, 0, 3, 1, 4)
        return query, key, value

    @staticmethod
    def _own(decisions: Decisions, state: Tensor) -> Tensor:
        """Return float32[N, width], the mean state of each node's options."""
        owned = decisions.node_of >= 0
        of = decisions.node_of[owned]
        total = torch.zeros(len(decisions.nodes), state.shape[1]).index_add(0, of, state[owned])
        count = torch.zeros(len(decisions.nodes)).index_add(0, of, torch.ones(len(of)))
        return total / count.clamp(min=1.0)[:, None]

    def _padded(self, decisions: Decisions, own: Tensor) -> tuple[Tensor, Tensor, Tensor]:
        """Return the states by decision and node, who may attend to whom, and the place of each node."""
        place, width = places(decisions.node_decision, decisions.num_decisions)
        padded = torch.zeros(decisions.num_decisions, width, own.shape[1])
        padded[decisions.node_decision, place] = own
        if self.mixing == "graph":
            heard, hearing = coordination_graph(decisions)
            allowed = torch.zeros(decisions.num_decisions, width, width, dtype=torch.bool)
            allowed[decisions.node_decision[hearing], place[hearing], place[heard]] = True
        else:
            there = torch.zeros(decisions.num_decisions, width, dtype=torch.bool)
            there[decisions.node_decision, place] = True
            allowed = there[:, None, :].expand(-1, width, -1)
        return padded, allowed | torch.eye(width, dtype=torch.bool), place


def places(decision: Tensor, num_decisions: int) -> tuple[Tensor, int]:
    """Return int64[N], the place of each row among those of its decision, and the most rows of a decision."""
    counts = torch.bincount(decision, minlength=num_decisions)
    first = counts.cumsum(0) - counts
    return torch.arange(len(decision)) - first[decision], int(counts.max())


def coordination_graph(decisions: Decisions) -> Tensor:
    """Return int64[2, E], nodes that are heard and nodes that hear them: those with an option for the same job."""
    wanted = wanted_jobs(decisions.node_of.numpy(), decisions.job_of.numpy())
    sizes = np.bincount(decisions.node_decision.numpy(), minlength=decisions.num_decisions)
    return torch.from_numpy(linked_nodes(wanted, sizes))
