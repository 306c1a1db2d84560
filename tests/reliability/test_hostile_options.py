"""Values of another form in all commands: one line that names the key, before any work begins."""

import dataclasses
import importlib
import random
import sys
from pathlib import Path

import pytest

from murmuration.config.arguments import hydra_arguments
from murmuration.config.building import Component, build_object
from murmuration.config.choices import CONF
from murmuration.config.descriptions import ProblemSpec
from murmuration.config.inputs import build_inputs

COMMANDS = sorted(path.stem for path in CONF.glob("*.yaml"))
VALUES = (
    *("1e-300", "2", "-1", "nan", "inf", "1e400", "9223372036854775807", "true", "null", "''", "x", "'2'", "[]", "{}"),
    *("[1,0]", "[nan]", "[null]", "[[]]", "[fifo,x]", "[{a: 1}]", "{a: 1}", "{_target_: os.getcwd}", "1e18"),
)
NUM_DRAWN = 2  # of each command
NESTED = {"tables": ("tables.rubick",), "suites": ("suites.quick",), "tuning": ("tuning.parameters", "tuning.options")}
FURTHER = {
    "schedulers": ("scheduler",),
    "cluster": ("network", "cluster.network_gbps"),
    "ray": ("ray.address",),
    **NESTED,
}
POLICY = CONF.parent / "checkpoints" / "bids-64"
PUBLISHED = (
    *("compare cluster._args_=[1]", "compare scenario._recursive_=1", "compare workload._convert_=all"),
    *("curves ~runs.0", "compare ~cluster.groups.0"),
    *("compare split=1e-300", "train schedulers=2", "sweep performance=[1,0]", "interface scenario=[nan]"),
    *("evaluate task=[nan]", "tune ray=9223372036854775807", "film cluster=[small_16,x]", "reproduce tables=[nan]"),
    *("reproduce tables.rubick=nan", "benchmark suites.quick=5", "reproduce tables.rubick.prediction_error=5"),
)


def drawn(command):
    """Return hostile options of a command, the same in every run."""
    rng = random.Random(command)
    with_groups = hydra_arguments([], command, None)[1]
    keys = sorted({*with_groups, *(more for key in with_groups for more in FURTHER.get(key, ()))})
    return [f"{key}={rng.choice(VALUES)}" for key in rng.sample(keys, min(NUM_DRAWN, len(keys)))]


def build_parts(found):
    """Build what a description has, as a command does before its work."""
    match found:
        case ProblemSpec():
            build_inputs(found)
        case Component() if found.key in ("env", "agent", "trainer", "market"):
            build_object(found)
        case list() | tuple():
            for each in found:
                build_parts(each)
        case _ if dataclasses.is_dataclass(found) and not isinstance(found, Component):
            for each in dataclasses.fields(found):
                build_parts(getattr(found, each.name))


@pytest.fixture
def attempt(tmp_path, monkeypatch, capsys):
    """A command within this process that stops before its work: the exit code and the lines on stderr."""
    reached = []

    def stop(task, run, folder):
        build_parts(run)
        reached.append(run)
        return folder, ""

    monkeypatch.setattr("murmuration.runs.commands.run_task", stop)
    monkeypatch.setattr("murmuration.config.provenance.describe_clone", lambda folder: None)
    monkeypatch.chdir(tmp_path)

    def main(command, option):
        key = option.partition("=")[0]
        needed = {"scheduler": "[fifo]", "checkpoint": str(POLICY), "runs": "{a: b}"}
        asked = {"evaluate": ("scheduler", "checkpoint"), "curves": ("runs",)}
        asked |= dict.fromkeys(("compare", "train", "sweep", "interface", "film", "benchmark"), ("scheduler",))
        words = [f"{name}={needed[name]}" for name in asked.get(command, ()) if name != key]
        monkeypatch.setattr(sys, "argv", [f"{command}.py", *words, option])
        monkeypatch.setenv("HYDRA_FULL_ERROR", "0")
        reached.clear()
        try:
            importlib.import_module(command).main()
        except SystemExit as left:
            code = left.code
        else:
            code = 0
        lines = capsys.readouterr().err.splitlines()
        assert bool(reached) == (code == 0)
        return code, lines

    return main


@pytest.mark.parametrize("command", COMMANDS)
def test_a_hostile_value_is_refused_in_one_line_or_harmless(attempt, command):
    for option in drawn(command):
        code, lines = attempt(command, option)
        assert (code, len(lines)) in ((0, 0), (2, 1)), (option, lines)
        assert code == 0 or option.partition("=")[0].partition(".")[0] in lines[0]
        assert code == 0 or len(lines[0]) < 1500


@pytest.mark.parametrize("line", PUBLISHED)
def test_values_that_once_ended_with_a_trace_are_refused(attempt, line):
    command, _, option = line.partition(" ")
    code, lines = attempt(command, option)
    assert (code, len(lines)) == (2, 1)
    key, _, value = option.partition("=")
    assert lines[0].startswith(f"error: {key.partition('.')[0]}")
    assert (value and value in lines[0]) or "must" in lines[0]
    assert not list(Path().rglob("provenance.json")), "a refused run leaves no folder"
