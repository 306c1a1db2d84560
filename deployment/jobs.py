"""The folder of one job, through which its processes and the bridge agree: lock, progress, and the order to go on.

Only the standard library is imported: a job starts within some hundredths of a second.
"""

import fcntl
import json
import os
import threading
import time
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import asdict, dataclass
from pathlib import Path

PROGRESS = "progress.json"
ORDER = "order.json"
LOCK = "lock"
ORDER_INTERVAL = 0.05  # seconds of real time between two looks for an order
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
    _write(folder, PROGRESS, asdict(progress))


@dataclass(frozen=True)
class GoOnOrder:
    """The order to a running segment: stop with a checkpoint, wait until nodes are released, go on as the next one.

    Attributes:
        segment: number of the next segment.
        command: its command, which takes the place of the process of the one before.
        released: whether the nodes that it does without are released.
    """

    segment: int
    command: Sequence[str]
    released: bool


def read_order(folder: Path, segment: int) -> GoOnOrder | None:
    """Return the order that concerns a running segment; None if there is none."""
    try:
        found = GoOnOrder(**json.loads((folder / ORDER).read_text(encoding="utf-8")))
        words = found.command if isinstance(found.command, list) else []
        fits = isinstance(found.segment, int) and words and all(isinstance(word, str) for word in words)
        return found if fits and found.segment > segment else None
    except (OSError, ValueError, TypeError):
        return None


def write_order(folder: Path, order: GoOnOrder) -> None:
    """Write an order, as a whole."""
    _write(folder, ORDER, asdict(order))


def go_on(folder: Path, segment: int, stop: threading.Event) -> None:
    """Run the next segment in the place of this process once nodes are released, if there is an order to that.

    Returns where this segment was not stopped by an order, or `stop` is set meanwhile.
    """
    report = read_report(folder)
    if report is None or (report.segment, report.state) != (segment, STOPPED):
        return
    while (order := read_order(folder, segment)) is not None and not stop.is_set():
        if order.released:
            os.execvp(order.command[0], list(order.command))
        stop.wait(ORDER_INTERVAL)


def _write(folder: Path, name: str, content: object) -> None:
    part = folder / f".{name}.{os.getpid()}"
    with part.open("x", encoding="utf-8") as file:
        json.dump(content, file)
        file.flush()
        os.fsync(file.fileno())
    part.replace(folder / name)


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
