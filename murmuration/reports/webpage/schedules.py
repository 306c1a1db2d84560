"""The interactive Gantt chart: the same span of one workload under every scheduler, drawn for any two of them."""

from bisect import bisect_right
from collections.abc import Mapping, Sequence
from datetime import datetime
from typing import Any

import numpy as np
import numpy.typing as npt

from envs.metrics import measured_span, segments
from envs.performance import without_draw
from envs.pictures.gantt import MAX_GPU_LANES, SIZE_CLASSES, TimeAxis, boxes, label_of, shades, size_colour
from envs.simulation import RunResult
from envs.types import FloatArray
from murmuration.reports.table import duration, number
from murmuration.reports.webpage.blocking import Blocking, gpus_in_words
from murmuration.reports.webpage.charts import Chart, axis, chart, short
from murmuration.reports.webpage.stays import StayThroughputs, find_stays, name_nodes_of, why_begun, why_ended

MOST_STAYS = 40_000  # of all schedulers of a page, which has to stay small
MAX_NAMED_NODES = 32
DIGITS = 5  # of times in units of the axis: less than 0.5 s if they are days


def choose_runs(runs: Mapping[str, RunResult], first: Sequence[str]) -> dict[str, RunResult]:
    """Return the first two runs, and as many further ones as a page can hold.

    Args:
        runs: by scheduler.
        first: names of schedulers, the most wanted first.
    """
    order = [name for name in dict.fromkeys([*first, *runs]) if name in runs]
    stays = {name: len(find_stays(runs[name])) for name in order}
    chosen = order[:2]
    for name in order[2:]:
        if sum(stays[each] for each in [*chosen, name]) <= MOST_STAYS:
            chosen.append(name)
    return {name: run for name, run in runs.items() if name in chosen}


def common_axis(runs: Mapping[str, RunResult]) -> TimeAxis:
    """Return the span from the start of measurement on; where that has more stays than are drawn, its beginning."""
    most = MOST_STAYS // len(runs)
    start = max(measured_span(run)[0] for run in runs.values())
    ends = [max(run.end_time for run in runs.values())]
    for run in runs.values():
        held = segments(run.log, run.end_time)
        begun = np.sort(held["start"][held["end"] > start])
        if len(begun) > most:
            ends.append(float(begun[most]))
    return TimeAxis.over(start, max(min(ends), start + 1e-9))


def schedule_chart(run: RunResult, span: TimeAxis, throughputs: StayThroughputs | None) -> Chart:
    """Return the Gantt chart of a run as one trace of `boxes`, whose colours are places in `palette`.

    `stay` of a box is the index of its entry in `texts`, the lines that appear when it is pointed at, and in `stays` of
    `murmuration.reports.webpage.explorer.history_of`.
    """
    held = segments(run.log, run.end_time)
    held = held[(held["start"] < span.end) & (held["end"] > span.start)]
    held = held[np.argsort(held["start"], kind="stable")]
    bottom, height, segment = boxes(held, run.cluster, run.cluster.num_gpus <= MAX_GPU_LANES)
    job = held["job"][segment]
    shade, _ = shades(run.workload.jobs["num_gpus"][job], job)
    palette, colours = np.unique(shade.reshape(-1, 3), axis=0, return_inverse=True)
    stays, blocking = within(find_stays(run), span), Blocking(run)
    places: dict[int, list[tuple[float, int]]] = {}
    for i, stay in enumerate(stays):
        places.setdefault(int(stay["job"]), []).append((float(stay["start"]), i))
    drawn = {
        "left": rounded(span, np.maximum(held["start"][segment], span.start)),
        "right": rounded(span, np.minimum(held["end"][segment], span.end)),
        "bottom": short(bottom),
        "height": short(height),
        "colour": colours.ravel().tolist(),
        "stay": [_containing(places[int(row["job"])], float(row["start"])) for row in held[segment]],
    }
    trace = {
        "boxes": drawn,
        "palette": [hex_colour(each) for each in palette],
        "texts": [describe_stay(run, stay, throughputs, blocking) for stay in stays],
    }
    return chart([trace], time_axis(span, zero_of(run)), node_axis(run), 460)


def rounded(span: TimeAxis, seconds: FloatArray) -> list[float]:
    """Return times in units of the axis."""
    return list(np.round(span.scaled(seconds), DIGITS).tolist())


def zero_of(run: RunResult) -> str:
    """Return the date of time 0 of a run; see `zero_text`."""
    return zero_text(run.workload.recorded.zero if run.workload.recorded else None)


def zero_text(zero: datetime | None) -> str:
    """Return the date of time 0 in ISO 8601, on the trace's own clock; empty if the trace has no dates."""
    return f"{zero.replace(tzinfo=None).isoformat()}Z" if zero else ""


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
    types = "+".join(sorted({run.cluster.nodes[node].gpu_type for node in placement.gpus}))
    lines = [
        f"job {stay['job']}, {without_draw(run.workload.models[job['model']])}",
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


def time_axis(span: TimeAxis, zero: str) -> dict[str, Any]:
    """Return the axis of time, over exactly the span; with dates if the trace has them."""
    ends = [span.start / span.unit, span.end / span.unit]
    title = "" if zero else f"time ({span.name})"
    return axis(title, time=True, range=ends, unit=span.unit, **({"zero": zero} if zero else {}))


def node_axis(run: RunResult) -> dict[str, Any]:
    """Return the axis of nodes, the first one at the top, with names of some of them."""
    by_gpu = run.cluster.num_gpus <= MAX_GPU_LANES
    size = run.cluster.node_gpus if by_gpu else np.ones(run.cluster.num_nodes, np.int64)
    edge = np.concatenate([[0], np.cumsum(size)])
    named = np.arange(0, run.cluster.num_nodes, -(-run.cluster.num_nodes // MAX_NAMED_NODES))
    ticks = [[float(edge[n] + edge[n + 1]) / 2, f"{run.cluster.nodes[n].gpu_type} {n}"] for n in named]
    return axis("node: one lane per GPU" if by_gpu else "node", range=[float(edge[-1]), 0.0], ticks=ticks)


def size_legend() -> list[tuple[str, str]]:
    """Return (colour, label) of every class of GPUs requested."""
    return [(hex_colour(size_colour(i)), label_of(size)) for i, size in enumerate(SIZE_CLASSES)]


def hex_colour(colour: Any) -> str:
    """Return a colour of three numbers from 0 to 1 as #rrggbb."""
    return "#" + "".join(f"{round(255 * float(part)):02x}" for part in colour)
