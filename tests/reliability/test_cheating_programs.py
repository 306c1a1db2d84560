"""Known ways of cheating in a search for programs: none gains anything over the same program without it."""

import contextlib
import inspect
import socket
import textwrap
from typing import Any

import pytest

from murmuration.programs.arena import PlayLimits, ProgramScheduler
from murmuration.programs.evaluator import FAILED, ProgramEvaluator
from murmuration.programs.folder import INITIAL

TASK = ["none", "cluster=small_16", "workload.num_jobs=12", "workload.num_evaluation=2"]
SECRET = "k-123"
CHEATED = "CHEATED"
PORT = 0  # replaced by that of a socket that listens
# An attempt runs after the honest decision, of which it may change anything. An error of it is swallowed, and what it
# returns is reported as success.
TRIED = """
{attempt}

class Cheat(ShortestFirst):
    def reset(self, cluster, rng):
        self.rng = rng

    def schedule(self, view):
        allocation = super().schedule(view)
        try:
            found = attempt(self, view, allocation)
        except Exception:
            found = None
        if found is not None and not hasattr(found, "changes"):
            raise RuntimeError("CHEATED " + repr(found)[:80])
        return found or allocation
"""


def read_a_task(self, view, allocation):
    import numpy

    return open(numpy.__file__.split(".venv")[0] + "conf/task/full-64.yaml").read()


def read_files_of_users(self, view, allocation):
    return open("/etc/passwd").read()


def list_folders(self, view, allocation):
    import os

    return os.listdir("/")


def read_the_library(self, view, allocation):
    import sys

    sys.modules.pop("murmuration.home", None)
    from murmuration.library import make_task

    return make_task("full-64").workloads("test")


def read_records(self, view, allocation):
    import sys

    root = sys.modules["envs"].__path__[0]
    return open(root + "/../baselines/records/full-64.csv").read()


def leave_a_file(self, view, allocation):
    with open("/tmp/murmuration-left", "w") as file:
        file.write(str(view.time))
    return "written"


def leave_a_folder(self, view, allocation):
    import os

    os.mkdir("/tmp/murmuration-left-folder")
    return "made"


def change_rights(self, view, allocation):
    import os
    import sys

    os.chmod(str(sys.modules["envs"].__file__), 0o666)
    return "changed"


def remember_the_workload_before(self, view, allocation):
    import builtins

    if vars(builtins).setdefault("seen", self) is not self:
        return "an earlier scheduler was here"


def connect(self, view, allocation):
    import socket

    return socket.create_connection(("127.0.0.1", PORT), 1)


def open_a_socket(self, view, allocation):
    import socket

    return socket.socket(socket.AF_UNIX)


def fork(self, view, allocation):
    import os

    if os.fork() == 0:
        os._exit(0)
    return "forked"


def run_a_command(self, view, allocation):
    import subprocess

    return subprocess.run(["/bin/true"]).returncode


def kill_the_world(self, view, allocation):
    import os

    for process in (os.getppid(), -1):
        os.kill(process, 9)
    return "killed"


def read_memory_of_the_world(self, view, allocation):
    import os

    return open(f"/proc/{os.getppid()}/mem", "rb")


def trace_the_world(self, view, allocation):
    import ctypes
    import os

    libc = ctypes.CDLL(None)
    return "traced" if libc.ptrace(16, os.getppid(), None, None) == 0 else None


def read_memory_by_a_call(self, view, allocation):
    import ctypes
    import os

    place = ctypes.create_string_buffer(8)
    vector = (ctypes.c_size_t * 2)(ctypes.addressof(place), 8)
    found = ctypes.CDLL(None).process_vm_readv(os.getppid(), vector, 1, vector, 1, 0)
    return "read" if found >= 0 else None


def raise_limits(self, view, allocation):
    import resource

    resource.setrlimit(resource.RLIMIT_CPU, (resource.RLIM_INFINITY, resource.RLIM_INFINITY))
    return "raised"


def read_keys(self, view, allocation):
    import os

    return os.environ.get("OPENAI_API_KEY")


def find_future_jobs(self, view, allocation):
    import gc

    known = [each for each in gc.get_objects() if type(each).__name__ == "Workload"]
    return [len(each) for each in known if len(each) > len(view.num_gpus)] or None


def find_the_seed(self, view, allocation):
    return self.rng.bit_generator.seed_seq.entropy or None


def print_a_result(self, view, allocation):
    print('{"combined_score": 1.0}', flush=True)


def write_into_all_files(self, view, allocation):
    import os

    for number in range(64):
        with contextlib.suppress(OSError):
            os.write(number, b'{"version": 1, "now": 0, "events": []}\n')


def patch_the_clock(self, view, allocation):
    import time

    time.time = time.monotonic = time.process_time = lambda: 0.0


def patch_the_metrics(self, view, allocation):
    import sys

    for name in list(sys.modules):
        for function in ("job_completion_times", "mean_jct", "finished_jobs"):
            if name.startswith("envs.") and hasattr(sys.modules[name], function):
                setattr(sys.modules[name], function, lambda *_: 0.0)


def finish_jobs(self, view, allocation):
    state = view._engine_side.state
    state.jobs["finish"], state.jobs["remaining"], state.jobs["status"] = view.time, 0.0, 3


def patch_the_protocol(self, view, allocation):
    import sys

    module = sys.modules.get("murmuration.programs.player", None)
    module = module or sys.modules["__main__"]
    vars(module)["write_decision"] = lambda now, decision: b'{"version": 1, "now": 1e300, "events": []}\n'


def take_more_than_there_is(self, view, allocation):
    from envs.types import Placement

    for job in view.queued.tolist():
        allocation.changes[job] = Placement({0: 1000})


def take_a_gpu_twice(self, view, allocation):
    from envs.types import Placement

    for job in [*view.queued.tolist(), *view.running.tolist()]:
        allocation.changes[job] = Placement({0: int(view.num_gpus[job])})


def start_jobs_of_the_future(self, view, allocation):
    from envs.types import Placement

    allocation.changes[len(view.num_gpus) + 1] = Placement({0: 1})


def decide_in_the_past(self, view, allocation):
    allocation.next_decision = -1.0


def starve_long_jobs(self, view, allocation):
    empty = view.allocation()
    for job in view.running.tolist():
        if view.remaining_time(view.running).min() < 600:
            empty.keep(job)
    return empty


def hold_all_memory(self, view, allocation):
    self.kept = [bytearray(1 << 30) for _ in range(64)]


ATTEMPTS = {  # with the layer that refuses it, where there is one
    "Landlock": [read_a_task, read_files_of_users, list_folders, read_the_library, read_records, leave_a_folder],
    "seccomp": [
        change_rights,
        open_a_socket,
        fork,
        run_a_command,
        kill_the_world,
        trace_the_world,
        raise_limits,
        read_memory_by_a_call,
        read_memory_of_the_world,
        connect,
    ],
    "": [
        leave_a_file,
        remember_the_workload_before,
        read_keys,
        find_future_jobs,
        find_the_seed,
        print_a_result,
        write_into_all_files,
        patch_the_clock,
        patch_the_metrics,
        finish_jobs,
        patch_the_protocol,
        hold_all_memory,
        take_more_than_there_is,
        take_a_gpu_twice,
        start_jobs_of_the_future,
        decide_in_the_past,
        starve_long_jobs,
    ],
}
SUBCLASS = f"{INITIAL}\nclass Cheat(ShortestFirst):\n"
ENDLESS = """    def schedule(self, view):
        found = super().schedule(view)
        found.next_decision = view.time + 1e-6
        return found
"""
WHOLE = {  # programs of another form
    "loops in schedule": f"{SUBCLASS}    def schedule(self, view):\n        while True: pass\n",
    "loops at once": f"{INITIAL}\nwhile True: pass\n",
    "asks for endless rounds": SUBCLASS + ENDLESS,
    "ends the process": f"{INITIAL}\nimport os\nos._exit(0)\n",
    "exits": f"{INITIAL}\nraise SystemExit(0)\n",
    "is no program": "{",
    "has no class": "score = 1.0\n",
    "returns a number": f"{SUBCLASS}    def schedule(self, view): return 1.0\n",
}
PLAYS_ITSELF = f"{SUBCLASS}    def play(self, simulator): return True\n"


@pytest.fixture(scope="module")
def evaluator():
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("OPENAI_API_KEY", SECRET)
        found = ProgramEvaluator(TASK, limits=PlayLimits(seconds=4.0, answer=1.5, cpu_seconds=3, memory=128 << 20))
        yield found
        found.close()


@pytest.fixture(scope="module")
def honest(evaluator):
    return evaluator.evaluate(INITIAL, 1)


def test_an_honest_program_is_played_as_it_would_be_here(evaluator, honest):
    """The protocol changes nothing: the class itself, played in this process, has the same mean JCT."""
    space: dict[str, Any] = {}
    exec(INITIAL, space)
    from murmuration import compare, make_task

    here = compare({"own": space["ShortestFirst"]()}, make_task(*TASK), episodes=2, split="validation", quiet=True)
    assert honest["mean_jct"] == pytest.approx(here.table().set_index("scheduler").loc["own", "mean_jct"], rel=1e-12)
    assert honest["combined_score"] > FAILED


@pytest.mark.parametrize(
    ("layer", "attempt"), [(layer, each) for layer, attempts in ATTEMPTS.items() for each in attempts]
)
def test_an_attempt_gains_nothing(evaluator, honest, layer, attempt):
    if layer not in honest["artifacts"]["played"]:
        pytest.skip(f"this system has no {layer}")
    with socket.create_server(("127.0.0.1", 0)) as listening:
        source = inspect.getsource(attempt).replace(f"def {attempt.__name__}", "def attempt")
        text = INITIAL + TRIED.format(attempt=textwrap.dedent(source)).replace("PORT", str(listening.getsockname()[1]))
        found = evaluator.evaluate(text, 1)
    assert CHEATED not in found["artifacts"].get("error", "")
    assert found["combined_score"] in (FAILED, honest["combined_score"])
    assert SECRET not in str(found)


@pytest.mark.parametrize("text", WHOLE.values(), ids=WHOLE.keys())
def test_a_program_that_breaks_the_rules_fails_with_a_reason(evaluator, text):
    found = evaluator.evaluate(text, 1)
    assert found["combined_score"] == FAILED
    assert found["artifacts"]["error"]


def test_a_program_cannot_play_the_episode_itself(evaluator, honest):
    assert evaluator.evaluate(PLAYS_ITSELF, 1)["mean_jct"] == honest["mean_jct"]


def test_an_evaluator_goes_on_after_all_that(evaluator, honest):
    """The processes of failed programs are gone, and the next program has the same figures as the first one."""
    assert evaluator.evaluate(INITIAL, 1)["combined_score"] == honest["combined_score"]
    assert isinstance(ProgramScheduler(evaluator._arena, INITIAL, PlayLimits()).measures, list)
