"""Mean JCT against offered load, as a picture."""

import pandas as pd
from matplotlib.axes import Axes
from matplotlib.figure import Figure
from matplotlib.ticker import FuncFormatter, LogLocator

from envs.evaluation.comparison import ANY_BATCH, BOUND
from envs.evaluation.plots import COLOURS, STYLES
from envs.evaluation.sweep import Sweep
from envs.evaluation.table import unit_for

MARKERS = "osD^v"  # with the colours and styles, 140 distinct lines
MOST_BANDS = 8  # schedulers whose intervals can still be told apart
FINE_TICKS = (1.5, *range(2, 10))  # of a decade, where the axis has little more than one
COARSE_TICKS = (2, 3, 5)


def jct_by_load(sweep: Sweep) -> Figure:
    """A line for every scheduler that ran at every load; below, what nobody can beat.

    The legend names them from above to below at the highest load. Up to `MOST_BANDS` schedulers have their intervals as
    bands.
    """
    table = sweep.table()
    unit, word = unit_for(float(table["mean_jct"].median()))
    shown = [name for name in sweep.by_load().index[::-1] if name in sweep.schedulers]
    figure = Figure(figsize=(9.5, max(4.6, 0.6 + 0.19 * len(shown))), layout="constrained")
    axes = figure.subplots()
    for name in shown:
        rows = table[table["scheduler"] == name]
        colour, style, marker = look_of(sweep.schedulers.index(name))
        (line,) = axes.plot(rows["load"], rows["mean_jct"] / unit, color=colour, ms=3.5, lw=1.4, label=name)
        line.set(linestyle=style, marker=marker)
        if len(shown) <= MOST_BANDS:
            low, high = rows["mean_jct_low"] / unit, rows["mean_jct_high"] / unit
            axes.fill_between(rows["load"], low, high, color=colour, alpha=0.08, lw=0)
    axes.set_yscale("log")
    draw_bounds(axes, table, unit)
    plain_ticks(axes)
    axes.set_xlabel("offered load")
    axes.set_ylabel(f"mean JCT ({word})")
    axes.grid(which="major", color="0.9")
    axes.spines[["top", "right"]].set_visible(False)
    figure.legend(frameon=False, fontsize=8, loc="outside right upper", handlelength=3)
    return figure


def look_of(place: int) -> tuple[str, str, str]:
    """Colour, line style and marker of the scheduler at a place."""
    turn = place // len(COLOURS)
    return COLOURS[place % len(COLOURS)], STYLES[turn % len(STYLES)], MARKERS[turn % len(MARKERS)]


def draw_bounds(axes: Axes, table: pd.DataFrame, unit: float) -> None:
    """The lower bound as an area, and as a thin line that for schedulers that choose batch sizes."""
    bound, any_batch = (table[table["scheduler"] == name] for name in (BOUND, ANY_BATCH))
    if len(bound):
        axes.fill_between(bound["load"], 0, bound["mean_jct"] / unit, color="0.85", lw=0, label=BOUND)
    if len(any_batch):
        axes.plot(any_batch["load"], any_batch["mean_jct"] / unit, color="0.45", lw=0.8, label=ANY_BATCH)


def plain_ticks(axes: Axes) -> None:
    """Plain figures on the logarithmic axis, between the powers of ten too."""
    low, high = axes.get_ylim()
    axes.yaxis.set_minor_locator(LogLocator(subs=COARSE_TICKS if high > 20 * low else FINE_TICKS))
    for set_formatter in (axes.yaxis.set_major_formatter, axes.yaxis.set_minor_formatter):
        set_formatter(FuncFormatter(lambda value, _: f"{value:,.4g}"))
    axes.tick_params(axis="y", which="minor", labelsize=8)
