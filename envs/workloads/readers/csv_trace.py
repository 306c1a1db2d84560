"""Any comma-separated file with one job per row; a mapping from fields to columns replaces code."""

import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, ClassVar

import numpy as np
import numpy.typing as npt
import pandas as pd

from envs.types import BoolArray, FloatArray, TraceError, did_you_mean
from envs.types.units import DAY
from envs.workloads.readers.clock import NO_ZONE_NOTE, midnight_before
from envs.workloads.readers.past import recorded_runs
from envs.workloads.readers.report import ReadReport
from envs.workloads.readers.table import MAX_GPUS, MAX_SECONDS, TraceTable, read_csv
from envs.workloads.waiting import known_dependencies

TIME_UNITS = {"s": 1.0, "ms": 1e-3, "us": 1e-6, "min": 60.0, "h": 3600.0, "days": DAY}
CPU_UNITS = {"cores": 1.0, "millicores": 1e-3}
MEMORY_UNITS = {"GB": 1.0, "MB": 1e-3, "GiB": 2**30 / 1e9, "MiB": 2**20 / 1e9, "bytes": 1e-9}
WORK_UNITS = ("samples", "steps")
LATEST = 130 * 365.25 * DAY  # seconds from 1970 to 2100
TRUE, FALSE = ("1", "true", "yes"), ("", "0", "false", "no")

UNITS: dict[str, Sequence[str]] = {
    **dict.fromkeys(("submit_time", "start_time", "end_time", "duration", "time_limit"), tuple(TIME_UNITS)),
    "work": WORK_UNITS,
    "cpu_cores": tuple(CPU_UNITS),
    "memory": tuple(MEMORY_UNITS),
}
"""Fields that have a unit, and the units; the first one is the default. Times also take a calendar layout."""

FIELDS = (
    *("submit_time", "duration", "start_time", "end_time", "work", "num_gpus", "gpu_fraction", "min_gpus", "max_gpus"),
    *("gpu_type", "cpu_cores", "memory", "model", "batch_size", "tenant", "user", "name", "id", "guaranteed"),
    *("pool", "features", "max_nodes", "num_nodes", "gpus_per_node", "exclusive", "gpu_memory", "mig_profile"),
    *("time_limit", "priority", "nice", "qos", "begin_time", "dependency", "queue", "nodes", "attempts"),
)

LABELS = re.compile(r"[A-Za-z0-9_.\-,+;& ]*", re.ASCII)  # a list of names
PROFILES = re.compile(r"([1-7]g\.[0-9]{1,3}gb)?", re.ASCII)
LIST = "a list of names of letters, digits, '.', '-' and '_'"
DEPENDENCY_RULE = (
    "must be afterok, afternotok or afterany with ids of jobs submitted before it (afterok:7:8), or singleton"
)
FRACTION_RULE = "must be above 0, and 1 for jobs of several GPUs"


@dataclass(frozen=True)
class CsvTrace:
    """A trace in the columns of its own file; `conf/workload/csv.yaml` describes every field.

    Required are `submit_time`, `num_gpus`, and `duration`, `start_time` with `end_time`, or `work`. Work in steps needs
    `batch_size`. Without `work`, it is the duration times the throughput on the row's GPU type. CPU cores and memory
    are checked and reported, and not used otherwise: the world divides those of a node by what each job's model can
    use. `gpu_fraction` is what a job of one GPU asks of it, see `envs.performance.slices`. `name` is what jobs of one
    kind share, such as a script; each job has an `id` of its own, which messages show. `pool` and `gpu_type` say where
    a job ran, and `features` to `mig_profile` what it asks of its nodes (`envs.types.Constraints`). `time_limit` is the
    longest time for which it may hold GPUs; `priority`, `qos` and `nice` are shown, not enforced. `start_time`,
    `end_time`, `queue`, `nodes` and `attempts` are kept as the past (`RecordedPast`). Before its `begin_time`,
    in the unit of `submit_time`, and until its `dependency` is met, such as afterok:7 by `id`, a job is held. A row
    with a field that cannot be read, or is out of range, is bad: it is left out, counted, and named in the report.

    Args:
        columns: field -> column of the file; null where the file has none.
        units: field -> unit; see `UNITS`. A time can also be a calendar time: give its `strptime` layout, or "ISO8601".
        models: the file's name of a model -> a name that the performance model knows; other names are kept.
        gpu_types: the file's name of a GPU type -> ours; if it is not empty, other names are bad rows.
        keep: column -> the values to keep, each of which the file has; rows with other values are skipped.
        drop: column -> values to leave out, each of which the file has.
        header: names of the columns of a file without a header line.
        delimiter: the character between fields.
        duplicates: keep rows that repeat an earlier row; if false they are skipped.
        gpu_type: GPU type on which durations were measured, where the file has no column for it.
        gpus_per_node: GPUs of a usual node of the trace's cluster.
        timezone: IANA name of the zone of calendar times that state none, such as Europe/Berlin. With None they are
            used unchanged, and an hour is lost or counts twice where the clock changes.

    Raises:
        TraceError: the mapping is incomplete, or names a field or unit that does not exist.
    """

    columns: Mapping[str, str | None]
    units: Mapping[str, str | None] = field(default_factory=dict)
    models: Mapping[str, str] = field(default_factory=dict)
    gpu_types: Mapping[str, str] = field(default_factory=dict)
    keep: Mapping[str, Sequence[Any]] = field(default_factory=dict)
    drop: Mapping[str, Sequence[Any]] = field(default_factory=dict)
    header: Sequence[str] | None = None
    delimiter: str = ","
    duplicates: bool = True
    gpu_type: str = "V100"
    gpus_per_node: int = 8
    timezone: str | None = None
    name: ClassVar[str] = "csv"
    location: ClassVar[str] = "traces/csv/jobs.csv"
    source: ClassVar[str] = "your own cluster; workload.reader.columns maps its columns (docs/traces.md)"

    def __post_init__(self) -> None:
        for key, given, known in (("columns", self.columns, FIELDS), ("units", self.units, tuple(UNITS))):
            for name in given:
                if name not in known:
                    hint = did_you_mean(name, known, lead=", ")
                    raise TraceError(
                        f"workload.reader.{key}.{name}: there is no such field{hint}; known: {', '.join(known)}"
                    )
        for name, unit in self.units.items():
            if unit is not None and unit not in UNITS[name] and not (_is_time(name) and _is_layout(unit)):
                layout = ", or a layout such as %Y-%m-%d %H:%M:%S" if _is_time(name) else ""
                raise TraceError(
                    f"workload.reader.units.{name} is {unit!r}; it must be {' or '.join(UNITS[name])}{layout}"
                )
        if len(self.delimiter) != 1:
            raise TraceError(f"workload.reader.delimiter is {self.delimiter!r}; it must be one character")
        if twice := [name for at, name in enumerate(self.header or ()) if name in (self.header or ())[:at]]:
            raise TraceError(f"workload.reader.header has {twice[0]!r} twice; give each column its own name")
        for name, why in self._needed().items():
            if not self._has(name):
                raise TraceError(f"workload.reader.columns.{name} is not set; {why}: set it to the name of its column")
        self._check_times()

    def _needed(self) -> dict[str, str]:
        """Return the fields that this mapping needs, with the reason."""
        why = ""
        if self._has("work"):
            more = ["work", "batch_size"] if self._unit("work") == "steps" else ["work"]
            why = "work in steps is steps times the global batch size"
        elif self._has("duration"):
            more = ["duration"]
        else:
            more, why = ["start_time", "end_time"], "give duration, work, or both start_time and end_time"
        return {**dict.fromkeys(["submit_time", "num_gpus"], "every trace needs it"), **dict.fromkeys(more, why)}

    def _check_times(self) -> None:
        """Assert that start and end are by one clock: seconds since 1970 are in UTC, calendar times may not be."""
        if "start_time" not in self._needed():
            return
        calendar = [name for name in ("start_time", "end_time") if self._unit(name) not in TIME_UNITS]
        if len(calendar) == 1 and self.timezone is None:
            raise TraceError(
                f"workload.reader.timezone is not set; only {calendar[0]} is a calendar time, so its zone must be "
                "known: set it to a name such as Europe/Berlin or UTC"
            )

    def read(self, path: Path, *, strict: bool = False) -> tuple[pd.DataFrame, ReadReport]:
        """Return the jobs and the report; see `TraceReader.read`."""
        named_by = dict.fromkeys(self.keep, "workload.reader.keep") | dict.fromkeys(self.drop, "workload.reader.drop")
        for name, column in self.columns.items():
            if column is not None:
                named_by[column] = f"workload.reader.columns.{name}"
        required = list(dict.fromkeys(self._column(name) for name in self._needed()))
        table = read_csv(
            self.name,
            path,
            required,
            named_by=named_by,
            header=self.header,
            delimiter=self.delimiter,
            strict=strict,
        )
        unread = [column for column in table.columns if column not in named_by]
        if not self.duplicates:
            table.skip_duplicates()
        jobs = self.jobs(table)
        origin = self._origin(jobs["submit_time"][table.sound])
        self._filter(table)
        renamed = [f"{name} from {column}" for name, column in self.columns.items() if column not in (None, name)]
        notes = [f"columns: {', '.join(renamed)}"] if renamed else []
        if table.lacks_zone:
            notes.append(NO_ZONE_NOTE)
        if unread:
            notes.append(f"columns that are not read: {', '.join(unread)}")
        return table.finish(jobs, notes=[*notes, *self._resource_notes(jobs, table)], origin=origin)

    def jobs(self, table: TraceTable) -> dict[str, npt.NDArray[Any]]:
        """Return the standard columns over all rows; rows that cannot be read are marked as bad."""
        num_gpus = table.numbers(self._column("num_gpus"), high=MAX_GPUS, whole=True)
        submit = self._submit(table)
        span = {name: self._time(table, name) for name in ("start_time", "end_time") if self._has(name)}
        jobs: dict[str, npt.NDArray[Any]] = {
            "submit_time": submit,
            "duration": self._duration(table, span),
            "num_gpus": num_gpus,
        }
        if self._has("work"):
            jobs["work"] = self._work(table)
            table.skip(num_gpus == 0, "no GPUs requested")
            table.skip(jobs["work"] == 0, "no work")
        else:
            table.skip_idle(jobs["duration"], num_gpus)
        for name in ("min_gpus", "max_gpus"):
            if self._has(name):
                column = self._column(name)
                given = table.numbers(column, low=1, high=MAX_GPUS, whole=True)
                jobs[name] = np.clip(given, 0, MAX_GPUS).astype(np.int64)  # bad rows may hold anything
                wrong = jobs[name] > num_gpus if name == "min_gpus" else jobs[name] < num_gpus
                table.reject(
                    wrong, column, f"must be at {'most' if name == 'min_gpus' else 'least'} the row's num_gpus"
                )
        if self._has("gpu_fraction"):
            column = self._column("gpu_fraction")
            fraction = jobs["gpu_fraction"] = table.numbers(column, high=1.0)
            table.reject((fraction <= 0) | ((fraction < 1) & (num_gpus > 1)), column, FRACTION_RULE)
        for name, scales in (("cpu_cores", CPU_UNITS), ("memory", MEMORY_UNITS)):
            if self._has(name):
                jobs[name] = table.numbers(self._column(name), high=np.inf) * scales[self._unit(name)]
        for name, ours in (("model", self.models), ("gpu_type", self.gpu_types)):
            if self._has(name):
                jobs[name] = self._named(table, name, ours)
        for name in ("tenant", "user", "name", "id", "qos", "queue", "nodes"):
            if self._has(name):
                jobs[name] = table.text(self._column(name))
        if self._has("guaranteed"):
            jobs["guaranteed"] = self._truths(table, "guaranteed")
        jobs |= self._past(table, jobs, span)
        return {**jobs, **self._constraints(table), **self._stated(table), **self._held(table, submit)}

    def _past(
        self, table: TraceTable, jobs: Mapping[str, npt.NDArray[Any]], span: Mapping[str, FloatArray]
    ) -> dict[str, npt.NDArray[Any]]:
        """Return what really happened; starts and ends only if they are of the same clock as submissions."""
        found: dict[str, npt.NDArray[Any]] = {}
        if self._has("attempts"):
            found["attempts"] = table.numbers(self._column("attempts"), high=MAX_GPUS, whole=True, empty=0.0)
        if span and len({self._unit(name) in TIME_UNITS for name in ("submit_time", *span)}) == 1:
            unknown = np.full(len(table), np.nan)
            start, end = (span.get(name, unknown) for name in ("start_time", "end_time"))
            found |= recorded_runs(table, jobs["submit_time"], start, end, jobs["duration"])
        return found

    def _held(self, table: TraceTable, submit: FloatArray) -> dict[str, npt.NDArray[Any]]:
        """Return for how long after its submission a job is held, in seconds, and for which jobs."""
        found: dict[str, npt.NDArray[Any]] = {}
        if self._has("begin_time"):
            column, at = self._column("begin_time"), table.text(self._column("submit_time"))
            table.columns[column] = np.where(table.text(column) == "", at, table.text(column))
            found["begin_after"] = np.maximum(self._time(table, "begin_time") - submit, 0.0)
        if self._has("dependency"):
            column = self._column("dependency")
            ids = table.text(self._column("id")) if self._has("id") else np.full(len(table), "", dtype=object)
            found["dependency"], problems = known_dependencies(table.text(column), ids, submit, table.sound)
            table.reject(np.array(problems) != "", column, DEPENDENCY_RULE)
        return found

    def _stated(self, table: TraceTable) -> dict[str, FloatArray]:
        """Return time limits, in seconds, and priorities; empty cells are 0, which states nothing."""
        found: dict[str, FloatArray] = {}
        for name, low, high in (("time_limit", 0.0, MAX_SECONDS), ("priority", -1e12, 1e12), ("nice", -1e12, 1e12)):
            if self._has(name):
                scale = TIME_UNITS[self._unit(name)] if name == "time_limit" else 1.0
                found[name] = table.numbers(self._column(name), low=low, high=high / scale, empty=0.0) * scale
        return found

    def _truths(self, table: TraceTable, name: str) -> BoolArray:
        """bool[num_rows]: a column of truth values."""
        column = self._column(name)
        said = np.array([text.lower() for text in table.text(column)], dtype=object)
        table.reject(~np.isin(said, [*TRUE, *FALSE]), column, f"must be one of {', '.join([*TRUE, *FALSE[1:]])}")
        return np.isin(said, TRUE)

    def _constraints(self, table: TraceTable) -> dict[str, npt.NDArray[Any]]:
        """Return the columns that say where jobs may run; empty cells ask for nothing."""
        found: dict[str, npt.NDArray[Any]] = {}
        for name, form in (("pool", LABELS), ("features", LABELS), ("mig_profile", PROFILES)):
            if self._has(name):
                texts = found[name] = table.text(self._column(name))
                wrong = np.array([form.fullmatch(text) is None for text in texts], np.bool_)
                table.reject(
                    wrong, self._column(name), f"must be {'a profile like 1g.10gb' if form is PROFILES else LIST}"
                )
        for name in ("max_nodes", "num_nodes", "gpus_per_node", "gpu_memory"):
            if self._has(name):
                column = self._column(name)
                found[name] = table.numbers(column, high=MAX_GPUS, whole=name != "gpu_memory", empty=0.0)
        if self._has("exclusive"):
            found["exclusive"] = self._truths(table, "exclusive")
        return found

    def _submit(self, table: TraceTable) -> FloatArray:
        """float64[num_rows]: submission in seconds; times more than ten years from most others are bad."""
        submit = self._time(table, "submit_time")
        if table.sound.any():
            middle = float(np.median(submit[table.sound]))
            reason = "must be within ten years of most other times"
            table.reject(np.abs(submit - middle) > MAX_SECONDS, self._column("submit_time"), reason)
        return submit

    def _duration(self, table: TraceTable, span: Mapping[str, FloatArray]) -> FloatArray:
        if self._has("duration"):
            scale = TIME_UNITS[self._unit("duration")]
            return table.numbers(self._column("duration"), high=MAX_SECONDS / scale) * scale
        if not self._has("start_time"):
            return np.full(len(table), np.nan)
        start, end = span["start_time"], span["end_time"]
        column = self._column("end_time")
        table.reject(end < start, column, "must not be before the start")
        table.reject(end - start > MAX_SECONDS, column, "must be within ten years of the start")
        return end - start

    def _work(self, table: TraceTable) -> FloatArray:
        """float64[num_rows]: samples."""
        work = table.numbers(self._column("work"), high=1e18)
        if self._unit("work") == "samples":
            return work
        return work * table.numbers(self._column("batch_size"), low=1, high=1e9, whole=True)

    def _time(self, table: TraceTable, name: str) -> FloatArray:
        """float64[num_rows]: times in seconds; NaN in empty cells of fields that this mapping does not need."""
        unit, column = self._unit(name), self._column(name)
        needed = name in self._needed() or not _is_time(name)
        if unit not in TIME_UNITS:
            return table.times(column, unit, self.timezone, () if needed else ("",))
        empty = None if needed else np.nan
        return table.numbers(column, high=LATEST / TIME_UNITS[unit], empty=empty) * TIME_UNITS[unit]

    def _named(self, table: TraceTable, name: str, ours: Mapping[str, str]) -> npt.NDArray[np.object_]:
        """object[num_rows]: names of models or GPU types, translated."""
        column = self._column(name)
        said = table.text(column)
        if ours and name == "gpu_type":
            known = list(map(str, ours))
            table.reject(~np.isin(said, known), column, f"must be one of {', '.join(known)} (reader.gpu_types)")
        else:
            table.reject(np.array([text == "" and "" not in ours for text in said]), column, f"must name a {name}")
        translated = {str(theirs): mine for theirs, mine in ours.items()}
        made = np.empty(len(said), dtype=object)
        made[:] = [translated.get(text, text) for text in said]
        return made

    def _filter(self, table: TraceTable) -> None:
        """Skip the rows that `keep` and `drop` leave out."""
        for drop, setting, chosen in ((False, "keep", self.keep), (True, "drop", self.drop)):
            for column, values in chosen.items():
                reason = f"{column} is {'' if drop else 'not '}one of {', '.join(map(str, values))}"
                table.select(column, values, f"workload.reader.{setting}.{column}", reason, drop=drop)

    def _origin(self, submit: FloatArray) -> float | None:
        """Return the time that becomes t = 0: the first submission; with calendar times, the midnight before it."""
        if not len(submit):
            return None
        first = float(submit.min())
        return first if self._unit("submit_time") in TIME_UNITS else midnight_before(first, self.timezone)

    def _resource_notes(self, jobs: Mapping[str, npt.NDArray[Any]], table: TraceTable) -> list[str]:
        """State what the jobs request besides GPUs."""
        notes = []
        for name, unit in (("cpu_cores", "cores"), ("memory", "GB")):
            if name in jobs and table.sound.any():
                per_gpu = float(np.median(jobs[name][table.sound] / jobs["num_gpus"][table.sound]))
                notes.append(f"{name}: median {per_gpu:.3g} {unit} per GPU; checked, not used by the world")
        if self._has("batch_size") and not self._has("work"):
            notes.append("batch sizes are not used: jobs run at their model's usual batch size")
        return notes

    def _has(self, name: str) -> bool:
        return self.columns.get(name) is not None

    def _column(self, name: str) -> str:
        return str(self.columns[name])

    def _unit(self, name: str) -> str:
        name = "submit_time" if name == "begin_time" else name
        return self.units.get(name) or UNITS[name][0]


def _is_time(name: str) -> bool:
    return name in ("submit_time", "start_time", "end_time")


def _is_layout(unit: str) -> bool:
    return "%" in unit or unit == "ISO8601"
