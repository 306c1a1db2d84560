"""Microsoft Philly as published: `cluster_job_log`, a JSON list of jobs with their scheduling attempts."""

import json
from dataclasses import dataclass
from datetime import UTC, datetime, tzinfo
from pathlib import Path
from typing import Any, ClassVar

import numpy as np
import pandas as pd

from envs.types import TraceError
from envs.workloads.readers.clock import find_zone, midnight_before
from envs.workloads.readers.files import CHARACTERS_PER_VALUE, most_characters, read_text
from envs.workloads.readers.past import recorded_runs
from envs.workloads.readers.philly import CLOCK_NOTE
from envs.workloads.readers.report import ReadReport
from envs.workloads.readers.table import MAX_GPUS, TraceTable

LAYOUT = "%Y-%m-%d %H:%M:%S"
EARLIEST_YEAR = 1970  # some systems write 0001-01-01 for "none"
FACTS = ("submitted_time", "vc", "jobid", "user", "verdict", "duration", "gpus", "start", "end", "attempts", "nodes")
UNKNOWN = ("",) * 6  # the facts after the verdict
NO_ATTEMPT, NO_TIMES = "no recorded attempt", "an attempt without recorded start or end"


@dataclass(frozen=True)
class PhillyRawTrace:
    """117,325 jobs, August to December 2017 (Jeon et al., ATC'19; philly-traces), read by the published schema.

    A job's duration is the time of all its attempts together, since a retry held GPUs as well. Its number of GPUs is
    that of its last attempt. Jobs that never ran and jobs without recorded times are skipped. t = 0 is the midnight
    before the first job. Virtual clusters become tenants, and users are kept. Models are assigned afterwards.
    P100 as the GPU type is an assumption.

    Args:
        timezone: IANA name of the zone of the times, such as America/Los_Angeles; None uses them unchanged.
    """

    gpu_type: str = "P100"
    gpus_per_node: int = 8
    timezone: str | None = None
    name: ClassVar[str] = "philly_raw"
    location: ClassVar[str] = "traces/philly/cluster_job_log"
    source: ClassVar[str] = "github.com/msr-fiddle/philly-traces: unpack cluster_job_log out of its trace-data.tar.gz"

    def read(self, path: Path, *, strict: bool = False) -> tuple[pd.DataFrame, ReadReport]:
        """Return the jobs and the report; row numbers are those of entries, from 1. See `TraceReader.read`."""
        entries = _entries(path)
        zone = UTC if self.timezone is None else find_zone(self.timezone)
        facts = [_facts(entry, zone) for entry in entries]
        columns = {name: [fact[at] for fact in facts] for at, name in enumerate(FACTS)}
        table = TraceTable(self.name, path, columns, range(1, len(entries) + 1), strict=strict)
        verdict = table.text("verdict")
        for reason in (NO_ATTEMPT, NO_TIMES):
            table.skip(verdict == reason, reason)
        table.reject(verdict != "", "verdict", "must have the keys and times of a Philly job")
        submit = table.times("submitted_time", LAYOUT, self.timezone)
        duration = table.numbers("duration")
        num_gpus = table.numbers("gpus", high=MAX_GPUS, whole=True)
        start, end = (table.times(name, LAYOUT, self.timezone) for name in ("start", "end"))
        table.skip_idle(duration, num_gpus)
        first = submit[table.sound].min(initial=np.inf)
        kept = {
            "submit_time": submit,
            "duration": duration,
            "num_gpus": num_gpus,
            "tenant": table.text("vc"),
            "id": table.text("jobid"),
            "user": table.text("user"),
            "attempts": table.numbers("attempts"),
            "nodes": table.text("nodes"),
            **recorded_runs(table, submit, start, end, duration),
        }
        note = "a job's duration is that of all its attempts, its number of GPUs that of the last"
        notes = (note, CLOCK_NOTE) if self.timezone is None else (note,)
        return table.finish(kept, notes=notes, origin=midnight_before(first, self.timezone))


def _entries(path: Path) -> list[Any]:
    text = read_text(path)
    most = most_characters() // CHARACTERS_PER_VALUE
    if sum(map(text.count, ",[{")) > most:
        raise TraceError(f"{path}: has more than {most:,} values; cut it into parts")
    try:
        entries = json.loads(text, object_pairs_hook=_unique)
    except RecursionError as error:
        raise TraceError(
            f"{path}: is nested too deeply for a cluster_job_log; give the file of trace-data.tar.gz"
        ) from error
    except ValueError as error:
        raise TraceError(f"{path}: is not the JSON of a cluster_job_log ({error}); download the file again") from error
    if not isinstance(entries, list) or not entries:
        raise TraceError(f"{path}: has no jobs; a cluster_job_log is a JSON list with an object for each job")
    return entries


def _unique(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
    """Return a JSON object.

    Raises:
        ValueError: a key stands twice in it.
    """
    found = dict(pairs)
    if len(found) != len(pairs):
        twice = next(key for at, (key, _) in enumerate(pairs) if key in dict(pairs[:at]))
        raise ValueError(f"the key {twice[:40]!r} stands twice in one object")
    return found


def _text(entry: dict[str, Any], key: str) -> str:
    """Return a value as text, "" if it is missing or null."""
    value = entry.get(key)
    return "" if value is None else str(value)


def _facts(entry: Any, zone: tzinfo) -> tuple[str, ...]:
    """Return `FACTS` of one entry as text; the verdict is why it is left out."""
    if not isinstance(entry, dict):
        return "", "", "", "", f"{type(entry).__name__} instead of an object", *UNKNOWN
    who = [_text(entry, key) for key in FACTS[:4]]
    try:
        attempts = entry["attempts"]
        if not attempts:
            return *who, NO_ATTEMPT, *UNKNOWN
        spans = [(attempt["start_time"], attempt["end_time"]) for attempt in attempts]
        if any(time in (None, "None", "") for span in spans for time in span):
            return *who, NO_TIMES, *UNKNOWN
        dates = [(datetime.strptime(start, LAYOUT), datetime.strptime(end, LAYOUT)) for start, end in spans]
        if any(date.year < EARLIEST_YEAR for span in dates for date in span):
            return *who, f"an attempt before {EARLIEST_YEAR}", *UNKNOWN
        instants = [[date.replace(tzinfo=zone).astimezone(UTC) for date in span] for span in dates]
        duration = sum((end - start).total_seconds() for start, end in instants)
        gpus = sum(len(node["gpus"]) for node in attempts[-1]["detail"])
        nodes = ",".join(_text(node, "ip") for node in attempts[-1]["detail"])
    except (KeyError, TypeError, ValueError, AttributeError, OverflowError) as error:
        return *who, f"{type(error).__name__}: {error}", *UNKNOWN
    return *who, "", str(duration), str(gpus), spans[0][0], spans[-1][1], str(len(spans)), nodes
