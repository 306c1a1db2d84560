"""The report on reading a trace file: how many rows were kept, and why the others were not."""

from collections.abc import Mapping
from dataclasses import dataclass, field, replace

from envs.types import as_line

FILE_ATTRIBUTE = "file"  # attribute of a reader's frame: the path of its file
SOURCE_ATTRIBUTE = "source"  # of a converted one: the name of its trace, and the GPUs of a usual node there


@dataclass(frozen=True, slots=True)
class BadRow:
    """One row that violates the trace's format."""

    row: int  # line number in the file, where the header is line 1; for JSON the number of the entry, from 1
    field: str
    value: str
    reason: str
    file: str = ""  # the file's name if the trace has several files

    def __str__(self) -> str:
        place = f"{self.file} row {self.row}" if self.file else f"row {self.row}"
        return f"{place}: {self.field} is {self.value!r}; it {self.reason}"


@dataclass(frozen=True)
class ReadReport:
    """Counts of a trace's rows by outcome: `rows == kept + sum(bad) + sum(skipped)`, always."""

    trace: str
    path: str
    rows: int  # data rows in the file
    kept: int
    bad: Mapping[str, int] = field(default_factory=dict)  # malformed rows by reason
    skipped: Mapping[str, int] = field(default_factory=dict)  # well-formed rows that were left out, by reason
    examples: tuple[BadRow, ...] = ()  # the first few malformed rows of each reason
    notes: tuple[str, ...] = ()  # the trace's quirks: units, clock, order

    def dropping(self, reason: str, count: int) -> "ReadReport":
        """Return the report after leaving out `count` of the kept rows for a further reason."""
        if count == 0:
            return self
        skipped = {**self.skipped, reason: self.skipped.get(reason, 0) + count}
        return replace(self, kept=self.kept - count, skipped=skipped)

    def summary(self) -> str:
        """Summarise in one line without control characters: rows read, kept, and left out by reason."""
        parts = [f"{self.trace}: {self.rows:,} rows read, {self.kept:,} kept"]
        if self.skipped:
            parts.append("skipped " + ", ".join(f"{count:,} ({why})" for why, count in self.skipped.items()))
        if self.bad:
            counts = ", ".join(f"{count:,} ({why})" for why, count in self.bad.items())
            parts.append(f"bad {counts}, first at {self.examples[0]}")
        return as_line("; ".join(parts))
