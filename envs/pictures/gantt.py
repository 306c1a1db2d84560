"""Gantt chart of the GPUs that jobs held: one lane per GPU, or per node if there are too many GPUs."""

from dataclasses import dataclass

import numpy as np
import numpy.typing as npt
from matplotlib import colormaps
from matplotlib.axes import Axes
from matplotlib.collections import PolyCollection
from matplotlib.colors import to_rgb
from matplotlib.figure import Figure
from matplotlib.patches import Patch

from envs.metrics import gpus_held, jobs_waiting, segments
from envs.pictures.lanes import lanes, node_lanes
from envs.pictures.texts import plot_text
from envs.simulation import RunResult
from envs.types import ClusterSpec, FloatArray, IntArray, Seconds

MAX_SEGMENTS = 3000  # more cannot be distinguished on a page; longer runs are cut
MAX_GPU_LANES = 128  # with more GPUs, a lane is a node
MAX_NAMED_NODES = 48
SIZE_CLASSES = (
    1,
    2,
    4,
    8,
    16,
    32,
    64,
)  # GPUs requested, the classes of colour; viridis reads alike with every colour vision
LUMINANCE = np.array([0.2126, 0.7152, 0.0722])  # of red, green and blue (ITU-R BT.709)
AXIS_UNITS = (
    (3 * 86400.0, 86400.0, "days"),
    (3 * 3600.0, 3600.0, "hours"),
    (180.0, 60.0, "minutes"),
    (0.0, 1.0, "seconds"),
)


@dataclass(frozen=True)
class TimeAxis:
    """The time span that is drawn, and its unit."""

    start: Seconds
    end: Seconds
    unit: Seconds
    name: str

    @classmethod
    def over(cls, start: Seconds, end: Seconds) -> "TimeAxis":
        """Choose the largest unit of which the span has at least three."""
        unit, name = next((unit, name) for least, unit, name in AXIS_UNITS if end - start >= least)
        return cls(start, end, unit, name)

    def scaled(self, times: FloatArray) -> FloatArray:
        """Convert seconds to the axis' unit."""
        return times / self.unit


def gantt(result: RunResult) -> Figure:
    """Draw the Gantt chart of a run: a box for every stay of a job on its GPUs, above GPUs in use and jobs waiting.

    The colour shows the number of GPUs requested; shades distinguish adjacent jobs. A wide box shows the job's number.
    Of two jobs that share GPUs, one has the upper half of their lanes.
    A white gap in a lane is a free GPU. If a run has more than `MAX_SEGMENTS` stays, only its beginning is drawn.
    """
    held = segments(result.log, result.end_time)
    held = held[np.argsort(held["start"], kind="stable")]
    cut = len(held) > MAX_SEGMENTS
    start = float(result.records["submit_time"][0]) if len(result.records) else 0.0
    axis = TimeAxis.over(start, float(held["start"][MAX_SEGMENTS]) if cut else max(result.end_time, start))
    held = held[:MAX_SEGMENTS]
    figure = Figure(figsize=(12, 7), layout="constrained")
    above, below = figure.subplots(2, 1, sharex=True, height_ratios=(5, 1))
    draw_boxes(above, result, held, axis)
    draw_load(below, result, axis)
    ends = (int(result.at_limit.sum()), "ended at their limit"), (int(result.never_ran.sum()), "never ran")
    counts = (result.num_unfinished, "unfinished"), *ends
    unfinished = "".join(f", {number} {what}" for number, what in counts if number)
    part = f"; first {len(held)} stays of {len(segments(result.log, result.end_time))}" if cut else ""
    title = f"{result.scheduler} on {result.workload.name}: {len(result.records)} jobs{unfinished}{part}"
    above.set_title(plot_text(title), loc="left")
    return figure


def draw_boxes(axes: Axes, result: RunResult, held: npt.NDArray[np.void], axis: TimeAxis) -> None:
    """Draw the boxes, their numbers, and a legend of colours."""
    by_gpu = result.cluster.num_gpus <= MAX_GPU_LANES
    bottom, height, segment = boxes(held, result.cluster, by_gpu)
    left = axis.scaled(np.maximum(held["start"][segment], axis.start))
    right = axis.scaled(np.minimum(held["end"][segment], axis.end))
    job = held["job"][segment]
    asked = np.zeros(int(held["job"].max(initial=0)) + 1, dtype=np.int64)
    asked[np.minimum(result.records["job"], len(asked) - 1)] = result.records["num_gpus"]
    colours, size_class = shades(asked[job], job)
    corners = np.stack([np.stack([x, y], axis=-1) for x, y in outline(left, right, bottom, height)], axis=1)
    axes.add_collection(PolyCollection(list(corners), facecolors=colours, edgecolors="white", linewidths=0.4))
    number_boxes(axes, left, right, bottom, height, job, colours, axis)
    name_nodes(axes, result.cluster, by_gpu)
    seen = [size for i, size in enumerate(SIZE_CLASSES) if (size_class == i).any()]
    handles = [Patch(color=size_colour(SIZE_CLASSES.index(size)), label=plot_text(label_of(size))) for size in seen]
    if handles:
        axes.legend(
            handles=handles, title="GPUs requested", ncols=len(handles), loc="lower right", bbox_to_anchor=(1, 1)
        )
    axes.set_xlim(axis.start / axis.unit, max(axis.end, axis.start + 1e-9) / axis.unit)


def boxes(held: npt.NDArray[np.void], cluster: ClusterSpec, by_gpu: bool) -> tuple[FloatArray, FloatArray, IntArray]:
    """Compute the boxes: bottom and height in lanes, and the segment of each box.

    A job beside another on the same GPUs has the upper half of that one's lanes, and comes last.
    """
    bottom, height, segment = _whole_boxes(held, cluster, by_gpu)
    beside = held["beside"][segment] >= 0
    bottom, height = np.where(beside, bottom + height / 2, bottom), np.where(beside, height / 2, height)
    order = np.argsort(beside, kind="stable")
    return bottom[order], height[order], segment[order]


def _whole_boxes(
    held: npt.NDArray[np.void], cluster: ClusterSpec, by_gpu: bool
) -> tuple[FloatArray, FloatArray, IntArray]:
    if by_gpu:
        rows = lanes(held, cluster)
        return rows["lane"].astype(np.float64), rows["count"].astype(np.float64), rows["segment"]
    return node_lanes(held, cluster)


def outline(
    left: FloatArray, right: FloatArray, bottom: FloatArray, height: FloatArray
) -> list[tuple[FloatArray, FloatArray]]:
    """Return the corners of boxes, counter-clockwise."""
    top = bottom + height
    return [(left, bottom), (right, bottom), (right, top), (left, top)]


def size_colour(size_class: int) -> tuple[float, float, float]:
    """Return the colour of a class of `SIZE_CLASSES`."""
    return to_rgb(colormaps["viridis"](0.93 - 0.88 * size_class / (len(SIZE_CLASSES) - 1)))


def label_of(size: int) -> str:
    """Return the label of a size class: one size, or the sizes up to the next class."""
    above = SIZE_CLASSES[SIZE_CLASSES.index(size) + 1] if size != SIZE_CLASSES[-1] else None
    if above is None:
        return f"{size}+"
    return str(size) if above == size + 1 else f"{size}-{above - 1}"


def shades(requested: IntArray, job: IntArray) -> tuple[FloatArray, IntArray]:
    """Return float64[n, 3] colours by GPUs requested, lighter for every second and third job; and int64[n] classes."""
    size_class = np.searchsorted(SIZE_CLASSES, np.maximum(requested, 1), side="right") - 1
    palette = np.array([size_colour(i) for i in range(len(SIZE_CLASSES))])
    light = (np.array([0.0, 0.22, 0.11])[job % 3])[:, None]
    return palette[size_class] * (1 - light) + light, size_class


def number_boxes(
    axes: Axes,
    left: FloatArray,
    right: FloatArray,
    bottom: FloatArray,
    height: FloatArray,
    job: IntArray,
    colours: FloatArray,
    axis: TimeAxis,
) -> None:
    """Write the job's number into boxes that are large enough."""
    span = (axis.end - axis.start) / axis.unit
    lanes_drawn = float((bottom + height).max(initial=1.0))
    for i in np.flatnonzero((right - left > 0.022 * span) & (height > lanes_drawn / 45)):
        middle = ((left[i] + right[i]) / 2, bottom[i] + height[i] / 2)
        ink = "black" if colours[i] @ LUMINANCE > 0.45 else "white"
        axes.text(*middle, plot_text(str(job[i])), ha="center", va="center", fontsize=7, color=ink, clip_on=True)


def name_nodes(axes: Axes, cluster: ClusterSpec, by_gpu: bool) -> None:
    """Label the lanes with node names and draw lines between nodes."""
    size = cluster.node_gpus if by_gpu else np.ones(cluster.num_nodes, dtype=np.int64)
    edge = np.concatenate([[0], np.cumsum(size)])
    axes.set_ylim(edge[-1], 0)
    axes.hlines(edge[1:-1], 0, 1, transform=axes.get_yaxis_transform(), color="0.75", linewidth=0.5, zorder=0)
    step = -(-cluster.num_nodes // MAX_NAMED_NODES)
    named = np.arange(0, cluster.num_nodes, step)
    middle = (edge[:-1] + edge[1:])[named] / 2
    axes.set_yticks(middle, [plot_text(f"{cluster.nodes[n].gpu_type} node {n}") for n in named], fontsize=8)
    axes.tick_params(axis="y", length=0)
    axes.spines[["top", "right"]].set_visible(False)


def draw_load(axes: Axes, result: RunResult, axis: TimeAxis) -> None:
    """Draw GPUs in use and jobs waiting over time."""
    times, held = gpus_held(result)
    axes.fill_between(axis.scaled(times), held / result.cluster.num_gpus, step="post", color="0.8", linewidth=0)
    axes.set_ylim(0, 1)
    axes.set_ylabel("GPUs in use", fontsize=8)
    axes.yaxis.set_major_formatter(lambda share, _: f"{share:.0%}")
    waiting_axes = axes.twinx()
    times, waiting = jobs_waiting(result)
    waiting_axes.step(axis.scaled(times), waiting, where="post", color="#D55E00", linewidth=1.0)
    waiting_axes.set_ylim(bottom=0)
    waiting_axes.set_ylabel("jobs waiting", fontsize=8, color="#D55E00")
    axes.set_xlabel(plot_text(f"time ({axis.name})"))
    for part in (axes, waiting_axes):
        part.spines["top"].set_visible(False)
        part.tick_params(labelsize=8)
