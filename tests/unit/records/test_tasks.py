"""The suite: hashes of the tasks, the episodes that are played, and the index of `docs/tasks.md`."""

import json
from importlib.metadata import version as released

import numpy as np
import pytest

from envs.evaluation.task import Task
from envs.types import MurmurationError
from murmuration.config.arguments import (
    BATCH_SCHEDULERS,
    FAST_SCHEDULERS,
    LEARNED_SCHEDULERS,
    NAMED_SCHEDULERS,
    PACKING_SCHEDULERS,
    SIMULATOR_SCHEDULERS,
    SLOW_SCHEDULERS,
    SLOWEST_SCHEDULERS,
    compose_options,
)
from murmuration.config.choices import list_choices, open_configs
from murmuration.config.describe import compose_comparison, describe_comparison, describe_problem
from murmuration.config.errors import ChoiceError
from murmuration.config.inputs import build_inputs, describe_task, leave_out, limit_slow
from murmuration.home import ROOT
from murmuration.records.task_pages import (
    TASKS,
    TaskCheck,
    check_task,
    write_hash,
)
from tests.unit.runs.test_scripts import here

__all__ = ["here"]  # a fixture
FROM_TRACES = {"philly-64": "traces/philly/philly_jobs.csv.gz", "itp-64": "traces/microsoft_itp/itp_jobs.csv.gz"}
SYNTHETIC = [name for name in TASKS if name not in FROM_TRACES]
SHARED = [
    *("task=shared-16", "workload.num_jobs=8", "workload.warm_up=0", "workload.measured=null"),
    "workload.num_evaluation=6",
]


def composed(*options, schedulers="[]"):
    with open_configs():
        return compose_options("compare", options, schedulers)


@pytest.mark.parametrize("name", SYNTHETIC)
def test_a_task_has_the_hash_that_its_file_names(name):
    check = check_task(name)
    assert check.agrees, check.describe()
    assert check.task.name == name
    assert list(check.task.hashes) == [check.task.version]


@pytest.mark.real_data
@pytest.mark.parametrize("name", FROM_TRACES)
def test_a_task_from_a_trace_has_the_hash_that_its_file_names(name, real_data, monkeypatch):
    file = real_data(FROM_TRACES[name])
    monkeypatch.setenv("MURMURATION_DATA", str(file).removesuffix(FROM_TRACES[name]))
    check = check_task(name)
    assert check.agrees, check.describe()


@pytest.mark.parametrize("name", FROM_TRACES)
def test_a_task_from_a_trace_says_its_name_and_which_release_plays_its_earlier_version(name):
    task = describe_problem(composed(f"task={name}")).task
    assert task is not None
    assert task.name == name
    assert list(task.hashes) == [task.version]
    assert task.version - 1 in task.earlier


def test_an_option_that_is_written_at_its_default_changes_no_hash():
    told = ("scenario.worker_shares=proportional", "+scenario.rounds.on_events=true", "+scenario.horizon=inf")
    plain, written, other = (
        describe_problem(composed("task=shared-16", *options)).hashed
        for options in ((), told, ("+scenario.rounds.max_stalls=99",))
    )
    assert written == plain
    assert other != plain


def test_synthetic_splits_share_no_job_and_have_fixed_episodes():
    source = build_inputs(describe_problem(composed(SHARED[0]))).source
    assert len(source.evaluation("test")) == 100
    works = [set(source.evaluation(split)[0].jobs["work"].tolist()) for split in ("train", "validation", "test")]
    fresh = source.episode(np.random.default_rng(0))
    works.append(set(fresh.jobs["work"].tolist()))
    assert sum(map(len, works)) == len(set.union(*works))


def test_full_64_is_the_task_of_the_scripts():
    with open_configs():
        for script in ("compare", "sweep", "train", "evaluate"):
            assert compose_options(script, [], "[]").task.name == "full-64"
        assert compose_options("train", ["experiment=from_nothing"], "[]").task.name == "shared-16"
        assert compose_options("compare", ["experiment=xval_muri"], "[]").task is None


def test_groups_that_are_typed_come_before_those_of_the_task():
    cfg = composed("cluster=small_16", "task=types-64", "scenario=full")
    assert (cfg.cluster.name, cfg.task.name, cfg.scenario.cpu_memory) == ("small_16", "types-64", "shared")


def test_the_objective_of_the_task_is_the_reward_of_training():
    with open_configs():
        plain = compose_options("train", ["task=full-64", "task.objective.makespan=5.0"], "[]")
        without = compose_options("train", ["task=none"], "[]")
    assert (plain.env.reward.jct, plain.env.reward.makespan) == (1.0, 5.0)
    assert (without.env.reward.jct, without.env.reward.makespan) == (1.0, 0.0)


def test_named_schedulers_exist():
    assert {*BATCH_SCHEDULERS, *NAMED_SCHEDULERS} <= set(list_choices("scheduler"))
    alone = [*SLOW_SCHEDULERS, *SLOWEST_SCHEDULERS, *FAST_SCHEDULERS]
    named = [*alone, *LEARNED_SCHEDULERS, *PACKING_SCHEDULERS, *SIMULATOR_SCHEDULERS]
    assert sorted(named) == sorted(list_choices("scheduler"))


def test_slow_schedulers_play_fewer_episodes_of_a_task():
    assert limit_slow(describe_problem(composed("task=full-64")).task, ["fifo", "afs", "pollux"]) == {
        "afs": 20,
        "pollux": 5,
    }
    assert limit_slow(None, ["fifo", "pollux"]) == {}


@pytest.mark.parametrize("name", FROM_TRACES)
def test_slow_schedulers_play_all_windows_of_a_trace(name):
    """The windows are in order of time, so the first 20 would be of the first weeks alone."""
    task = describe_problem(composed(f"task={name}")).task
    assert limit_slow(task, ["afs", "pollux"]) == {"afs": 100, "pollux": 10}


def test_schedulers_that_choose_batch_sizes_have_rows_where_they_may():
    assert set(leave_out(describe_comparison(composed("task=full-64", schedulers="all")))) == set(BATCH_SCHEDULERS)
    assert leave_out(describe_comparison(composed("task=batch-64", schedulers="all"))) == {}
    assert leave_out(describe_comparison(composed("task=full-64", "scheduler=elastic_dp"))) == {}


@pytest.mark.parametrize("wanted", [0, -1, "many", 2.5])
def test_impossible_numbers_of_episodes_are_refused(wanted):
    with pytest.raises(ChoiceError, match="episodes is"):
        compose_comparison(["task=none", f"episodes={wanted}"])


def test_what_differs_from_the_whole_test_split_is_said():
    problem = describe_problem(composed("task=shared-16"))
    inputs = build_inputs(problem)
    assert describe_task(problem, inputs, "test", 100)["task"]["complete"]
    told = describe_task(problem, inputs, "train", 5)["task"]
    assert told["label"].endswith("), split train, the first 5 of 100 episodes")
    assert not told["modified"]
    assert describe_task(describe_problem(composed("task=none")), inputs, None, 5) == {}


def test_a_comparison_of_a_modified_task_says_so(here, tmp_path):
    done = here(*SHARED, "scheduler=[fifo,themis]", "task.slow_episodes=5")
    assert done.code == 0, done.err
    assert "task shared-16-v2 modified (" in done.out
    (run,) = (tmp_path / "runs" / "compare").iterdir()
    rows = json.loads((run / "results.json").read_text())["schedulers"]
    assert {row["scheduler"]: row["num_workloads"] for row in rows} == {"fifo": 6, "themis": 5}
    assert "shared-16-v2 modified" in (run / "results.md").read_text()


def test_the_index_names_every_task():
    page = (ROOT / "docs" / "tasks.md").read_text(encoding="utf-8")
    assert [name for name in TASKS if f"[{name}](../conf/task/{name}.yaml)" not in page] == []


def test_a_hash_is_written_and_a_raised_version_leaves_the_release_that_plays_the_one_before(tmp_path):
    check = TaskCheck(Task("toy", 2, hashes={2: "old"}, earlier={1: "0.1.0"}), "new")
    path = tmp_path / "toy.yaml"
    path.write_text('task:\n  version: 2\n  hashes: {2: "old"}\n  earlier: {1: "0.1.0"}\n  slow_episodes: 9\n')
    write_hash(check, tmp_path)
    assert path.read_text().splitlines()[2:] == [
        '  hashes: {2: "new"}',
        '  earlier: {1: "0.1.0"}',
        "  slow_episodes: 9",
    ]
    write_hash(check, tmp_path, version=3)
    earlier = f'  earlier: {{1: "0.1.0", 2: "{released("murmuration")}"}}'
    assert path.read_text().splitlines()[1:4] == ["  version: 3", '  hashes: {3: "new"}', earlier]


@pytest.mark.parametrize(
    ("option", "said"),
    [
        ("task=full-64-v1", "write task=full-64; with task.version=1 it says which release plays that"),
        ("task=shared-16 task.version=1", "shared-16-v1 is played by murmuration 0.2.0; this one plays version"),
    ],
)
def test_who_asks_for_an_earlier_version_is_told_which_release_plays_it(option, said):
    with pytest.raises(MurmurationError, match=said):
        describe_problem(composed(*option.split()))


def test_a_changed_problem_says_what_to_do():
    check = check_task("shared-16")
    object.__setattr__(check, "found", "0" * 12)
    assert "run scripts/tasks.py shared-16 --raise" in check.describe()
    with pytest.raises(ChoiceError, match="no such task, did you mean full-64"):
        check_task("ful-64")
