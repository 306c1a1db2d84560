"""The command that compiles everything in advance."""

import importlib
import sys

import pytest

from launch import compiling


def test_a_tiny_episode_of_each_environment_scheduler_and_policy_is_played(monkeypatch, tmp_path, capsys):
    """Those that refuse the task are left out."""
    monkeypatch.setenv("MURMURATION_CACHE", str(tmp_path))
    monkeypatch.setattr(compiling, "TASKS", ("shared-16",))
    monkeypatch.setattr(sys, "argv", ["compile.py"])
    played = []
    monkeypatch.setattr(compiling, "_play", lambda scheduler, workload, inputs: played.append(len(workload)))
    importlib.import_module("compile").main()
    assert played
    assert set(played) == {compiling.NUM_JOBS}
    assert capsys.readouterr().out.splitlines()[-1].startswith(f"{len(played) + 2} episodes in ")


def test_a_scheduler_that_refuses_a_task_stops_nothing():
    steps = dict(compiling._episodes("plans-64"))
    for name in ("fifo", "hesrpt"):
        steps[f"plans-64 {name}"]()


def test_the_command_takes_no_words(monkeypatch):
    monkeypatch.setattr(sys, "argv", ["compile.py", "all"])
    with pytest.raises(SystemExit):
        importlib.import_module("compile").main()
