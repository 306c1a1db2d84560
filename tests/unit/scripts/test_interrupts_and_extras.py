"""Training that is interrupted and resumed, and the error of an installation without torch or ray."""

import json
import os
import shlex
import signal
import subprocess
import sys
import time

import pytest

from murmuration.config.errors import ChoiceError, explain_error, explain_missing_extra, interrupt_on_termination
from murmuration.runs.comparing import CURVES_ADDRESS, resumable
from tests.unit.scripts.test_training_scripts import SCRIPTS, TINY, one_line, run, run_here

INSTALL = "pip install -c constraints.txt -e '.[learn]'"


@pytest.fixture
def without(tmp_path):
    """A folder for PYTHONPATH in which importing a module fails as if it were not installed."""

    def hide(module):
        (tmp_path / "hidden").mkdir()
        text = f"raise ModuleNotFoundError(\"No module named '{module}'\", name='{module}')\n"
        (tmp_path / "hidden" / f"{module}.py").write_text(text)
        return str(tmp_path / "hidden")

    return hide


@pytest.mark.slow
@pytest.mark.parametrize(
    ("script", "module", "arguments"),
    [
        pytest.param("train", "ray", ["scheduler=fifo"], marks=pytest.mark.exhaustive),
        ("evaluate", "torch", ["scheduler=fifo", "checkpoint=."]),
    ],
)
def test_an_extra_that_is_not_installed_is_one_line(tmp_path, without, script, module, arguments):
    done = run(tmp_path, script, *arguments, PYTHONPATH=without(module))
    said = one_line(done.returncode, done.stderr)
    assert said == f"error: {module} is not installed; training and trained policies need it: {INSTALL}"


def test_only_modules_of_the_extra_are_explained():
    assert explain_missing_extra(ModuleNotFoundError("No module named 'ray.rllib'", name="ray.rllib"))
    assert explain_missing_extra(ModuleNotFoundError("No module named 'numpyy'", name="numpyy")) is None
    assert explain_missing_extra(ImportError("no")) is None
    wrapped = ChoiceError("agent._target_: cannot import agents.networks.option_scorer")
    wrapped.__cause__ = ModuleNotFoundError("No module named 'torch'", name="torch")
    assert INSTALL in str(explain_error(wrapped))


def test_a_run_prints_its_folder_first_and_how_to_resume_when_interrupted(tmp_path, monkeypatch, capsys):
    monkeypatch.chdir(tmp_path)
    monkeypatch.setattr(sys, "argv", ["scripts/train.py", "seed=1"])
    folder = tmp_path / "my runs" / "one"
    folder.mkdir(parents=True)
    with resumable(folder):
        out = capsys.readouterr().out
        shown = f"tensorboard --logdir 'my runs/one/tensorboard'  # then {CURVES_ADDRESS}"
        assert out == f"training in my runs/one\n{shown}\n"
    with (
        pytest.raises(KeyboardInterrupt, match="nothing is kept yet; begin anew in its folder with python"),
        resumable(folder),
    ):
        raise KeyboardInterrupt
    (folder / "checkpoints" / "states" / "iteration_0000003").mkdir(parents=True)
    with pytest.raises(KeyboardInterrupt) as interrupt, resumable(folder):
        raise KeyboardInterrupt
    assert str(interrupt.value) == "go on with python scripts/train.py 'resume=my runs/one'"


def last_words(process):
    """What a process that was interrupted prints; it is killed if it goes on, as where the shell ignores interrupts."""
    try:
        return process.communicate(timeout=600)
    except subprocess.TimeoutExpired:
        process.kill()
        raise


@pytest.mark.slow
def test_the_command_that_ctrl_c_prints_resumes_the_run(tmp_path):
    """A training run that would take hours, interrupted after its first checkpoint."""
    typed = [word for word in TINY if not word.startswith("trainer.iterations")]
    command = [sys.executable, str(SCRIPTS / "train.py"), *typed, "trainer.iterations=100000"]
    environment = {**os.environ, "COLUMNS": "200", "OMP_NUM_THREADS": "1"}
    pipe = subprocess.PIPE
    with subprocess.Popen(command, cwd=tmp_path, env=environment, text=True, stdout=pipe, stderr=pipe) as process:
        while not list(tmp_path.glob("runs/train/*/state.json")) and process.poll() is None:
            time.sleep(0.1)
        process.send_signal(signal.SIGTERM)  # as Slurm and Docker do; it counts as Ctrl-C
        out, err = last_words(process)
    (folder,) = (tmp_path / "runs" / "train").iterdir()
    assert out.startswith(f"training in {folder.relative_to(tmp_path)}\ntensorboard --logdir runs/train/")
    assert process.returncode == 130, err
    assert len(err.strip().splitlines()) == 1, err
    said, _, resume = err.strip().partition(" with ")
    assert said == "interrupted; go on"
    reached = json.loads((folder / "state.json").read_text())["iteration"]
    _, script, option = shlex.split(resume)
    assert (script, option) == (str(SCRIPTS / "train.py"), f"resume={folder.relative_to(tmp_path)}")
    done = run_here(tmp_path, "train", option, f"trainer.iterations={reached + 1}")
    assert done.returncode == 0, done.stderr
    assert f"resumed after iteration {reached}" in done.stdout
    assert json.loads((folder / "state.json").read_text())["iteration"] == reached + 1


def test_an_interrupt_waits_until_the_compiler_has_its_answer():
    """LLVM calls a function of llvmlite; without its result the process would crash."""
    answered = False

    def _raw_object_cache_getbuffer():
        nonlocal answered
        os.kill(os.getpid(), signal.SIGINT)
        time.sleep(0.2)
        answered = True

    def compile_and_wait():
        _raw_object_cache_getbuffer()
        time.sleep(5.0)

    interrupt_on_termination()
    with pytest.raises(KeyboardInterrupt):
        compile_and_wait()
    assert answered
