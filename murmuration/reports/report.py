"""Reports of a comparison: a progress bar while it runs, a printed table, and result files."""

import json
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
from matplotlib.figure import Figure
from rich.progress import BarColumn, Progress, TimeElapsedColumn, TimeRemainingColumn

from envs.evaluation.aggregate import aggregate_comparison
from envs.evaluation.compare import check_comparable, compare_schedulers
from envs.evaluation.comparison import Comparison
from envs.evaluation.compiling import CompilingColumn
from envs.evaluation.files import file_part, write_figure, write_frame, write_whole
from envs.performance import efficiency_notes, throughput_sources
from envs.pictures.gantt import gantt
from envs.pictures.plots import jct_cdf
from envs.pictures.texts import TaskText, TextConsole, wide_console
from envs.scheduling import Scheduler
from envs.simulation import RunResult, Setup
from envs.workloads import Workload
from murmuration.reports.marl_eval import to_marl_eval
from murmuration.reports.page import markdown_page
from murmuration.reports.queues import plot_queue_shares, write_queue_table
from murmuration.reports.side_by_side import side_by_side
from murmuration.reports.table import duration, print_table
from murmuration.reports.tradeoff import jct_and_cpu_time
from murmuration.reports.webpage import PageExtras, html_page

DOTS_PER_INCH = 130


def run_comparison(
    schedulers: Mapping[str, Scheduler],
    workloads: Sequence[Workload],
    setup: Setup,
    seed: int = 0,
    *,
    console: TextConsole | None = None,
    **options: Any,
) -> Comparison:
    """Run `compare_schedulers` and print the workloads, a progress bar, and the table.

    Arguments, further `options` and errors are those of `compare_schedulers`; `console` is the output, standard output
    if None.
    """
    names, about = list(schedulers), options.get("about") or {}
    check_comparable([*names, *(options.get("recorded") or {})], workloads, options.get("reference", ""))
    console = console or wide_console()
    if "task" in about:
        console.print(f"task {about['task']['label']}")
    print_workloads(workloads, setup, console)
    times = (TimeElapsedColumn(), TimeRemainingColumn(), CompilingColumn())
    with Progress(TaskText("{task.description}"), BarColumn(), *times, console=console, transient=True) as bar:
        task = bar.add_task("", total=len(schedulers) * len(workloads))

        def progress(name: str, workload: int, share: float) -> None:
            done = names.index(name) * len(workloads) + workload + share
            bar.update(task, completed=done, description=f"{name} on {workloads[workload].name}")

        comparison = compare_schedulers(schedulers, workloads, setup, seed, progress=progress, **options)
    print_table(comparison, console)
    return comparison


def print_workloads(workloads: Sequence[Workload], setup: Setup, console: TextConsole) -> None:
    """Print the offered load by GPU type, and notes on the origin of jobs and throughputs."""
    cluster, performance = setup.cluster, setup.performance
    gpus = ", ".join(f"{count} {name}" for name, count in cluster.gpus_by_type.items())
    jobs = format_range([len(workload) for workload in workloads], "{:,.0f}")
    names = list(dict.fromkeys(workload.name for workload in workloads))
    shown = names[0] if len(names) == 1 else f"{names[0]} ... {names[-1]}"
    console.print(f"{shown}: {len(workloads)} x {jobs} jobs on {cluster.name} ({gpus})")
    loads = [workload.offered_load(cluster, performance) for workload in workloads]
    by_type = [describe_loads(name, [load[name] for load in loads]) for name in loads[0]]
    efficient = format_range([workload.efficient_load(cluster, performance) for workload in workloads], "{:.2f}")
    said = f"{', '.join(by_type)}; at efficient sizes {efficient}"
    if all(workload.jobs["submit_time"].max() == 0 for workload in workloads):
        said = "without end: all jobs are there at the beginning"
    console.print(f"offered load: {said}")
    if window := describe_windows(workloads):
        console.print(window)
    models = list(dict.fromkeys(model for workload in workloads for model in workload.known_models))
    for source, pairs in throughput_sources(performance, models, cluster.gpu_types).items():
        if source != "measured":
            console.print(f"throughputs {source}: {merge_pairs(pairs)}", style="dim")
    notes = dict.fromkeys(note for workload in workloads for note in workload.notes)
    for note in [*notes, *efficiency_notes(models, setup.scenario.statistical_efficiency)]:
        console.print(f"note: {note}", style="dim")


def describe_loads(name: str, loads: Sequence[float]) -> str:
    """Format the loads of a GPU type, or of "all", in several workloads."""
    if name != "all" and max(loads) == float("inf"):
        return f"{name} cannot run all jobs"
    return f"{name} {format_range(loads, '{:.2f}')}"


def merge_pairs(pairs: Sequence[str]) -> str:
    """Merge "model on GPU type" pairs: first the GPU types of a model, then the models with the same GPU types."""
    types: dict[str, list[str]] = {}
    for model, _, gpu_type in (pair.rpartition(" on ") for pair in pairs):
        types.setdefault(model, []).append(gpu_type)
    models: dict[str, list[str]] = {}
    for model, names in types.items():
        models.setdefault(", ".join(names), []).append(model)
    return "; ".join(f"{', '.join(same)} on {names}" for names, same in models.items())


def describe_windows(workloads: Sequence[Workload]) -> str:
    """Say how many jobs are measured, and for how long others arrive before and after; empty if all are measured."""
    if all(workload.measured.all() for workload in workloads):
        return ""
    spans = []
    for workload in workloads:
        submit = workload.jobs["submit_time"]
        edges = np.searchsorted(submit, workload.window, side="left")
        first, last = submit[min(edges[0], len(submit) - 1)], submit[max(edges[1] - 1, 0)]
        spans.append((int(edges[1] - edges[0]), len(submit), first - submit[0], last - first, submit[-1] - last))
    measured, jobs, before, within, after = zip(*spans, strict=True)
    warm_up, span, tail = (" to ".join(dict.fromkeys(map(duration, (min(x), max(x))))) for x in (before, within, after))
    counts = f"{format_range(measured, '{:,.0f}')} of {format_range(jobs, '{:,.0f}')}"
    return f"measured: {counts} jobs, submitted over {span}, after a warm-up of {warm_up}; arrivals go on for {tail}"


def format_range(values: Sequence[float], form: str) -> str:
    """Format one figure, or the least and the greatest of several."""
    low, high = form.format(min(values)), form.format(max(values))
    return low if low == high else f"{low} to {high}"


def write_report(comparison: Comparison, folder: Path, extras: PageExtras | None = None) -> list[Path]:
    """Write results.json, .csv and .md, the page report.html, and plots into a folder.

    aggregates.csv has the figures over workloads and training seeds, and marl_eval.json all figures for marl-eval.

    The plots are jct_cdf.png, jct_and_cpu_time.png and, of the first workload of schedulers that were played and not
    read from records, gantt_<scheduler>.png. side_by_side.png has the first of these schedulers, a trained
    policy if there is one, and the best of the others.

    Where jobs have several tenants, queues.csv has the figures of each (`envs.metrics.figures_of_queues`), and
    queue_shares.png their parts of the cluster over time in the first workload.

    failed_<scheduler>.txt has the trace of a scheduler that failed.

    Returns:
        The files written.
    """
    folder.mkdir(parents=True, exist_ok=True)
    write_whole(folder / "results.json", comparison.to_json())
    write_frame(folder / "results.csv", comparison.table())
    write_whole(folder / "results.md", markdown_page(comparison))
    extras = extras or PageExtras()
    aggregates = aggregate_comparison(comparison, extras.groups)
    write_frame(folder / "aggregates.csv", pd.DataFrame([each.row() for each in aggregates]))
    write_whole(folder / "marl_eval.json", json.dumps(to_marl_eval(comparison, extras.groups), indent=2) + "\n")
    write_whole(folder / "report.html", html_page(comparison, extras, aggregates))
    forms = ["results.json", "results.csv", "results.md", "report.html", "aggregates.csv", "marl_eval.json"]
    for name, failure in comparison.failures.items():
        forms.append(f"failed_{file_part(name)}.txt")
        write_whole(folder / forms[-1], failure.trace())
    pictures: dict[str, Figure] = {"jct_cdf": jct_cdf(comparison), "jct_and_cpu_time": jct_and_cpu_time(comparison)}
    first = {name: results[0] for name, results in comparison.runs.items()}
    played = {name: run for name, run in first.items() if isinstance(run, RunResult)}
    pictures |= {f"gantt_{file_part(name)}": gantt(run) for name, run in played.items()}
    if len(played) > 1:
        one, *others = played
        pictures["side_by_side"] = side_by_side(played[one], played[min(others, key=comparison.order.index)])
    if extras.setup and (queued := write_queue_table(comparison, extras.setup.scenario, folder / "queues.csv")):
        forms.append("queues.csv")
        pictures["queue_shares"] = plot_queue_shares(queued)
    for name, figure in pictures.items():
        write_figure(folder / f"{name}.png", figure, DOTS_PER_INCH)
    return [*(folder / form for form in forms), *(folder / f"{name}.png" for name in pictures)]
