"""The table that every reader builds on: a trace file as columns of text, with a verdict on each row."""

import csv
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import replace
from datetime import UTC, datetime, tzinfo
from itertools import chain
from pathlib import Path
from types import MappingProxyType
from typing import Any

import numpy as np
import numpy.typing as npt
import pandas as pd

from envs.types import BoolArray, FloatArray, IntArray, TraceError, as_line, did_you_mean
from envs.workloads.readers.clock import find_zone, localise, state_zone
from envs.workloads.readers.files import limit_values, read_lines
from envs.workloads.readers.parquet import is_parquet, parquet_rows
from envs.workloads.readers.report import FILE_ATTRIBUTE, BadRow, ReadReport
from envs.workloads.recorded import ZERO_ATTRIBUTE

MAX_SECONDS = 10 * 365 * 86400.0  # no trace or job lasts ten years; a longer time means a wrong unit
MAX_GPUS = 65536  # more than any cluster in the traces
EXAMPLES_PER_REASON = 3
DEFAULT_LAYOUT = "%Y-%m-%d %H:%M:%S"
LATEST_DATE = pd.Timestamp("2100-01-01")
SHOWN_VALUES = 8  # of a column, in messages
_END = "\0"  # no line of a text file has it

TextArray = npt.NDArray[np.object_]


class TraceTable:
    """Columns of text with a verdict for each row: sound, bad (malformed) or skipped (well-formed but left out).

    Only the first verdict on a row other than sound counts. Bad rows are counted; with `strict` the first one raises.

    Args:
        trace: name of the trace, for messages.
        path: the file, for messages.
        columns: columns by name, one text per row.
        rows: int64[num_rows], the line number of each row in the file.
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
        self.notes: list[str] = []  # on the clock of the times
        self.files: TextArray | None = None  # the file's name for each row, if the trace has several files
        self.zone: tzinfo | None = None  # of the clock on which dates are shown; None: they have no zone
        self.dated = False  # whether its times are dates
        self._clocks: dict[bool, tuple[str, int]] = {}  # (field, index) of the first time with and without a zone

    @classmethod
    def joined(cls, path: Path, parts: "Mapping[str, TraceTable]", column: str) -> "TraceTable":
        """Join several files of one format to one table, with the columns that all have and the verdicts so far.

        Args:
            path: the folder of the files.
            parts: tables by name.
            column: name of an added column that holds the name of each row's table.
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

    @property
    def lacks_zone(self) -> bool:
        """Whether times were read that state no time zone, and none was given."""
        return False in self._clocks

    def text(self, field: str) -> TextArray:
        """object[num_rows]: a column as text, without outer blanks."""
        return self.columns[field]

    def numbers(
        self,
        field: str,
        *,
        low: float = 0.0,
        high: float = MAX_SECONDS,
        whole: bool = False,
        empty: float | None = None,
    ) -> FloatArray:
        """float64[num_rows]: a column as numbers, 0 for text. Rows that are text or outside [low, high] are bad.

        Args:
            field: the column.
            low, high: the least and the largest allowed value.
            whole: whether it must be a whole number.
            empty: the value of empty cells; such rows are bad if None.
        """
        values: FloatArray = np.array(pd.to_numeric(pd.Series(self.columns[field]), errors="coerce"), dtype=np.float64)
        blank = (self.columns[field] == "") & (empty is not None)
        finite = np.isfinite(values)
        self.reject(~finite & ~blank, field, "must be a finite number")
        values[~finite] = 0.0
        self.reject(finite & (values < low), field, f"must be at least {low:g}")
        self.reject(finite & (values > high), field, f"must be at most {high:g}")
        if whole:
            self.reject(values != np.floor(values), field, "must be a whole number")
        if empty is not None:
            values[blank] = empty
        return values

    def times(
        self, field: str, layout: str = DEFAULT_LAYOUT, timezone: str | None = None, absent: Sequence[str] = ()
    ) -> FloatArray:
        """float64[num_rows]: a column of calendar times as seconds since 1970; 0 in bad rows, NaN where there is none.

        Times before 1970 or after 2099, such as the 0001-01-01 that some systems write for "none", are bad.

        Args:
            field: the column.
            layout: as for `strptime`, or "ISO8601".
            timezone: IANA name of the zone of times that state none. Without it they are used as if they were in UTC.
            absent: texts that stand for no time; if there are any, so do other texts, unless the table is strict.

        Raises:
            TraceError: some times of the table state a zone, others do not, and `timezone` is None; or the zone does
                not exist; or the table is strict and a row is malformed.
        """
        texts = pd.Series(self.columns[field])
        stamps = pd.to_datetime(texts, format=layout, errors="coerce", utc=True).dt.tz_localize(None)
        good = (stamps.notna() & texts.str.contains("[0-9]")).to_numpy(dtype=np.bool_)  # pandas takes "now" for a time
        form = "like 2017-10-09 07:01:55" if layout == DEFAULT_LAYOUT else f"of the form {layout}"
        none = np.isin(self.columns[field], list(absent))
        if absent and not self.strict:  # a time that the row does not need is no reason to leave it out
            if count := int((~good & ~none & self.sound).sum()):
                self.notes.append(f"{field}: {count:,} values are no time {form}, and count as unknown")
            none = ~good
        self.reject(~good & ~none, field, f"must be a time {form}")
        plausible = good & (stamps >= pd.Timestamp(0)).to_numpy() & (stamps < LATEST_DATE).to_numpy()
        self.reject(good & ~plausible, field, "must be a time from 1970 to 2099")
        zoned = state_zone(texts, layout)
        self._set_clock(texts[plausible], zoned[plausible], layout, timezone)
        if timezone is None:
            self._check_clock(field, zoned, plausible & self.sound)
        else:
            there, repeated = localise(stamps.where(plausible & ~zoned), timezone)
            skipped = plausible & ~zoned & there.isna().to_numpy()
            self.reject(skipped, field, f"must be a time that exists in {timezone}, where the clock skips this one")
            stamps, plausible = stamps.where(zoned, there), plausible & ~skipped
            if count := int((repeated & self.sound).sum()):
                self.notes.append(
                    f"{field}: {count:,} times are in an hour that the clock repeats, and count as its first pass"
                )
        stamps = stamps.where(plausible, pd.Timestamp(0))
        seconds: FloatArray = np.array((stamps - pd.Timestamp(0)) / pd.Timedelta(seconds=1), dtype=np.float64)
        seconds[none] = np.nan
        return seconds

    def _set_clock(self, texts: "pd.Series[str]", zoned: BoolArray, layout: str, timezone: str | None) -> None:
        """Keep the clock on which the first column of times is shown: of the given zone, or of its first time."""
        if self.dated or not len(texts):
            return
        self.dated = True
        if timezone is not None:
            self.zone = find_zone(timezone)
        elif zoned[0]:
            self.zone = pd.to_datetime(texts.iloc[0], format=layout).tzinfo or UTC

    def _check_clock(self, field: str, zoned: BoolArray, good: BoolArray) -> None:
        """Assert that all or none of the good times of the table state a time zone."""
        for aware in (True, False):
            hit = np.flatnonzero(good & (zoned == aware))
            if hit.size:
                self._clocks.setdefault(aware, (field, int(hit[0])))
        if len(self._clocks) == 2:
            (with_zone, without) = (
                f"{name} of row {self.rows[at]} is {self.columns[name][at][:40]!r}"
                for name, at in (self._clocks[True], self._clocks[False])
            )
            raise TraceError(
                f"{self.path}: {with_zone} with a time zone, but {without} without one; "
                "set workload.reader.timezone to the zone of times without one, such as Europe/Berlin"
            )

    def select(self, field: str, values: Sequence[Any], setting: str, reason: str, *, drop: bool = False) -> None:
        """Leave out the rows whose text is none of the values of a setting, or with `drop` is one of them.

        Raises:
            TraceError: no row of the file has one of the values.
        """
        present = set(self.columns[field])
        for value in values:
            if str(value) not in present:
                raise TraceError(f"{self.path}: {setting} has {value!r}, but no row has it{self._hint(field, value)}")
        self.skip(np.isin(self.columns[field], [str(value) for value in values]) == drop, reason)

    def _hint(self, field: str, value: Any) -> str:
        """Return the end of a message about a value that a column does not have."""
        counts = pd.Series(self.columns[field]).value_counts()
        shown = ", ".join(repr(text[:40]) for text in counts.index[:SHOWN_VALUES])
        more = f" and {len(counts) - SHOWN_VALUES:,} others" if len(counts) > SHOWN_VALUES else ""
        quotes = "; in YAML, yes, no, on, off, true and false need quotes" if isinstance(value, bool) else ""
        near = did_you_mean(str(value), [str(text) for text in counts.index[:1000]], quoted=True)
        return f"; its column {field} has {shown}{more}{quotes}{near or '; leave the value out, or correct it'}"

    def reject(self, where: BoolArray, field: str, reason: str) -> None:
        """Mark rows as malformed.

        Raises:
            TraceError: the table is strict and there is such a row.
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
        """Leave out well-formed rows for a reason."""
        count = int((where & self.sound).sum())
        if count:
            self.sound &= ~where
            self.skipped[reason] = self.skipped.get(reason, 0) + count

    def skip_duplicates(self) -> None:
        """Leave out rows that repeat an earlier row in every column."""
        again = pd.DataFrame(self.columns).duplicated().to_numpy()
        self.skip(again, "exact duplicates of an earlier row")

    def skip_repeated(self, field: str) -> None:
        """Leave out rows that repeat an earlier row; rows that repeat only its id are malformed.

        Raises:
            TraceError: the table is strict and a row is malformed.
        """
        self.skip_duplicates()
        ids = pd.Series(self.columns[field]).where(self.sound)
        self.reject((ids.duplicated() & ids.notna()).to_numpy(), field, "must differ from that of every earlier row")

    def skip_idle(self, duration: FloatArray, num_gpus: FloatArray) -> None:
        """Leave out jobs without GPUs, and jobs without a run time."""
        self.skip(num_gpus == 0, "no GPUs requested")
        self.skip(duration == 0, "zero duration")

    def finish(
        self, columns: Mapping[str, npt.NDArray[Any]], *, notes: Sequence[str] = (), origin: float | None = None
    ) -> tuple[pd.DataFrame, ReadReport]:
        """Return the sound rows in order of submission, and the report.

        Args:
            columns: the standard columns over all rows, including `submit_time`, `duration` and `num_gpus`.
            notes: the trace's quirks.
            origin: the time of the trace that becomes t = 0; the first submission if None.

        Raises:
            TraceError: the file has no sound row.
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
        frame.attrs[FILE_ATTRIBUTE] = str(self.path)  # for messages about errors that are found later
        if self.dated:
            zero = datetime.fromtimestamp(start, self.zone or UTC)
            frame.attrs[ZERO_ATTRIBUTE] = zero if self.zone else zero.replace(tzinfo=None)
        if not frame["submit_time"].is_monotonic_increasing:
            notes = (*notes, "the file is not in order of submission; its rows were sorted, ties in the file's order")
        frame = frame.sort_values("submit_time", kind="stable", ignore_index=True)
        report = ReadReport(
            self.trace,
            str(self.path),
            len(self),
            len(frame),
            self.bad,
            self.skipped,
            tuple(self.examples),
            tuple(map(as_line, (*notes, *self.notes))),
        )
        return frame, report


def read_csv(
    trace: str,
    path: Path,
    required: Sequence[str],
    *,
    named_by: Mapping[str, str] = MappingProxyType({}),
    header: Sequence[str] | None = None,
    delimiter: str = ",",
    quoted: bool = True,
    strict: bool = False,
) -> TraceTable:
    """Read a comma-separated file, compressed or not, as a table.

    Args:
        trace: name of the trace, for messages.
        path: the file.
        required: columns that the file must have.
        named_by: column -> the setting that names it; the file must have these columns as well.
        header: the columns of a file without a header line; a first line that repeats them is skipped.
        delimiter: the character between fields.
        quoted: whether fields may stand in quotes.
        strict: whether a bad row is an error.

    Raises:
        TraceError: the file is empty, is not text, lacks a column, or has two of one name.
    """
    lines = rows_of(path, delimiter, quoted=quoted)
    first = next(lines, None)
    if first is None:
        raise TraceError(f"{path}: is empty; a {trace} trace begins with the columns {', '.join(required)}")
    names = [name.strip() for name in first[1]] if header is None else list(header)
    _check_columns(trace, path, names, required, named_by, delimiter)
    body = list(lines)
    if header is not None and first[1] != list(header):
        body.insert(0, first)
    if not body:
        raise TraceError(f"{path}: has a header but no rows; give a {trace} trace with at least one job")
    width = len(names)
    table = TraceTable(
        trace,
        path,
        {name: [cells[at] if at < len(cells) else "" for _, cells in body] for at, name in enumerate(names)},
        [row for row, _ in body],
        strict=strict,
    )
    table.reject(np.array([len(cells) != width for _, cells in body]), names[0], f"must be in a row of {width} fields")
    return table


def _check_columns(
    trace: str, path: Path, names: Sequence[str], required: Sequence[str], named_by: Mapping[str, str], delimiter: str
) -> None:
    """Assert that the header has each wanted column, and no name twice; see `read_csv`."""
    if broken := next((name for name in names if "\n" in name or "\r" in name), None):
        raise TraceError(f"{path}: row 1: the column {broken[:40]!r} goes over several lines; close its quote")
    if twice := next((name for at, name in enumerate(names) if name and name in names[:at]), None):
        places = [at for at, name in enumerate(names, start=1) if name == twice]
        raise TraceError(
            f"{path}: row 1: columns {places[0]} and {places[1]} are both named {twice[:40]!r}; give each its own name"
        )
    for name in [*required, *named_by]:
        if name not in names:
            setting = f", which {named_by[name]} names" if name in named_by else ""
            optional = [other for other in named_by if other not in required]
            rest = f"; optional: {', '.join(optional)}" if optional else ""
            if len(names) == 1:
                rest += f"; its header has no {delimiter!r}, which must separate the columns"
            raise TraceError(
                f"{path}: has no column {name!r}{setting}; it has {', '.join(names)[:120]}; a {trace} trace "
                f"needs {', '.join(required)}{rest}"
            )


def rows_of(path: Path, delimiter: str = ",", *, quoted: bool = True) -> Iterator[tuple[int, list[str]]]:
    """Yield the rows of a comma-separated or a Parquet file with their numbers, from 1; blank lines are skipped.

    Raises:
        TraceError: the file cannot be read, is not text, exceeds a limit, or has a quote that is not closed.
    """
    rows = parquet_rows(path) if is_parquet(path) else _split_rows(path, delimiter, quoted)
    yield from limit_values(path, rows)


def _split_rows(path: Path, delimiter: str, quoted: bool) -> Iterator[tuple[int, list[str]]]:
    lines = chain(read_lines(path), [_END])
    reader = csv.reader(lines, delimiter=delimiter, quoting=csv.QUOTE_MINIMAL if quoted else csv.QUOTE_NONE)
    row = 0  # the last line before the next row
    try:
        for cells in reader:
            if cells == [_END]:
                return
            if cells and cells[-1].endswith(_END):
                raise TraceError(f"{path}: row {row + 1}: a quote is opened but not closed; close it")
            row = reader.line_num
            if any(cell.strip() for cell in cells):
                yield row, cells
    except csv.Error as error:
        raise TraceError(
            f"{path}: row {row + 1}: cannot be split into fields ({error}); is a quote not closed?"
        ) from error


def _texts(column: Sequence[str]) -> TextArray:
    made = np.empty(len(column), dtype=object)
    made[:] = [text.strip() for text in column]
    return made
