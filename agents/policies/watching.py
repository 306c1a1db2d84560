"""Policies that tell in films and pictures what their nodes wanted, and how nodes attend to each other."""

from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import replace
from typing import Any, Protocol, runtime_checkable

import numpy as np
import torch
from torch import Tensor, nn

from agents.networks.graph import DenseAttention, GraphAttention
from agents.policies.bid_scheduler import BiddingScheduler, bids_on
from agents.policies.options.scheduler import OptionScheduler
from agents.policies.options.watched import WatchedOptions
from envs.bidding.environment import strongest_bids
from envs.episodes.scene import Scene
from envs.scheduling import ClusterView, Scheduler
from envs.types import Allocation, ClusterSpec, FloatArray, IntArray


@runtime_checkable
class WatchedPolicy(Scheduler, Protocol):
    """A policy that can be watched; all that it tells is about its last round.

    Attributes:
        attention: float64[num_nodes, num_nodes], who (row) attends to whom; None without attention.
        num_edges: links between nodes.
    """

    @property
    def attention(self) -> FloatArray | None:
        """See the class."""

    @property
    def num_edges(self) -> int:
        """See the class."""

    def annotate(self, scene: Scene) -> Scene:
        """Return a scene with links, and with wants or bids of nodes."""


def watched(scheduler: Scheduler) -> Scheduler:
    """Return a policy as one that is `WatchedPolicy`; any other scheduler as it is."""
    if isinstance(scheduler, OptionScheduler):
        return WatchedOptions(scheduler)
    return WatchedBids(scheduler) if isinstance(scheduler, BiddingScheduler) else scheduler


class WatchedBids(BiddingScheduler):
    """A `BiddingScheduler` that tells what its nodes bid for most.

    Args:
        scheduler: the policy.
    """

    def __init__(self, scheduler: BiddingScheduler) -> None:
        super().__init__(scheduler.network, scheduler.market, scheduler.rules)
        self._asked = False

    def reset(self, cluster: ClusterSpec, rng: np.random.Generator) -> None:
        """Begin an episode."""
        self._asked = False
        super().reset(cluster, rng)

    def schedule(self, view: ClusterView) -> Allocation:
        """Return the allocation in which the market clears the bids of all nodes."""
        self._asked = True
        return super().schedule(view)

    @property
    def num_edges(self) -> int:
        """Directed edges of the coordination graph."""
        return int(self.auction.observation["num_edges"][0, 0])

    @property
    def attention(self) -> FloatArray | None:
        """float64[num_nodes, num_nodes], the weights of the first layer of attention; None without one."""
        with watch_attention(self.network) as seen:
            bids_on(self.network, self.auction.observation)
        return seen[0] if seen else None

    def annotate(self, scene: Scene) -> Scene:
        """Return a scene with the coordination graph and the strongest bid of each node; as it is before a round."""
        if not self._asked:
            return replace(scene, tells=True)
        observation = self.auction.observation
        joint = bids_on(self.network, observation)[0]
        edges: IntArray = observation["edges"][0, :, : self.num_edges].T.astype(np.int64)
        strongest = strongest_bids(joint, observation["pair_jobs"][0], self.auction.arrays.listed[0])
        return replace(scene, edges=edges, bids=strongest, tells=True)


@contextmanager
def watch_attention(network: Any) -> Iterator[list[FloatArray]]:
    """Yield a list that will hold the weights of the first attention layer in its last call.

    They are float64[num_nodes, num_nodes]: rows are nodes that attend, columns those that they attend to; heads are
    averaged. The list stays empty without such a layer.
    """
    seen: list[FloatArray] = []
    parts = network.modules() if isinstance(network, nn.Module) else ()
    layers = [layer for layer in parts if isinstance(layer, GraphAttention | DenseAttention)]

    def look(layer: nn.Module, inputs: tuple[Tensor, ...]) -> None:
        seen[:] = [attention_weights(layer, *inputs)]

    hooks = [layer.register_forward_pre_hook(look) for layer in layers[:1]]
    try:
        yield seen
    finally:
        for hook in hooks:
            hook.remove()


@torch.no_grad()
def attention_weights(layer: nn.Module, nodes: Tensor, *graph: Tensor) -> FloatArray:
    """Return the weights with which the nodes of the first world attend to each other: float64[num_nodes, num_nodes].

    Args:
        layer: a layer of attention among nodes.
        nodes: float32[B, num_nodes, width], its input.
        graph: edges and their features, for `GraphAttention`.
    """
    batch, count, width = nodes.shape
    if isinstance(layer, GraphAttention):
        edges = graph[0][0]
        weights = layer.attend(nodes, *graph)[1][0].mean(-1)
        matrix = torch.zeros(count, count)
        there = (edges >= 0).all(0)
        matrix[edges[1, there].long(), edges[0, there].long()] = weights[there]
        return np.asarray(matrix.numpy(), np.float64)
    assert isinstance(layer, DenseAttention)
    parts = layer.query_key_value(nodes).view(batch, count, 3, layer.heads, width // layer.heads)
    query, key, _ = parts.permute(2, 0, 3, 1, 4)
    scores = query @ key.transpose(-1, -2) / (width // layer.heads) ** 0.5
    return np.asarray(scores.softmax(-1)[0].mean(0).numpy(), np.float64)
