"""A job that trains nothing: it sleeps as long as the performance model says that training would take.

python -m deployment.sleeper <folder> <segment> <work> <throughput> <delay>
"""

import signal
import sys
import threading
import time
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
    write_progress,
)

CHECKPOINT_INTERVAL = 5.0  # seconds of real time


def sleep_through(
    folder: Path, segment: int, work: float, throughput: float, delay: float, stop: threading.Event
) -> str:
    """Process samples until the work is done, `stop` is set or there is an order; return the state at the end.

    Args:
        folder: of the job.
        segment: number of the start.
        work: samples of the whole job.
        throughput: samples/s of real time.
        delay: seconds of real time until the first sample.
        stop: set by SIGTERM.
    """
    with only_one(folder):
        progress = begin_segment(folder, segment)
        if progress is None:
            return DONE
        progress = replace(progress, state=RUNNING, throughput=throughput, ready=progress.began + delay)
        start = time.monotonic() + delay
        end = start + (work - progress.work_done) / throughput
        first = progress.work_done
        write_progress(folder, progress)
        while True:
            checkpoint = time.monotonic() + CHECKPOINT_INTERVAL
            stopped = False
            while not stopped and (left := min(end, checkpoint) - time.monotonic()) > 0:
                stopped = stop.wait(min(left, ORDER_INTERVAL)) or read_order(folder, segment) is not None
            now = time.monotonic()
            done = first + throughput * max(now - start, 0.0)
            state = STOPPED if stopped and now < end else DONE if now >= end else RUNNING
            progress = replace(progress, state=state, work_done=min(done, work), updated=time.time())
            write_progress(folder, progress)
            if state != RUNNING:
                return state


def main() -> None:
    """Run the job of the command line."""
    stop = threading.Event()
    signal.signal(signal.SIGTERM, lambda *_: stop.set())
    folder, segment, work, throughput, delay = sys.argv[1:]
    sleep_through(Path(folder), int(segment), float(work), float(throughput), float(delay), stop)
    go_on(Path(folder), int(segment), stop)


if __name__ == "__main__":
    main()
