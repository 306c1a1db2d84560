"""The plot of cost against the size of the cluster."""

from collections.abc import Sequence
from pathlib import Path

import matplotlib

matplotlib.use("Agg")

import matplotlib.pyplot as plt

from benchmarks.report import Report
from envs.evaluation.files import write_figure
from envs.pictures.texts import plot_text

# Panel: title, unit, and its lines as (part, beginning of the figure's name, label).
EVENTS = ("engine", "FIFO, full model", "compiled"), ("engine", "reference engine", "reference")
BIDS = (
    ("bidding", "round", "a whole round"),
    ("bidding", "observation and graph", "its observation, compiled"),
    ("bidding", "reference observation", "reference observation"),
)
PANELS = ("An event under FIFO", "ns", EVENTS), ("A round of bids of all nodes", "us", BIDS)


def plot_scaling(report: Report, folder: Path) -> None:
    """Write `scaling.png`: cost of an event and of a round of bids over nodes; nothing if neither was measured."""
    panels = [(title, unit, select_lines(report, unit, wanted)) for title, unit, wanted in PANELS]
    panels = [panel for panel in panels if panel[2]]
    if not panels:
        return
    figure, axes = plt.subplots(1, len(panels), figsize=(5 * len(panels), 3.6), layout="constrained", squeeze=False)
    for axis, (title, unit, found) in zip(axes[0], panels, strict=True):
        for label, points in found.items():
            axis.plot(list(points), list(points.values()), marker="o", label=plot_text(label))
        axis.set(
            title=plot_text(title),
            xlabel="nodes of 8 GPUs",
            ylabel=plot_text(f"CPU time, {unit}"),
            xscale="log",
            yscale="log",
        )
        axis.legend()
        axis.grid(alpha=0.3)
    write_figure(folder / "scaling.png", figure, 120)
    plt.close(figure)


def select_lines(report: Report, unit: str, wanted: Sequence[tuple[str, str, str]]) -> dict[str, dict[int, float]]:
    """Figures by number of nodes for each label; labels without figures are left out."""
    found = {label: select_series(report, part, what, unit) for part, what, label in wanted}
    return {label: points for label, points in found.items() if points}


def select_series(report: Report, part: str, what: str, unit: str) -> dict[int, float]:
    """Figures by number of nodes whose name begins with `what`; the first one of each size."""
    found: dict[int, float] = {}
    for row in report.rows:
        if row.part == part and row.what.startswith(what) and row.unit.startswith(unit):
            found.setdefault(int(row.size.partition("/")[0].replace(",", "")), row.value)
    return found
