"""The folder of one job, through which its processes and the bridge agree: lock, progress, and the order to stop.

Only the standard library is imported: a job starts within some hundredths of a second.
"""

import fcntl
import json
import os
import time
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import asdict, dataclass
from pathlib import Path

PROGRESS = "progress.json"
LOCK = "lock"
STARTED, RUNNING, STOPPED, DONE = "started", "running", "stopped", "done"


@dataclass(frozen=True)
class JobReport:
    """The progress of a job, as its processes report it.

    Attributes:
        segment: number of the start, from 1; a job that was stopped goes on in the next one.
        state: STARTED while it loads its checkpoint, RUNNING, STOPPED with a checkpoint, or DONE.
        work_done: samples at `updated`; those of the last checkpoint once it has stopped.
        throughput: samples/s of real time; 0 while it does not process any.
        began: when the segment's first process ran, in seconds of real time since 1970.
        ready: when it processed its first sample; that is expected until then.
        updated: when this was written.
    """

    segment: int
    state: str
    work_done: float
    throughput: float
    began: float
    ready: float
    updated: float


def read_report(folder: Path) -> JobReport | None:
    """Return what a job has reported; None if there is nothing readable yet."""
    try:
        content = json.loads((folder / PROGRESS).read_text(encoding="utf-8"))
        found = JobReport(**content)
        numbers = (found.work_done, found.throughput, found.began, found.ready, found.updated)
        fits = isinstance(found.segment, int) and found.state in (STARTED, RUNNING, STOPPED, DONE)
        return found if fits and all(isinstance(each, int | float) and each >= 0 for each in numbers) else None
    except (OSError, ValueError, TypeError):
        return None


def write_progress(folder: Path, progress: JobReport) -> None:
    """Write what a job has done, as a whole: a reader sees the old report or the new one."""
    part = folder / f".{PROGRESS}.{os.getpid()}"
    with part.open("x", encoding="utf-8") as file:
        json.dump(asdict(progress), file)
        file.flush()
        os.fsync(file.fileno())
    part.replace(folder / PROGRESS)


@contextmanager
def only_one(folder: Path) -> Iterator[None]:
    """Wait until no other process of the job runs, on any node that sees the folder, and keep it so."""
    with (folder / LOCK).open("ab") as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)
        yield


def begin_segment(folder: Path, segment: int) -> JobReport | None:
    """Return the progress with which a segment begins, to be called under `only_one`; None if it must not run.

    It must not if a later segment has run or the job is done: then this start was repeated, or came late.
    """
    before = read_report(folder)
    now = time.time()
    if before is None:
        return JobReport(segment, STARTED, 0.0, 0.0, now, now, now)
    if before.state == DONE or before.segment >= segment:
        return None
    return JobReport(segment, STARTED, before.work_done, 0.0, now, now, now)
