"""Nodes that choose together: attention gives utilities, and low-rank payoffs of pairs couple the choices.

Pairwise payoffs on a coordination graph as in Deep Coordination Graphs (Boehmer, Kurin and Whiteson, ICML 2020), with
their low-rank form (section 4.3): the payoff of two actions is an inner product of their embeddings.
"""

from typing import Literal

import torch
from torch import Tensor, nn

from agents.networks.max_plus import CoordinationGraph, assign_jobs, max_plus
from agents.networks.policy import AttentionPolicy
from agents.networks.protocol import MASKED
from envs.gpu_cluster import EnvSpec
from envs.gpu_cluster.columns import FIRST_CHOICE, PASS
from envs.types import MurmurationError

CHOOSING = ("max_plus", "assignment", "independent")


class CoordinatedPolicy(AttentionPolicy):
    """`AttentionPolicy` whose nodes choose one joint action together; it implements `JointChoice` besides.

    The best `kept` actions of each node, passing among them, take part. Two nodes are linked if a candidate is among
    the actions of both. Their payoff is an inner product of rank `rank`, and a constant for GPUs to one and the same
    candidate. All payoffs start at 0, so a fresh network is the `AttentionPolicy` of the same seed. `logits` are
    utilities and the messages of max-plus, so imitation and PPO train the payoffs too; training samples each node by
    itself. `choose` gives the best joint action found.

    The other arguments are those of `AttentionPolicy`.

    Args:
        rank: of the payoffs.
        kept: actions of each node that take part.
        iterations: rounds of messages.
        choosing: how `choose` finds the joint action. "max_plus": see above. "assignment": the largest sum of utilities
            in which no two nodes choose one candidate, exactly. "independent": each node's best. With the last two
            there are no payoffs.
    """

    def __init__(
        self,
        spec: EnvSpec,
        width: int = 64,
        layers: int = 2,
        heads: int = 4,
        sharpness: float = 1.0,
        pass_bias: float = 0.0,
        rank: int = 8,
        kept: int = 8,
        iterations: int = 4,
        choosing: Literal["max_plus", "assignment", "independent"] = "max_plus",
    ) -> None:
        super().__init__(spec, width, layers, heads, sharpness, pass_bias)
        if min(rank, kept) < 1 or iterations < 0 or choosing not in CHOOSING:
            raise MurmurationError(
                f"network: rank {rank}, kept {kept}, iterations {iterations}, choosing {choosing!r}; rank and kept "
                f"must be at least 1, iterations not negative, choosing one of {', '.join(CHOOSING)}"
            )
        self.kept, self.iterations, self.choosing = min(kept, spec.num_actions), iterations, choosing
        self.embed_choice = nn.Linear(width, rank)
        self.embed_amount = nn.Linear((spec.node_gpus + 1) * spec.num_levels, rank, bias=False)
        self.embed_pass = nn.Linear(width, rank)
        self.payoff_weights = nn.Parameter(torch.zeros(rank))
        self.same_job = nn.Parameter(torch.zeros(()))

    def logits(self, observation: dict[str, Tensor]) -> Tensor:
        """Return scores [B, N, A] of every node's actions, with the messages of the other nodes."""
        utilities, nodes, choices = self.score(observation)
        if self.choosing != "max_plus":
            return utilities
        actions, graph = self.graph(utilities, nodes, choices)
        messages = max_plus(graph, self.iterations).beliefs - graph.utilities
        return utilities.scatter_add(-1, actions, messages)

    def choose(self, observation: dict[str, Tensor], noise: Tensor | None = None) -> Tensor:
        """Return joint actions int64[B, N]: the best found for the utilities, or for utilities with added noise.

        Args:
            observation: as for `logits`.
            noise: [B, N, A]; Gumbel noise samples joint actions (perturb and maximise).
        """
        utilities, nodes, choices = self.score(observation)
        if noise is not None:
            utilities = (utilities + noise).masked_fill(observation["mask"] == 0, MASKED)
        if self.choosing == "independent":
            return utilities.argmax(-1)
        if self.choosing == "assignment":
            rows = [torch.from_numpy(assign_jobs(each.numpy(), self.spec)) for each in utilities.detach().cpu()]
            return torch.stack(rows)
        actions, graph = self.graph(utilities, nodes, choices)
        best = max_plus(graph, self.iterations).actions
        return actions.gather(-1, best.unsqueeze(-1)).squeeze(-1)

    def graph(self, utilities: Tensor, nodes: Tensor, choices: Tensor) -> tuple[Tensor, CoordinationGraph]:
        """Return the actions int64[B, N, M] that take part, and the graph over them.

        Args:
            utilities: [B, N, A].
            nodes: [B, N, width], states of the nodes.
            choices: [B, N, C, width], states of the choices.
        """
        ranked = utilities.detach().clone()
        ranked[..., PASS] = torch.inf  # always among them
        actions = ranked.topk(self.kept, dim=-1).indices
        amounts = self.embed_amount.in_features
        passes = actions < FIRST_CHOICE
        choice = ((actions - FIRST_CHOICE) // amounts).clamp(min=0)
        amount = ((actions - FIRST_CHOICE) % amounts).masked_fill(passes, 0)
        by_choice = self.embed_choice(torch.relu(choices))
        embedded = by_choice.gather(2, choice.unsqueeze(-1).expand(-1, -1, -1, by_choice.shape[-1]))
        embedded = embedded + self.embed_amount.weight.t()[amount]
        embedded = torch.where(passes.unsqueeze(-1), self.embed_pass(torch.relu(nodes)).unsqueeze(2), embedded)
        rank = embedded.shape[-1]
        payoffs = torch.einsum("bixr,r,bjyr->bijxy", embedded, self.payoff_weights / rank, embedded)
        same = self._same_candidate(choice, amount, passes, actions.shape[1])
        payoffs = (payoffs + self.same_job * same) * self.sharpness
        graph = CoordinationGraph(utilities.gather(-1, actions), payoffs, same.any(-1).any(-1))
        return actions, graph

    def _same_candidate(self, choice: Tensor, amount: Tensor, passes: Tensor, count: int) -> Tensor:
        """Return bool[B, N, N, M, M]: whether actions of two different nodes give GPUs to one candidate."""
        candidate = choice.masked_fill(passes | (choice >= self.spec.num_candidates) | (amount == 0), -1)
        mine, its = candidate[:, :, None, :, None], candidate[:, None, :, None, :]
        others = ~torch.eye(count, dtype=torch.bool, device=choice.device)[None, :, :, None, None]
        return (mine == its) & (mine >= 0) & others
