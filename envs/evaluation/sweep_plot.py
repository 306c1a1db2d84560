"""Mean JCT against offered load, as a picture."""

from matplotlib.figure import Figure

from envs.evaluation.comparison import BOUND
from envs.evaluation.plots import COLOURS, STYLES
from envs.evaluation.sweep import Sweep
from envs.evaluation.table import unit_for


def jct_by_load(sweep: Sweep) -> Figure:
    """A line for every scheduler that ran at every load, with its interval as a band; below, what nobody can beat."""
    table = sweep.table()
    unit, word = unit_for(float(table["mean_jct"].median()))
    figure = Figure(figsize=(7.5, 4.6), layout="constrained")
    axes = figure.subplots()
    for i, name in enumerate(sweep.schedulers):
        rows = table[table["scheduler"] == name]
        colour = COLOURS[i % len(COLOURS)]
        style = STYLES[i // len(COLOURS) % len(STYLES)]
        axes.plot(rows["load"], rows["mean_jct"] / unit, color=colour, linestyle=style, marker="o", ms=3, label=name)
        axes.fill_between(
            rows["load"], rows["mean_jct_low"] / unit, rows["mean_jct_high"] / unit, color=colour, alpha=0.08, lw=0
        )
    bound = table[table["scheduler"] == BOUND]
    if len(bound):
        axes.fill_between(bound["load"], 0, bound["mean_jct"] / unit, color="0.85", lw=0, label=BOUND)
    axes.set_yscale("log")
    axes.set_xlabel("offered load")
    axes.set_ylabel(f"mean JCT ({word})")
    axes.grid(which="major", color="0.9")
    axes.spines[["top", "right"]].set_visible(False)
    axes.legend(frameon=False, fontsize=8, loc="upper left", ncols=1 + len(sweep.schedulers) // 8)
    return figure
