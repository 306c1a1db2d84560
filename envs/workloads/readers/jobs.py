"""The project's own schema of jobs, murmuration-jobs-1, in CSV or Parquet; jobs of every reader convert to it."""

from dataclasses import dataclass, fields
from datetime import UTC, datetime
from pathlib import Path
from typing import Any, ClassVar

import numpy as np
import numpy.typing as npt
import pandas as pd

from envs.types import ExecutionPlan, TraceError
from envs.types.units import DAY
from envs.workloads.readers.csv_trace import FIELDS, CsvTrace
from envs.workloads.readers.report import SOURCE_ATTRIBUTE, ReadReport
from envs.workloads.readers.table import MAX_SECONDS, TraceTable, read_csv
from envs.workloads.recorded import ZERO_ATTRIBUTE

SCHEMA = "murmuration-jobs-1"
OF_FILE = ("schema", "trace", "node_gpus", "zero_time")  # columns that have one value in all rows
AFTER = ("begin_after", "start_after", "end_after", "waited")  # seconds; the first three after submission
UNKNOWN_IS_NAN = ("duration", "work", *AFTER[1:])  # in all other columns of numbers, 0 says nothing
OWN_TIMES = ("start_time", "end_time", "begin_time")  # fields of `CsvTrace` that have another name here
COLUMNS = (*OF_FILE, *(name for name in FIELDS if name not in (*OWN_TIMES, "batch_size")), *AFTER, "ran_on", "plan")
"""The columns of the schema; docs/traces.md says what each holds."""


@dataclass(frozen=True)
class JobsTrace:
    """A file of the schema murmuration-jobs-1, see docs/traces.md.

    `submit_time` counts from the `zero_time` of the file; Unix times count from the midnight before the first.

    Args:
        gpu_type: GPU type on which durations were measured, where the file has no column for it.
        gpus_per_node: GPUs of a usual node of the trace's cluster, where the file has no column `node_gpus`.
    """

    gpu_type: str = "V100"
    gpus_per_node: int = 8
    name: ClassVar[str] = "jobs"
    location: ClassVar[str] = "traces/jobs/jobs.csv"
    source: ClassVar[str] = "any trace: python scripts/convert_jobs.py <trace> jobs.csv workload=<its reader>"

    def read(self, path: Path, *, strict: bool = False) -> tuple[pd.DataFrame, ReadReport]:
        """Return the jobs and the report; see `TraceReader.read`."""
        table = read_csv(self.name, path, ("schema", "submit_time", "num_gpus"), strict=strict)
        of_file = {column: _one_value(table, column) for column in OF_FILE if column in table.columns}
        if of_file["schema"] != SCHEMA:
            raise TraceError(f"{path}: its schema is {of_file['schema'][:40]!r}; this version reads {SCHEMA}")
        if not {"duration", "work"} & set(table.columns):
            raise TraceError(f"{path}: has no column 'duration' or 'work'; one of them is needed")
        csv = CsvTrace({name: name for name in FIELDS if name in table.columns and name not in OWN_TIMES})
        jobs = {**csv.jobs(table), **_own_columns(table)}
        unread = [column for column in table.columns if column not in COLUMNS]
        notes = [f"columns that are not read: {', '.join(unread)}"] if unread else []
        first = jobs["submit_time"][table.sound].min(initial=np.inf)
        is_unix = MAX_SECONDS < first < np.inf
        frame, report = table.finish(jobs, notes=notes, origin=first // DAY * DAY if is_unix else 0.0)
        frame.attrs[SOURCE_ATTRIBUTE] = _source(table, of_file, self.gpus_per_node)
        if zero := of_file.get("zero_time"):
            frame.attrs[ZERO_ATTRIBUTE] = _date(table, zero)
        if is_unix:
            frame.attrs[ZERO_ATTRIBUTE] = datetime.fromtimestamp(first // DAY * DAY, UTC)
        return frame, report


def _one_value(table: TraceTable, column: str) -> str:
    values = list(dict.fromkeys(table.text(column)[table.sound]))
    if len(values) > 1:
        raise TraceError(f"{table.path}: its column {column} has {values[0][:40]!r} and {values[1][:40]!r}; give one")
    return str(values[0]) if values else ""


def _source(table: TraceTable, of_file: dict[str, str], gpus_per_node: int) -> tuple[str, int]:
    count = of_file.get("node_gpus") or str(gpus_per_node)
    if not (count.isascii() and count.isdigit() and 0 < int(count[:9]) == int(count[:10])):
        raise TraceError(f"{table.path}: its column node_gpus has {count[:40]!r}; it must be a whole number")
    return of_file.get("trace", ""), int(count)


def _date(table: TraceTable, text: str) -> datetime:
    try:
        found = datetime.fromisoformat(text)
    except ValueError:
        found = datetime.min
    if not 1970 <= found.year < 2100:
        raise TraceError(
            f"{table.path}: its column zero_time has {text[:40]!r}; it must be a time from 1970 to 2099, like "
            "2024-03-04T00:00:00+01:00"
        )
    return found


def _own_columns(table: TraceTable) -> dict[str, npt.NDArray[Any]]:
    """Return the columns that `CsvTrace` does not have."""
    found: dict[str, npt.NDArray[Any]] = {}
    for name in AFTER:
        if name in table.columns:
            found[name] = table.numbers(name, empty=0.0 if name == "begin_after" else np.nan)
    if "ran_on" in table.columns:
        found["ran_on"] = table.text("ran_on")
    if "plan" in table.columns:
        plans = found["plan"] = np.full(len(table), None, dtype=object)
        texts = table.text("plan")
        wrong = np.zeros(len(table), np.bool_)
        for row in np.flatnonzero(texts != ""):
            plans[row] = plan_of_text(texts[row])
            wrong[row] = plans[row] is None
        table.reject(wrong, "plan", "must be like 'data:2 tensor:4 zero_stage:2'")
    return found


def write_plan(plan: ExecutionPlan | None) -> str:
    """Return a plan as `plan_of_text` reads it: what differs from the plan of one GPU, at least `data`."""
    if plan is None:
        return ""
    values = {each.name: int(getattr(plan, each.name)) for each in fields(plan)}
    shown = [f"{each.name}:{values[each.name]}" for each in fields(plan)[1:] if values[each.name] != each.default]
    return " ".join([f"data:{plan.data}", *shown])


def plan_of_text(text: str) -> ExecutionPlan | None:
    """Return the plan of a text such as "data:2 tensor:4 zero_stage:2"; None if it is none."""
    forms = {each.name: type(getattr(ExecutionPlan(), each.name)) for each in fields(ExecutionPlan)}
    parts = [part.partition(":") for part in text.split()]
    if any(
        name not in forms or not (value.isascii() and value.isdigit()) or len(value) > 9 for name, _, value in parts
    ):
        return None
    try:
        return ExecutionPlan(**{name: forms[name](int(value)) for name, _, value in parts})
    except ValueError:
        return None


def jobs_table(frame: pd.DataFrame, trace: str, gpu_type: str, gpus_per_node: int) -> pd.DataFrame:
    """Return the jobs of any reader in the columns of the schema; those that say nothing are left out.

    Args:
        frame: see `TraceReader`.
        trace: name of the trace, by which names of models are understood.
        gpu_type: GPU type on which durations were measured where the frame does not say.
        gpus_per_node: GPUs of a usual node of the trace's cluster.
    """
    trace, gpus_per_node = frame.attrs.get(SOURCE_ATTRIBUTE, (trace, gpus_per_node))
    made = frame.assign(schema=SCHEMA, trace=trace, node_gpus=gpus_per_node)
    if (zero := frame.attrs.get(ZERO_ATTRIBUTE)) is not None:
        made["zero_time"] = zero.isoformat()
    if "gpu_type" not in frame and "work" not in frame:  # a type of a duration is no constraint without "ran_on"
        made["gpu_type"], made["ran_on"] = gpu_type, frame.get("ran_on", "")
    if "plan" in frame:
        made["plan"] = [write_plan(plan) for plan in frame["plan"]]
    kept = [name for name in COLUMNS if name in made and (name in OF_FILE[:3] or not _says_nothing(made[name]))]
    made = made[kept].reset_index(drop=True)
    made.attrs = {}
    return made


def _says_nothing(column: "pd.Series[Any]") -> bool:
    """Whether no row has a value that a file without the column would not have."""
    if column.name in ("submit_time", "num_gpus", "ran_on"):
        return False
    if column.dtype.kind not in "bif":
        return bool((column == "").all())
    return bool((column.isna() if column.name in UNKNOWN_IS_NAN else column == 0).all())
