"""The table of results and the sentence above it."""

import math
import re
from collections.abc import Sequence
from html import escape

import numpy as np

from envs.evaluation.aggregate import Aggregate
from envs.evaluation.comparison import MINIMISED, Comparison
from envs.evaluation.statistics import Estimate
from envs.simulation import RunResult
from murmuration.reports.table import all_columns, count, duration, number, share, unit_of_means, with_interval
from murmuration.reports.webpage.charts import ComparisonCharts

PLANNER = "planner"  # the scheduler of the library that plans ahead; distances to it are shown where it ran
FIRST = (
    "scheduler",
    *(f"{words} (" for words in MINIMISED.values()),
    "vs",
    "unfinished",
)  # columns of `all_columns` that come first, by their beginning

IN_UNIT_OF_MEANS = ("mean JCT", "p50", "p99", "wait", "time to start")  # columns whose heads name no unit in terminals


def headline(comparison: Comparison, charts: ComparisonCharts) -> str:
    """Return a paragraph that says what the page found."""
    subject, rival = charts.subject, charts.rival
    mean, words = comparison.estimate(comparison.metric, subject).value, comparison.metric_name
    unit, name = unit_of_means(comparison)
    figure = f"{number(mean / unit)} {name}"
    said = [f"<b>{escape(subject)}</b> has a {words} of {figure}"] if mean == mean else []
    if rival != subject and said:
        ratio = comparison.ratio(comparison.metric, subject, rival)
        less = "less" if ratio.value < 1 else "more"
        interval = f" ({comparison.level:.0%} interval of the ratio: {with_interval(ratio)})"
        better = "baseline" if subject in charts.policies else "other scheduler"
        said.append(f", {abs(ratio.value - 1):.1%} {less} than <b>{escape(rival)}</b>, the best {better}{interval}")
    bound = comparison.bound_ratio(subject)
    if said and not math.isnan(bound):
        said.append(f", and {bound - 1:.0%} above its lower bound")
    found = f"<p>{''.join(said)}.</p>" if said else ""
    return f'{found}<p class="said">{escape(" ".join(what_was_played(comparison)))}</p>'


def what_was_played(comparison: Comparison) -> list[str]:
    """Return sentences on task, cluster, jobs, their span, the rules for schedulers, and what was left out."""
    task = comparison.settings.get("task")
    said = [f"Task {task['label']}, to minimise {task['objective']}."] if task else []
    longest = max(comparison.runs.values(), key=len)
    first = longest[0]
    if isinstance(first, RunResult):
        cluster = first.cluster
        gpus = " + ".join(f"{number_of:,} {name}" for name, number_of in cluster.gpus_by_type.items())
        said.append(f"Cluster: {gpus} GPUs on {cluster.num_nodes:,} {'node' if cluster.num_nodes == 1 else 'nodes'}.")
    loads = [run.workload for run in longest]
    jobs = sum(map(len, loads))
    spans = [float(np.ptp(load.jobs["submit_time"])) for load in loads]
    each = "" if len(loads) == 1 else f" in {len(loads):,} workloads"
    over = f"submitted over {duration(float(np.mean(spans)))}" + (" each on average" if each else "")
    said.append(f"Jobs: {jobs:,}{each}, {over}.")
    notes = [f"Note: {note}." for note in comparison.settings.get("notes", ())]  # such as rows of a trace left out
    return [*said, *comparison.settings.get("rules", ()), *notes]


def wins(comparison: Comparison, scheduler: str, other: str) -> tuple[int, int]:
    """Return on how many workloads a scheduler has less of what is minimised than another, and how many both ran."""
    own, others = (
        np.array([getattr(summary, comparison.metric) for summary in comparison.summaries[name]])
        for name in (scheduler, other)
    )
    both = min(len(own), len(others))
    known = ~np.isnan(own[:both] + others[:both])
    return int((own[:both] < others[:both])[known].sum()), int(known.sum())


def results_table(comparison: Comparison, charts: ComparisonCharts) -> str:
    """Return the table of results: a row per scheduler in the comparison's order, failed ones and bounds below.

    Numbers of workloads and of unfinished jobs that are the same for all are left to the notes of the page.
    """
    known = {column.head: column.cells for column in all_columns(comparison)}
    same = {head for head in ("n", "unfinished") if len(set(known[head][: len(comparison.schedulers)])) == 1}
    known = {head: cells for head, cells in known.items() if head not in same}
    first = [head for start in FIRST for head in known if head.startswith(start) and head != "vs bound"]
    added = added_columns(comparison, charts)
    rest = [head for head in known if head not in first]
    heads = [*first, *added, *rest]
    names = comparison.schedulers
    ran = [names.index(name) for name in comparison.order]
    rows = [
        (
            "policy" if row < len(names) and names[row] in charts.policies else "bound" if row >= len(names) else "",
            [(added | known)[head][row] if row < len(names) or head in known else "-" for head in heads],
        )
        for row in [*ran, *range(len(names), len(known["scheduler"]))]
    ]
    word = unit_of_means(comparison)[1]
    return whole_table([f"{head} ({word})" if head in IN_UNIT_OF_MEANS else head for head in heads], rows)


def table_row(shade: str, cells: Sequence[str]) -> str:
    """Return a row; its first cell is its heading, and `shade` names its look. Intervals are a second line."""
    first, *others = (re.sub(r" (\[[^]]*])$", r' <span class="interval">\1</span>', escape(cell)) for cell in cells)
    return f'<tr class="{shade}"><th>{first}</th>{"".join(f"<td>{cell}</td>" for cell in others)}</tr>'


def aggregate_table(aggregates: Sequence[Aggregate], reference: str) -> str:
    """Return the table of figures over workloads and training seeds, by ascending interquartile mean."""
    heads = ("scheduler", "seeds", "workloads", f"IQM vs {reference}", f"P(better than {reference})")
    rows = [
        [
            each.name,
            count(each.num_seeds),
            count(each.num_workloads),
            with_interval(each.iqm),
            format_probability(each.improvement),
        ]
        for each in aggregates
    ]
    return whole_table(heads, [("", row) for row in rows])


def format_probability(estimate: Estimate) -> str:
    """Format a probability and its interval as percentages."""
    interval = "" if estimate.low == estimate.high else f" [{share(estimate.low)}, {share(estimate.high)}]"
    return f"{share(estimate.value)}{interval}"


def whole_table(heads: Sequence[str], rows: Sequence[tuple[str, Sequence[str]]]) -> str:
    """Return a table that scrolls sideways; each row is the name of its look and its cells."""
    top = "".join(f"<th>{escape(head)}</th>" for head in heads)
    body = "".join(table_row(shade, cells) for shade, cells in rows)
    return f'<div class="scroll"><table><thead><tr>{top}</tr></thead><tbody>{body}</tbody></table></div>'


def added_columns(comparison: Comparison, charts: ComparisonCharts) -> dict[str, list[str]]:
    """Return the columns that only the page has: workloads won, ratio to the best baseline and to the planner."""
    found: dict[str, list[str]] = {}
    rivals = [charts.rival, *([PLANNER] if PLANNER in comparison.runs else [])]
    for rival in dict.fromkeys(rivals):
        if rival != comparison.reference:
            ratios = [comparison.ratio(comparison.metric, name, rival) for name in comparison.schedulers]
            found[f"vs {rival}"] = [format_ratio(ratio) for ratio in ratios]
    for rival in dict.fromkeys([comparison.reference, charts.rival]):
        won = [wins(comparison, name, rival) for name in comparison.schedulers]
        found[f"wins vs {rival}"] = [
            "-" if name == rival or not played else f"{count(better)} of {count(played)}"
            for name, (better, played) in zip(comparison.schedulers, won, strict=True)
        ]
    return found


def format_ratio(ratio: Estimate) -> str:
    """Return the cell of a ratio."""
    return number(ratio.value) if ratio.value == 1 and ratio.low == ratio.high else with_interval(ratio)
