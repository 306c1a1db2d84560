"""The process in which programs decide: it forks for each play, and each fork runs one program in one workload.

python -m murmuration.programs.player <socket>

It is told the setup, and a workload for training to warm up with. What it does not know, no program can find in it:
the other jobs of a workload, seeds, tasks, and what other programs did.
"""

import gc
import json
import os
import pickle
import select
import signal
import socket
import sys
import traceback
import warnings
from contextlib import suppress
from types import ModuleType
from typing import Any

import numpy as np

from deployment.deciding import LocalScheduler
from deployment.messages import Beginning, read_beginning, read_message, read_round, write_decision, write_error
from deployment.mirror import Mirror
from deployment.reading import ProtocolError
from deployment.remote import RemoteScheduler
from deployment.sockets import Connection
from deployment.state import Decision
from envs.evaluation.failure import message_of
from envs.scheduling import Scheduler
from envs.simulation import Setup, Simulator, ThroughputTable, run_episode
from envs.types import MurmurationError
from envs.workloads import Workload
from murmuration.home import ROOT
from murmuration.programs.confinement import confine, open_ruleset, readable_paths

PRELOADED = ("heapq", "bisect", "random", "statistics", "dataclasses", "scipy.optimize", "numpy.linalg")
KILL = b"k"  # what the evaluator sends to end a play
FILE = "program.py"  # the name of the program in traces


class Conversation:
    """Answers one cluster for a scheduler, line by line; what it decides is checked by the world alone.

    Args:
        scheduler: the program.
        prepared: a mirror of the setup that knows no job yet.
    """

    def __init__(self, scheduler: Scheduler, prepared: Mirror) -> None:
        self._scheduler, self._mirror = scheduler, prepared
        self._asked: LocalScheduler | None = None
        self._number = 0

    def answer(self, line: bytes) -> bytes:
        """Return the answer to a line: first the beginning, then rounds.

        Raises:
            Exception: what the scheduler raised.
        """
        self._number += 1
        now, events = read_message(line, f"message {self._number}")
        if self._asked is None:
            self._asked = LocalScheduler(self._scheduler, *self._begin(read_beginning(events[0][1])))
            return write_decision(now, Decision({}))
        return write_decision(now, self._asked.decide(read_round(now, events)))

    def _begin(self, beginning: Beginning) -> tuple[Mirror, np.random.Generator]:
        known = self._mirror
        if (beginning.models, beginning.tenants) != (tuple(known.models), tuple(known.tenants)):
            expected = beginning.models, beginning.tenants, beginning.most_gpus
            known = Mirror(known.setup, *expected, shares=True)
        return known, beginning.rng


class InProcess(RemoteScheduler):
    """A program that is asked through the protocol in this process, to warm it up."""

    def __init__(self, conversation: Conversation) -> None:
        super().__init__("")
        self._conversation = conversation

    def _connect(self) -> Connection:
        return _Echo(self._conversation)


class _Echo(Connection):
    """A connection whose other end is a conversation of this process."""

    def __init__(self, conversation: Conversation) -> None:
        self._conversation, self._line = conversation, b""

    def send(self, line: bytes) -> None:
        self._line = self._conversation.answer(line)

    def receive(self) -> bytes:
        return self._line

    def close(self) -> None:
        pass


class WarmUp:
    """Shortest job first, without preemption: it compiles or loads what views need."""

    def reset(self, cluster: Any, rng: np.random.Generator) -> None:
        """Keep nothing."""

    def schedule(self, view: Any) -> Any:
        """Start what fits."""
        allocation, waiting = view.allocation(keep_running=True), view.queued
        for job in waiting[view.remaining_time(waiting).argsort(kind="stable")]:
            allocation.pack(int(job))
        view.throughputs(int(view.num_gpus.argmax())), view.attained_service(waiting), view.remaining_work(waiting)
        return allocation


def load_program(text: str) -> Scheduler:
    """Return the scheduler of a program: its only class with `reset` and `schedule`, or the last such class.

    Raises:
        MurmurationError: it has none, or none that needs no arguments.
        Exception: what running the program raised.
    """
    module = ModuleType("program")
    sys.modules["program"] = module
    exec(compile(text, FILE, "exec"), vars(module))
    names = ("reset", "schedule")
    classes = [each for each in vars(module).values() if isinstance(each, type) and each.__module__ == "program"]
    found = [each for each in classes if all(callable(getattr(each, name, None)) for name in names)]
    if not found:
        raise MurmurationError("the program has no class with the methods reset(cluster, rng) and schedule(view)")
    scheduler: Scheduler = found[-1]()
    return scheduler


def serve_program(connection: Connection, prepared: Mirror, ruleset: tuple[int, int]) -> None:
    """Run one program: read it, give up all rights, and answer until the cluster leaves."""
    given = json.loads(connection.receive())
    measures = confine(ruleset, int(given["cpu_seconds"]), int(given["memory"]))
    connection.send(json.dumps(measures).encode() + b"\n")
    warnings.simplefilter("ignore")
    try:
        conversation = Conversation(load_program(given["program"]), prepared)
        while line := connection.receive():
            connection.send(conversation.answer(line))
    except BaseException as error:  # a program may also call exit()
        with suppress(Exception):
            connection.send(write_error(0.0, f"{message_of(error)}{_place_of(error)}"))


def _place_of(error: BaseException) -> str:
    """Return the line of the program where an error came from."""
    if isinstance(error, SyntaxError):
        return ""
    lines = [frame for frame in traceback.extract_tb(error.__traceback__) if frame.filename == FILE]
    return f" (line {lines[-1].lineno} of the program, in {lines[-1].name})" if lines else ""


def prepare_plays(setup: Setup, workload: Workload) -> Mirror:
    """Compile or load everything that a play needs, and return a mirror for it."""
    largest = int(workload.jobs["max_gpus"].max())
    run_episode(InProcess(Conversation(WarmUp(), _mirror(setup, workload, largest))), Simulator(workload, setup))
    found = _mirror(setup, workload, largest)
    ThroughputTable.of(found.setup, found.models, found.most_gpus)
    for name in PRELOADED:
        __import__(name)
    return found


def _mirror(setup: Setup, workload: Workload, largest: int) -> Mirror:
    return Mirror(setup, workload.models, workload.tenants, largest, shares=True)


def play_one_program(play: socket.socket, control: socket.socket, prepared: Mirror, ruleset: tuple[int, int]) -> bytes:
    """Fork for one play, wait for its end, or for the order to end it; return its status and CPU time as a line."""
    process = os.fork()
    if process == 0:
        with suppress(BaseException):
            _leave_all(play.fileno(), ruleset[0])
            serve_program(Connection(play), prepared, ruleset)
        os._exit(0)
    play.close()
    ended = os.pidfd_open(process)
    while ended not in select.select([ended, control.fileno()], [], [])[0]:
        if control.recv(1) in (KILL, b""):
            os.kill(process, signal.SIGKILL)
            break
    os.close(ended)
    _, status, used = os.wait4(process, 0)
    report = {"status": status, "cpu_seconds": used.ru_utime + used.ru_stime, "memory": used.ru_maxrss << 10}
    return json.dumps(report).encode() + b"\n"


def _leave_all(kept: int, ruleset: int) -> None:
    """Leave the session, and close every file but the connection; output goes nowhere."""
    os.setsid()
    nothing = os.open(os.devnull, os.O_RDWR)
    for number in (0, 1, 2):
        os.dup2(nothing, number)
    last = 3
    for number in sorted({kept, ruleset} - {-1}):
        os.closerange(last, number)
        last = number + 1
    os.closerange(last, 4096)
    os.environ.clear()


def main() -> None:
    """Prepare, and play what the evaluator orders until it leaves."""
    signal.signal(signal.SIGINT, signal.SIG_IGN)  # the evaluator ends it
    control = socket.socket(fileno=int(sys.argv[1]))
    with control.makefile("rb") as stream:
        setup, workload = pickle.loads(stream.read(int(stream.readline())))
    try:
        prepared, ruleset = prepare_plays(setup, workload), open_ruleset(readable_paths(ROOT))
    except (MurmurationError, ProtocolError) as error:
        control.sendall(json.dumps(str(error)).encode() + b"\n")
        return
    del workload, setup
    gc.collect()
    gc.freeze()
    control.sendall(b'""\n')
    while True:
        order, files, _, _ = socket.recv_fds(control, 1, 1)
        if not order:
            return
        if files:
            control.sendall(play_one_program(socket.socket(fileno=files[0]), control, prepared, ruleset))


if __name__ == "__main__":
    main()
