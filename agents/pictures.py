"""Pictures of one episode under a policy: Gantt chart, allocation, the cluster, and attention between nodes."""

import numpy as np
import numpy.typing as npt
from matplotlib.figure import Figure
from matplotlib.ticker import MaxNLocator

from agents.policies.watching import WatchedPolicy, watched
from envs.episodes.drawing import draw_scene
from envs.episodes.scene import Scene
from envs.metrics import measured_span, segments
from envs.pictures.gantt import TimeAxis, gantt
from envs.pictures.texts import plot_text
from envs.scheduling import ClusterView, Scheduler
from envs.simulation import RunResult, Setup, Simulator, run_episode
from envs.types import Allocation, ClusterSpec, FloatArray
from envs.workloads import Workload

Pictures = dict[str, Figure | npt.NDArray[np.uint8]]
NUM_BINS = 120  # columns of the heat map


def picture_episode(scheduler: Scheduler, workload: Workload, setup: Setup, seed: int) -> Pictures:
    """Play a workload and return pictures by name.

    "gantt" and "allocation" show the whole episode. "cluster" shows one round: under a policy the one in which most
    nodes are linked, with what they wanted. "attention" is how nodes attended to each other in it, for networks with
    attention.
    """
    simulator = Simulator(workload, setup, seed)
    seen = WatchedRounds(watched(scheduler), simulator)
    result = run_episode(seen, simulator, "policy", compiled=False)
    pictures: Pictures = {"gantt": gantt(result), "allocation": allocation_heat_map(result)}
    if seen.scene is not None:
        pictures["cluster"] = draw_scene(seen.scene)
    if seen.attention is not None:
        pictures["attention"] = attention_figure(seen.attention)
    return pictures


class WatchedRounds:
    """A scheduler of which one round is remembered.

    Under a policy it is the last of the rounds with the most links between nodes. Under any other scheduler it is the
    last of rounds 1, 2, 4, 8 and so on, which lies in the second half of an episode.

    Args:
        scheduler: the scheduler.
        simulator: the simulator that asks it.
    """

    def __init__(self, scheduler: Scheduler, simulator: Simulator) -> None:
        self._scheduler, self._simulator = scheduler, simulator
        self.scene: Scene | None = None
        self.attention: FloatArray | None = None
        self._rounds, self._most = 0, 0

    def reset(self, cluster: ClusterSpec, rng: np.random.Generator) -> None:
        """Begin an episode."""
        self.scene, self.attention, self._rounds, self._most = None, None, 0, 0
        self._scheduler.reset(cluster, rng)

    def schedule(self, view: ClusterView) -> Allocation:
        """Return the scheduler's allocation."""
        allocation = self._scheduler.schedule(view)
        self._rounds += 1
        if isinstance(self._scheduler, WatchedPolicy):
            if self._scheduler.num_edges >= self._most:
                self._most, self.attention = self._scheduler.num_edges, self._scheduler.attention
                self.scene = self._scheduler.annotate(Scene.of(self._simulator.state, self._simulator.cluster))
        elif is_power_of_two(self._rounds):
            self.scene = Scene.of(self._simulator.state, self._simulator.cluster)
        return allocation


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
    axes.set_xlabel(plot_text(f"time ({axis.name})"))
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
