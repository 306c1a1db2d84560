"""The figures of a run as tables, on the terminal and for a page."""

from collections.abc import Iterator
from pathlib import Path

import pandas as pd

from benchmarks.report import Report
from launch.show import show as show_frame

MET = {True: "yes", False: "no", None: ""}


def frames(report: Report) -> Iterator[tuple[str, pd.DataFrame]]:
    """By part, its figures as text, a column for each size; last all figures that have a target."""
    for part in dict.fromkeys(row.part for row in report.rows):
        rows = [row for row in report.rows if row.part == part]
        cells = {(row.what, row.unit, row.size): figure(row.value) for row in rows}
        kinds, sizes = dict.fromkeys((row.what, row.unit) for row in rows), dict.fromkeys(row.size for row in rows)
        named = pd.DataFrame(list(kinds), columns=["what", "unit"])
        yield part, named.assign(**{size: [cells.get((*kind, size), "") for kind in kinds] for size in sizes})
    aimed = [row for row in report.rows if row.met is not None]
    columns = {name: [getattr(row, name) for row in aimed] for name in ("part", "size", "what", "unit", "target")}
    values = [figure(row.value) for row in aimed]
    yield "targets", pd.DataFrame(columns).assign(value=values, met=[MET[row.met] for row in aimed])


def show(report: Report) -> None:
    """One table a part, the remarks, and how many counts agree."""
    for part, frame in frames(report):
        show_frame(part, frame)
    print("\n".join([*report.notes, summary(report)]))


def write_page(report: Report, folder: Path) -> None:
    """`benchmark.md`: the same tables for a page."""
    lines = []
    for part, frame in frames(report):
        rows = [list(frame.columns), ["---"] * len(frame.columns), *frame.to_numpy().tolist()]
        lines += [f"## {part}", "", *(f"| {' | '.join(row)} |" for row in rows), ""]
    (folder / "benchmark.md").write_text("\n".join([*lines, *report.notes, summary(report)]) + "\n", encoding="utf-8")


def summary(report: Report) -> str:
    """How many targets are missed and how many counts agree."""
    targets = [row.met for row in report.rows if row.met is not None]
    agree = sum(one == other for _, one, other in report.counts)
    return (
        f"targets missed: {targets.count(False)} of {len(targets)}; counts that agree: {agree} of {len(report.counts)}"
    )


def figure(value: float) -> str:
    """Three digits, thousands apart."""
    return f"{value:,.0f}" if abs(value) >= 1000 else f"{value:.3g}"
