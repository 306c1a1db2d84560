"""Queues in a comparison: a table with a row for each, and a picture of their parts of the cluster."""

from pathlib import Path

import numpy as np
import pandas as pd
from matplotlib.figure import Figure

from envs.evaluation.comparison import Comparison
from envs.evaluation.files import write_frame
from envs.metrics import figures_of_queues, shares_of_queues
from envs.pictures.texts import plot_text
from envs.simulation import RunResult, Scenario

DRAWN = 8  # queues with the largest parts; the others are one area


def write_queue_table(comparison: Comparison, scenario: Scenario, path: Path) -> dict[str, RunResult]:
    """Write queues.csv: a row for each scheduler that was played here, workload and queue.

    Returns:
        By scheduler, its first run with several queues; nothing is written if there is none.
    """
    rows: list[pd.DataFrame] = []
    first: dict[str, RunResult] = {}
    for name, runs in comparison.runs.items():
        for run in runs:
            if isinstance(run, RunResult) and len(run.workload.tenants) > 1:
                first.setdefault(name, run)
                figures = pd.DataFrame(figures_of_queues(run, scenario))
                figures.insert(0, "queue", list(run.workload.tenants))
                figures.insert(0, "workload", run.workload.name)
                rows.append(figures.assign(scheduler=name))
    if rows:
        table = pd.concat(rows, ignore_index=True)
        write_frame(path, table[["scheduler", *table.columns.drop("scheduler")]])
    return first


def plot_queue_shares(runs: dict[str, RunResult]) -> Figure:
    """Plot the parts of the cluster's GPUs that queues hold over time, one panel for each scheduler."""
    figure = Figure(figsize=(7.5, 0.6 + 1.9 * len(runs)), layout="constrained")
    for axes, (name, run) in zip(np.ravel(figure.subplots(len(runs), sharex=True)), runs.items(), strict=True):
        times, parts = shares_of_queues(run)
        total = (parts[:-1] * np.diff(times)[:, None]).sum(axis=0)
        largest = np.argsort(-total, kind="stable")
        shown, rest = largest[:DRAWN], largest[DRAWN:]
        labels = [plot_text(run.workload.tenants[queue] or "(none)") for queue in shown]
        layers = [*parts[:, shown].T, *([parts[:, rest].sum(axis=1)] if len(rest) else [])]
        axes.stackplot(times / 3600, layers, labels=[*labels, *(["others"] if len(rest) else [])], step="post")
        axes.set(ylim=(0, 1), ylabel="share of GPUs")
        axes.set_title(plot_text(name), fontsize=10)
        axes.spines[["top", "right"]].set_visible(False)
        axes.legend(frameon=False, fontsize=7, loc="center left", bbox_to_anchor=(1, 0.5))
    axes.set_xlabel("time (h)")
    return figure
