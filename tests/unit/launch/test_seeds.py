"""Training seeds in processes of their own: the same figures, one message when they fail or are interrupted."""

import json
import signal
import subprocess
import sys

import pytest

from tests.unit.launch.test_scripts import SCRIPTS, run

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
    *("trainer.method.group_size=2", "hydra.run.dir=made"),
)
FATAL = """
import multiprocessing, os

from envs.episodes import TeamReward


class Fatal(TeamReward):
    def __init__(self, jct=1.0, makespan=0.0):
        if multiprocessing.parent_process() is not None:
            os._exit(9)
        super().__init__(jct, makespan)
"""


def train(folder, *arguments, **environment):
    folder.mkdir(exist_ok=True)
    return run(folder, "train", *SMALL, *arguments, **environment)


def validations(folder):
    """Return the validations of each training seed."""
    states = [json.loads((folder / "made" / f"seed_{seed}" / "state.json").read_text()) for seed in (0, 1)]
    return [state["validation"] for state in states]


def test_seeds_at_the_same_time_reach_what_they_reach_in_turn(tmp_path):
    options = ("trainer.iterations=2", "trainer.validate_every=1")
    in_turn = train(tmp_path / "a", *options, "processes=1")
    assert in_turn.returncode == 0, in_turn.stderr
    at_once = train(tmp_path / "b", *options, "processes=2")
    assert at_once.returncode == 0, at_once.stderr
    assert "training seeds 0 to 1, 2 at a time" in at_once.stdout
    assert "seed 1: best baseline on 2 validation workloads: fifo" in at_once.stdout
    on_ray = train(tmp_path / "c", *options, "ray.address=local")
    assert on_ray.returncode == 0, on_ray.stderr
    assert "training seeds 0 to 1, on Ray" in on_ray.stdout
    assert "seed 1: 0 CPU-s: mean JCT" in on_ray.stdout
    found = validations(tmp_path / "b")
    assert found == validations(tmp_path / "a") == validations(tmp_path / "c")
    assert found[0] != found[1]
    assert (tmp_path / "b" / "made" / "learning_curves.png").exists()


def test_a_seed_whose_process_dies_is_one_line(tmp_path):
    (tmp_path / "fatal.py").write_text(FATAL)
    options = ("trainer.iterations=1", "env.reward._target_=fatal.Fatal", "processes=2")
    failed = train(tmp_path / "a", *options, PYTHONPATH=str(tmp_path))
    assert failed.returncode == 2
    assert failed.stderr.strip().splitlines()[-1].startswith("error: seeds: a process that trained a seed has died")
    assert "Traceback" not in failed.stderr


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
        out, err = process.communicate(timeout=60)  # ends only when no process holds the pipes any more
    if how == signal.SIGKILL:
        return
    assert process.returncode == 130, out + err
    assert "Traceback" not in err
    assert err.strip().splitlines()[-1].endswith("train.py resume=made")
    assert any(tmp_path.glob("made/seed_*/checkpoints/states/iteration_*"))
