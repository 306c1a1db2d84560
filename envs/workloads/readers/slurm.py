"""Slurm's accounting: what `sacct` prints, one job, or one run of it, per line."""

import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, ClassVar

import numpy as np
import numpy.typing as npt
import pandas as pd

from envs.types import BoolArray, FloatArray, TraceError, as_line
from envs.types.units import DAY
from envs.workloads.readers.clock import NO_ZONE_NOTE, midnight_before
from envs.workloads.readers.past import recorded_runs
from envs.workloads.readers.report import ReadReport
from envs.workloads.readers.sacct import COMMAND, ENDED, IDS, NOT_ENDED, read_sacct
from envs.workloads.readers.slurm_json import NO_TIME, UNLIMITED
from envs.workloads.readers.squeue import QUEUED
from envs.workloads.readers.table import MAX_GPUS, MAX_SECONDS, TextArray, TraceTable
from envs.workloads.waiting import known_dependencies

RERUN = ("BOOT_FAIL", "NODE_FAIL", "PREEMPTED", "REQUEUED")  # states of a run after which a job is queued again
HELD = ("JobHeldUser", "JobHeldAdmin")  # reasons of jobs that wait until somebody releases them
PARTITION_LIMIT = ("Partition_Limit", "")  # what Timelimit shows where the job had that of its partition
_ELAPSED = re.compile(r"(?:(\d{1,5})-)?(?:(\d{1,5}):)?(\d{1,2}):(\d{1,2}(?:\.\d{1,9})?)", re.ASCII)
_GPUS = re.compile(r"gres/gpu(?::([^=,]+))?=(\d{1,9})", re.ASCII)
# What users asked of sbatch, in SubmitLine.
_DEPENDENCY = re.compile(r"(?:--dependency[= ]|\s-d ?)(\S+)")
_ARRAY_LIMIT = re.compile(r"(?:--array[= ]|\s-a ?)\S*?%(\d{1,9})", re.ASCII)
_REQUEUE = re.compile(r"--requeue\b")
_NICE = re.compile(r"--nice(?:=(-?\d{1,10}))?(?=\s|$)", re.ASCII)  # 100 without a number
TIME_FORM = "must be a time like 1-07:30:00"


@dataclass(frozen=True)
class SlurmTrace:
    """The jobs of a Slurm cluster, by the format that `man sacct` documents.

    The file is the output of `sacct` (`readers.sacct.COMMAND`) with --parsable2, --parsable or --json, or exported as
    comma-separated values, with any further columns, and without `--allocations` too. `JobID` or `JobIDRaw`, `State`,
    `Submit`, `Elapsed` and `AllocTRES` are needed; `Account`, or else `User`, becomes the tenant, and `User` and
    `JobName` are kept. `Partition` and, with `gpu_types`, the GPU type say where a job ran, and so where it may run
    (`workload.constraints`). `Timelimit` is its time limit (`workload.limits`). A job is held until the jobs on which
    it depends have ended, or without a dependency until it was eligible (`workload.holds`). Priority, QoS, numbers of
    nodes, requeue and limits of arrays are read and not enforced. A task of a job array is a job. Job
    steps (123.batch, 123.0), jobs that have not ended, and jobs without GPUs or a run time are skipped. Failed,
    cancelled and timed-out jobs are kept, because they held their GPUs; `states` chooses others.

    A requeued job has one line per run under `--duplicates`, and its `Submit` is reset each time (man sacct). It is one
    job, submitted with its first run; the last run, the only one without that option, is its duration, since a
    requeued script begins anew. Models are assigned afterwards. t = 0 is the midnight before the first job.

    Args:
        states: the states to keep, such as [COMPLETED]; all in which a job has ended if empty.
        gpu_types: Slurm's name of a GPU type, such as a100 in gres/gpu:a100=2 -> ours; if it is not empty, jobs on
            other types are bad rows. If it is empty, all durations are taken as measured on `gpu_type`.
        timezone: IANA name of the zone of the times, such as Europe/Berlin; None uses them unchanged.
        default_limits: partition -> time limit, such as 1-00:00:00 or seconds, of its jobs whose `Timelimit` is empty
            or Partition_Limit; "" stands for all other partitions. Without one, such jobs have no limit.
    """

    states: Sequence[str] = ()
    gpu_types: Mapping[str, str] = field(default_factory=dict)
    gpu_type: str = "V100"
    gpus_per_node: int = 8
    timezone: str | None = None
    default_limits: Mapping[str, str | float] = field(default_factory=dict)
    name: ClassVar[str] = "slurm"
    location: ClassVar[str] = "traces/slurm/jobs.txt"
    source: ClassVar[str] = f"your own cluster: {COMMAND}"

    def read(self, path: Path, *, strict: bool = False) -> tuple[pd.DataFrame, ReadReport]:
        """Return the jobs and the report; see `TraceReader.read`."""
        table = read_sacct(path, strict=strict)
        submit, own, runs = self._leave_out(table)
        limits = self._limits(table)
        queue = QUEUED in table.columns
        duration = limits["time_limit"] if queue else _seconds(table)
        num_gpus, types = _gpus(table)
        table.skip_idle(duration, num_gpus)
        first = submit[table.sound].min(initial=np.inf)
        if self.states:
            table.select("State", self.states, "workload.reader.states", "other states")
        columns = {
            "submit_time": submit,
            "duration": duration,
            "num_gpus": num_gpus,
            "id": table.text("JobID"),
        }
        for column, theirs in (("user", "User"), ("name", "JobName")):
            if theirs in table.columns:
                columns[column] = table.text(theirs)
        if owner := next((each for each in ("Account", "User") if each in table.columns), None):
            columns["tenant"] = table.text(owner)
        notes = ["failed, cancelled and timed-out jobs are kept with the time that they ran"] if not self.states else []
        if queue:
            notes = ["jobs that wait or run are expected to run until their time limits, or reader.default_limits"]
        if "Partition" in table.columns:
            columns["pool"] = table.text("Partition")
        columns |= limits
        if limits and not queue:  # what a job that timed out needed is unknown, but it was more than its limit
            beyond = limits["time_limit"] * (1.0 + 1e-6)
            timed_out = (table.text("State") == "TIMEOUT") & (duration >= 0.99 * beyond)
            columns["duration"] = np.where(timed_out, np.maximum(duration, beyond), duration)
        columns |= _shown(table, own, self.timezone)
        columns |= _past(table, submit, runs, self.timezone)
        notes += _hold(columns, table, submit)
        notes += _say_shown(columns, table)
        if self.gpu_types:
            columns["gpu_type"] = self._translated(table, types)
            columns["ran_on"] = np.where(types == "", "", columns["gpu_type"])
        elif named := sorted(set(types[table.sound]) - {""}):
            notes.append(
                f"GPU types {', '.join(named)} all count as {self.gpu_type}; reader.gpu_types tells them apart"
            )
        if table.lacks_zone:
            notes.append(NO_ZONE_NOTE)
        return table.finish(columns, notes=notes, origin=midnight_before(first, self.timezone))

    def _leave_out(self, table: TraceTable) -> tuple[FloatArray, FloatArray, BoolArray]:
        """Skip rows that are no last run of a job that has ended; `State` becomes one word.

        Returns:
            float64[num_rows]: the submission of each job, with its first run; that of the row's own run; and
            bool[num_rows]: the rows of runs, of jobs that are kept and others.
        """
        ids = table.text("JobID")
        table.skip(np.isin(ids, IDS), "repeated header lines")
        table.skip(np.array(["." in each for each in ids]), "job steps")
        states = np.array([(text.split() or [""])[0].rstrip("+") for text in table.text("State")], dtype=object)
        known = [*ENDED, *NOT_ENDED]
        table.reject(~np.isin(states, known), "State", f"must be one of {', '.join(known)}")
        table.columns["State"] = states
        rerun = table.sound & np.isin(states, RERUN)
        if QUEUED in table.columns:
            table.skip(np.isin(states, ENDED), "ended")
            table.skip(np.isin(table.text("Reason"), HELD), "held by their users or by administrators")
        else:
            table.skip(np.isin(states, NOT_ENDED), "not ended")
        table.skip_duplicates()
        table.skip(np.isin(table.text("Submit"), NO_TIME), "no recorded submission")
        submit = table.times("Submit", "ISO8601", self.timezone)
        earlier = pd.Series(submit).where(rerun & (submit > 0)).groupby(ids).min()
        runs = pd.Series(ids).where(table.sound)
        table.skip((runs.duplicated(keep="last") & runs.notna()).to_numpy(), "earlier runs of requeued jobs")
        first: FloatArray = np.fmin(submit, earlier.reindex(ids).to_numpy(np.float64))
        return first, submit, rerun | table.sound

    def _limits(self, table: TraceTable) -> dict[str, FloatArray]:
        """Return the time limits of the rows, in seconds, 0 for none; nothing if the file has none."""
        if "Timelimit" not in table.columns and not self.default_limits:
            return {}
        usual = {name: _limit_of(name, value) for name, value in self.default_limits.items()}
        texts = table.columns.get("Timelimit", np.full(len(table), "", dtype=object))
        pools = table.columns.get("Partition", np.full(len(table), "", dtype=object))
        found = np.array(
            [
                usual.get(pool, usual.get("", 0.0)) if text in PARTITION_LIMIT else _seconds_of(text)
                for text, pool in zip(texts, pools, strict=True)
            ]
        )
        if "Timelimit" in table.columns:
            table.reject(np.isnan(found), "Timelimit", f"{TIME_FORM}, {UNLIMITED} or {PARTITION_LIMIT[0]}")
            table.reject(found > MAX_SECONDS, "Timelimit", f"must be at most ten years, or {UNLIMITED}")
        return {"time_limit": np.nan_to_num(found)}

    def _translated(self, table: TraceTable, types: TextArray) -> TextArray:
        """object[num_rows]: our names of the rows' GPU types; `gpu_type` where a row names none."""
        ours = {"": self.gpu_type, **{str(theirs): mine for theirs, mine in self.gpu_types.items()}}
        wrong = np.array([name not in ours for name in types])
        table.reject(wrong, "AllocTRES", f"must have GPUs of {', '.join(ours)[2:]} (reader.gpu_types)")
        made = np.empty(len(types), dtype=object)
        made[:] = [ours.get(name, self.gpu_type) for name in types]
        return made


def _seconds_of(text: str) -> float:
    """Return a time, written as [days-]hours:minutes:seconds, in seconds; 0 for an unlimited one, NaN for none."""
    if text == UNLIMITED:
        return 0.0
    parts = _ELAPSED.fullmatch(text)
    if parts is None:
        return float("nan")
    days, hours, minutes, seconds = map(float, parts.groups(default="0"))
    return days * DAY + hours * 3600.0 + minutes * 60.0 + seconds


def _limit_of(partition: str, value: Any) -> float:
    """Return a setting of `default_limits` in seconds.

    Raises:
        TraceError: it is no time.
    """
    number = isinstance(value, int | float) and not isinstance(value, bool)
    seconds = float(value) if number else _seconds_of(str(value))
    if not 0 <= seconds <= MAX_SECONDS:
        raise TraceError(
            f"workload.reader.default_limits.{str(partition)[:40]} is {str(value)[:40]!r}; it {TIME_FORM}, "
            f"{UNLIMITED}, or a number of seconds"
        )
    return seconds


def _shown(table: TraceTable, submit: FloatArray, timezone: str | None) -> dict[str, npt.NDArray[Any]]:
    """Return the columns that are read and not enforced, of those that the file has; empty cells state nothing."""
    found: dict[str, npt.NDArray[Any]] = {}
    for column, name in (("Priority", "priority"), ("NNodes", "ran_on_nodes"), ("ArrayLimit", "array_limit")):
        if column in table.columns:
            found[name] = table.numbers(column, high=1e12, empty=0.0)
    for column, name in (("QOS", "qos"), ("Dependency", "dependency"), ("Requeue", "requeue")):
        if column in table.columns:
            found[name] = table.text(column)
    if "Eligible" in table.columns:
        after = table.times("Eligible", "ISO8601", timezone, NO_TIME) - submit
        found["eligible_after"] = np.maximum(np.nan_to_num(after), 0.0)
    if "SubmitLine" in table.columns:
        lines = [f" {text}" for text in table.text("SubmitLine")]
        asked: dict[str, list[Any]] = {
            "dependency": [match[1] if (match := _DEPENDENCY.search(line)) else "" for line in lines],
            "requeue": ["1" if _REQUEUE.search(line) else "" for line in lines],
            "array_limit": [float(match[1]) if (match := _ARRAY_LIMIT.search(line)) else 0.0 for line in lines],
        }
        asked["nice"] = [float(match[1] or 100) if (match := _NICE.search(line)) else 0.0 for line in lines]
        for name, values in asked.items():
            found.setdefault(name, np.array(values, dtype=np.float64 if name in ("array_limit", "nice") else object))
    return found


def _past(table: TraceTable, submit: FloatArray, runs: BoolArray, timezone: str | None) -> dict[str, npt.NDArray[Any]]:
    """Return the columns about what really happened, see `envs.workloads.recorded`, of those that the file has."""
    found: dict[str, npt.NDArray[Any]] = {}
    if "NodeList" in table.columns:
        nodes = table.text("NodeList")
        found["nodes"] = np.where(np.isin(nodes, ("None assigned", "(null)")), "", nodes)
    if "Start" not in table.columns:
        return found
    started = table.text("State") == "RUNNING" if QUEUED in table.columns else np.ones(len(table), np.bool_)
    start = np.where(started, table.times("Start", "ISO8601", timezone, NO_TIME), np.nan)
    end = np.full(len(table), np.nan)
    if "End" in table.columns:
        end = table.times("End", "ISO8601", timezone, NO_TIME)
    ran = np.array([_seconds_of(text) for text in table.text("Elapsed")], np.float64)
    ids = table.text("JobID")
    each = pd.DataFrame({"id": ids, "start": np.where(start > 0, start, np.nan), "ran": ran})[runs].dropna()
    each = each.drop_duplicates(["id", "start"]).groupby("id").agg({"start": ["min", "count"], "ran": "sum"})
    first, attempts, ran = each.reindex(ids).to_numpy(np.float64).T
    return found | recorded_runs(table, submit, first, end, ran) | {"attempts": np.nan_to_num(attempts)}


def _hold(columns: dict[str, npt.NDArray[Any]], table: TraceTable, submit: FloatArray) -> list[str]:
    """Keep the dependencies that the world has, on jobs of the file; jobs without one begin when they were eligible.

    Returns:
        A note on those that are left out.
    """
    problems: list[str] = []
    if "dependency" in columns:
        kept = table.sound
        columns["dependency"], problems = known_dependencies(columns["dependency"], table.text("JobID"), submit, kept)
        problems = [why for why, sound in zip(problems, kept, strict=True) if why and sound]
    if "eligible_after" in columns:
        waits = columns["dependency"] != "" if "dependency" in columns else np.zeros(len(table), np.bool_)
        columns["begin_after"] = np.where(waits, 0.0, columns["eligible_after"])
    if not problems:
        return []
    return [f"{len(problems):,} dependencies are not enforced, as of {as_line(problems[0])}"]


def _say_shown(columns: Mapping[str, npt.NDArray[Any]], table: TraceTable) -> list[str]:
    """Say what was read and is not enforced."""
    words = {
        "priority": "a priority",
        "qos": "a QoS",
        "requeue": "a word on requeueing",
        "array_limit": "a limit on running tasks of their array",
    }
    said = []
    for name, what in words.items():
        stated = columns[name][table.sound] if name in columns else np.zeros(0)
        if count := int((stated != (0.0 if stated.dtype.kind == "f" else "")).sum()):
            said.append(f"{what} ({count:,} jobs)")
    return [f"read, and not enforced: jobs state {', '.join(said)}"] if said else []


def _seconds(table: TraceTable) -> FloatArray:
    """float64[num_rows]: `Elapsed` in seconds; 0 in bad rows."""
    seconds: FloatArray = np.array([_seconds_of(text) for text in table.text("Elapsed")], np.float64)
    table.reject(np.isnan(seconds) | (table.text("Elapsed") == UNLIMITED), "Elapsed", TIME_FORM)
    seconds = np.nan_to_num(seconds)
    table.reject(seconds > MAX_SECONDS, "Elapsed", "must be at most ten years")
    return seconds


def _gpus(table: TraceTable) -> tuple[FloatArray, TextArray]:
    """float64[num_rows], GPUs in `AllocTRES`; and object[num_rows], their type, "" if it is not stated."""
    found = [dict(_GPUS.findall(text)) for text in table.text("AllocTRES")]
    typed = [{name: float(number) for name, number in each.items() if name} for each in found]
    num_gpus = np.array([float(each.get("") or sum(own.values())) for each, own in zip(found, typed, strict=True)])
    table.reject(np.array([len(own) > 1 for own in typed]), "AllocTRES", "must have GPUs of one type")
    table.reject(num_gpus > MAX_GPUS, "AllocTRES", f"must have at most {MAX_GPUS} GPUs")
    types = np.empty(len(found), dtype=object)
    types[:] = [next(iter(own), "") for own in typed]
    return num_gpus, types
