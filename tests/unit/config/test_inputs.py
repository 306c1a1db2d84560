"""Which jobs a command plays, and what it says where other commands play others."""

from dataclasses import replace

import pytest

from envs.performance import IdealModel
from envs.simulation import Information, Scenario, Setup
from envs.types import TraceError
from envs.workloads import SyntheticSource, TraceSource
from envs.workloads.readers import CsvTrace
from murmuration.config.describe import compose_comparison
from murmuration.config.inputs import RunInputs, build_inputs, find_workloads
from tests.golden.playground import two_nodes

COLUMNS = {name: name for name in ("submit_time", "duration", "num_gpus")}


@pytest.fixture
def trace(tmp_path):
    """A trace of 60 jobs that is compared as a whole."""
    rows = [f"{100 * i},50,1" for i in range(60)]
    (tmp_path / "jobs.csv").write_text("\n".join(["submit_time,duration,num_gpus", *rows]))
    reader = CsvTrace(COLUMNS, gpu_type="V100", gpus_per_node=8)
    source = TraceSource(two_nodes(), IdealModel(), reader, path=str(tmp_path / "jobs.csv"), evaluate_on="all")
    return RunInputs(Setup(two_nodes(), IdealModel()), source, 0)


@pytest.mark.parametrize(("split", "jobs"), [(None, 60), ("test", 12)])
def test_commands_of_other_defaults_say_which_jobs_they_play(trace, capsys, split, jobs):
    (workload,) = find_workloads(trace, split)
    assert len(workload) == jobs
    own, other = ("test", "all") if split else ("all", "test")
    assert f"split={own}: {jobs} jobs; split={other} plays {72 - jobs}; " in capsys.readouterr().out


def test_nothing_is_said_where_all_commands_play_the_same(trace, capsys):
    trace.source.evaluate_on = "test"
    source = SyntheticSource(two_nodes(), IdealModel(), num_jobs=5, num_evaluation=3, max_gpus=4)
    for each in (trace, RunInputs(trace.setup, source, 0)):
        assert find_workloads(each, None) == find_workloads(each, "test")
    assert len(find_workloads(each, None, 2)) == 2
    assert capsys.readouterr().out == ""


def test_where_run_times_are_predicted_the_jobs_that_tell_them_are_not_played(trace):
    predicted = replace(trace, setup=replace(trace.setup, scenario=Scenario(information=Information("predicted"))))
    with pytest.raises(TraceError, match="split 'all' has the jobs from whose run times the predictor learns"):
        find_workloads(predicted, "all")
    assert find_workloads(predicted, None) == find_workloads(predicted, "test")


@pytest.mark.parametrize(
    ("limits", "num_jobs", "work", "said"),
    [
        ("60", 60, "limit", "every job has a time limit, which is what schedulers know of run times"),
        ("", 60, "predicted", "60 of 60 jobs have no time limit, so schedulers know run times as they are predicted"),
        ("", 2, "none", "2 of 2 jobs have no time limit, and the trace is too short to predict run times"),
    ],
)
def test_a_trace_of_ones_own_says_what_schedulers_know_of_run_times(tmp_path, capsys, limits, num_jobs, work, said):
    rows = [f"{100 * i},50,1,{limits}" for i in range(num_jobs)]
    (tmp_path / "jobs.csv").write_text("\n".join(["submit_time,duration,num_gpus,limit", *rows]))
    words = ["workload=csv", f"workload.path={tmp_path}/jobs.csv", "workload.reader.columns.time_limit=limit"]
    problem = compose_comparison(words).problem
    assert problem.task is None
    inputs = build_inputs(problem)
    scenario = inputs.setup.scenario
    assert (scenario.information.work, scenario.batch_sizes, scenario.failures) == (work, "usual", None)
    assert said in capsys.readouterr().out
    assert sum(map(len, find_workloads(inputs, None))) == (12 if work == "predicted" else num_jobs)


@pytest.mark.parametrize("word", ["scenario=full", "task=rigid-64"])
def test_chosen_rules_hold_for_a_trace_of_ones_own_too(word):
    found = compose_comparison(["workload=csv", word]).problem.scenario.values
    assert found["failures"] is not None
    assert found["information"].get("work", "exact") == "exact"
