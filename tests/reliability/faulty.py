"""Schedulers that fail in episodes or end the process that plays them; workers import this module quickly."""

import os
import signal
import sys
import threading
import time
from contextlib import suppress
from pathlib import Path

import numpy as np

from baselines import Fifo
from envs.scheduling import ClusterView
from envs.types import Allocation, ClusterSpec


def end_process(*_: object) -> None:
    """End the process as for want of memory."""
    os._exit(9)


def ignore_interrupts() -> None:
    """Leave Ctrl-C to the first process."""
    signal.signal(signal.SIGINT, signal.SIG_IGN)


def wait_in(path: object, run: object, folder: Path, *_: object) -> None:
    """Write the process's number into a folder, and wait for ten minutes."""
    (folder / "part").write_text(str(os.getpid()))
    (folder / "part").rename(folder / "waits")
    time.sleep(600)


class Faulty:
    """FIFO that does something else in its third round."""

    def __init__(self) -> None:
        self.fifo, self.home = Fifo(), os.getpid()

    def reset(self, cluster: ClusterSpec, rng: np.random.Generator) -> None:
        """Begin an episode."""
        self.rounds = 0
        self.fifo.reset(cluster, rng)

    def schedule(self, view: ClusterView) -> Allocation:
        """Decide as FIFO."""
        self.rounds += 1
        if self.rounds == 3:
            self.fail()
        return self.fifo.schedule(view)

    def fail(self) -> None:
        """Fail."""
        raise RuntimeError("not this one")


class Deadly(Faulty):
    """Kills every process but the one in which it was made."""

    def fail(self) -> None:
        """Kill."""
        if os.getpid() != self.home:
            os.kill(os.getpid(), signal.SIGKILL)


class Fragile(Deadly):
    """Kills one process that is not the one in which it was made; a file shows that it has.

    Args:
        mark: path of the file.
    """

    def __init__(self, mark: str) -> None:
        super().__init__()
        self.mark = mark

    def fail(self) -> None:
        """Kill once: of several processes that come here at the same time, the one that makes the file."""
        if os.getpid() != self.home:
            with suppress(FileExistsError):
                open(self.mark, "x").close()
                super().fail()


class Leaving(Faulty):
    """Ends its process in an orderly way."""

    def fail(self) -> None:
        """Leave."""
        sys.exit("enough")


class Opaque(Faulty):
    """Raises an error that cannot be sent to another process."""

    def fail(self) -> None:
        """Fail."""
        raise OpaqueError("this", "that")


class OpaqueError(Exception):
    """An error with a lock."""

    def __init__(self, one: str, two: str) -> None:
        super().__init__(f"{one} and {two}")
        self.lock = threading.Lock()
