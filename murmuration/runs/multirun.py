"""The end of a multirun: one table over all its runs."""

import os
from collections.abc import Sequence
from pathlib import Path

import numpy as np
import pandas as pd
from rich.table import Table

from envs.evaluation.aggregate import interquartile_mean
from envs.evaluation.files import write_frame
from envs.pictures.texts import wide_console
from murmuration.config.outcomes import FinishedRun, objective_of, rows_with_figures
from murmuration.reports.table import number


def summarise_multirun(runs: Sequence[FinishedRun], folder: Path) -> pd.DataFrame:
    """Print the objective of every run and the figures of every scheduler over all runs; write multirun.csv.

    Args:
        runs: the runs, at least two.
        folder: where multirun.csv is written: a row for each run and scheduler, in seconds, and for each refused run.

    Returns:
        The content of multirun.csv.
    """
    same = set.intersection(*(set(run.options) for run in runs))
    rows = []
    objectives = Table(title=f"{len(runs)} runs", title_justify="left", box=None)
    for head in ("run", "options", "objective"):
        objectives.add_column(head, justify="right" if head == "objective" else "left", overflow="fold")
    for run in runs:
        label = " ".join(option.lstrip("+") for option in run.options if option not in same)
        objective = None if run.refused else objective_of(run.folder)
        shown = "refused" if run.refused else "-" if objective is None else number(objective)
        objectives.add_row(str(run.number), label, shown)
        if run.refused:
            rows.append({"run": run.number, "options": label, "refused": run.failure})
            continue
        for row in rows_with_figures(run.folder):
            figures = {name: row.get(name) for name in ("mean_jct", "mean_jct_low", "mean_jct_high", "mean_jct_ratio")}
            rows.append({"run": run.number, "options": label, "scheduler": row["scheduler"], **figures})
    table = pd.DataFrame(rows)
    console = wide_console()
    console.print(objectives)
    if "scheduler" in table:
        console.print(over_runs(table))
    print("objective: mean JCT in seconds, or minus the merit that evolution strategies reached; less is better")
    write_frame(folder / "multirun.csv", table)
    print(f"table of all runs: {os.path.relpath(folder / 'multirun.csv')}")
    return table


def over_runs(table: pd.DataFrame) -> Table:
    """Return the ratio of each scheduler's mean JCT to the reference's over all runs: IQM, least and greatest."""
    printed = Table(title="mean JCT relative to the reference", title_justify="left", box=None)
    for head in ("scheduler", "runs", "IQM", "least", "greatest"):
        printed.add_column(head, justify="left" if head == "scheduler" else "right")
    groups = [
        (str(name), group["mean_jct_ratio"].dropna().to_numpy(np.float64))
        for name, group in table.groupby("scheduler", sort=False)
    ]
    for name, ratios in sorted(groups, key=lambda each: interquartile_mean(each[1])):
        if len(ratios):
            shown = (interquartile_mean(ratios), ratios.min(), ratios.max())
            printed.add_row(name, str(len(ratios)), *(number(float(each)) for each in shown))
    return printed
