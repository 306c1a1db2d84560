"""Charts of resources in use over time under every scheduler."""

from collections.abc import Mapping

from envs.evaluation.gantt import TimeAxis
from envs.evaluation.webpage.charts import Chart, ComparisonCharts, axis, chart, short
from envs.evaluation.webpage.schedules import time_axis
from envs.evaluation.webpage.stays import StayThroughputs
from envs.evaluation.webpage.usage import resources_in_use
from envs.metrics import measured_span
from envs.simulation import RunResult

NUM_BINS = 240
TITLES = {
    "GPUs": "GPUs in use",
    "cores": "cores in use",
    "memory": "memory in use",
    "links": "links in use",
    "waiting": "jobs waiting",
}


def usage_charts(
    charts: ComparisonCharts, runs: Mapping[str, RunResult], throughputs: StayThroughputs | None
) -> dict[str, Chart]:
    """Return a chart for each resource of `resources_in_use`, with a line for each run, over the measured span."""
    start = min(measured_span(run)[0] for run in runs.values())
    span = TimeAxis.over(start, max(*(run.end_time for run in runs.values()), start + 1e-9))
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
                line={**charts.thin_line(name), "shape": "hv"},
                hovertemplate=f"{name}: %{{y{':.0%' if share else ':.3g'}}} at %{{x:.4g}} {span.name}<extra></extra>",
            )
            for name, values in lines.items()
        ]
        vertical = axis(f"{title} (%)" if share else f"{title} (jobs)", rangemode="tozero")
        found[resource] = chart(traces, time_axis(span), vertical | ({"tickformat": ".0%"} if share else {}))
        found[resource]["layout"]["height"] = 240
    return found
