"""Training runs that are killed, run out of disk or find damaged files end in one line, and go on to the bit."""

import errno
import json
import os
import resource
import shutil
import signal
import subprocess
import sys
import time
from contextlib import contextmanager, suppress
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest

from agents import saving
from agents.on_ray.connecting import keeping_termination
from agents.saving import SavedStates
from envs.types import CheckpointError
from murmuration.config.errors import interrupt_on_termination, one_line_errors
from murmuration.records.recorded import Recorded, TaskRecords
from murmuration.runs.comparing import resumable, saying_what_is_kept
from tests.conformance.test_training import SETTINGS, Told, equal, trainer, weights_of
from tests.unit.agents.curves import scalars
from tests.unit.agents.worlds import QUICK_PPO, small_world

REPOSITORY = Path(__file__).resolve().parents[2]
TAUGHT = replace(SETTINGS, iterations=3, validate_every=3)  # begins with imitation
ALONE = replace(TAUGHT, teacher="none", method=replace(QUICK_PPO, group_size=4))
RUNS = {"taught": TAUGHT, "alone": ALONE}
EACH_RUN = pytest.mark.parametrize("name", ["taught", pytest.param("alone", marks=pytest.mark.exhaustive)])
WORLD = small_world(num_jobs=10, num_evaluation=2)
KILLED = """
import os, signal, sys
from pathlib import Path
from agents import saving
from agents.on_ray.connecting import keeping_termination
from tests.reliability.test_crashes import RUNS, trainer

whole = saving.write_manifest
def killed(folder):
    if folder.name.startswith("iteration_0000002"):
        os.kill(os.getpid(), signal.SIGKILL)
    whole(folder)
saving.write_manifest = killed
trainer(Path(sys.argv[1]), RUNS[sys.argv[2]]).run()
"""


@pytest.fixture(scope="module")
def unbroken(tmp_path_factory):
    """The folder and the state of a run without any interruption, by settings."""
    found = {}

    def play(settings):
        if settings not in found:
            folder = tmp_path_factory.mktemp("unbroken")
            found[settings] = folder, trainer(folder, settings).run()
        return found[settings]

    return play


def last(folder):
    return weights_of(folder / "checkpoints" / "last")


def ends_like(folder, settings, unbroken):
    """Whether a resumed run ends with the weights, the validation and the sampled episodes of an unbroken one."""
    whole, state = unbroken(settings)
    told = Told()
    resumed = trainer(folder, settings, told).run()
    assert resumed == state
    assert equal(last(folder), last(whole))
    curves = [scalars(each / "tensorboard" / "policy") for each in (folder, whole)]
    for tag in ("train/mean_jct", "train/episode_length", "learner/policy_loss", "learner/entropy"):
        ours, theirs = (curve.get(tag) for curve in curves)
        assert ours == theirs, tag
    return told


@EACH_RUN
def test_a_run_that_breaks_after_every_iteration_equals_the_unbroken_one(tmp_path, unbroken, name):
    settings = RUNS[name]
    for iteration in (1, 2):
        with pytest.raises(KeyboardInterrupt):
            trainer(tmp_path, settings, Told("group_ppo", iteration)).run()
    told = ends_like(tmp_path, settings, unbroken)
    assert told.notes[:1] == ["resumed after iteration 2"]
    assert told.steps == [("group_ppo", 3)]


@EACH_RUN
def test_a_run_killed_while_it_writes_a_state_goes_on_from_the_one_before(tmp_path, unbroken, name):
    """SIGKILL, which nothing can catch: the state of iteration 1 is whole, that of iteration 2 is not there."""
    path = os.pathsep.join([str(REPOSITORY), str(REPOSITORY / "scripts")])
    command, environment = [sys.executable, "-c", KILLED, str(tmp_path), name], {**os.environ, "PYTHONPATH": path}
    done = subprocess.run(command, env=environment, capture_output=True)
    assert done.returncode == -signal.SIGKILL, done.stderr
    names = {each.name for each in (tmp_path / "checkpoints" / "states").iterdir()}
    assert names == {"iteration_0000000", "iteration_0000001", "iteration_0000002.part"}
    told = ends_like(tmp_path, RUNS[name], unbroken)
    assert told.notes[:1] == ["resumed after iteration 1"]
    assert not list(tmp_path.rglob("*.part*"))


def damage(path, how):
    if how == "truncated":
        path.write_bytes(path.read_bytes()[:1000])
    elif how == "one bit":
        content = bytearray(path.read_bytes())
        content[len(content) // 2] ^= 1
        path.write_bytes(bytes(content))
    elif how == "not text":
        path.write_bytes(b"\xff\xfe\x00")
    else:
        path.unlink()


@pytest.mark.parametrize("name", ["learner.pkl", "state.json", "manifest.json"])
@pytest.mark.parametrize("how", ["truncated", "one bit", "not text", "removed"])
def test_a_damaged_state_is_named_and_the_one_before_it_is_used(tmp_path, unbroken, name, how):
    folder, _ = unbroken(TAUGHT)
    states = tmp_path / "states"
    shutil.copytree(folder / "checkpoints" / "states", states)
    if how != "truncated" or (states / "iteration_0000003" / name).stat().st_size > 1000:
        damage(states / "iteration_0000003" / name, how)
        notes: list[str] = []
        found = SavedStates(states).intact(notes.append, tmp_path / "none")
        assert found == states / "iteration_0000002"
        assert "iteration_0000003 is damaged" in notes[0]
        assert notes[0].endswith("the state before it is used")
        assert "\n" not in notes[0]


def test_after_damage_a_run_ends_as_the_unbroken_one(tmp_path, unbroken):
    folder, _ = unbroken(TAUGHT)
    shutil.copytree(folder / "checkpoints", tmp_path / "checkpoints")
    damage(tmp_path / "checkpoints" / "states" / "iteration_0000003" / "learner.pkl", "one bit")
    (tmp_path / "state.json").write_text("damaged, and only for readers")
    (tmp_path / "tensorboard").write_text("no folder")
    told = Told()
    assert trainer(tmp_path, TAUGHT, told).run() == unbroken(TAUGHT)[1]
    assert equal(last(tmp_path), last(folder))
    assert "learner.pkl has changed" in told.notes[0]
    assert "no curves from here on" in told.notes[1]
    assert told.notes[2] == "resumed after iteration 2"
    here, there = (json.loads((each / "state.json").read_text()) for each in (tmp_path, folder))
    assert len(here.pop("cpu_time")) == len(there.pop("cpu_time")) == 3  # times are the only figures that differ
    assert here.pop("progress")["env_steps"] == there.pop("progress")["env_steps"]
    assert here == there


def test_without_an_undamaged_state_one_line_says_so(tmp_path, unbroken):
    folder, _ = unbroken(TAUGHT)
    shutil.copytree(folder / "checkpoints" / "states", tmp_path / "checkpoints" / "states")
    for path in tmp_path.rglob("learner.pkl"):
        damage(path, "one bit")
    with pytest.raises(CheckpointError, match="is damaged .*and there is no other state; start a new run") as error:
        trainer(tmp_path, TAUGHT).run()
    assert "\n" not in str(error.value)
    shutil.rmtree(tmp_path / "checkpoints")
    (tmp_path / "state.json").touch()
    with pytest.raises(CheckpointError, match="holds no saved state, though there is state.json"):
        trainer(tmp_path, TAUGHT).run()


@pytest.mark.parametrize(
    "place",
    [
        "write_whole",
        *(pytest.param(place, marks=pytest.mark.exhaustive) for place in ("write_manifest", "_force_to_disk")),
    ],
)
def test_a_full_disk_is_told_in_one_line_and_the_run_goes_on_later(tmp_path, unbroken, monkeypatch, place):
    """The disk is full from the second iteration on, wherever that is noticed first."""
    whole = getattr(saving, place)

    def full(path, *text):
        if any("iteration_0000002" in part for part in path.parts):
            raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC), str(path))
        whole(path, *text)

    for module in (saving, sys.modules["agents.training"]):
        if hasattr(module, place):
            monkeypatch.setattr(module, place, full)
    with pytest.raises(CheckpointError, match=r"cannot be written \(No space left on device\); what was") as error:
        trainer(tmp_path, TAUGHT).run()
    assert "\n" not in str(error.value)
    assert not list(tmp_path.rglob("*.part*"))
    monkeypatch.undo()
    told = ends_like(tmp_path, TAUGHT, unbroken)
    assert told.notes[:1] == ["resumed after iteration 1"]


class Limiting(Told):
    """Lets no file grow beyond a size once the first iteration has been saved, as a full disk or a quota would."""

    def __init__(self, size):
        super().__init__()
        self.size = size

    def step(self, done, figures):
        super().step(done, figures)
        if self.steps[-1] == ("group_ppo", 1):
            resource.setrlimit(resource.RLIMIT_FSIZE, (self.size, resource.getrlimit(resource.RLIMIT_FSIZE)[1]))


@pytest.mark.parametrize("size", [100, pytest.param(8_000, marks=pytest.mark.exhaustive)])
def test_writes_that_the_operating_system_refuses_are_told_in_one_line(tmp_path, unbroken, size):
    """The kernel refuses, so it does not matter which library writes."""
    before = resource.getrlimit(resource.RLIMIT_FSIZE)
    try:
        with pytest.raises(CheckpointError, match=r"cannot be written \(.*; what was saved before is") as error:
            trainer(tmp_path, TAUGHT, Limiting(size)).run()
    finally:
        resource.setrlimit(resource.RLIMIT_FSIZE, before)
    assert "\n" not in str(error.value)
    assert not list(tmp_path.glob("checkpoints/states/*.part*"))
    told = ends_like(tmp_path, TAUGHT, unbroken)
    assert told.notes[:1] == ["resumed after iteration 1"]


def write_something(folder: Path) -> None:
    (folder / "text").write_text("x")


def test_only_the_last_states_are_kept(tmp_path):
    states = SavedStates(tmp_path / "states", keep=2)
    for iteration in (0, 1, 2, 10):
        states.save(iteration, write_something)
    assert [path.name for path in states.paths()] == ["iteration_0000010", "iteration_0000002"]
    assert states.intact(print, tmp_path) == states.paths()[0]


def test_a_termination_is_an_interrupt_in_every_command(tmp_path, capsys):
    """Slurm and Docker send SIGTERM."""
    with pytest.raises(SystemExit) as ended, one_line_errors(), resumable(tmp_path):
        signal.raise_signal(signal.SIGTERM)
    assert ended.value.code == 130
    (line,) = capsys.readouterr().err.splitlines()
    assert line.startswith("interrupted; nothing is kept yet; begin anew in its folder with python")
    assert signal.getsignal(signal.SIGTERM) is signal.SIG_IGN


@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGTERM])
def test_an_interrupt_that_a_library_clears_is_raised_again(number, monkeypatch, capsys):
    monkeypatch.setattr("murmuration.config.errors.AGAIN", 0.05)

    def go_on():
        with suppress(KeyboardInterrupt):  # as NumPy does
            signal.raise_signal(number)
        for _ in range(1000):
            time.sleep(0.02)

    with pytest.raises(SystemExit) as ended, one_line_errors():
        go_on()
    assert ended.value.code == 130
    assert capsys.readouterr().err == "interrupted\n"


def test_numpy_clears_an_interrupt_while_it_looks_for_attributes():
    """This is why interrupts are raised again. If it fails, NumPy has changed, and what is said of it is wrong."""

    class Interrupting(type):
        def __getattr__(cls, name):
            raise KeyboardInterrupt

    class Odd(metaclass=Interrupting):
        pass

    np.asarray(Odd())


def test_an_interrupt_on_its_way_out_is_not_disturbed(monkeypatch):
    monkeypatch.setattr("murmuration.config.errors.AGAIN", 0.02)
    cleaned = []

    @contextmanager
    def workers():
        try:
            yield
        finally:
            time.sleep(0.1)
            cleaned.append("workers")

    def work():
        try:
            signal.raise_signal(signal.SIGTERM)
        finally:
            time.sleep(0.1)
            cleaned.append("files")

    with pytest.raises(SystemExit) as ended, one_line_errors(), workers():
        work()
    time.sleep(0.1)
    assert ended.value.code == 130
    assert cleaned == ["files", "workers"]


def test_an_error_that_comes_of_an_interrupt_is_the_interrupt(tmp_path, capsys):
    def stop():
        try:
            raise KeyboardInterrupt
        finally:
            raise SystemError("while workers are stopped")

    with pytest.raises(SystemExit) as ended, one_line_errors(), resumable(tmp_path):
        stop()
    assert ended.value.code == 130
    (line,) = capsys.readouterr().err.splitlines()
    assert "begin anew in its folder with python" in line


def test_ray_does_not_take_the_handler_of_a_termination():
    interrupt_on_termination()
    own = signal.getsignal(signal.SIGTERM)
    with keeping_termination():
        signal.signal(signal.SIGTERM, lambda *_: None)  # as ray.init does
    assert signal.getsignal(signal.SIGTERM) is own


@pytest.mark.parametrize(("written", "said"), [(["fifo"], "the records of fifo"), ([], "the records of no scheduler")])
def test_an_interrupted_comparison_says_which_records_it_keeps(tmp_path, written, said):
    task = {"name": "t", "version": 1, "modified": False}
    recorded = Recorded(records=TaskRecords(tmp_path, task), pending={"fifo": {}, "srtf": {}}, written=written)
    line = f"t-v1.zip keeps {said}; the same command plays the others$"
    with pytest.raises(KeyboardInterrupt, match=line), saying_what_is_kept(recorded):
        raise KeyboardInterrupt
    with pytest.raises(KeyboardInterrupt, match="^$"), saying_what_is_kept(Recorded()):
        raise KeyboardInterrupt


@pytest.mark.parametrize("content", ["{}", '{"a.txt": "0"}'])
def test_a_manifest_that_lacks_files_is_damage(tmp_path, content):
    states = SavedStates(tmp_path / "states")
    states.save(1, write_something)
    (states.paths()[0] / "manifest.json").write_text(content)
    with pytest.raises(CheckpointError, match="manifest.json lacks "):
        states.intact(print, tmp_path / "state.json")


def test_a_second_interrupt_while_a_run_stops_is_one_line_too(tmp_path, capsys):
    def stop():
        try:
            raise KeyboardInterrupt
        finally:
            raise KeyboardInterrupt  # while workers are stopped and files closed

    with pytest.raises(SystemExit) as ended, one_line_errors(), resumable(tmp_path):
        stop()
    assert ended.value.code == 130
    assert len(capsys.readouterr().err.strip().splitlines()) == 1
    assert signal.getsignal(signal.SIGINT) is signal.SIG_IGN  # a third one has nothing left to interrupt
    signal.signal(signal.SIGINT, signal.default_int_handler)


def test_a_full_disk_outside_of_training_is_one_line(capsys):
    with pytest.raises(SystemExit) as ended, one_line_errors():
        raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC), "runs/compare/x/results.json")
    assert ended.value.code == 2
    assert capsys.readouterr().err == (
        "error: runs/compare/x/results.json: cannot be written (No space left on device); make room and run again\n"
    )


def test_a_best_checkpoint_that_was_removed_is_replaced_by_the_best_of_the_next_validations(tmp_path, unbroken):
    folder, state = unbroken(TAUGHT)
    shutil.copytree(folder / "checkpoints" / "states", tmp_path / "checkpoints" / "states")
    damage(tmp_path / "checkpoints" / "states" / "iteration_0000003" / "learner.pkl", "one bit")
    told = Told()
    resumed = trainer(tmp_path, TAUGHT, told).run()
    assert any("best is missing; the best of the next validations takes its place" in note for note in told.notes)
    assert resumed.best_iteration == 3
    assert (tmp_path / "checkpoints" / "best" / "policy.json").is_file()
    assert resumed.validation == state.validation
