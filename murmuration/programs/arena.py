"""Programs that decide in a process of their own, while the world is played here."""

import contextlib
import json
import os
import pickle
import socket
import subprocess
import sys
import time
from dataclasses import dataclass
from typing import Any

import numpy as np

from deployment.reading import ProtocolError
from deployment.remote import RemoteScheduler
from deployment.sockets import Connection
from envs.scheduling import ClusterView
from envs.simulation import Setup
from envs.types import Allocation, ClusterSpec, MurmurationError, Seconds
from envs.workloads import Workload
from murmuration.home import ROOT
from murmuration.programs.player import KILL

KEPT = ("PATH", "HOME", "TMPDIR", "LANG", "XDG_CACHE_HOME", "MURMURATION_CACHE", "NUMBA_NUM_THREADS")  # no keys
LONGEST_PROGRAM = 200_000  # characters
ENDED_WITHIN: Seconds = 5.0


@dataclass(frozen=True)
class PlayLimits:
    """Limits on the resources of a program in one workload.

    Attributes:
        seconds: of real time for the whole workload, the world's included.
        answer: of real time for one decision.
        cpu_seconds: of the program's process.
        memory: bytes beyond those that the process has at first.
    """

    seconds: Seconds = 60.0
    answer: Seconds = 10.0
    cpu_seconds: int = 30
    memory: int = 1 << 30


class ProgramError(MurmurationError):
    """A program that broke a rule or took too long."""


class Arena:
    """The process from which the processes of programs are forked.

    Args:
        setup: the cluster, the performance model and the scenario, which programs may know.
        workload: jobs for training, with which it warms up.

    Raises:
        MurmurationError: programs cannot decide in this setup, or no such process can be had here.
    """

    def __init__(self, setup: Setup, workload: Workload) -> None:
        if not hasattr(os, "pidfd_open"):
            raise MurmurationError("programs are evaluated on Linux only: elsewhere their processes cannot be confined")
        self._control, theirs = socket.socketpair()
        environment = {name: os.environ[name] for name in KEPT if name in os.environ}
        environment |= {"PYTHONPATH": str(ROOT), "OPENBLAS_NUM_THREADS": "1", "OMP_WAIT_POLICY": "PASSIVE"}
        self._process = subprocess.Popen(
            [sys.executable, "-m", "murmuration.programs.player", str(theirs.fileno())],
            env=environment,
            pass_fds=[theirs.fileno()],
            stdin=subprocess.DEVNULL,
            stdout=subprocess.DEVNULL,
            cwd=ROOT,
        )
        theirs.close()
        known = pickle.dumps((setup, workload))
        self._control.sendall(b"%d\n" % len(known) + known)
        self._replies = self._control.makefile("rb")
        refused = self._reply()
        if refused:
            raise MurmurationError(f"programs cannot be evaluated here: {refused}")

    def _reply(self) -> Any:
        line = self._replies.readline()
        if not line:
            raise MurmurationError("the process of programs has ended; its last words are on standard error")
        return json.loads(line)

    def open_play(self, patience: Seconds) -> Connection:
        """Fork a process for one play; return the connection to it. One play at a time.

        Args:
            patience: seconds to wait for an answer.
        """
        here, there = socket.socketpair()
        with there:
            socket.send_fds(self._control, [b"p"], [there.fileno()])
        return Connection(here, patience)

    def close_play(self) -> dict[str, float]:
        """End the present play; return its status, CPU time in s and memory in bytes."""
        self._control.sendall(KILL)
        found: dict[str, float] = self._reply()
        return found

    def close(self) -> None:
        """End the process."""
        with contextlib.suppress(OSError):
            self._control.shutdown(socket.SHUT_RDWR)
        try:
            self._process.wait(ENDED_WITHIN)
        except subprocess.TimeoutExpired:
            self._process.kill()
            self._process.wait()
        self._replies.close()
        self._control.close()


class ProgramScheduler(RemoteScheduler):
    """A program as a `Scheduler`: every episode in a new process.

    Args:
        arena: where it runs.
        text: the program.
        limits: of each episode.
    """

    def __init__(self, arena: Arena, text: str, limits: PlayLimits) -> None:
        super().__init__("", limits.answer)
        self._arena, self._text, self._limits = arena, text, limits
        self._until, self._playing = 0.0, False
        self.measures: list[str] = []
        self.used: dict[str, float] = {}

    def reset(self, cluster: ClusterSpec, rng: np.random.Generator) -> None:
        """Begin an episode on a cluster."""
        super().reset(cluster, rng)
        self._until = time.monotonic() + self._limits.seconds

    def schedule(self, view: ClusterView) -> Allocation:
        """Return the allocation that the program decides.

        Raises:
            ProgramError: the program took too long, raised an error, or ended.
        """
        if time.monotonic() > self._until:
            raise ProgramError(f"the program took more than {self._limits.seconds:g} s for one workload; decide faster")
        try:
            return super().schedule(view)
        except ProtocolError as error:
            raise ProgramError(self._explain(str(error))) from None

    def _explain(self, said: str) -> str:
        self.close()
        if self.used.get("status") in (9, 24) and self.used["cpu_seconds"] > self._limits.cpu_seconds - 1:
            return f"the program used {self._limits.cpu_seconds} CPU-s in one workload; decide faster"
        if "whole line within" in said:
            return f"the program did not answer within {self._limits.answer:g} s; is there an endless loop?"
        if "closed" in said or "broke" in said:
            return "the process of the program ended; it was perhaps killed for its memory"
        return said

    def _connect(self) -> Connection:
        found = self._arena.open_play(self.patience)
        self._playing = True
        limits = {"cpu_seconds": self._limits.cpu_seconds, "memory": self._limits.memory}
        found.send(json.dumps({"program": self._text, **limits}).encode() + b"\n")
        self.measures = json.loads(found.receive())
        return found

    def close(self) -> None:
        """End the episode, and the process."""
        super().close()
        if self._playing:
            self._playing = False
            self.used = self._arena.close_play()
