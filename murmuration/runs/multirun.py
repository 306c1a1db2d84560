"""The end of a multirun: one table and one chart over its runs, of which those that differ in seed alone are a row."""

import os
from collections import Counter
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
from matplotlib.figure import Figure
from rich.table import Table

from envs.evaluation.aggregate import interquartile_mean
from envs.evaluation.files import write_figure, write_frame
from envs.pictures.texts import plot_text, wide_console
from murmuration.config.outcomes import FinishedRun, objective_of, rows_with_figures
from murmuration.reports.report import DOTS_PER_INCH
from murmuration.reports.sweep_plot import look_of
from murmuration.reports.table import number, unit_for

OBJECTIVE = "best validation"  # in place of a scheduler, for training runs that played no test workloads
WIDE = 20  # times the least value of a setting, from which its axis is logarithmic


def summarise_multirun(runs: Sequence[FinishedRun], folder: Path) -> pd.DataFrame:
    """Print a row for each scheduler under each combination of settings; write multirun.csv and multirun.png.

    Args:
        runs: the runs, at least two.
        folder: receives multirun.csv, a row for each run and scheduler, in seconds, and for each refused run; and
            multirun.png.

    Returns:
        The content of multirun.csv.
    """
    table = pd.DataFrame(row for run in runs for row in multirun_rows(run, swept_options(runs)))
    console, title = wide_console(), f"{len(runs)} runs"
    if "mean_jct" in table and table["mean_jct"].notna().any():
        groups = over_seeds(table)
        console.print(multirun_table(groups, title))
        write_figure(folder / "multirun.png", draw_multirun(groups), DOTS_PER_INCH)
    else:
        console.print(title)
    if "refused" in table:
        for row in table[table["refused"].notna()].itertuples():
            console.print(f" {row.settings}  refused", style="red")
    if "scheduler" in table and OBJECTIVE in set(table["scheduler"]):
        print(f"{OBJECTIVE}: mean JCT, or minus the merit that evolution strategies reached; less is better")
    write_frame(folder / "multirun.csv", table)
    print(f"table and chart of all runs: {os.path.relpath(folder / 'multirun.csv')}, multirun.png")
    return table


def swept_options(runs: Sequence[FinishedRun]) -> set[str]:
    """Return the options that not all runs have."""
    counts = Counter(option for run in runs for option in set(run.options))
    return {option for option, count in counts.items() if count < len(runs)}


def multirun_rows(run: FinishedRun, swept: set[str]) -> list[dict[str, Any]]:
    """Return the rows of multirun.csv of one run; `settings` are its swept options without the seed."""
    options = [option.lstrip("+") for option in run.options if option in swept]
    seed = next((option.partition("=")[2] for option in options if option.startswith("seed=")), "")
    settings = " ".join(option for option in options if not option.startswith("seed="))
    about = {"run": run.number, "settings": settings, "seed": seed}
    if run.refused:
        return [about | {"settings": " ".join(options), "refused": run.failure}]
    names = ("scheduler", "mean_jct", "mean_jct_low", "mean_jct_high", "mean_jct_ratio")
    rows = [about | {name: row.get(name) for name in names} for row in rows_with_figures(run.folder)]
    if not rows and (objective := objective_of(run.folder)) is not None:
        rows = [about | {"scheduler": OBJECTIVE, "mean_jct": objective}]
    return rows


def over_seeds(table: pd.DataFrame) -> pd.DataFrame:
    """Return a row for each combination of settings and scheduler: IQM, least and greatest mean JCT, and IQM of ratios.

    Settings are in the order of their runs, schedulers in that of their figures.
    """
    rows = []
    for (settings, scheduler), group in table.dropna(subset="mean_jct").groupby(["settings", "scheduler"], sort=False):
        jct = group["mean_jct"].to_numpy(np.float64)
        ratios = group["mean_jct_ratio"].dropna().to_numpy(np.float64) if "mean_jct_ratio" in group else jct[:0]
        ratio = interquartile_mean(ratios) if len(ratios) else np.nan
        figures = {"runs": len(jct), "jct": interquartile_mean(jct), "least": jct.min(), "greatest": jct.max()}
        rows.append({"settings": settings, "scheduler": scheduler, **figures, "ratio": ratio})
    found = pd.DataFrame(rows)
    place = {settings: i for i, settings in enumerate(dict.fromkeys(table["settings"]))}
    return found.sort_values(
        ["settings", "jct"], key=lambda column: column.map(place) if column.name == "settings" else column
    ).reset_index(drop=True)


def multirun_table(groups: pd.DataFrame, title: str) -> Table:
    """Return the result of `over_seeds` as a table for a terminal."""
    unit, word = unit_for(float(groups["jct"].median()))
    found = Table(title=title, title_justify="left", box=None)
    heads = ("settings", "scheduler", "runs", f"mean JCT ({word}), IQM", "least", "greatest", "vs reference, IQM")
    for head in heads:
        found.add_column(head, justify="left" if head in heads[:2] else "right", overflow="fold")
    for row in groups.to_dict("records"):
        times = (number(row[name] / unit) for name in ("jct", "least", "greatest"))
        found.add_row(row["settings"], row["scheduler"], str(row["runs"]), *times, number(row["ratio"]))
    return found


def draw_multirun(groups: pd.DataFrame) -> Figure:
    """Draw the mean JCT of each scheduler over the settings; bars are from the least to the greatest over seeds.

    One setting with numbers is an axis with a line for each scheduler; other settings are places side by side.
    """
    unit, word = unit_for(float(groups["jct"].median()))
    settings = list(dict.fromkeys(groups["settings"]))
    key, values = numbers_of(settings)
    figure = Figure(figsize=(8.0, 4.6), layout="constrained")
    axes = figure.subplots()
    for i, (name, own) in enumerate(groups.groupby("scheduler", sort=False)):
        colour, style, marker = look_of(i)
        x = np.array([values[settings.index(each)] for each in own["settings"]])
        order = np.argsort(x)
        jct, least, greatest = (own[each].to_numpy()[order] / unit for each in ("jct", "least", "greatest"))
        look: dict[str, Any] = {"color": colour, "marker": marker, "ls": style if key else "none", "ms": 4}
        axes.errorbar(
            x[order], jct, np.maximum((jct - least, greatest - jct), 0.0), capsize=3, label=plot_text(str(name)), **look
        )
    if key and min(values) > 0 and max(values) > WIDE * min(values):
        axes.set_xscale("log")
    if not key:
        axes.set_xlim(-0.5, len(values) - 0.5)
        axes.set_xticks(values, [plot_text(each) for each in settings], rotation=20 if len(settings) > 3 else 0)
    axes.set_xlabel(plot_text(key))
    axes.set_ylabel(plot_text(f"mean JCT ({word})"))
    axes.grid(color="0.9")
    axes.spines[["top", "right"]].set_visible(False)
    figure.legend(frameon=False, fontsize=8, loc="outside right upper")
    return figure


def numbers_of(settings: Sequence[str]) -> tuple[str, list[float]]:
    """Return the only key of settings and its values, if these are numbers; else no key, and places from 0 on."""
    pairs = [each.partition("=")[::2] for each in settings]
    places = [float(i) for i in range(len(settings))]
    try:
        values = [float(value) for _, value in pairs]
    except ValueError:
        return "", places
    keys = {key for key, _ in pairs}
    return (keys.pop(), values) if len(keys) == 1 and np.isfinite(values).all() else ("", places)
