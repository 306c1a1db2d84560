"""The figures of one run: rows with targets, and counts that must agree."""

import json
import traceback
from dataclasses import asdict, dataclass, field
from pathlib import Path

from benchmarks.figures import CountError, FaultError, Row


@dataclass
class Report:
    """Collects figures, pairs of counts that must be equal as (what, one, other), remarks, and what broke."""

    rows: list[Row] = field(default_factory=list)
    counts: list[tuple[str, object, object]] = field(default_factory=list)
    notes: list[str] = field(default_factory=list)
    faults: dict[str, str] = field(default_factory=dict)  # what broke, and its traceback

    def add(
        self, part: str, size: object, what: str, value: float, unit: str, least: float = 0, most: float = 0
    ) -> None:
        """One figure, told at once; `least` or `most` is its target where it is not 0."""
        target = f">= {least:g}" if least else f"<= {most:g}" if most else ""
        met = (value >= least if least else value <= most) if target else None
        self.rows.append(Row(part, str(size), what, float(value), unit, target, met))
        print(f"{part:10} {size!s:>15}  {what}: {value:,.4g} {unit} {target}".rstrip(), flush=True)

    def same(self, what: str, one: object, other: object) -> None:
        """Two counts of the same work."""
        self.counts.append((what, one, other))

    def broke(self, what: str) -> str:
        """Note the exception that is being handled: one fault shall not cost the other figures of a long run."""
        self.faults[what] = traceback.format_exc()
        return f"{what}: broke"

    def write(self, folder: Path, about: dict[str, str]) -> None:
        """Keep `benchmark.json`: what it was measured on, figures, counts, faults."""
        content = {"about": about, **asdict(self)}
        (folder / "benchmark.json").write_text(json.dumps(content, indent=1, default=str) + "\n")

    def check(self) -> None:
        """Raise a `CountError` where counts differ, a `FaultError` where something broke."""
        wrong = [f"{what}: {one} against {other}" for what, one, other in self.counts if one != other]
        if wrong:
            raise CountError(f"counts differ, so the times compare nothing: {'; '.join(wrong)}")
        if self.faults:
            raise FaultError(f"broke, see faults in benchmark.json: {', '.join(self.faults)}")
