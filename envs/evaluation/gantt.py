"""Who had which GPUs when, as a picture: one lane per GPU, or per node where there are too many GPUs."""

from dataclasses import dataclass

import numpy as np
import numpy.typing as npt
from matplotlib import colormaps
from matplotlib.axes import Axes
from matplotlib.collections import PolyCollection
from matplotlib.colors import to_rgb
from matplotlib.figure import Figure
from matplotlib.patches import Patch

from envs.evaluation.lanes import lanes, node_lanes
from envs.metrics import gpus_held, jobs_waiting, segments
from envs.simulation import RunResult
from envs.types import ClusterSpec, FloatArray, IntArray, Seconds

MAX_SEGMENTS = 3000  # more cannot be told apart on a page: then only the beginning is drawn
MAX_GPU_LANES = 128  # more GPUs are drawn as one lane per node
MAX_NAMED_NODES = 48
SIZES = (1, 2, 4, 8, 16, 32, 64)  # GPUs requested, the classes of colour; viridis reads alike with every colour vision
LUMINANCE = np.array([0.2126, 0.7152, 0.0722])  # of red, green and blue (ITU-R BT.709)
UNITS = ((3 * 86400.0, 86400.0, "days"), (3 * 3600.0, 3600.0, "hours"), (180.0, 60.0, "minutes"), (0.0, 1.0, "seconds"))


@dataclass(frozen=True)
class TimeAxis:
    """The stretch of time that is drawn, and the unit that suits it."""

    start: Seconds
    end: Seconds
    unit: Seconds
    name: str

    @classmethod
    def over(cls, start: Seconds, end: Seconds) -> "TimeAxis":
        """The unit is the largest of which the stretch has at least three."""
        unit, name = next((unit, name) for least, unit, name in UNITS if end - start >= least)
        return cls(start, end, unit, name)

    def scaled(self, times: FloatArray) -> FloatArray:
        """Seconds in the axis' unit."""
        return times / self.unit


def gantt(result: RunResult) -> Figure:
    """Gantt chart of a run: a box for every stay of a job on its GPUs, and below it GPUs in use and jobs waiting.

    Colour is the number of GPUs requested, its shade tells neighbours apart; a box wide enough has the job's number.
    A white gap in a lane is a free GPU. Of runs with more than `MAX_SEGMENTS` stays the beginning is drawn.
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
    unfinished = f", {result.num_unfinished} unfinished" if result.num_unfinished else ""
    part = f"; first {len(held)} stays of {len(segments(result.log, result.end_time))}" if cut else ""
    above.set_title(
        f"{result.scheduler} on {result.workload.name}: {len(result.records)} jobs{unfinished}{part}", loc="left"
    )
    return figure


def draw_boxes(axes: Axes, result: RunResult, held: npt.NDArray[np.void], axis: TimeAxis) -> None:
    """The boxes, their numbers, and a legend of colours."""
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
    seen = [size for i, size in enumerate(SIZES) if (size_class == i).any()]
    handles = [Patch(color=size_colour(SIZES.index(size)), label=label_of(size)) for size in seen]
    if handles:
        axes.legend(
            handles=handles, title="GPUs requested", ncols=len(handles), loc="lower right", bbox_to_anchor=(1, 1)
        )
    axes.set_xlim(axis.start / axis.unit, max(axis.end, axis.start + 1e-9) / axis.unit)


def boxes(held: npt.NDArray[np.void], cluster: ClusterSpec, by_gpu: bool) -> tuple[FloatArray, FloatArray, IntArray]:
    """Where boxes lie: bottom and height in lanes, and the segment that each belongs to."""
    if by_gpu:
        rows = lanes(held, cluster)
        return rows["lane"].astype(np.float64), rows["count"].astype(np.float64), rows["segment"]
    return node_lanes(held, cluster)


def outline(
    left: FloatArray, right: FloatArray, bottom: FloatArray, height: FloatArray
) -> list[tuple[FloatArray, FloatArray]]:
    """The corners of boxes, counter-clockwise."""
    top = bottom + height
    return [(left, bottom), (right, bottom), (right, top), (left, top)]


def size_colour(size_class: int) -> tuple[float, float, float]:
    """The colour of a class of `SIZES`."""
    return to_rgb(colormaps["viridis"](0.93 - 0.88 * size_class / (len(SIZES) - 1)))


def label_of(size: int) -> str:
    """What a class holds: jobs of one size, or of sizes up to the next class."""
    above = SIZES[SIZES.index(size) + 1] if size != SIZES[-1] else None
    if above is None:
        return f"{size}+"
    return str(size) if above == size + 1 else f"{size}-{above - 1}"


def shades(requested: IntArray, job: IntArray) -> tuple[FloatArray, IntArray]:
    """float64[n, 3] colours by GPUs requested, a little lighter for every second and third job; int64[n] classes."""
    size_class = np.searchsorted(SIZES, np.maximum(requested, 1), side="right") - 1
    palette = np.array([size_colour(i) for i in range(len(SIZES))])
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
    """Write the job's number into boxes with room for it."""
    span = (axis.end - axis.start) / axis.unit
    lanes_drawn = float((bottom + height).max(initial=1.0))
    for i in np.flatnonzero((right - left > 0.022 * span) & (height > lanes_drawn / 45)):
        middle = ((left[i] + right[i]) / 2, bottom[i] + height[i] / 2)
        ink = "black" if colours[i] @ LUMINANCE > 0.45 else "white"
        axes.text(*middle, str(job[i]), ha="center", va="center", fontsize=7, color=ink, clip_on=True)


def name_nodes(axes: Axes, cluster: ClusterSpec, by_gpu: bool) -> None:
    """Name nodes at their lanes and rule lines between them."""
    size = cluster.node_gpus if by_gpu else np.ones(cluster.num_nodes, dtype=np.int64)
    edge = np.concatenate([[0], np.cumsum(size)])
    axes.set_ylim(edge[-1], 0)
    axes.hlines(edge[1:-1], 0, 1, transform=axes.get_yaxis_transform(), color="0.75", linewidth=0.5, zorder=0)
    step = -(-cluster.num_nodes // MAX_NAMED_NODES)
    named = np.arange(0, cluster.num_nodes, step)
    axes.set_yticks(
        (edge[:-1] + edge[1:])[named] / 2, [f"{cluster.nodes[n].gpu_type} node {n}" for n in named], fontsize=8
    )
    axes.tick_params(axis="y", length=0)
    axes.spines[["top", "right"]].set_visible(False)


def draw_load(axes: Axes, result: RunResult, axis: TimeAxis) -> None:
    """GPUs in use and jobs waiting over time."""
    times, held = gpus_held(result)
    axes.fill_between(axis.scaled(times), held / result.cluster.num_gpus, step="post", color="0.8", linewidth=0)
    axes.set_ylim(0, 1)
    axes.set_ylabel("GPUs in use", fontsize=8)
    axes.yaxis.set_major_formatter(lambda share, _: f"{share:.0%}")
    twin = axes.twinx()
    times, waiting = jobs_waiting(result)
    twin.step(axis.scaled(times), waiting, where="post", color="#D55E00", linewidth=1.0)
    twin.set_ylim(bottom=0)
    twin.set_ylabel("jobs waiting", fontsize=8, color="#D55E00")
    axes.set_xlabel(f"time ({axis.name})")
    for part in (axes, twin):
        part.spines["top"].set_visible(False)
        part.tick_params(labelsize=8)
