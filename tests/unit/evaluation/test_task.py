"""Tasks: what their hash depends on, and what results say of them."""

from dataclasses import dataclass, field, make_dataclass, replace

import numpy as np
import pytest

from envs.evaluation.task import HASH_DIGITS, Objective, Task, hash_problem, to_hashable
from envs.performance import IdealModel
from envs.simulation import Rounds, Scenario, Setup
from envs.types import MurmurationError
from envs.workloads.workload import JOB_COLUMNS, NEUTRAL
from tests.golden.playground import jobs, two_nodes

TASK = Task("toy", 2, hashes={1: "old", 2: "new"})
SETUP = Setup(two_nodes(), IdealModel())
EPISODE = jobs((0, 1, 10), (1, 4, 20))
CONFIGURATION = {"workload": {"load": 0.9, "path": "/mine/jobs.csv"}, "seed": 0}


def problem(configuration=CONFIGURATION, setup=SETUP, episodes=(EPISODE,), task=TASK):
    return hash_problem(configuration, setup, EPISODE.models, episodes, task)


def with_column(column, values):
    table = EPISODE.jobs.copy()
    table[column] = values
    return replace(EPISODE, jobs=table)


def test_the_same_problem_has_the_same_hash():
    assert len(problem()) == HASH_DIGITS
    assert problem() == problem(episodes=(jobs((0, 1, 10), (1, 4, 20)),), setup=Setup(two_nodes(), IdealModel()))


def test_the_hash_depends_neither_on_names_nor_on_the_place_of_a_file():
    elsewhere = {"workload": {"load": 0.9, "path": "/yours/jobs.csv"}, "seed": 0}
    assert problem(elsewhere) == problem(episodes=(replace(EPISODE, name="other", notes=("a",)),)) == problem()


def test_the_hash_does_not_depend_on_rounding_errors():
    work = EPISODE.jobs["work"] * (1 + 4e-16 * np.array([1, -1]))
    assert problem(episodes=(with_column("work", work),)) == problem()


@pytest.mark.parametrize(
    "changed",
    [
        {"configuration": {"workload": {"load": 1.0}, "seed": 0}},
        {"setup": Setup(two_nodes(), IdealModel(), Scenario(restart_delay=31.0))},
        {"setup": Setup(replace(two_nodes(), name="other"), IdealModel())},
        {"episodes": (EPISODE, EPISODE)},
        {"episodes": (with_column("work", EPISODE.jobs["work"] * 1.0001),)},
        {"episodes": (with_column("max_gpus", [1, 5]),)},
        {"episodes": (replace(EPISODE, window=(0.0, 1.0)),)},
        {"task": replace(TASK, objective=Objective(1.0, 10.0))},
        {"setup": Setup(two_nodes(), IdealModel(), Scenario(batch_sizes="usual"))},
    ],
    ids=lambda changed: next(iter(changed)),
)
def test_the_hash_depends_on_everything_else(changed):
    assert problem(**changed) != problem()


def test_the_hash_depends_on_the_throughputs():
    class Faster(IdealModel):
        def throughput(self, model, configuration):
            return 2.0 * super().throughput(model, configuration)

    assert problem(setup=Setup(two_nodes(), Faster())) != problem()


def extended(value, **given):
    """The same object of a class with one more field, named `later`, whose default is 1.0."""
    later = ("later", float, field(default=1.0))
    larger = make_dataclass(type(value).__name__, [later], bases=(type(value),), frozen=True, slots=True)
    own = {name: getattr(value, name) for name, each in value.__dataclass_fields__.items() if each.init}
    return larger(**own, **given)


def later_column(monkeypatch, neutral, value):
    """The episode with one more column of jobs, which has a value in one row and its neutral value in the other."""
    columns = np.dtype([*JOB_COLUMNS.descr, ("later", np.float64)])
    monkeypatch.setattr("envs.workloads.workload.JOB_COLUMNS", columns)
    monkeypatch.setitem(NEUTRAL, "later", neutral)
    table = np.zeros(len(EPISODE.jobs), columns)
    for name in JOB_COLUMNS.names or ():
        table[name] = EPISODE.jobs[name]
    table["later"] = [neutral, value]
    return replace(EPISODE, jobs=table)


def extended_node(**given):
    cluster = two_nodes()
    return Setup(replace(cluster, nodes=tuple(extended(node, **given) for node in cluster.nodes)), IdealModel())


@pytest.mark.parametrize(
    "build",
    [
        lambda **given: {"setup": extended_node(**given)},
        lambda **given: {"setup": Setup(extended(two_nodes(), **given), IdealModel())},
        lambda **given: {"setup": Setup(two_nodes(), IdealModel(), extended(Scenario(), **given))},
        lambda **given: {"setup": Setup(two_nodes(), IdealModel(), Scenario(rounds=extended(Rounds(), **given)))},
        lambda **given: {"episodes": (extended(EPISODE, **given),)},
        lambda **given: {"task": replace(TASK, objective=extended(Objective(), **given))},
    ],
    ids=["node", "cluster", "scenario", "rounds", "workload", "objective"],
)
def test_a_field_that_is_added_later_enters_the_hash_only_where_it_is_used(build):
    assert problem(**build()) == problem(**build(later=1)) == problem()
    assert problem(**build(later=2.0)) != problem()


@pytest.mark.parametrize("neutral", [0.0, np.nan, np.inf])
def test_a_column_of_jobs_that_is_added_later_enters_the_hash_only_where_it_is_used(monkeypatch, neutral):
    before = problem()
    assert problem(episodes=(later_column(monkeypatch, neutral, neutral),)) == before
    assert problem(episodes=(later_column(monkeypatch, neutral, 2.0),)) != before


def test_the_hash_depends_on_the_version_of_the_world(monkeypatch):
    before = problem()
    monkeypatch.setattr("envs.evaluation.task.WORLD_VERSION", 99)
    assert problem() != before


def test_only_stable_values_are_hashed():
    @dataclass(frozen=True)
    class Pair:
        first: float
        second: object

    assert to_hashable({"a": (1, 0.1 + 0.2, None), 2: np.array([1.0, -0.0])}) == {
        "a": [1, "0.3", None],
        "2": [[2], "1 0"],
    }
    assert to_hashable(Pair(1.0, "x")) == {"type": "Pair", "first": "1", "second": "x"}
    assert to_hashable(Pair(1.0, object()))["second"] == {"type": "object", "object": "builtins.object"}


def test_results_say_whether_the_task_was_modified():
    assert TASK.identify("new")["label"] == "toy-v2 (new)"
    assert TASK.identify("old")["label"] == "toy-v2 modified (old)"
    assert TASK.identify("new", "split train")["label"] == "toy-v2 (new), split train"
    assert not TASK.identify("new", "split train")["complete"]


def test_an_earlier_version_names_the_release_that_plays_it():
    with pytest.raises(MurmurationError, match="toy-v1 is played by murmuration 0.2.0; this one plays version 2"):
        Task("toy", 1, hashes={2: "new"}, earlier={1: "0.2.0"})
    with pytest.raises(MurmurationError, match="toy-v1 is played by no release; this one plays version 3"):
        Task("toy", 1, hashes={3: "new"}, earlier={2: "0.2.0"})
    assert Task("toy", 4, hashes={3: "new"}).identify("other")["modified"]


@pytest.mark.parametrize(
    ("objective", "text"), [((1, 0), "mean JCT"), ((0, 1), "makespan"), ((1, 10), "1 x total JCT")]
)
def test_an_objective_is_described(objective, text):
    assert str(Objective(*objective)).startswith(text)


@pytest.mark.parametrize(
    "build",
    [
        lambda: Objective(0.0, 0.0),
        lambda: Objective(-1.0, 2.0),
        lambda: Task("toy", 0),
        lambda: Task("toy", 1, hashes={2: "new"}),
        lambda: Task("toy", 1, slow_episodes=4),
        lambda: Task("toy", 1, slowest_episodes=4),
    ],
)
def test_impossible_tasks_are_refused(build):
    with pytest.raises(MurmurationError, match="task"):
        build()
