"""The command that compiles everything in advance."""

import importlib
import sys

from envs.registration import VECTOR_ENVS
from envs.types import MurmurationError
from murmuration.runs import compiling


def test_each_environment_and_scheduler_plays_a_tiny_episode_and_a_refusal_stops_nothing(monkeypatch, capsys):
    def refuse(scheduler, simulator):
        played.append(type(scheduler).__name__)
        raise MurmurationError("this scheduler refuses the task")

    played: list[str] = []
    monkeypatch.setattr(compiling, "TASKS", ("shared-16",))
    monkeypatch.setattr(compiling, "POLICIES", ())
    monkeypatch.setattr(compiling, "run_episode", refuse)
    monkeypatch.setattr(compiling, "Simulator", lambda workload, setup, seed: None)
    monkeypatch.setattr(compiling, "_step_environment", played.append)
    monkeypatch.setattr(sys, "argv", ["compile.py"])
    importlib.import_module("compile").main()
    assert {"Fifo", "Starling", *VECTOR_ENVS} <= set(played)
    assert capsys.readouterr().out.splitlines()[-1].startswith(f"{len(played)} episodes in ")
