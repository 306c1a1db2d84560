"""Charts of resources in use over time under every scheduler."""

from collections.abc import Callable, Mapping

import numpy as np
import numpy.typing as npt

from envs.metrics import jobs_waiting, measured_span
from envs.pictures.gantt import TimeAxis
from envs.simulation import RunResult
from envs.types import FloatArray, Seconds
from murmuration.reports.webpage.charts import Chart, ComparisonCharts, axis, chart, short
from murmuration.reports.webpage.schedules import time_axis, zero_of
from murmuration.reports.webpage.stays import StayThroughputs, find_stays

NUM_BINS = 240
TITLES = {
    "GPUs": "GPUs in use",
    "cores": "cores in use",
    "memory": "memory in use",
    "links": "links in use",
    "waiting": "jobs waiting",
}


TrafficOf = Callable[[RunResult, npt.NDArray[np.void]], FloatArray]  # GB/s of each stay over all its links together


def usage_charts(
    charts: ComparisonCharts, runs: Mapping[str, RunResult], throughputs: StayThroughputs | None
) -> dict[str, Chart]:
    """Return a chart for each resource of `resources_in_use`, with a line for each run, over the measured span."""
    start = min(measured_span(run)[0] for run in runs.values())
    span = TimeAxis.over(start, max(*(run.end_time for run in runs.values()), start + 1e-9))
    zero = zero_of(next(iter(runs.values())))
    traffic = throughputs.traffic if throughputs else None
    used = {name: resources_in_use(run, span.start, span.end, NUM_BINS, traffic) for name, run in runs.items()}
    width = (span.end - span.start) / NUM_BINS
    times = short([(span.start + i * width) / span.unit for i in range(NUM_BINS)])
    found: dict[str, Chart] = {}
    for resource, title in TITLES.items():
        lines = {name: figures[resource] for name, figures in used.items() if resource in figures}
        if not any(values.any() for values in lines.values()):
            continue
        share = resource != "waiting"
        traces = [
            charts.trace(
                name,
                x=times,
                y=short(values),
                mode="lines",
                width=1.5,
                step=True,
            )
            for name, values in lines.items()
        ]
        vertical = axis(f"{title} (%)" if share else f"{title} (jobs)", tozero=True, percent=share)
        found[resource] = chart(traces, time_axis(span, zero), vertical, 240)
    return found


def resources_in_use(
    result: RunResult, start: Seconds, end: Seconds, num_bins: int, traffic: TrafficOf | None = None
) -> dict[str, FloatArray]:
    """Return averages over `num_bins` equal intervals between two times, by resource: float64[num_bins] each.

    "GPUs", "cores", "memory" and "links" are shares of the whole cluster from 0 to 1, "waiting" is a number of jobs.
    Cores and memory are those that jobs got at their last start or resize, at most all; they are left out where the
    scenario does not divide them. "links" is the traffic between nodes, each job alone on its links, relative to the
    bandwidth of all nodes' links; it is left out without `traffic`.
    """
    held = find_stays(result)
    nodes = result.cluster.nodes
    total = {
        "gpus": float(result.cluster.num_gpus),
        "cpus": sum(node.cpu_cores for node in nodes),
        "memory": sum(node.memory for node in nodes),
    }
    edges = np.linspace(start, end, num_bins + 1)
    shown = {"GPUs": "gpus"} | ({"cores": "cpus", "memory": "memory"} if held["cpus"].any() else {})
    found = {
        name: np.minimum(mean_held(held, held[column] / total[column], edges), 1.0) for name, column in shown.items()
    }
    if traffic is not None:
        bandwidth = sum(node.inter_node_bandwidth for node in nodes)
        found["links"] = mean_held(held, traffic(result, held) / bandwidth, edges)
    times, waiting = jobs_waiting(result)
    found["waiting"] = bin_means(times, waiting.astype(np.float64), edges)
    return found


def mean_held(held: npt.NDArray[np.void], amounts: FloatArray, edges: FloatArray) -> FloatArray:
    """Return float64[num_bins]: the sum of the amounts that are held, averaged over each interval between edges."""
    times = np.concatenate([held["start"], held["end"]])
    order = np.argsort(times, kind="stable")
    return bin_means(times[order], np.cumsum(np.concatenate([amounts, -amounts])[order]), edges)


def bin_means(times: FloatArray, values: FloatArray, edges: FloatArray) -> FloatArray:
    """Average a step function over intervals.

    Args:
        times: float64[n], ascending; `values[i]` holds from `times[i]` to `times[i + 1]`, the last one without end.
        values: float64[n]; before `times[0]` the function is 0.
        edges: float64[m + 1], the limits of m intervals, ascending.
    """
    if not len(times):
        return np.zeros(len(edges) - 1)
    last = max(times[-1], edges[-1])
    known = np.append(times, last + 1.0)
    area = np.concatenate([[0.0], np.cumsum(values * np.diff(known))])
    return np.asarray(np.diff(np.interp(edges, known, area)) / np.maximum(np.diff(edges), 1e-12))
