"""Daemons of test clusters: free ports for them, and their end by process id."""

import os
import signal
import socket
import time
from contextlib import suppress
from pathlib import Path


def free_ports(count: int) -> list[int]:
    """Return ports of the loopback interface that are free now."""
    sockets = [socket.socket() for _ in range(count)]
    try:
        for each in sockets:
            each.bind(("127.0.0.1", 0))
        return [int(each.getsockname()[1]) for each in sockets]
    finally:
        for each in sockets:
            each.close()


def end_process(file: Path, how: signal.Signals) -> bool:
    """End the process whose id a file holds and wait for it; return whether it ran."""
    try:
        pid = int(file.read_text(encoding="utf-8"))
    except (OSError, ValueError):
        return False
    if not _runs(pid):
        return False
    send_signal(pid, how)
    until = time.monotonic() + 10.0
    while _runs(pid) and time.monotonic() < until:
        time.sleep(0.02)
    send_signal(pid, signal.SIGKILL)
    return True


def send_signal(pid: int, how: signal.Signals) -> None:
    """Send a signal to a process; nothing where it has ended."""
    with suppress(ProcessLookupError):
        os.kill(pid, how)


def _runs(pid: int) -> bool:
    try:
        state = Path(f"/proc/{pid}/stat").read_text(encoding="utf-8").rpartition(")")[2].split()[0]
    except OSError:
        return False
    return state != "Z"  # one that has ended and that nobody has asked about
