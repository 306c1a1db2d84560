"""The folder of one job, through which its processes and the bridge agree: lock, progress, and the order to go on.

Only the standard library is imported: a job starts within some hundredths of a second.
"""

import fcntl
import json
import os
import stat
import threading
import time
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import asdict, dataclass, fields
from pathlib import Path
from typing import Any

PROGRESS = "progress.json"
ORDER = "order.json"
LOCK = "lock"
ORDER_INTERVAL = 0.05  # seconds of real time between two looks for an order
STARTED, RUNNING, STOPPED, DONE = STATES = "started", "running", "stopped", "done"
MOST_BYTES = 64 * 1024  # of a file that a job writes
MOST_SEGMENTS = 10**9
# The largest numbers of a report: samples, samples/s, and seconds since 1970.
MOST = {"work_done": 1e18, "throughput": 1e15, "began": 1e11, "ready": 1e11, "updated": 1e11}


class BadReportError(ValueError):
    """A file in a job's folder that is no report; the message names the file and what is wrong, never its content."""


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


def load_report(folder: Path) -> JobReport | None:
    """Return what a job has reported; None if there is nothing yet. The file may be anything: a job can write there.

    Raises:
        BadReportError: it is no report.
    """
    content = _read(folder, PROGRESS)
    if content is None:
        return None
    names = {field.name for field in fields(JobReport)}
    if set(content) != names:
        raise BadReportError(f"{PROGRESS}: has other fields than {', '.join(sorted(names))}")
    segment = content["segment"]
    if isinstance(segment, bool) or not isinstance(segment, int) or not 0 < segment <= MOST_SEGMENTS:
        raise BadReportError(f"{PROGRESS}: segment is no whole number from 1 to {MOST_SEGMENTS}")
    if content["state"] not in STATES:
        raise BadReportError(f"{PROGRESS}: state is none of {', '.join(STATES)}")
    for name, most in MOST.items():
        value = content[name]
        if isinstance(value, bool) or not isinstance(value, int | float) or not 0 <= value <= most:
            raise BadReportError(f"{PROGRESS}: {name} is no number from 0 to {most:g}")
    return JobReport(segment, content["state"], *(float(content[name]) for name in MOST))


def read_report(folder: Path) -> JobReport | None:
    """Return what a job has reported; None if there is no report yet, or none that can be read."""
    try:
        return load_report(folder)
    except BadReportError:
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
        found = GoOnOrder(**(_read(folder, ORDER) or {}))
    except (BadReportError, TypeError):
        return None
    words = found.command if isinstance(found.command, list) else []
    fits = isinstance(found.segment, int) and words and all(isinstance(word, str) for word in words)
    return found if fits and found.segment > segment else None


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


def _read(folder: Path, name: str) -> dict[str, Any] | None:
    """Return the JSON object in a file; None if there is no file. Links, pipes and devices are not followed.

    Raises:
        BadReportError: it is no regular file of at most `MOST_BYTES`, or has no JSON object.
    """
    try:
        descriptor = os.open(folder / name, os.O_RDONLY | os.O_NOFOLLOW | os.O_NONBLOCK | os.O_CLOEXEC)
    except FileNotFoundError:
        return None
    except OSError as error:
        raise BadReportError(f"{name}: cannot be opened ({error.strerror})") from None
    try:
        if not stat.S_ISREG(os.fstat(descriptor).st_mode):
            raise BadReportError(f"{name}: is no regular file")
        text = os.read(descriptor, MOST_BYTES + 1)
    except OSError as error:
        raise BadReportError(f"{name}: cannot be read ({error.strerror})") from None
    finally:
        os.close(descriptor)
    if len(text) > MOST_BYTES:
        raise BadReportError(f"{name}: has more than {MOST_BYTES} bytes")
    try:
        found = json.loads(text)
    except (ValueError, RecursionError):
        raise BadReportError(f"{name}: is no JSON") from None
    if not isinstance(found, dict):
        raise BadReportError(f"{name}: is no JSON object")
    return found


def _write(folder: Path, name: str, content: object) -> None:
    text = json.dumps(content, allow_nan=False)
    # Process ids repeat, in containers above all, so that a killed process may have left a file with this one's id.
    part = folder / f".{name}.{os.getpid()}.{time.time_ns()}"
    try:
        with part.open("x", encoding="utf-8") as file:
            file.write(text)
            file.flush()
            os.fsync(file.fileno())
        part.replace(folder / name)
    except BaseException:
        part.unlink(missing_ok=True)
        raise


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
    for part in folder.glob(f".{PROGRESS}.*"):  # of processes that were killed while they wrote
        part.unlink(missing_ok=True)
    before = read_report(folder)
    now = time.time()
    if before is None:
        return JobReport(segment, STARTED, 0.0, 0.0, now, now, now)
    if before.state == DONE or before.segment >= segment:
        return None
    return JobReport(segment, STARTED, before.work_done, 0.0, now, now, now)
