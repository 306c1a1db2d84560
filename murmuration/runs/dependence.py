"""How a process of several seeds starts, and ends with the first process.

This module imports the standard library alone: the process of the manager imports it, and would else import torch.
"""

import multiprocessing
import os
import signal
import threading
from multiprocessing import connection


def depend_on_parent() -> None:
    """Leave Ctrl-C to the first process, which then ends the others; end with it, even where it was killed."""
    signal.signal(signal.SIGINT, signal.SIG_IGN)
    parent = multiprocessing.parent_process()
    assert parent is not None, "this is the first process"
    threading.Thread(target=end_after, args=(parent.sentinel,), daemon=True).start()


def end_after(sentinel: int) -> None:
    """Wait until a process has ended, then end this one without delay."""
    connection.wait([sentinel])
    os._exit(1)
