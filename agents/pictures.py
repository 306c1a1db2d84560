"""Pictures of one episode under a policy: Gantt chart, allocation, the cluster, and attention between nodes."""

from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import replace
from typing import Any

import numpy as np
import numpy.typing as npt
import torch
from matplotlib.figure import Figure
from matplotlib.ticker import MaxNLocator
from torch import Tensor, nn

from agents.networks.graph import DenseAttention, GraphAttention
from agents.policies import BiddingScheduler
from agents.policies.bid_scheduler import bids_on
from envs.bidding.environment import strongest_bids
from envs.episodes.drawing import draw_scene
from envs.episodes.scene import Scene
from envs.evaluation.gantt import TimeAxis, gantt
from envs.metrics import measured_span, segments
from envs.scheduling import ClusterView, Scheduler
from envs.simulation import RunResult, Setup, Simulator, run_episode
from envs.types import Allocation, ClusterSpec, FloatArray
from envs.workloads import Workload

Pictures = dict[str, Figure | npt.NDArray[np.uint8]]
NUM_BINS = 120  # columns of the heat map


def picture_episode(scheduler: Scheduler, workload: Workload, setup: Setup, seed: int) -> Pictures:
    """Play a workload and return pictures by name.

    "gantt" and "allocation" show the whole episode. "cluster" shows one round of its second half, with bids and
    coordination graph where there are some, and "attention" the attention between nodes at the same time, for networks
    that have some.
    """
    simulator = Simulator(workload, setup, seed)
    watched = WatchedScheduler(scheduler, simulator)
    network = getattr(scheduler, "network", None)
    with watch_attention(network) as seen:
        result = run_episode(watched, simulator, "policy", compiled=False)
    pictures: Pictures = {"gantt": gantt(result), "allocation": allocation_heat_map(result)}
    if watched.scene is not None:
        pictures["cluster"] = draw_scene(watched.scene)
    if seen:
        pictures["attention"] = attention_figure(seen[0])
    return pictures


class WatchedScheduler:
    """A scheduler whose rounds 1, 2, 4, 8 and so on are remembered; the last one is in the second half of an episode.

    Args:
        scheduler: the scheduler.
        simulator: the simulator that asks it.
    """

    def __init__(self, scheduler: Scheduler, simulator: Simulator) -> None:
        self._scheduler, self._simulator = scheduler, simulator
        self.scene: Scene | None = None
        self._rounds = 0

    def reset(self, cluster: ClusterSpec, rng: np.random.Generator) -> None:
        """Begin an episode."""
        self.scene, self._rounds = None, 0
        self._scheduler.reset(cluster, rng)

    def schedule(self, view: ClusterView) -> Allocation:
        """Return the scheduler's allocation."""
        allocation = self._scheduler.schedule(view)
        self._rounds += 1
        if is_power_of_two(self._rounds):
            scene = Scene.of(self._simulator.state, self._simulator.cluster)
            self.scene = with_bids(scene, self._scheduler) if isinstance(self._scheduler, BiddingScheduler) else scene
        return allocation


def with_bids(scene: Scene, scheduler: BiddingScheduler) -> Scene:
    """Return a scene with the coordination graph and the strongest bids of the scheduler's last round."""
    auction = scheduler.auction
    observation = auction.observation
    joint = bids_on(scheduler.network, observation)[0]
    count = int(observation["num_edges"][0, 0])
    edges = observation["edges"][0, :, :count].T.astype(np.int64)
    strongest = strongest_bids(joint, observation["pair_jobs"][0], auction.arrays.listed[0])
    return replace(scene, edges=edges, bids=strongest)


@contextmanager
def watch_attention(network: Any) -> Iterator[list[FloatArray]]:
    """Yield a list that will hold the weights of the first attention layer, float64[num_nodes, num_nodes].

    Rows are nodes that attend, columns those that they attend to; heads are averaged. Of many calls, the first, second,
    fourth, eighth and so on are looked at, and the last of these is kept. The list stays empty without such a layer.
    """
    seen: list[FloatArray] = []
    parts = network.modules() if isinstance(network, nn.Module) else ()
    layers = [layer for layer in parts if isinstance(layer, GraphAttention | DenseAttention)]
    calls = [0]

    def look(layer: nn.Module, inputs: tuple[Tensor, ...]) -> None:
        calls[0] += 1
        if is_power_of_two(calls[0]):
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


def allocation_heat_map(result: RunResult) -> Figure:
    """Draw the share of each node's GPUs that jobs held over time."""
    start = measured_span(result)[0]
    axis = TimeAxis.over(start, max(result.end_time, start + 1e-9))
    edges = np.linspace(axis.start, axis.end, NUM_BINS + 1)
    held = segments(result.log, result.end_time)
    shares = np.zeros((result.cluster.num_nodes, NUM_BINS))
    for row in held:
        overlap = np.minimum(row["end"], edges[1:]) - np.maximum(row["start"], edges[:-1])
        shares[row["node"]] += np.clip(overlap, 0.0, None) * row["gpus"]
    shares /= np.diff(edges) * result.cluster.node_gpus[:, None]
    figure = Figure(figsize=(9, 1.5 + 0.12 * min(max(result.cluster.num_nodes, 8), 40)), layout="constrained")
    axes = figure.subplots()
    extent = (axis.start / axis.unit, axis.end / axis.unit, result.cluster.num_nodes - 0.5, -0.5)
    image = axes.imshow(shares, aspect="auto", cmap="viridis", vmin=0, vmax=1, extent=extent, interpolation="nearest")
    axes.set_xlabel(f"time ({axis.name})")
    axes.set_ylabel("node")
    axes.yaxis.set_major_locator(MaxNLocator(integer=True))
    figure.colorbar(image, ax=axes, label="share of GPUs held", format=lambda share, _: f"{share:.0%}")
    return figure


def attention_figure(weights: FloatArray) -> Figure:
    """Draw the weights of `attention_weights`."""
    figure = Figure(figsize=(5.4, 4.6), layout="constrained")
    axes = figure.subplots()
    image = axes.imshow(weights, cmap="viridis", vmin=0)
    for axis in (axes.xaxis, axes.yaxis):
        axis.set_major_locator(MaxNLocator(integer=True))
    axes.set_xlabel("node that is attended to")
    axes.set_ylabel("node that attends")
    figure.colorbar(image, ax=axes, label="weight, mean over heads")
    return figure


def is_power_of_two(number: int) -> bool:
    """Return whether a positive whole number is 1, 2, 4, 8 or so on."""
    return number & (number - 1) == 0
