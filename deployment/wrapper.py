"""Runs one segment of an elastic training job: waits for the last one to end, and passes SIGTERM on.

python -m deployment.wrapper <folder> <segment> <grace> -- <command>

The command finds its folder and its segment in the environment, and reports its steps through `report_work`. On SIGTERM
it writes a checkpoint and ends; status 0 then means stopped, and without SIGTERM that all work is done. Where the
bridge orders to go on with fewer nodes, the command gets SIGTERM too, and then the next segment takes its place.
"""

import ctypes
import os
import signal
import subprocess
import sys
import threading
import time
from collections.abc import Collection, Sequence
from contextlib import suppress
from dataclasses import replace
from pathlib import Path

from deployment.jobs import (
    DONE,
    MOST,
    ORDER_INTERVAL,
    RUNNING,
    STARTED,
    STOPPED,
    JobReport,
    begin_segment,
    go_on,
    only_one,
    read_order,
    read_report,
    write_progress,
)

SUBREAPER = 36  # PR_SET_CHILD_SUBREAPER of Linux


def run_segment(folder: Path, segment: int, grace: float, command: Sequence[str], stop: threading.Event) -> int:
    """Run a command as one segment of a job.

    Args:
        folder: of the job, which all nodes see.
        segment: number of the start.
        grace: seconds from SIGTERM to SIGKILL.
        command: the training program.
        stop: set by SIGTERM.

    Returns:
        The status of the command; 0 where the segment must not run, see `begin_segment`.
    """
    with only_one(folder):
        progress = begin_segment(folder, segment)
        if progress is None:
            return 0
        write_progress(folder, progress)
        given = {"MURMURATION_FOLDER": str(folder), "MURMURATION_SEGMENT": str(segment)}
        others = set(find_descendants(os.getpid()))
        child = subprocess.Popen(command, env={**os.environ, **given})
        asked = None
        while child.poll() is None:
            if (stop.wait(ORDER_INTERVAL) or read_order(folder, segment)) and asked is None:
                child.send_signal(signal.SIGTERM)
                asked = time.monotonic()
            elif asked is not None:
                time.sleep(ORDER_INTERVAL)
                if time.monotonic() - asked > grace:
                    child.kill()
        end_descendants(others)  # before the report and the lock let the next segment begin on these GPUs
        last = read_report(folder) or progress
        ended = DONE if child.returncode == 0 and asked is None else STOPPED
        write_progress(folder, replace(last, state=ended, throughput=0.0, updated=time.time()))
        return child.returncode


def adopt_orphans() -> None:
    """Become the parent of processes whose own parent ends before them (Linux only)."""
    if sys.platform == "linux":
        ctypes.CDLL(None).prctl(SUBREAPER, 1, 0, 0, 0)


def end_descendants(others: Collection[int] = ()) -> None:
    """Kill all processes that descend from this one, but for `others`, and wait until they are gone."""
    while children := set(find_descendants(os.getpid())).difference(others):
        for each in children:
            with suppress(ProcessLookupError, ChildProcessError):
                os.kill(each, signal.SIGKILL)
                os.waitpid(each, os.WNOHANG)  # a child of a child is ours once its parent is gone
        time.sleep(0.001)


def find_descendants(process: int) -> list[int]:
    """Return the ids of all processes that descend from one."""
    parents: dict[int, int] = {}
    for entry in Path("/proc").glob("[0-9]*/stat"):
        with suppress(OSError, ValueError, IndexError):  # it has ended meanwhile
            parents[int(entry.parent.name)] = int(entry.read_text(errors="replace").rpartition(")")[2].split()[1])
    found, pending = [], [process]
    while pending:
        parent = pending.pop()
        children = [child for child, each in parents.items() if each == parent]
        found += children
        pending += children
    return found


def report_work(work_done: float, throughput: float) -> None:
    """Report what a training program has done; its first process calls this now and then, and after a checkpoint.

    Args:
        work_done: samples since the job first began.
        throughput: samples/s of late; what is no positive finite number counts as not known.

    Raises:
        ValueError: `work_done` is no number from 0 on.
    """
    done, given = float(work_done), float(throughput)
    if not 0 <= done <= MOST["work_done"]:
        raise ValueError(f"work_done is {work_done!r}; it must be a number of samples from 0 to {MOST['work_done']:g}")
    folder, segment = Path(os.environ["MURMURATION_FOLDER"]), int(os.environ["MURMURATION_SEGMENT"])
    now = time.time()
    before = read_report(folder) or JobReport(segment, STARTED, 0.0, 0.0, now, now, now)
    if before.segment != segment:
        return  # a later segment has begun
    ready = before.ready if before.state == RUNNING else now
    known = given if 0 < given <= MOST["throughput"] else 0.0
    report = replace(before, state=RUNNING, work_done=done, throughput=known, ready=ready, updated=now)
    try:
        write_progress(folder, report)
    except OSError as error:  # training goes on, and its next report may be written
        sys.stderr.write(f"{folder}: the report of {done:g} samples cannot be written ({error.strerror})\n")


def main() -> None:
    """Run the segment of the command line; the exit status is that of its command."""
    folder, segment, grace, dashes, *command = sys.argv[1:]
    assert dashes == "--"
    stop = threading.Event()
    signal.signal(signal.SIGTERM, lambda *_: stop.set())
    adopt_orphans()
    status = run_segment(Path(folder), int(segment), float(grace), command, stop)
    go_on(Path(folder), int(segment), stop)
    sys.exit(abs(status))


if __name__ == "__main__":
    main()
