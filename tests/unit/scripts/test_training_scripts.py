"""`train.py` and `evaluate.py` as a user runs them: output, files, and mistakes in one line."""

import importlib
import io
import json
import os
import re
import subprocess
import sys
from contextlib import redirect_stderr, redirect_stdout
from pathlib import Path

import pytest

SCRIPTS = Path(__file__).resolve().parents[3] / "scripts"
TINY = [
    "task=none",
    "cluster=small_16",
    "workload.num_jobs=12",
    "workload.num_evaluation=1",
    "trainer.iterations=1",
    "trainer.validate_every=1",
    "trainer.num_validation=1",
    "trainer.picture_every=0",
    "trainer=imitation",
    "trainer.imitation.passes=1",
    "trainer.imitation.num_workloads=2",
    "trainer.imitation.epochs=1",
    "trainer.method.num_workloads=2",
    "trainer.method.group_size=2",
    "scheduler=[fifo,srtf]",
]


def run(folder, script, *arguments, **environment):
    """A script started in a folder, as a user would."""
    command = [sys.executable, str(SCRIPTS / f"{script}.py"), *arguments]
    environment = {**os.environ, "COLUMNS": "200", "OMP_NUM_THREADS": "1", **environment}
    return subprocess.run(command, cwd=folder, capture_output=True, text=True, env=environment, timeout=600)


def run_here(folder, script, *arguments):
    """A script within this process, which saves the seconds of importing torch and Ray."""
    out, err, code = io.StringIO(), io.StringIO(), 0
    with pytest.MonkeyPatch.context() as patch, redirect_stdout(out), redirect_stderr(err):
        patch.chdir(folder)
        patch.setattr(sys, "argv", [f"{script}.py", *arguments])
        patch.setenv("COLUMNS", "200")
        patch.setenv("HYDRA_FULL_ERROR", "0")  # so that the context undoes what the script sets
        patch.setenv("PYTHONPATH", os.environ.get("PYTHONPATH", ""))
        try:
            importlib.import_module(script).main()
        except SystemExit as left:
            code = int(left.code or 0)
    return subprocess.CompletedProcess([script, *arguments], code, out.getvalue(), err.getvalue())


def run_folder(folder, done):
    """The folder that a script printed at its end."""
    return folder / re.findall(r"^run: (.*)$", done.stdout, re.MULTILINE)[-1]


@pytest.fixture(scope="module")
def trained(tmp_path_factory):
    """(working directory, outcome, run folder) of a tiny training run that evaluates itself."""
    here = tmp_path_factory.mktemp("train")
    done = run(here, "train", *TINY, "evaluate=true")
    assert done.returncode == 0, done.stderr
    return here, done, run_folder(here, done)


@pytest.mark.slow
def test_training_writes_checkpoints_curves_and_a_table(trained):
    _, done, folder = trained
    assert (folder / "checkpoints" / "best" / "weights.safetensors").exists()
    assert list((folder / "tensorboard").rglob("events.out.*"))
    rows = json.loads((folder / "results.json").read_text())["schedulers"]
    assert [row["scheduler"] for row in rows] == ["policy", "fifo", "srtf"]
    assert "best baseline on 1 validation workload:" in " ".join(done.stdout.split())
    assert f"tensorboard --logdir {folder.relative_to(folder.parents[2])}/tensorboard" in done.stdout


@pytest.mark.slow
def test_the_terminal_shows_nothing_of_rllibs_log(trained):
    assert trained[1].stderr == ""


@pytest.mark.slow
def test_a_policy_is_evaluated_in_the_setup_of_its_training(trained):
    here, _, folder = trained
    evaluated = run_here(here, "evaluate", f"checkpoint={folder.relative_to(here)}", "scheduler=[fifo,srtf]")
    assert evaluated.returncode == 0, evaluated.stderr
    one, other = (
        json.loads((place / "results.json").read_text())["schedulers"]
        for place in (folder, run_folder(here, evaluated))
    )
    assert [row["scheduler"] for row in one] == [row["scheduler"] for row in other]
    assert [row["mean_jct"] for row in one] == [row["mean_jct"] for row in other]


@pytest.mark.slow
def test_typed_options_override_the_recalled_setup(trained):
    here, _, folder = trained
    checkpoint = f"checkpoint={folder.relative_to(here) / 'checkpoints' / 'last'}"
    evaluated = run_here(
        here, "evaluate", checkpoint, "scheduler=fifo", "workload.load=1.5", "split=validation", "network=25g"
    )
    assert evaluated.returncode == 0, evaluated.stderr
    assert "synthetic-validation-0: 1 x 12 jobs on small_16, 25 Gb/s" in evaluated.stdout
    assert "V100 1.50" in evaluated.stdout


@pytest.mark.slow
def test_a_resumed_run_continues_in_its_own_folder(trained):
    here, _, folder = trained
    done = run_here(here, "train", f"resume={folder.relative_to(here)}", "trainer.iterations=2", "evaluate=false")
    assert done.returncode == 0, done.stderr
    assert "resumed after iteration 1" in done.stdout
    assert json.loads((folder / "state.json").read_text())["iteration"] == 2
    assert run_folder(here, done) == folder


def one_line(code, error):
    """The only line that a mistake prints on standard error."""
    assert code == 2, error
    assert len(error.strip().splitlines()) == 1, error
    return error.strip()


MISTAKES = [
    ("train", ["scheduler=fofo"], "no such scheduler, did you mean fifo?"),
    ("train", ["resume=nowhere"], "resume=nowhere: no such folder"),
    ("train", ["resume=."], "holds no training run; give the folder that training printed"),
    ("train", ["trainer.itterations=3"], "takes no itterations, did you mean iterations?"),
    ("train", ["processes=half"], "it must be a whole number of at least 1"),
    ("train", ["trainer.method.lr=fast"], "trainer.method.lr is 'fast'; it must be a number"),
    ("train", ["agent=options_attention", "agent.options.width=31"], "width a multiple of heads"),
    ("train", ["+agent.options.hiden=32"], "unexpected keyword argument 'hiden'"),
    ("train", ["trainer=imitation", "trainer.teacher=sertf"], "it must be best, none or one of"),
    (
        "train",
        ["cluster=small_16", "cluster.groups=[{gpu_type:V100,num_nodes:1,num_gpus:4}]"],
        "leave larger jobs out with workload.max_gpus=4, or take a larger cluster",
    ),
    ("evaluate", ["checkpoint=nowhere"], "checkpoint=nowhere: no such folder; give the one that training printed"),
    ("evaluate", ["checkpoint=."], "contains no policy.json; give the folder of a training run or of a checkpoint"),
]


@pytest.mark.parametrize(("script", "words", "said"), MISTAKES, ids=[" ".join(words) for _, words, _ in MISTAKES])
def test_mistakes_are_one_line(tmp_path, script, words, said):
    done = run_here(tmp_path, script, *words)
    error = one_line(done.returncode, done.stderr)
    assert error.startswith("error: ")
    assert said in error


@pytest.mark.slow
def test_a_policy_plays_on_a_cluster_with_other_gpu_types(trained):
    """No feature depends on how many types there are."""
    here, _, folder = trained
    own = ("cluster=three_types_64", "scheduler=fifo", "episodes=1")
    done = run_here(here, "evaluate", f"checkpoint={folder.relative_to(here)}", *own)
    assert done.returncode == 0, done.stderr
    assert [line.split()[0] for line in done.stdout.splitlines() if line.startswith(" policy")] == ["policy"]


def test_help_needs_neither_torch_nor_ray(tmp_path):
    """Run both scripts with `--help` completely, then look at the imported modules."""
    code = """
import runpy, sys
folder = sys.argv[1]
sys.path.insert(0, folder)
for name in ("train", "evaluate"):
    sys.argv = [f"{folder}/{name}.py", "--help"]
    try:
        runpy.run_path(sys.argv[0], run_name="__main__")
    except SystemExit:
        pass
print("heavy:", sorted({"torch", "ray", "safetensors"} & set(sys.modules)))
"""
    command = [sys.executable, "-c", code, str(SCRIPTS)]
    done = subprocess.run(command, cwd=tmp_path, capture_output=True, text=True, check=True, timeout=600)
    assert "heavy: []" in done.stdout
    assert done.stdout.count("scripts/list.py") == 2
