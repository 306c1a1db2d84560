"""The interactive Gantt chart: the same span of one workload under every scheduler, drawn for any two of them."""

from bisect import bisect_right
from collections.abc import Mapping, Sequence
from html import escape
from typing import Any

import numpy as np
import numpy.typing as npt

from envs.metrics import measured_span, segments
from envs.performance import without_draw
from envs.pictures.gantt import MAX_GPU_LANES, SIZE_CLASSES, TimeAxis, boxes, label_of, shades, size_colour
from envs.simulation import RunResult
from murmuration.reports.table import duration, number
from murmuration.reports.webpage.blocking import Blocking, gpus_in_words
from murmuration.reports.webpage.charts import AXIS, Chart, axis, chart, short
from murmuration.reports.webpage.stays import StayThroughputs, find_stays, name_nodes_of, why_begun, why_ended

MOST_STAYS = 1500  # of one scheduler
MOST_STAYS_TOGETHER = 12000  # of all schedulers of a page, which has to stay small
MAX_NAMED_NODES = 32


def common_axis(runs: Mapping[str, RunResult]) -> TimeAxis:
    """Return the span from the start of measurement in which no scheduler has more stays than are drawn."""
    most = max(50, min(MOST_STAYS, MOST_STAYS_TOGETHER // len(runs)))
    start = max(measured_span(run)[0] for run in runs.values())
    ends = [max(run.end_time for run in runs.values())]
    for run in runs.values():
        held = segments(run.log, run.end_time)
        begun = np.sort(held["start"][held["end"] > start])
        if len(begun) > most:
            ends.append(float(begun[most]))
    return TimeAxis.over(start, max(min(ends), start + 1e-9))


def schedule_chart(run: RunResult, span: TimeAxis, throughputs: StayThroughputs | None) -> Chart:
    """Return the Gantt chart of a run as one trace of boxes.

    `stay` of the trace is the index of each box's entry in `texts`, the lines that appear when a box is pointed at, and
    in `stays` of `murmuration.reports.webpage.explorer.history_of`.
    """
    held = segments(run.log, run.end_time)
    held = held[(held["start"] < span.end) & (held["end"] > span.start)]
    held = held[np.argsort(held["start"], kind="stable")]
    bottom, height, segment = boxes(held, run.cluster, run.cluster.num_gpus <= MAX_GPU_LANES)
    left = np.maximum(held["start"][segment], span.start)
    right = np.minimum(held["end"][segment], span.end)
    job = held["job"][segment]
    colours, _ = shades(run.workload.jobs["num_gpus"][job], job)
    stays, blocking = within(find_stays(run), span), Blocking(run)
    places: dict[int, list[tuple[float, int]]] = {}
    for i, stay in enumerate(stays):
        places.setdefault(int(stay["job"]), []).append((float(stay["start"]), i))
    trace = {
        "type": "bar",
        "orientation": "h",
        "base": short(span.scaled(left)),
        "x": short(span.scaled(right - left)),
        "y": short(bottom + height / 2),
        "width": short(height * 0.94),
        "marker": {"color": [hex_colour(each) for each in colours], "line": {"color": "#fff", "width": 0.5}},
        "stay": [_containing(places[int(row["job"])], float(row["start"])) for row in held[segment]],
        "texts": [describe_stay(run, stay, throughputs, blocking) for stay in stays],
        "hoverinfo": "text",
        "textposition": "none",
        "showlegend": False,
    }
    made = chart([trace], time_axis(span), node_axis(run))
    made["layout"] |= {"bargap": 0, "barmode": "overlay", "height": 460}
    return made


def _containing(stays: Sequence[tuple[float, int]], start: float) -> int:
    """Return the index of the last stay of a job, as (start, index), that begins no later than a segment of it."""
    return stays[bisect_right(stays, start, key=lambda stay: stay[0]) - 1][1]


def within(rows: npt.NDArray[np.void], span: TimeAxis) -> npt.NDArray[np.void]:
    """Return the rows with a `start` and an `end` that reach into a span."""
    return rows[(rows["start"] < span.end) & (rows["end"] > span.start)]


def describe_stay(
    run: RunResult, stay: npt.NDArray[np.void], throughputs: StayThroughputs | None, blocking: Blocking
) -> list[str]:
    """Return the lines that a box shows when it is pointed at: job, resources, throughput, how it began and ended.

    The second line names the GPUs, the last but one says how the stay began, and the last one how it ended.
    """
    job = run.workload.jobs[stay["job"]]
    placement = run.log.placement(int(stay["event"]))
    types = escape("+".join(sorted({run.cluster.nodes[node].gpu_type for node in placement.gpus})))
    lines = [
        f"<b>job {stay['job']}</b>, {escape(without_draw(run.workload.models[job['model']]))}",
        f"{stay['gpus']} {types} on {name_nodes_of(placement)} ({gpus_in_words(job['num_gpus'])} requested)",
    ]
    if stay["cpus"] > 0:
        lines.append(f"{number(float(stay['cpus']))} cores, {number(float(stay['memory']))} GB memory at this event")
    throughput = throughputs.of(run, stay)[0] if throughputs else np.nan
    if throughput == throughput:
        lines.append(f"{number(throughput)} samples/s with ample cores and links")
    begun = float(stay["start"]) - float(job["submit_time"])
    lines.append(f"from {duration(begun)} after submission, for {duration(float(stay['end'] - stay['start']))}")
    return [*lines, why_begun(run, stay, blocking), why_ended(run, stay, blocking)]


def time_axis(span: TimeAxis) -> dict[str, Any]:
    """Return the axis of time, over exactly the span."""
    return axis(f"time ({span.name})", range=[span.start / span.unit, span.end / span.unit])


def node_axis(run: RunResult) -> dict[str, Any]:
    """Return the axis of nodes, the first one at the top, with names of some of them."""
    by_gpu = run.cluster.num_gpus <= MAX_GPU_LANES
    size = run.cluster.node_gpus if by_gpu else np.ones(run.cluster.num_nodes, np.int64)
    edge = np.concatenate([[0], np.cumsum(size)])
    named = np.arange(0, run.cluster.num_nodes, -(-run.cluster.num_nodes // MAX_NAMED_NODES))
    return {
        **AXIS,
        "range": [float(edge[-1]), 0.0],
        "tickvals": ((edge[:-1] + edge[1:])[named] / 2).tolist(),
        "ticktext": [f"{escape(run.cluster.nodes[n].gpu_type)} {n}" for n in named],
        "title": {"text": "node: one lane per GPU" if by_gpu else "node", "standoff": 4},
        "showgrid": False,
        "ticks": "",
    }


def size_legend() -> list[tuple[str, str]]:
    """Return (colour, label) of every class of GPUs requested."""
    return [(hex_colour(size_colour(i)), label_of(size)) for i, size in enumerate(SIZE_CLASSES)]


def hex_colour(colour: Any) -> str:
    """Return a colour of three numbers from 0 to 1 as #rrggbb."""
    return "#" + "".join(f"{round(255 * float(part)):02x}" for part in colour)
