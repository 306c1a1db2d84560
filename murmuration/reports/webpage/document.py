"""The page itself: sections of text, tables and charts in one file, with the styles and scripts that they need."""

import gzip
import json
import platform
from base64 import b64encode
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from html import escape
from importlib.metadata import PackageNotFoundError, version
from importlib.resources import files
from typing import Any

from envs.evaluation.aggregate import Aggregate
from envs.evaluation.comparison import Comparison
from envs.evaluation.plain_values import plain
from envs.pictures.gantt import TimeAxis
from envs.simulation import WORLD_VERSION, RunResult, Setup
from murmuration.reports.page import lines_of_missing
from murmuration.reports.table import duration
from murmuration.reports.webpage.charts import FIGURES, Chart, ComparisonCharts
from murmuration.reports.webpage.explorer import explorer, explorer_data
from murmuration.reports.webpage.schedules import choose_runs, common_axis, schedule_chart
from murmuration.reports.webpage.stays import StayThroughputs
from murmuration.reports.webpage.tables import aggregate_table, headline, results_table, what_was_played
from murmuration.reports.webpage.usage_chart import usage_charts

LIBRARIES = ("murmuration", "numpy", "scipy", "numba", "pandas", "torch", "ray")


@dataclass(frozen=True)
class PageExtras:
    """Content of a report page besides its comparison.

    Attributes:
        policies: names of trained policies among the schedulers.
        setup: the setup of the runs, for throughputs and traffic; without it they are left out.
        configuration: the whole configuration as YAML, for readers who want to repeat the comparison.
        groups: names of schedulers that are training seeds of one policy, by the policy's name.
    """

    policies: Sequence[str] = ()
    setup: Setup | None = None
    configuration: str = ""
    groups: Mapping[str, Sequence[str]] = field(default_factory=dict)


def html_page(comparison: Comparison, extras: PageExtras | None = None, aggregates: Sequence[Aggregate] = ()) -> str:
    """Return the whole report as one HTML page that needs no other file and no network.

    Args:
        comparison: the comparison.
        extras: what else is shown.
        aggregates: the result of `aggregate_comparison`; without it the page has no such section.
    """
    extras = extras or PageExtras()
    charts = ComparisonCharts(comparison, extras.policies)
    drawn: dict[str, Chart] = {}
    runs = first_runs(comparison)
    explored = choose_runs(runs, [charts.subject, charts.rival, *comparison.order])
    span = common_axis(explored) if runs else None
    sections = [
        *comparison_sections(comparison, charts, drawn),
        *aggregate_sections(comparison, charts, aggregates, drawn),
        *(schedule_sections(charts, runs, explored, span, extras, drawn) if span else ()),
        *settings_sections(comparison, extras),
    ]
    for made in drawn.values():  # what is drawn last lies on top
        made["data"].sort(key=lambda trace: trace.get("of") == charts.subject)
    data = {"charts": drawn, "styles": {name: charts.style(name) for name in comparison.schedulers}}
    if span:
        data["explorer"] = explorer_data(explored, span)
    return "".join(
        [
            '<!DOCTYPE html>\n<html lang="en">\n<head>\n<meta charset="utf-8">\n',
            '<meta name="viewport" content="width=device-width, initial-scale=1">\n',
            f"<title>{escape(title_of(comparison))}</title>\n<style>\n{static('page.css')}</style>\n",
            "</head>\n<body>\n<main>\n",
            f"<h1>{escape(title_of(comparison))}</h1>\n{headline(comparison, charts)}\n",
            "\n".join(sections),
            f"</main>\n{packed(data)}<script>\n{static('sorting.js')}{static('chart.js')}",
            f"unpackData().then((report) => {{\ndrawAll(report);\n{static('explorer.js')}}});\n",
            "</script>\n</body>\n</html>\n",
        ]
    )


def packed(data: Mapping[str, Any]) -> str:
    """Return the element with what the page draws: JSON as gzip in base64, a seventh of its size."""
    text = json.dumps(plain(data), separators=(",", ":"), allow_nan=False)
    content = b64encode(gzip.compress(text.encode(), mtime=0)).decode()
    return f'<script type="text/plain" id="packed-data">{content}</script>\n'


def comparison_sections(comparison: Comparison, charts: ComparisonCharts, drawn: dict[str, Chart]) -> list[str]:
    """Return the sections with figures over all workloads; add their charts to `drawn`."""
    figure = comparison.metric_name
    drawn |= {"tradeoff": charts.jct_and_cpu_time(), "cdf": charts.jct_distribution()}
    found = [
        section("Results", results_table(comparison, charts)),
        chips(charts),
        section(
            f"{figure[0].upper()}{figure[1:]} and decision time", slot("tradeoff"), "Lower and further left is better."
        ),
        section("Job completion times", slot("cdf"), "Over the jobs that every scheduler finished."),
    ]
    if comparison.num_workloads > 1 and len(comparison.schedulers) > 1:
        drawn["by_workload"] = charts.by_workload()
        said = f"Every mark is one workload; below the dotted line, a scheduler is better than {charts.rival}."
        found.append(section(f"Workload by workload, against {charts.rival}", slot("by_workload"), said))
    for figure in FIGURES:
        if any(charts.means_by(figure, charts.size_classes)):
            name, words = figure.lower().replace(" ", "_"), figure[0].upper() + figure[1:]
            drawn |= {f"{name}_by_size": charts.by_size(figure), f"{name}_by_model": charts.by_model(figure)}
            found.append(section(f"{words} by job size and by model", pair(f"{name}_by_size", f"{name}_by_model")))
    return found


def aggregate_sections(
    comparison: Comparison, charts: ComparisonCharts, aggregates: Sequence[Aggregate], drawn: dict[str, Chart]
) -> list[str]:
    """Return the section of figures over workloads and training seeds; none for a single scheduler or workload."""
    if len(aggregates) < 2 or comparison.num_workloads < 2:
        return []
    drawn["profiles"] = charts.performance_profiles(aggregates)
    said = (
        f"Scores are {comparison.metric_name} relative to {comparison.reference}; less is better. IQM: mean of the "
        "middle half of all scores. Probability of improvement: that a training seed is better on a workload. "
        "Intervals: stratified bootstrap over workloads and seeds. Profile: share of scores that are at most as large."
    )
    body = aggregate_table(aggregates, comparison.reference) + slot("profiles")
    return [section("Over workloads and training seeds", body, said)]


def first_runs(comparison: Comparison) -> dict[str, RunResult]:
    """Return the runs of the first workload by scheduler, without those that are known from records only."""
    first = {name: results[0] for name, results in comparison.runs.items()}
    return {name: run for name, run in first.items() if isinstance(run, RunResult)}


def schedule_sections(
    charts: ComparisonCharts,
    runs: Mapping[str, RunResult],
    explored: Mapping[str, RunResult],
    span: TimeAxis,
    extras: PageExtras,
    drawn: dict[str, Chart],
) -> list[str]:
    """Return the sections about the first workload: resources over time, and the explorer of schedules."""
    throughputs = StayThroughputs(extras.setup) if extras.setup else None
    usage = usage_charts(charts, runs, throughputs)
    drawn |= {f"usage_{name}": made for name, made in usage.items()}
    drawn |= {f"gantt_{name}": schedule_chart(run, span, throughputs) for name, run in explored.items()}
    workload, names = next(iter(runs.values())).workload.name, list(explored)
    left = charts.subject if charts.subject in names else names[0]
    right = next((name for name in (charts.rival, *names) if name in names and name != left), left)
    said = (
        f"Of {workload}, the first workload. Cores and memory: as given at each job's last start or resize. "
        "Links: traffic between nodes, each job alone on its links, relative to the bandwidth of all nodes."
    )
    how = (
        f"Of {workload}. Step through the rounds to see what each scheduler did; click a box for the history of its "
        "job, drag to zoom, double-click for the whole span. Free GPUs and other jobs are those of the event log; "
        "why a scheduler preferred them it does not say."
    )
    if absent := [name for name in runs if name not in explored]:
        how += f" Left out, since the page would become too large: {', '.join(absent)}."
    last = max(run.end_time for run in explored.values())
    if span.end < last:
        how += f" Shown is the time until {duration(span.end)} of {duration(last)}: more would make the page too large."
    return [
        section("Resources in use over time", "".join(slot(f"usage_{name}") for name in usage), said),
        section("Schedules side by side", explorer(names, left, right), how),
    ]


def settings_sections(comparison: Comparison, extras: PageExtras) -> list[str]:
    """Return how to read the figures, failures, settings, configuration and versions."""
    above = what_was_played(comparison)
    lines = [*lines_of_missing(comparison), *(line for line in comparison.caption_lines if line not in above)]
    found = [section("How to read the figures", bullets(lines))]
    settings = json.dumps(plain(dict(comparison.settings)), indent=2)
    folded = [("Settings and workloads", settings), ("Configuration", extras.configuration)]
    details = "".join(
        f"<details><summary>{name}</summary><pre>{escape(text)}</pre></details>" for name, text in folded if text
    )
    return [*found, section("Reproduce", f"<p>{escape(', '.join(versions()))}</p>{details}")]


def versions() -> list[str]:
    """Return the versions of Python, of the world's rules and of the libraries that are installed."""
    found = [f"Python {platform.python_version()}", f"world rules {WORLD_VERSION}"]
    for name in LIBRARIES:
        try:
            found.append(f"{name} {version(name)}")
        except PackageNotFoundError:
            continue
    return found


def title_of(comparison: Comparison) -> str:
    """Return the title of the page."""
    task = comparison.settings.get("task")
    return f"Schedulers on {task['name']}-v{task['version']}" if task else "Comparison of schedulers"


def chips(charts: ComparisonCharts) -> str:
    """Return the buttons that show and hide schedulers in all charts, the best first."""
    buttons = "".join(
        f'<button type="button" data-line="{escape(name)}" aria-pressed="{str(name in charts.shown).lower()}">'
        f"{escape(name)}</button>"
        for name in charts.comparison.order
    )
    return f'<nav class="chips" aria-label="Schedulers shown in the charts">{buttons}</nav>'


def section(title: str, body: str, said: str = "") -> str:
    """Return a section with a heading and a line below it."""
    line = f'<p class="said">{escape(said)}</p>' if said else ""
    return f"<section><h2>{escape(title)}</h2>{line}{body}</section>"


def slot(name: str) -> str:
    """Return the place of a chart."""
    return f'<div class="chart" data-chart="{escape(name)}"></div>'


def pair(first: str, second: str) -> str:
    """Return the places of two charts, side by side where there is room."""
    return f'<div class="pair">{slot(first)}{slot(second)}</div>'


def bullets(lines: Sequence[str]) -> str:
    """Return a list of lines."""
    return f"<ul>{''.join(f'<li>{escape(line)}</li>' for line in lines)}</ul>"


def static(name: str) -> str:
    """Return a file of the folder `static`."""
    return (files("murmuration.reports.webpage") / "static" / name).read_text(encoding="utf-8")
