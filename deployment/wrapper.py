"""Runs one segment of an elastic training job: waits for the last one to end, and passes SIGTERM on.

python -m deployment.wrapper <folder> <segment> <grace> -- <command>

The command finds its folder and its segment in the environment, and reports its steps through `report_work`. On SIGTERM
it writes a checkpoint and ends; status 0 then means stopped, and without SIGTERM that all work is done. Where the
bridge orders to go on with fewer nodes, the command gets SIGTERM too, and then the next segment takes its place.
"""

import os
import signal
import subprocess
import sys
import threading
import time
from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path

from deployment.jobs import (
    DONE,
    ORDER_INTERVAL,
    RUNNING,
    STOPPED,
    begin_segment,
    go_on,
    only_one,
    read_order,
    read_report,
    write_progress,
)


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
        last = read_report(folder) or progress
        ended = DONE if child.returncode == 0 and asked is None else STOPPED
        write_progress(folder, replace(last, state=ended, throughput=0.0, updated=time.time()))
        return child.returncode


def report_work(work_done: float, throughput: float) -> None:
    """Report what a training program has done; its first process calls this now and then, and after a checkpoint.

    Args:
        work_done: samples since the job first began.
        throughput: samples/s of late.
    """
    folder, segment = Path(os.environ["MURMURATION_FOLDER"]), int(os.environ["MURMURATION_SEGMENT"])
    before = read_report(folder)
    if before is None or before.segment != segment:
        return  # a later segment has begun
    now = time.time()
    ready = before.ready if before.state == RUNNING else now
    report = replace(before, state=RUNNING, work_done=work_done, throughput=throughput, ready=ready, updated=now)
    write_progress(folder, report)


def main() -> None:
    """Run the segment of the command line; the exit status is that of its command."""
    folder, segment, grace, dashes, *command = sys.argv[1:]
    assert dashes == "--"
    stop = threading.Event()
    signal.signal(signal.SIGTERM, lambda *_: stop.set())
    status = run_segment(Path(folder), int(segment), float(grace), command, stop)
    go_on(Path(folder), int(segment), stop)
    sys.exit(abs(status))


if __name__ == "__main__":
    main()
