"""The second process that compiles ahead: it starts only where it helps, fills the cache, and ends with the first."""

import os
import pickle
import subprocess
import sys
from unittest.mock import MagicMock

import pytest

from launch import compiling
from launch.building import Component
from launch.describe import compose_comparison

OPTIONS = ["task=none", "workload.num_jobs=2", "workload.warm_up=0", "workload.measured=2", "scheduler=[fifo,srtf]"]


@pytest.fixture
def started(monkeypatch):
    """The commands of processes that were started; none really is."""
    found = []

    class Pretended:
        """A process that takes its input and does nothing."""

        def __init__(self, command, stdin, stdout, stderr):
            found.append(command)
            self.stdin = open("/dev/null", "wb")  # noqa: SIM115

    monkeypatch.setattr(subprocess, "Popen", Pretended)
    monkeypatch.setattr(compiling, "_helpers", [])
    return found


@pytest.mark.parametrize(("idle", "names", "count"), [(True, 2, 1), (False, 2, 0), (True, 1, 0)])
def test_it_starts_with_an_idle_core_and_two_schedulers(started, monkeypatch, capsys, idle, names, count):
    run = compose_comparison(OPTIONS)
    monkeypatch.setattr(compiling, "has_idle_core", lambda: idle)
    compiling.start_helper(run.problem, dict(list(run.schedulers.items())[:names]))
    assert len(started) == count
    assert capsys.readouterr().out == "compiling, once after an installation: ten seconds to some minutes\n"


def test_a_scheduler_of_the_user_is_not_played_behind_the_scenes(started, monkeypatch):
    """It may write files or ask a server."""
    run = compose_comparison(OPTIONS)
    monkeypatch.setattr(compiling, "has_idle_core", lambda: True)
    own = Component("scheduler", {"_target_": "mine.Scheduler"})
    compiling.start_helper(run.problem, {"fifo": run.schedulers["fifo"], "own": own})
    assert started == []


@pytest.mark.parametrize(("cores", "load", "idle"), [(1, 0.0, False), (2, 1.2, True), (2, 1.9, False), (8, 6.0, True)])
def test_a_core_is_idle_where_the_load_leaves_one(monkeypatch, cores, load, idle):
    monkeypatch.setattr(os, "sched_getaffinity", lambda _: set(range(cores)), raising=False)
    monkeypatch.setattr(os, "getloadavg", lambda: (load, 0.0, 0.0))
    assert compiling.has_idle_core() is idle


def test_schedulers_are_played_from_the_last_on_and_a_broken_one_is_passed_over(monkeypatch):
    run, played = compose_comparison(OPTIONS), []
    broken = Component("scheduler", {"_target_": "baselines.srtf.NoSuchScheduler"})
    schedulers = {**run.schedulers, "broken": broken}
    monkeypatch.setattr(compiling, "run_episode", lambda scheduler, simulator: played.append(type(scheduler).__name__))
    for name in ("signal", "threading"):
        monkeypatch.setattr(compiling, name, MagicMock())
    monkeypatch.setattr(os, "nice", lambda _: 0)
    compiling.play_from_the_last(run.problem, schedulers)
    assert played == ["Srtf", "Fifo"]


def test_it_reads_its_work_and_ends_with_the_process_that_started_it():
    """The pipe closes when that process ends, however it ends."""
    call = pickle.dumps(sys.path) + pickle.dumps(compiling.end_with_input)
    done = subprocess.run([sys.executable, "-c", compiling.START], input=call, timeout=600, check=False)
    assert done.returncode == 0
