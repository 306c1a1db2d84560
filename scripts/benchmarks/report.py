"""The figures of one run: rows with targets, counts that must agree, and tables of both."""

import json
import traceback
from collections.abc import Iterator
from dataclasses import asdict, dataclass, field
from pathlib import Path

import pandas as pd

from envs.evaluation.files import write_whole
from envs.types import MurmurationError
from murmuration.runs.comparing import print_frame

MET = {True: "yes", False: "no", None: ""}


class CountError(MurmurationError):
    """Two implementations that should have done the same work did not."""


class FaultError(MurmurationError):
    """A measurement raised an unexpected exception."""


@dataclass(frozen=True, slots=True)
class Row:
    """One figure."""

    part: str
    size: str  # nodes/jobs, or the name of another input
    what: str
    value: float
    unit: str
    target: str = ""
    met: bool | None = None  # None without a target


@dataclass
class Report:
    """Figures, pairs of counts that must be equal as (name, one, other), notes, and faults."""

    rows: list[Row] = field(default_factory=list)
    counts: list[tuple[str, object, object]] = field(default_factory=list)
    notes: list[str] = field(default_factory=list)
    faults: dict[str, str] = field(default_factory=dict)  # tracebacks by the measurement that raised

    def add(
        self, part: str, size: object, what: str, value: float, unit: str, least: float = 0, most: float = 0
    ) -> None:
        """Add a figure and print it; `least` or `most` is its target where it is not 0."""
        target = f">= {least:g}" if least else f"<= {most:g}" if most else ""
        met = (value >= least if least else value <= most) if target else None
        self.rows.append(Row(part, str(size), what, float(value), unit, target, met))
        print(f"{part:11} {size!s:>15}  {what}: {value:,.4g} {unit} {target}".rstrip(), flush=True)

    def same(self, what: str, one: object, other: object) -> None:
        """Add two counts of the same work."""
        self.counts.append((what, one, other))

    def add_fault(self, what: str) -> str:
        """Keep the traceback of the exception that is being handled, so that the run can continue; return a note."""
        self.faults[what] = traceback.format_exc()
        return f"{what}: broke"

    def write(self, folder: Path, about: dict[str, str]) -> None:
        """Write `benchmark.json`: the machine, figures, counts, faults."""
        content = {"about": about, **asdict(self)}
        write_whole(folder / "benchmark.json", json.dumps(content, indent=1, default=str) + "\n")

    def check(self) -> None:
        """Raise a `CountError` if counts differ, else a `FaultError` if a measurement raised."""
        wrong = [f"{what}: {one} against {other}" for what, one, other in self.counts if one != other]
        if wrong:
            raise CountError(f"counts differ, so the times compare nothing: {'; '.join(wrong)}")
        if self.faults:
            raise FaultError(f"broke, see faults in benchmark.json: {', '.join(self.faults)}")


def print_report(report: Report) -> None:
    """Print one table per part, the notes, and how many counts agree."""
    for part, frame in report_frames(report):
        print_frame(part, frame)
    print("\n".join([*report.notes, summarise_report(report)]))


def write_page(report: Report, folder: Path) -> None:
    """Write `benchmark.md`: the same tables in Markdown."""
    lines = []
    for part, frame in report_frames(report):
        rows = [list(frame.columns), ["---"] * len(frame.columns), *frame.to_numpy().tolist()]
        lines += [f"## {part}", "", *(f"| {' | '.join(row)} |" for row in rows), ""]
    text = "\n".join([*lines, *report.notes, summarise_report(report)]) + "\n"
    write_whole(folder / "benchmark.md", text)


def report_frames(report: Report) -> Iterator[tuple[str, pd.DataFrame]]:
    """Yield the figures of each part as text with a column for each size, then all figures that have a target."""
    for part in dict.fromkeys(row.part for row in report.rows):
        rows = [row for row in report.rows if row.part == part]
        cells = {(row.what, row.unit, row.size): format_figure(row.value) for row in rows}
        names, sizes = dict.fromkeys((row.what, row.unit) for row in rows), dict.fromkeys(row.size for row in rows)
        frame = pd.DataFrame(list(names), columns=["what", "unit"])
        yield part, frame.assign(**{size: [cells.get((*name, size), "") for name in names] for size in sizes})
    aimed = [row for row in report.rows if row.met is not None]
    columns = {name: [getattr(row, name) for row in aimed] for name in ("part", "size", "what", "unit", "target")}
    values = [format_figure(row.value) for row in aimed]
    yield "targets", pd.DataFrame(columns).assign(value=values, met=[MET[row.met] for row in aimed])


def summarise_report(report: Report) -> str:
    """Count missed targets and agreeing counts, as one sentence."""
    targets = [row.met for row in report.rows if row.met is not None]
    agree = sum(one == other for _, one, other in report.counts)
    return (
        f"targets missed: {targets.count(False)} of {len(targets)}; counts that agree: {agree} of {len(report.counts)}"
    )


def format_figure(value: float) -> str:
    """Three digits, with commas between thousands."""
    return f"{value:,.0f}" if abs(value) >= 1000 else f"{value:.3g}"
