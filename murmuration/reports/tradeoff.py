"""Plot of mean JCT, or makespan, against the CPU time of a decision, with labels that do not overlap."""

import itertools
import math
from collections.abc import Sequence

import numpy as np
from matplotlib.axes import Axes
from matplotlib.backends.backend_agg import FigureCanvasAgg
from matplotlib.figure import Figure
from matplotlib.text import Annotation
from matplotlib.transforms import Bbox

from envs.evaluation.comparison import Comparison
from envs.pictures.plots import COLOURS
from envs.pictures.texts import plot_text
from envs.types import FloatArray

LEAST_MS = 1e-4  # shorter decisions are drawn here, as a logarithmic axis has no zero
SLOT = 12.0  # points between the rings on which positions of a label are tried
NUM_RINGS = 12
LEADER = SLOT  # points; a label that is further away has a line to its mark
DIRECTIONS = [(math.cos(angle), math.sin(angle)) for angle in np.arange(16) * math.pi / 8]  # from the right on


def jct_and_cpu_time(comparison: Comparison) -> Figure:
    """Plot mean JCT, or makespan if a task minimises it, against CPU time per decision of every scheduler.

    It is relative to the lower bound if there is one.

    Schedulers without a figure are left out.
    """
    figure = Figure(figsize=(7.5, 5.2), layout="constrained")
    FigureCanvasAgg(figure)  # measures the sizes of labels
    axes = figure.subplots()
    ratios = {name: comparison.bound_ratio(name) for name in comparison.schedulers}
    means = {name: comparison.estimate(comparison.metric, name).value / 3600 for name in comparison.schedulers}
    bounded = any(not math.isnan(ratio) for ratio in ratios.values())
    heights = {name: height for name, height in (ratios if bounded else means).items() if not math.isnan(height)}
    costs = {name: comparison.decision_ms(name) for name in heights}
    shown = [name for name in heights if not math.isnan(costs[name])]
    places = np.array([[max(costs[name], LEAST_MS), heights[name]] for name in shown]).reshape(-1, 2)
    axes.set_xscale("log")
    axes.scatter(places[:, 0], places[:, 1], s=22, color=COLOURS[0], zorder=3)
    axes.set_xlabel("CPU time per decision (ms)")
    axes.set_ylabel(plot_text(f"{comparison.metric_name} {'/ lower bound' if bounded else '(h)'}"))
    axes.set_title(plot_text(f"{comparison.num_workloads} workloads; lower and further left is better"), fontsize=10)
    axes.grid(which="major", color="0.9")
    axes.spines[["top", "right"]].set_visible(False)
    axes.margins(0.12)
    place_labels(axes, shown, places)
    return figure


def place_labels(axes: Axes, labels: Sequence[str], places: FloatArray) -> list[Annotation]:
    """Write a label near each mark, where it covers no mark, no other label and no edge of the axes.

    Positions are tried on rings around the mark, nearest first. If all are taken, the label is right of its mark.

    Args:
        axes: the axes, with their final limits and scales.
        labels: the text of each mark.
        places: float64[num_labels, 2], the marks in data coordinates.

    Returns:
        The labels, in order.
    """
    figure = axes.get_figure(root=True)
    assert figure is not None
    figure.draw_without_rendering()  # lays out the axes, after which pixels are final
    marks = axes.transData.transform(places) if len(places) else places
    pixels = figure.dpi / 72  # per point
    taken = [Bbox.from_extents(x - 5, y - 5, x + 5, y + 5) for x, y in marks]
    written = []
    for text, place, (x, y) in zip(labels, places, marks, strict=True):
        label = axes.annotate(
            plot_text(text),
            tuple(place),
            xytext=(0, 0),
            textcoords="offset points",
            fontsize=8,
            ha="center",
            va="center",
        )
        size = label.get_window_extent()
        options = (
            (right * (size.width / 2 / pixels + radius), up * (size.height / 2 / pixels + radius))
            for radius, (right, up) in itertools.product(SLOT * (0.5 + np.arange(NUM_RINGS)), DIRECTIONS)
        )
        fallback = size.width / 2 / pixels + SLOT / 2, 0.0
        offset = next((each for each in options if _is_free(size, each, pixels, taken, axes.bbox)), fallback)
        label.set_position(offset)
        box = size.translated(offset[0] * pixels, offset[1] * pixels)
        taken.append(box)
        nearest = float(np.clip(x, box.x0, box.x1)), float(np.clip(y, box.y0, box.y1))
        if math.dist(nearest, (x, y)) > LEADER * pixels:
            end = axes.transData.inverted().transform(nearest)
            axes.plot([place[0], end[0]], [place[1], end[1]], color="0.75", linewidth=0.6, zorder=1)
        written.append(label)
    return written


def _is_free(size: Bbox, offset: tuple[float, float], pixels: float, taken: Sequence[Bbox], within: Bbox) -> bool:
    """Whether a label moved by an offset in points lies within the axes and overlaps nothing."""
    box = size.translated(offset[0] * pixels, offset[1] * pixels)
    inside = within.x0 <= box.x0 and box.x1 <= within.x1 and within.y0 <= box.y0 and box.y1 <= within.y1
    return inside and not any(box.overlaps(other) for other in taken)
