"""What a reader made of a file: rows kept, and why the others were not."""

from collections.abc import Mapping
from dataclasses import dataclass, field, replace

FILE = "file"  # among the attributes of a reader's frame: the path that it was read from


@dataclass(frozen=True, slots=True)
class BadRow:
    """One row that is not what the trace's format promises."""

    row: int  # as an editor counts the file's lines, the header being line 1; for JSON the entry, from 1
    field: str
    value: str
    reason: str
    file: str = ""  # its name, where a trace is several files

    def __str__(self) -> str:
        place = f"{self.file} row {self.row}" if self.file else f"row {self.row}"
        return f"{place}: {self.field} is {self.value!r}; it {self.reason}"


@dataclass(frozen=True)
class ReadReport:
    """Where the rows of a trace went: `rows == kept + sum(bad) + sum(skipped)`, always."""

    trace: str
    path: str
    rows: int  # data rows in the file
    kept: int
    bad: Mapping[str, int] = field(default_factory=dict)  # malformed rows by reason
    skipped: Mapping[str, int] = field(default_factory=dict)  # sound rows that are not wanted, by reason
    examples: tuple[BadRow, ...] = ()  # the first few malformed rows of each reason
    notes: tuple[str, ...] = ()  # the trace's quirks: units, clock, order

    def dropping(self, reason: str, count: int) -> "ReadReport":
        """The report after `count` kept rows were left out for a further reason."""
        if count == 0:
            return self
        skipped = {**self.skipped, reason: self.skipped.get(reason, 0) + count}
        return replace(self, kept=self.kept - count, skipped=skipped)

    def summary(self) -> str:
        """One line for people: rows read, kept, and left out by reason."""
        parts = [f"{self.trace}: {self.rows:,} rows read, {self.kept:,} kept"]
        if self.skipped:
            parts.append("skipped " + ", ".join(f"{count:,} ({why})" for why, count in self.skipped.items()))
        if self.bad:
            counts = ", ".join(f"{count:,} ({why})" for why, count in self.bad.items())
            parts.append(f"bad {counts}, first at {self.examples[0]}")
        return "; ".join(parts)
