"""Joint actions that maximise utilities of agents and payoffs of pairs on a coordination graph.

The value of a joint action is the sum of each agent's utility and of each edge's payoff. `max_plus` passes messages
(Kok and Vlassis, "Collaborative Multiagent Reinforcement Learning by Payoff Propagation", JMLR 2006, sections 4 and
4.2: the anytime extension). It is exact on trees. `assign_jobs` is exact where agents only compete for items.
"""

from typing import NamedTuple

import numpy as np
import torch
from scipy.optimize import linear_sum_assignment
from torch import Tensor

from agents.networks.protocol import MASKED
from envs.gpu_cluster import EnvSpec
from envs.gpu_cluster.columns import FIRST_CHOICE, PASS
from envs.types import FloatArray, IntArray


class CoordinationGraph(NamedTuple):
    """Utilities and payoffs of a batch of graphs with N agents of M actions each.

    Attributes:
        utilities: float32[B, N, M], `MASKED` for actions that are not allowed.
        payoffs: float32[B, N, N, M, M]; [b, i, j, x, y] is what agents i and j get for their actions x and y. It is
            equal to [b, j, i, y, x].
        edges: bool[B, N, N], symmetric; payoffs count only along edges, and an agent has none to itself.
    """

    utilities: Tensor
    payoffs: Tensor
    edges: Tensor


class BestFound(NamedTuple):
    """Result of `max_plus`.

    Attributes:
        actions: int64[B, N], the best joint action found.
        values: float32[B], its value.
        beliefs: float32[B, N, M], each action's utility and the messages to it after the last iteration. On a tree,
            after as many iterations as it has agents, this is the best value with that action, up to a constant.
    """

    actions: Tensor
    values: Tensor
    beliefs: Tensor


def joint_value(graph: CoordinationGraph, actions: Tensor) -> Tensor:
    """Return the values float32[B] of joint actions int64[B, N]."""
    own = graph.utilities.gather(-1, actions.unsqueeze(-1)).squeeze(-1)
    batch, agents, choices = graph.utilities.shape
    rows = actions.view(batch, agents, 1, 1, 1).expand(-1, -1, agents, 1, choices)
    chosen = graph.payoffs.gather(3, rows).squeeze(3)
    pairs = chosen.gather(3, actions.view(batch, 1, agents, 1).expand(-1, agents, -1, -1)).squeeze(3)
    result: Tensor = own.sum(-1) + (pairs * graph.edges).sum((1, 2)) / 2.0
    return result


def max_plus(graph: CoordinationGraph, iterations: int) -> BestFound:
    """Pass messages along all edges at once, and keep the best joint action of all iterations.

    The first joint action is that of each agent's best utility, so the result is never worse. Messages are normalised
    by their mean over the allowed actions of the receiver. On graphs with loops they can go round in circles, so at the
    end each agent in turn gives its best answer to the others' actions; without messages nothing is done.

    Args:
        graph: utilities and payoffs; gradients flow through the beliefs.
        iterations: number of rounds of messages; 0 for none.
    """
    allowed = graph.utilities > MASKED / 2
    count = allowed.sum(-1).clamp(min=1).unsqueeze(1)
    messages = torch.zeros_like(graph.payoffs[:, :, :, 0])  # [b, i, j, y]: from i to j about j's action y
    beliefs = graph.utilities
    actions = beliefs.argmax(-1)
    values = joint_value(graph, actions)
    for _ in range(iterations):
        without = beliefs.unsqueeze(2) - messages.transpose(1, 2)  # [b, i, j, x]: all that i knows, but from j
        messages = (without.unsqueeze(-1) + graph.payoffs).amax(3)
        messages = torch.where(allowed.unsqueeze(1), messages, 0.0)
        messages = messages - messages.sum(-1, keepdim=True) / count.unsqueeze(-1)
        messages = torch.where(allowed.unsqueeze(1) & graph.edges.unsqueeze(-1), messages, 0.0)
        beliefs = graph.utilities + messages.sum(1)
        tried = beliefs.argmax(-1)
        found = joint_value(graph, tried)
        better = found > values
        actions, values = torch.where(better.unsqueeze(-1), tried, actions), torch.where(better, found, values)
    if iterations:
        actions = answer_in_turn(graph, actions)
    return BestFound(actions, joint_value(graph, actions), beliefs)


def answer_in_turn(graph: CoordinationGraph, actions: Tensor) -> Tensor:
    """Let each agent in turn take its best action, given those of the others; the value never falls.

    An agent stays with its action of the joint actions int64[B, N] unless another one is better.
    """
    actions = actions.clone()
    batch, agents, choices = graph.utilities.shape
    for i in range(agents):
        others = actions.view(batch, agents, 1, 1).expand(-1, -1, choices, 1)
        pairs = graph.payoffs[:, i].gather(3, others).squeeze(3)  # [B, N, M]: with each other agent's action
        gains = graph.utilities[:, i] + (pairs * graph.edges[:, i].unsqueeze(-1)).sum(1)
        own = gains.gather(-1, actions[:, i : i + 1]).squeeze(-1)
        actions[:, i] = torch.where(gains.amax(-1) > own, gains.argmax(-1), actions[:, i])
    return actions


def assign_jobs(logits: FloatArray, spec: EnvSpec) -> IntArray:
    """Return the joint action int64[N] of largest sum of logits in which no two nodes choose one candidate.

    Passing, and the jobs in a node's slots, concern one node only. A node for which nothing is left that is allowed,
    because it may not pass, takes its best action.

    Args:
        logits: float32[N, A], `MASKED` where an action is not allowed.
        spec: sizes of the actions.
    """
    nodes, candidates = np.arange(len(logits)), spec.num_candidates
    by_choice = logits[:, FIRST_CHOICE:].reshape(len(logits), spec.num_choices, -1)
    alone = logits.copy()
    alone[:, FIRST_CHOICE : spec.action(candidates, 0)] = MASKED
    values = np.full((len(logits), candidates + len(logits)), MASKED, np.float64)
    values[:, :candidates] = by_choice[:, :candidates].max(axis=2)
    values[nodes, candidates + nodes] = alone.max(axis=1)
    _, chosen = linear_sum_assignment(values, maximize=True)
    shared = chosen < candidates
    choice = np.where(shared, chosen, 0)
    claims = spec.action(choice, 0) + by_choice[nodes, choice].argmax(axis=1)  # type: ignore[arg-type]
    actions = np.where(shared, claims, alone.argmax(axis=1))
    allowed = logits[nodes, actions] > MASKED / 2
    result: IntArray = np.where(allowed, actions, np.where(allowed.any(), logits.argmax(axis=1), PASS))
    return result
