"""Slurm's accounting: the output of `sacct --parsable2`, one line per job and job step."""

import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import ClassVar

import numpy as np
import pandas as pd

from envs.types import FloatArray
from envs.types.units import DAY
from envs.workloads.readers.clock import NO_ZONE_NOTE, midnight_before
from envs.workloads.readers.report import ReadReport
from envs.workloads.readers.table import MAX_GPUS, MAX_SECONDS, TextArray, TraceTable, read_csv

COLUMNS = ("JobID", "State", "Submit", "Elapsed", "AllocTRES")
# States of man sacct, JOB STATE CODES. The records of jobs in the others still change, or another record replaces them.
ENDED = (
    *("BOOT_FAIL", "CANCELLED", "COMPLETED", "DEADLINE", "FAILED", "NODE_FAIL", "OUT_OF_MEMORY", "PREEMPTED"),
    "TIMEOUT",
)
NOT_ENDED = ("PENDING", "REQUEUED", "RESIZING", "REVOKED", "RUNNING", "SUSPENDED")
NO_TIME = ("Unknown", "None", "")
_ELAPSED = re.compile(r"(?:(\d{1,5})-)?(?:(\d{1,5}):)?(\d{1,2}):(\d{1,2}(?:\.\d{1,9})?)", re.ASCII)
_GPUS = re.compile(r"gres/gpu(?::([^=,]+))?=(\d{1,9})", re.ASCII)


@dataclass(frozen=True)
class SlurmTrace:
    """The jobs of a Slurm cluster, by the format that `man sacct` documents.

    The file is the output of

        sacct --allusers --allocations --parsable2 --starttime=2024-01-01 --endtime=2024-02-01 \
            --format=JobID,JobName,User,Account,Partition,State,Submit,Elapsed,AllocTRES > jobs.txt

    with any further columns, and without `--allocations` too. `JobID`, `State`, `Submit`, `Elapsed` and `AllocTRES` are
    needed; `Account`, or else `User`, becomes the tenant, and `User` and `JobName` are kept. `Partition` and, with
    `gpu_types`, the GPU type say where a job ran, and so where it may run (`workload.constraints`). A task of a job
    array is a job. Job steps (123.batch, 123.0), jobs that have not ended, and jobs without GPUs or a run time are
    skipped. Of a requeued job, which has one line per run under `--duplicates`, the last run counts, as without that
    option. Failed, cancelled and timed-out jobs are kept, because they held their GPUs; `states` chooses others. Models
    are assigned afterwards. t = 0 is the midnight before the first job.

    Args:
        states: the states to keep, such as [COMPLETED]; all in which a job has ended if empty.
        gpu_types: Slurm's name of a GPU type, such as a100 in gres/gpu:a100=2 -> ours; if it is not empty, jobs on
            other types are bad rows. If it is empty, all durations are taken as measured on `gpu_type`.
        timezone: IANA name of the zone of the times, such as Europe/Berlin; None uses them unchanged.
    """

    states: Sequence[str] = ()
    gpu_types: Mapping[str, str] = field(default_factory=dict)
    gpu_type: str = "V100"
    gpus_per_node: int = 8
    timezone: str | None = None
    name: ClassVar[str] = "slurm"
    location: ClassVar[str] = "traces/slurm/jobs.txt"
    source: ClassVar[str] = (
        "your own cluster: sacct --allusers --allocations --parsable2 --starttime=<date> --endtime=<date> "
        "--format=JobID,JobName,User,Account,Partition,State,Submit,Elapsed,AllocTRES > jobs.txt"
    )

    def read(self, path: Path, *, strict: bool = False) -> tuple[pd.DataFrame, ReadReport]:
        """Return the jobs and the report; see `TraceReader.read`."""
        table = read_csv(self.name, path, COLUMNS, delimiter="|", quoted=False, strict=strict)
        self._leave_out(table)
        submit = table.times("Submit", "ISO8601", self.timezone)
        duration = _seconds(table)
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
        if "Partition" in table.columns:
            columns["pool"] = table.text("Partition")
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

    def _leave_out(self, table: TraceTable) -> None:
        """Skip rows that are no ended run of a job; `State` becomes one word."""
        ids = table.text("JobID")
        table.skip(ids == "JobID", "repeated header lines")
        table.skip(np.array(["." in each for each in ids]), "job steps")
        states = np.array([(text.split() or [""])[0].rstrip("+") for text in table.text("State")], dtype=object)
        known = [*ENDED, *NOT_ENDED]
        table.reject(~np.isin(states, known), "State", f"must be one of {', '.join(known)}")
        table.columns["State"] = states
        table.skip(np.isin(states, NOT_ENDED), "not ended")
        table.skip_duplicates()
        table.skip(np.isin(table.text("Submit"), NO_TIME), "no recorded submission")
        runs = pd.Series(ids).where(table.sound)
        table.skip((runs.duplicated(keep="last") & runs.notna()).to_numpy(), "earlier runs of requeued jobs")

    def _translated(self, table: TraceTable, types: TextArray) -> TextArray:
        """object[num_rows]: our names of the rows' GPU types; `gpu_type` where a row names none."""
        ours = {"": self.gpu_type, **{str(theirs): mine for theirs, mine in self.gpu_types.items()}}
        wrong = np.array([name not in ours for name in types])
        table.reject(wrong, "AllocTRES", f"must have GPUs of {', '.join(ours)[2:]} (reader.gpu_types)")
        made = np.empty(len(types), dtype=object)
        made[:] = [ours.get(name, self.gpu_type) for name in types]
        return made


def _seconds(table: TraceTable) -> FloatArray:
    """float64[num_rows]: `Elapsed`, written as [days-]hours:minutes:seconds, in seconds; 0 in bad rows."""
    found = [_ELAPSED.fullmatch(text) for text in table.text("Elapsed")]
    table.reject(np.array([each is None for each in found]), "Elapsed", "must be a time like 1-07:30:00")
    parts = [each.groups(default="0") if each else ("0",) * 4 for each in found]
    seconds: FloatArray = np.array(parts, dtype=np.float64) @ np.array([DAY, 3600.0, 60.0, 1.0])
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
