"""A trace file as columns of text, and the verdict on each of its rows; every reader is written on it."""

import csv
import gzip
import zlib
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import replace
from pathlib import Path
from typing import IO, Any

import numpy as np
import numpy.typing as npt
import pandas as pd

from envs.types import BoolArray, FloatArray, IntArray, TraceError
from envs.workloads.readers.report import FILE, BadRow, ReadReport

MAX_SECONDS = 10 * 365 * 86400.0  # no trace spans ten years, no job runs that long: beyond it a unit is wrong
MAX_GPUS = 65536  # more than any cluster in the traces
EXAMPLES_PER_REASON = 3

TextArray = npt.NDArray[np.object_]


class TraceTable:
    """Columns of text with a verdict by row: sound, bad (malformed) or skipped (sound but not wanted).

    A row has one verdict, the first that befalls it. Bad rows are counted; with `strict` the first raises.

    Args:
        trace: name of the trace, for messages.
        path: the file, for messages.
        columns: by name, one text a row.
        rows: int64[num_rows], the file row of each.
        strict: whether a bad row is an error.
    """

    def __init__(
        self, trace: str, path: Path, columns: Mapping[str, Sequence[str]], rows: Sequence[int], *, strict: bool = False
    ) -> None:
        self.trace, self.path, self.strict = trace, path, strict
        self.columns: dict[str, TextArray] = {name: _texts(column) for name, column in columns.items()}
        self.rows: IntArray = np.asarray(rows, dtype=np.int64)
        self.sound: BoolArray = np.ones(len(self.rows), dtype=np.bool_)
        self.bad: dict[str, int] = {}
        self.skipped: dict[str, int] = {}
        self.examples: list[BadRow] = []
        self.files: TextArray | None = None  # of each row its file's name, where a trace is several files

    @classmethod
    def joined(cls, path: Path, parts: "Mapping[str, TraceTable]", column: str) -> "TraceTable":
        """Several files of one format as one table, with the columns that all of them have and the verdicts so far.

        Args:
            path: their folder.
            parts: by name.
            column: a further column, with the name of each row's part.
        """
        tables = list(parts.values())
        names = [name for name, table in parts.items() for _ in range(len(table))]
        common = [field for field in tables[0].columns if all(field in table.columns for table in tables)]
        columns: dict[str, Sequence[str]] = {
            field: [text for table in tables for text in table.columns[field]] for field in common
        }
        rows = [int(row) for table in tables for row in table.rows]
        made = cls(tables[0].trace, path, {**columns, column: names}, rows, strict=tables[0].strict)
        made.files = _texts([table.path.name for table in tables for _ in range(len(table))])
        made.sound = np.concatenate([table.sound for table in tables])
        for table in tables:
            for reason, number in table.bad.items():
                made.bad[reason] = made.bad.get(reason, 0) + number
            made.examples += [replace(example, file=table.path.name) for example in table.examples]
        return made

    def __len__(self) -> int:
        return len(self.rows)

    def text(self, field: str) -> TextArray:
        """object[num_rows]: a column as it stands, without outer blanks."""
        return self.columns[field]

    def numbers(self, field: str, *, low: float = 0.0, high: float = MAX_SECONDS, whole: bool = False) -> FloatArray:
        """float64[num_rows]: a column as numbers within [low, high]; rows that are not are bad, and 0 in the answer."""
        values: FloatArray = np.array(pd.to_numeric(pd.Series(self.columns[field]), errors="coerce"), dtype=np.float64)
        finite = np.isfinite(values)
        self.reject(~finite, field, "must be a finite number")
        values[~finite] = 0.0
        self.reject(finite & (values < low), field, f"must be at least {low:g}")
        self.reject(finite & (values > high), field, f"must be at most {high:g}")
        if whole:
            self.reject(values != np.floor(values), field, "must be a whole number")
        return values

    def times(self, field: str, layout: str = "%Y-%m-%d %H:%M:%S") -> FloatArray:
        """float64[num_rows]: a column of calendar times as seconds since 1970, without any time zone; 0 in bad rows."""
        stamps = pd.to_datetime(pd.Series(self.columns[field]), format=layout, errors="coerce")
        good = stamps.notna().to_numpy()
        self.reject(~good, field, "must be a time like 2017-10-09 07:01:55")
        seconds: FloatArray = np.array((stamps - pd.Timestamp(0)) / pd.Timedelta(seconds=1), dtype=np.float64)
        seconds[~good] = 0.0
        return seconds

    def reject(self, where: BoolArray, field: str, reason: str) -> None:
        """Call rows malformed.

        Raises:
            TraceError: there is one, and the table is strict.
        """
        hit = np.flatnonzero(where & self.sound)
        if not hit.size:
            return
        self.sound[hit] = False
        files = [""] * len(self) if self.files is None else self.files
        shown = [
            BadRow(int(self.rows[i]), field, str(self.columns[field][i])[:40], reason, str(files[i]))
            for i in hit[:EXAMPLES_PER_REASON]
        ]
        if self.strict:
            raise TraceError(f"{self.path}: {shown[0]}; correct the row, or skip bad rows with workload.strict=false")
        key = f"{field} {reason}"
        self.bad[key] = self.bad.get(key, 0) + len(hit)
        self.examples += shown

    def skip(self, where: BoolArray, reason: str) -> None:
        """Leave out rows that are sound but not wanted."""
        count = int((where & self.sound).sum())
        if count:
            self.sound &= ~where
            self.skipped[reason] = self.skipped.get(reason, 0) + count

    def skip_duplicates(self) -> None:
        """Leave out rows that repeat an earlier row in every column."""
        again = pd.DataFrame(self.columns).duplicated().to_numpy()
        self.skip(again, "exact duplicates of an earlier row")

    def skip_repeated(self, field: str) -> None:
        """Leave out rows that repeat an earlier row; one that repeats its id alone is malformed.

        Raises:
            TraceError: there is a malformed one, and the table is strict.
        """
        self.skip_duplicates()
        ids = pd.Series(self.columns[field]).where(self.sound)
        self.reject((ids.duplicated() & ids.notna()).to_numpy(), field, "must not be that of an earlier row")

    def skip_idle(self, duration: FloatArray, num_gpus: FloatArray) -> None:
        """Leave out jobs without GPUs, and jobs without a run time."""
        self.skip(num_gpus == 0, "no GPUs asked for")
        self.skip(duration == 0, "zero duration")

    def finish(
        self, columns: Mapping[str, npt.NDArray[Any]], *, notes: Sequence[str] = (), origin: float | None = None
    ) -> tuple[pd.DataFrame, ReadReport]:
        """The sound rows in order of submission, and the report.

        Args:
            columns: the standard columns, each of all rows; `submit_time`, `duration` and `num_gpus` among them.
            notes: the trace's quirks.
            origin: the trace time that becomes t = 0; the first submission if None.

        Raises:
            TraceError: no sound row is left.
        """
        if not self.sound.any():
            why = (
                self.examples[0] if self.examples else ", ".join(f"{n} {reason}" for reason, n in self.skipped.items())
            )
            raise TraceError(f"{self.path}: none of its {len(self)} rows is a usable {self.trace} job: {why}")
        frame = pd.DataFrame({name: column[self.sound] for name, column in columns.items()})
        frame["num_gpus"] = frame["num_gpus"].astype(np.int64)
        frame["row"] = self.rows[self.sound]
        start = float(frame["submit_time"].min()) if origin is None else origin
        frame["submit_time"] = frame["submit_time"].astype(np.float64) - start
        frame.attrs[FILE] = str(self.path)  # for messages about what is found only later
        if not frame["submit_time"].is_monotonic_increasing:
            notes = (*notes, "the file is not in order of submission: sorted, ties as in the file")
        frame = frame.sort_values("submit_time", kind="stable", ignore_index=True)
        report = ReadReport(
            self.trace,
            str(self.path),
            len(self),
            len(frame),
            self.bad,
            self.skipped,
            tuple(self.examples),
            tuple(notes),
        )
        return frame, report


def read_csv(
    trace: str, path: Path, required: Sequence[str], *, header: Sequence[str] | None = None, strict: bool = False
) -> TraceTable:
    """A comma-separated file, gzipped or not, as a table.

    Args:
        trace: name of the trace, for messages.
        path: the file.
        required: columns that must be there.
        header: the columns of a file that has no header line; a first line that repeats them is passed over.
        strict: whether a bad row is an error.

    Raises:
        TraceError: the file is empty, is not text, or lacks a column.
    """
    lines = rows_of(path)
    first = next(lines, None)
    if first is None:
        raise TraceError(f"{path}: is empty; a {trace} trace begins with the columns {', '.join(required)}")
    names = [name.strip() for name in first[1]] if header is None else list(header)
    missing = [name for name in required if name not in names]
    if missing:
        raise TraceError(
            f"{path}: has no column {missing[0]!r}; it has {', '.join(names)[:120]}; a {trace} trace "
            f"needs {', '.join(required)}"
        )
    body = list(lines)
    if header is not None and first[1] != list(header):
        body.insert(0, first)
    if not body:
        raise TraceError(f"{path}: holds a header and no rows; give a {trace} trace with at least one job")
    width = len(names)
    table = TraceTable(
        trace,
        path,
        {name: [cells[at] if at < len(cells) else "" for _, cells in body] for at, name in enumerate(names)},
        [row for row, _ in body],
        strict=strict,
    )
    table.reject(
        np.array([len(cells) != width for _, cells in body]), names[0], f"must stand in a row of {width} fields"
    )
    return table


def rows_of(path: Path) -> Iterator[tuple[int, list[str]]]:
    """The rows of a comma-separated file with their line numbers, from 1; blank lines are passed over.

    Raises:
        TraceError: the file cannot be read, is not text, or its compression is damaged.
    """
    try:
        with open_text(path) as file:
            reader = csv.reader(file)
            for cells in reader:
                if any(cell.strip() for cell in cells):
                    yield reader.line_num, cells
    except (OSError, EOFError, zlib.error, UnicodeDecodeError, csv.Error) as error:
        raise TraceError(
            f"{path}: cannot be read as text rows ({type(error).__name__}: {error}); get the file anew"
        ) from error


def open_text(path: Path) -> IO[str]:
    """A text file for reading, decompressed if its name ends in .gz; a byte-order mark is passed over."""
    if path.suffix == ".gz":
        return gzip.open(path, "rt", encoding="utf-8-sig", newline="")
    return path.open(encoding="utf-8-sig", newline="")


def _texts(column: Sequence[str]) -> TextArray:
    made = np.empty(len(column), dtype=object)
    made[:] = [text.strip() for text in column]
    return made
