"""A second process that compiles kernels ahead of this one, so that a first start on two cores takes less time."""

import os
import pickle
import signal
import subprocess
import sys
import threading
from collections.abc import Mapping
from contextlib import suppress
from functools import partial

from envs.simulation import Simulator, run_episode
from envs.simulation.jit import on_first_compilation
from launch.building import Component
from launch.descriptions import ProblemSpec
from launch.inputs import build_inputs, build_schedulers, say_compiling

START = "import pickle, sys; sys.path[:] = pickle.load(sys.stdin.buffer); pickle.load(sys.stdin.buffer)()"
OURS = "baselines."  # a user's scheduler may write files or ask a server, so it is played once only
PATIENCE = 10  # added to the process' niceness: others go first

_helpers: list["subprocess.Popen[bytes]"] = []  # whose pipes stay open as long as this process lives


def compile_ahead(problem: ProblemSpec, schedulers: Mapping[str, Component]) -> None:
    """Let a second process fill the cache from the last scheduler on, while this one plays from the first on.

    It starts with the first kernel that is not in the cache, if there are two schedulers and an idle core, and ends
    with this process at the latest. Results do not depend on it.

    Args:
        problem: what is played.
        schedulers: in the order in which this process will play them.
    """
    on_first_compilation(partial(start_helper, problem, schedulers))


def start_helper(problem: ProblemSpec, schedulers: Mapping[str, Component]) -> None:
    """Say that kernels are compiled, and start the second process where it helps."""
    say_compiling()
    known = {name: each for name, each in schedulers.items() if str(each.values["_target_"]).startswith(OURS)}
    if len(known) < 2 or not has_idle_core():
        return
    with suppress(OSError, pickle.PicklingError, TypeError, AttributeError):  # a start without help only takes longer
        call = pickle.dumps(sys.path) + pickle.dumps(partial(play_from_the_last, problem, known))
        none, command = subprocess.DEVNULL, [sys.executable, "-c", START]
        helper = subprocess.Popen(command, stdin=subprocess.PIPE, stdout=none, stderr=none)
        _helpers.append(helper)
        assert helper.stdin is not None
        helper.stdin.write(call)
        helper.stdin.flush()


def has_idle_core() -> bool:
    """Return whether this process may use a core that hardly anything else does."""
    if not hasattr(os, "sched_getaffinity"):
        return False
    cores = len(os.sched_getaffinity(0))
    return cores > 1 and os.getloadavg()[0] < cores - 0.5


def play_from_the_last(problem: ProblemSpec, schedulers: Mapping[str, Component]) -> None:
    """Play an episode under each scheduler, the last one first, until the process at the other end of stdin ends."""
    signal.signal(signal.SIGINT, signal.SIG_IGN)  # Ctrl-C ends the other process, and that ends this one
    threading.Thread(target=end_with_input, daemon=True).start()
    os.nice(PATIENCE)
    inputs = build_inputs(problem)
    workload = inputs.source.evaluation()[0]
    for name in reversed(list(schedulers)):
        with suppress(Exception):  # the other process will report it
            (scheduler,) = build_schedulers({name: schedulers[name]}).values()
            run_episode(scheduler, Simulator(workload, inputs.setup, inputs.seed))


def end_with_input() -> None:
    """End this process when the other one has closed the pipe, which it also does by dying."""
    sys.stdin.buffer.read()
    os._exit(0)
