"""Training seeds in processes of their own: the same figures, one message when they fail or are interrupted."""

import json
import multiprocessing
import os
import signal
import subprocess
import sys
import threading
import time
from typing import Any, cast

import pytest

from agents.terminal import ProgressListener
from envs.types import MurmurationError
from murmuration.runs.dependence import depend_on_parent
from murmuration.runs.seeds import train_at_once
from tests.reliability.faulty import end_process, wait_in
from tests.unit.runs.test_scripts import SCRIPTS
from tests.unit.scripts.test_training_scripts import run_here

SMALL = (
    *(
        "env=options",
        "agent=options",
        "trainer=group_ppo",
        "scheduler=fifo",
        "task=none",
        "cluster=small_16",
        "workload.num_jobs=10",
    ),
    *("evaluate=false", "seeds=2", "trainer.num_validation=2", "trainer.method.num_workloads=2"),
    *("trainer.method.group_size=2", "trainer.picture_every=0", "hydra.run.dir=made"),
)
SHORT = ("trainer.iterations=2", "trainer.validate_every=1")


def train(folder, *arguments):
    folder.mkdir(exist_ok=True)
    return run_here(folder, "train", *SMALL, *arguments)


def validations(folder):
    """Return the validations of each training seed."""
    states = [json.loads((folder / "made" / f"seed_{seed}" / "state.json").read_text()) for seed in (0, 1)]
    return [state["validation"] for state in states]


@pytest.fixture(scope="module")
def in_turn(tmp_path_factory):
    """The validations of seeds that were trained one after another."""
    folder = tmp_path_factory.mktemp("in turn")
    done = train(folder, *SHORT, "processes=1")
    assert done.returncode == 0, done.stderr
    return validations(folder)


def test_seeds_at_the_same_time_reach_what_they_reach_in_turn(tmp_path, in_turn):
    done = train(tmp_path, *SHORT, "processes=2")
    assert done.returncode == 0, done.stderr
    assert "training seeds 0 to 1, 2 at a time" in done.stdout
    assert "seed 1: best baseline on 2 validation workloads: fifo" in done.stdout
    assert validations(tmp_path) == in_turn
    assert in_turn[0] != in_turn[1]
    assert (tmp_path / "made" / "learning_curves.png").exists()


@pytest.mark.exhaustive  # calls on Ray: tests/reliability/test_cluster.py
def test_seeds_on_ray_reach_what_they_reach_in_turn(tmp_path, in_turn):
    done = train(tmp_path, *SHORT, "ray.address=local")
    assert done.returncode == 0, done.stderr
    assert "training seeds 0 to 1, on Ray" in done.stdout
    assert "seed 1: 0 CPU-s: mean JCT" in done.stdout
    assert validations(tmp_path) == in_turn


def test_a_seed_whose_process_dies_is_one_line(tmp_path, monkeypatch):
    monkeypatch.setattr("murmuration.runs.seeds.train_apart", end_process)
    said = "^seeds: a process that trained a seed has died.* go on with resume="
    with pytest.raises(MurmurationError, match=said) as error, ProgressListener() as listener:
        train_at_once({0: (cast(Any, None), tmp_path)}, {}, 1, listener)
    assert "\n" not in str(error.value)


def wait_until(happened):
    """Wait for ten minutes at most."""
    for _ in range(12_000):
        if happened():
            return
        time.sleep(0.05)


def lives(process):
    try:
        os.kill(process, 0)
    except ProcessLookupError:
        return False
    return True


def test_an_interrupt_ends_the_process_of_a_seed(tmp_path, monkeypatch):
    monkeypatch.setattr("murmuration.runs.seeds.train_apart", wait_in)

    def interrupt():
        wait_until((tmp_path / "waits").exists)
        os.kill(os.getpid(), signal.SIGINT)

    threading.Thread(target=interrupt).start()
    with pytest.raises(KeyboardInterrupt), ProgressListener() as listener:
        train_at_once({0: (cast(Any, None), tmp_path)}, {}, 1, listener)
    waiting = int((tmp_path / "waits").read_text())
    wait_until(lambda: not lives(waiting))
    assert not lives(waiting)


def wait_beside(pipe):
    """Start a process that depends on this one and keeps the pipe open, and wait to be killed."""
    context = multiprocessing.get_context("fork")
    context.Process(target=sleep_long, args=(pipe,)).start()
    time.sleep(600)


def sleep_long(pipe):
    depend_on_parent()
    pipe.send(os.getpid())
    time.sleep(600)


def test_a_process_ends_with_one_that_was_killed():
    context = multiprocessing.get_context("fork")
    reader, writer = context.Pipe(duplex=False)
    parent = context.Process(target=wait_beside, args=(writer,))
    parent.start()
    writer.close()
    assert reader.recv() != parent.pid
    parent.kill()
    with pytest.raises(EOFError):  # no process holds the pipe any more
        reader.recv()
    parent.join()


@pytest.mark.exhaustive
@pytest.mark.parametrize("how", [signal.SIGINT, signal.SIGKILL])
def test_all_seeds_end_with_the_first_process(tmp_path, how):
    """After Ctrl-C it says how to go on; killed, it cannot."""
    options = ("trainer.iterations=100000", "trainer.save_every=1", "trainer.validate_every=1", "processes=2")
    command = [sys.executable, str(SCRIPTS / "train.py"), *SMALL, *options]
    with subprocess.Popen(
        command, cwd=tmp_path, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True, start_new_session=True
    ) as process:
        assert process.stdout is not None
        for line in process.stdout:
            if line.startswith("seed ") and "CPU-s" in line and not line.split(": ")[1].startswith("0 "):
                break
        process.send_signal(how)
        out, err = process.communicate(timeout=600)  # ends only when no process holds the pipes any more
    if how == signal.SIGKILL:
        return
    assert process.returncode == 130, out + err
    assert "Traceback" not in err
    assert err.strip().splitlines()[-1].endswith("train.py resume=made")
    assert any(tmp_path.glob("made/seed_*/checkpoints/states/iteration_*"))
