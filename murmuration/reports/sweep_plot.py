"""Plot of mean JCT against offered load."""

import pandas as pd
from matplotlib.axes import Axes
from matplotlib.figure import Figure
from matplotlib.ticker import FuncFormatter, LogLocator

from envs.evaluation.comparison import ANY_BATCH, BOUND
from envs.evaluation.sweep import Sweep
from envs.pictures.plots import COLOURS, STYLES
from envs.pictures.texts import plot_text
from murmuration.reports.table import unit_for

MARKERS = "osD^v"  # with the colours and styles, 140 distinct lines
MOST_BANDS = 8  # with more schedulers, bands cannot be distinguished
FINE_TICKS = (1.5, *range(2, 10))  # of a decade, where the axis has little more than one
COARSE_TICKS = (2, 3, 5)


def jct_by_load(sweep: Sweep) -> Figure:
    """Draw a line for every scheduler that ran at every load, and the lower bounds.

    The legend has the schedulers' order at the highest load. With at most `MOST_BANDS` schedulers, intervals are drawn
    as bands.
    """
    table = sweep.table()
    unit, word = unit_for(float(table["mean_jct"].median()))
    shown = [name for name in sweep.by_load().index[::-1] if name in sweep.schedulers]
    figure = Figure(figsize=(9.5, max(4.6, 0.6 + 0.19 * len(shown))), layout="constrained")
    axes = figure.subplots()
    for name in shown:
        rows = table[table["scheduler"] == name]
        colour, style, marker = look_of(sweep.schedulers.index(name))
        (line,) = axes.plot(rows["load"], rows["mean_jct"] / unit, color=colour, ms=3.5, lw=1.4, label=plot_text(name))
        line.set(linestyle=style, marker=marker)
        if len(shown) <= MOST_BANDS:
            low, high = rows["mean_jct_low"] / unit, rows["mean_jct_high"] / unit
            axes.fill_between(rows["load"], low, high, color=colour, alpha=0.08, lw=0)
    axes.set_yscale("log")
    draw_bounds(axes, table, unit)
    plain_ticks(axes)
    axes.set_xlabel("offered load")
    axes.set_ylabel(plot_text(f"mean JCT ({word})"))
    axes.grid(which="major", color="0.9")
    axes.spines[["top", "right"]].set_visible(False)
    figure.legend(frameon=False, fontsize=8, loc="outside right upper", handlelength=3)
    return figure


def look_of(index: int) -> tuple[str, str, str]:
    """Return colour, line style and marker of the scheduler at an index."""
    turn = index // len(COLOURS)
    return COLOURS[index % len(COLOURS)], STYLES[turn % len(STYLES)], MARKERS[turn % len(MARKERS)]


def draw_bounds(axes: Axes, table: pd.DataFrame, unit: float) -> None:
    """Draw the lower bound as an area, and the bound for schedulers that choose batch sizes as a thin line."""
    bound, any_batch = (table[table["scheduler"] == name] for name in (BOUND, ANY_BATCH))
    if len(bound):
        axes.fill_between(bound["load"], 0, bound["mean_jct"] / unit, color="0.85", lw=0, label=BOUND)
    if len(any_batch):
        axes.plot(any_batch["load"], any_batch["mean_jct"] / unit, color="0.45", lw=0.8, label=ANY_BATCH)


def plain_ticks(axes: Axes) -> None:
    """Label the logarithmic axis with plain numbers, also between powers of ten."""
    low, high = axes.get_ylim()
    axes.yaxis.set_minor_locator(LogLocator(subs=COARSE_TICKS if high > 20 * low else FINE_TICKS))
    for set_formatter in (axes.yaxis.set_major_formatter, axes.yaxis.set_minor_formatter):
        set_formatter(FuncFormatter(lambda value, _: f"{value:,.4g}"))
    axes.tick_params(axis="y", which="minor", labelsize=8)
