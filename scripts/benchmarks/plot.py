"""How cost grows with the size of the cluster."""

from collections.abc import Sequence
from pathlib import Path

import matplotlib

matplotlib.use("Agg")

import matplotlib.pyplot as plt

from benchmarks.report import Report

# Panel: title, unit, and the figures in it as (part, beginning of what was measured, label).
EVENTS = ("engine", "FIFO, full model", "compiled"), ("engine", "reference engine", "reference")
DECISIONS = (
    ("decisions", "step, hot", "compiled, hot"),
    ("decisions", "step, cold", "compiled, cold"),
    ("decisions", "plain twin", "plain twin"),
)
PANELS = ("An event under FIFO", "ns", EVENTS), ("A decision of all servers", "us", DECISIONS)


def plot_scaling(report: Report, folder: Path) -> None:
    """`scaling.png`: cost of an event and of a decision over servers; of what was not measured, nothing."""
    panels = [(title, unit, lines(report, unit, asked)) for title, unit, asked in PANELS]
    panels = [panel for panel in panels if panel[2]]
    if not panels:
        return
    figure, axes = plt.subplots(1, len(panels), figsize=(5 * len(panels), 3.6), layout="constrained", squeeze=False)
    for axis, (title, unit, found) in zip(axes[0], panels, strict=True):
        for label, points in found.items():
            axis.plot(list(points), list(points.values()), marker="o", label=label)
        axis.set(title=title, xlabel="servers of 8 GPUs", ylabel=f"CPU time, {unit}", xscale="log", yscale="log")
        axis.legend()
        axis.grid(alpha=0.3)
    figure.savefig(folder / "scaling.png", dpi=120)
    plt.close(figure)


def lines(report: Report, unit: str, asked: Sequence[tuple[str, str, str]]) -> dict[str, dict[int, float]]:
    """By label, figures by servers; those that were measured."""
    found = {label: series(report, part, what, unit) for part, what, label in asked}
    return {label: points for label, points in found.items() if points}


def series(report: Report, part: str, what: str, unit: str) -> dict[int, float]:
    """Figures by servers, of what begins like this; the first of each size."""
    found: dict[int, float] = {}
    for row in report.rows:
        if row.part == part and row.what.startswith(what) and row.unit.startswith(unit):
            found.setdefault(int(row.size.partition("/")[0].replace(",", "")), row.value)
    return found
