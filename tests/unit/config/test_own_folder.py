"""A folder outside the clone: YAML files of the user by `--config-dir`, Python modules in the working directory."""

import json
import os
import sys

import pytest

from murmuration.config.choices import describe_groups, search_in
from murmuration.config.errors import ChoiceError
from tests.unit.runs.test_scripts import run
from tests.unit.scripts.test_training_scripts import TINY, run_here

MODULE = """
from envs.performance import IdealModel


class Shortest:
    def __init__(self, depth: int = 1):
        self.depth = depth

    def reset(self, cluster, rng):
        assert self.depth == 2

    def schedule(self, view):
        allocation = view.allocation(keep_running=True)
        for job in sorted(view.queued, key=lambda job: view.num_gpus[job]):
            allocation.pack(int(job))
        return allocation


class Slow(IdealModel):
    \"\"\"A model of the user's own.\"\"\"
"""
NETWORK = """
from agents.networks.option_scorer import OptionScorer


class Mine(OptionScorer):
    \"\"\"A network of the user's own.\"\"\"
"""
CONFIGS = {
    "scheduler/shortest": "# Smallest job first.\n_target_: my_parts.Shortest\n",
    "workload/dozen": "_target_: envs.workloads.SyntheticSource\nname: dozen\nnum_jobs: 12\nnum_evaluation: 1\n",
    "cluster/pair": "_target_: envs.cluster.build_cluster\n"
    "name: pair\ngroups: [{gpu_type: V100, num_nodes: 2, num_gpus: 8}]\n",
    "performance/slow": "_target_: my_parts.Slow\n",
    "scenario/costly": "_target_: envs.simulation.Scenario\nrestart_delay: 90.0\n",
    "agent/mine": "_target_: agents.networks.Blueprint\ntarget: my_network.Mine\n",
    "experiment/whole": "# @package _global_\nschedulers:\n  own:\n    _target_: my_parts.Shortest\n    depth: 2\n",
}
CHOSEN = [
    "task=none",
    "workload=dozen",
    "cluster=pair",
    "performance=slow",
    "scenario=costly",
    "schedulers.shortest.depth=2",
]


@pytest.fixture
def project(tmp_path, monkeypatch):
    """A working directory with modules, and configs in its subfolder `mine`."""
    (tmp_path / "my_parts.py").write_text(MODULE)
    (tmp_path / "my_network.py").write_text(NETWORK)
    for name, text in CONFIGS.items():
        path = tmp_path / "mine" / f"{name}.yaml"
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(text)
    monkeypatch.syspath_prepend(tmp_path)  # as the working directory is, for a script in a process of its own
    yield tmp_path
    for name in ("my_parts", "my_network"):
        sys.modules.pop(name, None)


def results(folder, done):
    """Rows of a script's results by scheduler."""
    assert done.returncode == 0, done.stderr
    *_, last = done.stdout.strip().splitlines()
    rows = json.loads((folder / last.removeprefix("run: ") / "results.json").read_text())["schedulers"]
    return {row["scheduler"]: row for row in rows}


def test_compare_takes_parts_of_the_users_own(project):
    done = run(project, "compare", *CHOSEN, "--config-dir", "mine", "scheduler=[fifo,shortest]")
    assert list(results(project, done)) == ["fifo", "shortest"]
    assert "12 jobs on pair (16 V100)" in done.stdout


def test_an_experiment_of_the_users_own_names_its_schedulers(project):
    small = ["task=none", "workload=dozen", "cluster=pair"]
    done = run_here(project, "compare", "-cd", "mine", "experiment=whole", *small)
    assert list(results(project, done)) == ["own"]


@pytest.mark.slow
def test_training_takes_parts_of_the_users_own(project):
    shapes = ("cluster=", "workload=", "scheduler=")
    tiny = [word for word in TINY if not word.startswith(shapes)]
    own = ["agent=mine", "scheduler=[fifo,shortest]", "evaluate=true"]
    done = run_here(project, "train", "--config-dir", "mine", *CHOSEN, *own, *tiny)
    assert list(results(project, done)) == ["policy", "fifo", "shortest"]
    *_, last = done.stdout.strip().splitlines()
    checkpoint = f"checkpoint={last.removeprefix('run: ')}"
    again = run_here(project, "evaluate", "--config-dir", "mine", checkpoint, "scheduler=fifo")
    assert list(results(project, again)) == ["policy", "fifo"]


def test_parts_of_the_users_own_are_described(project):
    found = describe_groups(["scheduler", "performance"], str(project / "mine"))
    assert found["scheduler"]["shortest"] == "Smallest job first."
    assert found["performance"]["slow"] == "A model of the user's own."
    assert "fifo_backfill" in found["scheduler"]


@pytest.mark.parametrize(
    ("arguments", "said"),
    [
        (["scheduler=shrtest"], "no such scheduler, did you mean shortest?"),
        (["scheduler=fifo", "cluster=pear"], "no such cluster, did you mean pair?"),
        (["scheduler=shortest", "scheduler.dept=2"], "takes no dept, did you mean depth?"),
    ],
)
def test_mistakes_are_one_line(project, arguments, said):
    done = run_here(project, "compare", "--config-dir", "mine", *arguments)
    assert (done.returncode, len(done.stderr.strip().splitlines())) == (2, 1)
    assert said in done.stderr


def test_a_folder_must_exist_and_hide_nothing(project):
    with pytest.raises(ChoiceError, match="--config-dir nowhere: no such folder"):
        search_in("nowhere")
    assert describe_groups(["scheduler"], str(project / "mine"))["scheduler"]["shortest"] == "Smallest job first."
    (project / "mine" / "scheduler" / "fifo.yaml").write_text("_target_: my_parts.Shortest\n")
    with pytest.raises(ChoiceError, match=r"fifo\.yaml: conf/scheduler has fifo already"):
        search_in(str(project / "mine"))
    (project / "mine" / "scheduler" / "fifo.yaml").rename(project / "mine" / "scheduler" / "choices.yml")
    with pytest.raises(ChoiceError, match=r"choices\.yml: tables of choices are read in conf/ only"):
        search_in(str(project / "mine"))


BOMB = "a0: &a0 [1, 2]\n" + "".join(
    f"a{level}: &a{level} [{', '.join([f'*a{level - 1}'] * 9)}]\n" for level in range(1, 9)
)


@pytest.mark.parametrize(
    ("text", "said"),
    [
        (BOMB, r"has more than 20,000 values once aliases are replaced"),
        ("a: &a [*a]\n", r"has more than 20,000 values once aliases are replaced"),
        ("a: " + "[" * 5000 + "]" * 5000, r"is nested more than 24 levels deep"),
        ("a: " + "{b: " * 5000, r"is nested more than 24 levels deep"),
        ("".join(f"a{i}: &a{i} [*a{i - 1}]\n" if i else "a0: &a0 [1]\n" for i in range(40)), r"is nested more than 24"),
        ("# " + "x" * 300_000, r"cannot be read \(it has more than 262,144 bytes\)"),
    ],
)
def test_a_file_that_grows_without_bounds_is_refused_before_it_is_loaded(tmp_path, text, said):
    path = tmp_path / "mine" / "workload" / "big.yaml"
    path.parent.mkdir(parents=True)
    path.write_text(text)
    with pytest.raises(ChoiceError, match=rf"big\.yaml: {said}") as error:
        search_in(str(tmp_path / "mine"))
    assert str(error.value).isprintable()


def test_a_pipe_among_the_files_is_refused(tmp_path):
    (tmp_path / "workload").mkdir()
    os.mkfifo(tmp_path / "workload" / "pipe.yaml")
    with pytest.raises(ChoiceError, match=r"pipe\.yaml: cannot be read \(it is no file\)"):
        search_in(str(tmp_path))


@pytest.mark.parametrize("text", ["a: &a [1, 2]\nb: *a\nc: [*a, *a]\n", "a: [1\n", "- 1\n---\n- 2\n", ""])
def test_aliases_of_moderate_size_are_allowed_and_other_mistakes_are_left_to_hydra(tmp_path, text):
    (tmp_path / "workload").mkdir()
    (tmp_path / "workload" / "mine.yaml").write_text(text)
    assert search_in(str(tmp_path))
