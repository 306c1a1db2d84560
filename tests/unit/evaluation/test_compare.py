"""Comparisons in the engine are paired and repeatable, and state which schedulers could not run."""

import dataclasses
import json
import subprocess
import sys
from typing import Any

import numpy as np
import pytest

from baselines import Fifo
from envs.evaluation import compare_schedulers
from envs.evaluation.playing import ReportingScheduler, workload_seed
from envs.metrics import jobs_in_system, segments
from envs.metrics.cluster import integral
from envs.metrics.timeline import gpu_seconds
from envs.performance import IdealModel
from envs.simulation import EventKind, RunResult, Scenario, Setup
from envs.types import AllocationError, ClusterError, ClusterSpec, JobSpec, MurmurationError, NodeSpec
from envs.workloads import Workload

CLUSTER = ClusterSpec((NodeSpec("V100", 4), NodeSpec("V100", 4)))


class InOrder:
    """Starts jobs that fit, in the order of a key; never preempts."""

    def __init__(self, key=lambda view, job, rng: job):
        self.key = key
        self.counters = {"decisions": 0}

    def reset(self, cluster, rng):
        self.rng = rng
        self.counters = {"decisions": 0}

    def schedule(self, view):
        self.counters["decisions"] += 1
        allocation = view.allocation(keep_running=True)
        for job in sorted(view.queued.tolist(), key=lambda job: self.key(view, job, self.rng)):
            allocation.pack(job)
        return allocation


class Declaring(InOrder):
    """Declares the information that it needs."""

    information = "estimate"


class Preempting(InOrder):
    """Places all jobs again at every round, the last submitted first."""

    def schedule(self, view):
        allocation = view.allocation()
        for job in sorted([*view.queued.tolist(), *view.running.tolist()], reverse=True):
            allocation.pack(job)
        return allocation


class Refusing(InOrder):
    """Cannot run anywhere."""

    def schedule(self, view):
        raise MurmurationError("needs remaining work; set scenario.information.work=exact")


class Greedy(InOrder):
    """Requests GPUs that do not exist."""

    def schedule(self, view):
        allocation = view.allocation()
        allocation.place(0, {0: 99})
        return allocation


def workloads(number=2, jobs=25, seed=0):
    generator = np.random.default_rng(seed)
    made = []
    for index in range(number):
        submit = np.sort(generator.uniform(0, 200, jobs))
        gpus = generator.choice([1, 2, 4, 8], jobs)
        specs = [JobSpec(i, submit[i], int(gpus[i]), float(generator.exponential(60) + 1), "any") for i in range(jobs)]
        made.append(Workload.of(specs, f"w{index}"))
    return made


def versus(schedulers, number=2, **options):
    return compare_schedulers(
        schedulers, workloads(number), Setup(CLUSTER, IdealModel(), Scenario(restart_delay=2.0)), 7, **options
    )


def at_random(view, job, rng):
    return rng.random()


def test_every_scheduler_runs_every_workload():
    comparison = versus({"first": InOrder(), "last": Preempting()})
    assert {name: [run.workload.name for run in runs] for name, runs in comparison.runs.items()} == {
        "first": ["w0", "w1"],
        "last": ["w0", "w1"],
    }
    assert [row["num_unfinished"] for row in comparison.rows] == [0, 0]
    assert comparison.rows[0]["num_compared"] == 50


def test_a_scheduler_compared_with_itself_has_ratio_one():
    comparison = versus({"one": InOrder(at_random), "other": InOrder(at_random)})
    assert comparison.runs["one"][0].log == comparison.runs["other"][0].log
    ratio = comparison.ratio("mean_jct", "other")
    assert (ratio.value, ratio.low, ratio.high) == (1, 1, 1)


def test_workloads_have_seeds_of_their_own():
    same = workloads(1)[0]
    comparison = compare_schedulers({"random": InOrder(at_random)}, [same, same], Setup(CLUSTER, IdealModel()), seed=1)
    one, other = comparison.runs["random"]
    assert isinstance(one, RunResult)
    assert isinstance(other, RunResult)
    assert one.log != other.log
    assert len({workload_seed(seed, index) for seed in range(20) for index in range(20)}) == 400


def test_other_schedulers_do_not_change_a_result():
    alone = versus({"last": Preempting()}).runs["last"]
    together = versus({"random": InOrder(at_random), "last": Preempting()}).runs["last"]
    assert [run.log == other.log for run, other in zip(alone, together, strict=True)] == [True, True]


def test_a_learned_row_names_its_training_seed():
    """The other rows do not, and without learned rows nothing is said."""
    learned: Any = InOrder()
    learned.training_seed = 5
    workloads, setup = [Workload.of([JobSpec(0, 0.0, 1, 10.0, "any")])], Setup(CLUSTER, IdealModel())
    found = compare_schedulers({"policy": learned, "fifo": Fifo()}, workloads, setup, 0)
    assert [found.marked(name) for name in found.schedulers] == ["policy (seed 5)", "fifo"]
    assert "One training seed each: policy 5. Intervals of a row are over workloads, not over seeds." in found.caption
    assert "training seed" not in compare_schedulers({"fifo": Fifo()}, workloads, setup, 0).caption


def test_the_same_comparison_gives_the_same_json_except_cpu_time():
    first, again = (json.loads(versus({"r": InOrder(at_random), "l": Preempting()}).to_json()) for _ in range(2))
    assert first.pop("cpu_time").keys() == again.pop("cpu_time").keys()
    assert first == again


@pytest.mark.parametrize("scheduler", [InOrder(), Preempting()])
def test_attained_service_equals_that_of_the_log(scheduler):
    for run in versus({"s": scheduler}).runs["s"]:
        held = segments(run.log, run.end_time)
        by_job = [gpu_seconds(held[held["job"] == job], 0, run.end_time) for job in run.records["job"]]
        assert run.records["attained_service"] == pytest.approx(np.array(by_job))


@pytest.mark.parametrize("scheduler", [InOrder(), Preempting()])
def test_counts_equal_those_of_the_log(scheduler):
    """Preemptions are STOP events; restarts are the STARTs and RESIZEs after the first."""
    for run in versus({"s": scheduler}).runs["s"]:
        of_event = {event: run.log.events["kind"] == event for event in EventKind}
        for row in run.records:
            mine = run.log.events["job"] == row["job"]
            assert row["num_preemptions"] == (of_event[EventKind.STOP] & mine).sum()
            assert (
                row["num_restarts"]
                == (of_event[EventKind.START] & mine).sum() + (of_event[EventKind.RESIZE] & mine).sum() - 1
            )


def test_littles_law_in_the_engine():
    for run in versus({"s": Preempting()}).runs["s"]:
        spent = (run.records["finish_time"] - run.records["submit_time"]).sum()
        assert integral(*jobs_in_system(run), 0, run.end_time) == pytest.approx(spent)


def test_a_horizon_leaves_jobs_unfinished_and_counted():
    schedulers = {"first": InOrder(), "last": Preempting()}
    scenario = Scenario(horizon=150.0)
    comparison = compare_schedulers(schedulers, workloads(1, 40), Setup(CLUSTER, IdealModel(), scenario), 0)
    first, last = comparison.rows
    assert first["num_unfinished"] > 0
    assert first["num_compared"] < first["num_measured"] - first["num_unfinished"] + 1
    assert first["num_compared"] == last["num_compared"]


def test_a_scheduler_that_refuses_is_left_out_with_the_reason():
    comparison = versus({"blind": Refusing(), "first": InOrder()}, optional=["blind", "first"])
    reason = "not applicable: needs remaining work; set scenario.information.work=exact"
    assert comparison.inapplicable == {"blind": reason}
    assert list(comparison.runs) == ["first"]


def test_a_failure_is_not_reported_as_a_refusal():
    comparison = versus({"greedy": Greedy(), "first": InOrder()}, optional=["greedy"])
    assert not comparison.inapplicable
    assert "job 0: asks for 99 GPUs on node 0" in comparison.failures["greedy"].message


def test_a_scheduler_that_is_not_optional_must_run():
    refused = versus({"blind": Refusing(), "first": InOrder()})
    assert refused.failures["blind"].message.startswith("needs remaining work")
    with pytest.raises(AllocationError, match="^scheduler greedy at t = .* s: job 0: asks for 99 GPUs"):
        versus({"greedy": Greedy()})


def test_a_workload_that_does_not_fit_is_not_a_refusal():
    huge = Workload.of([JobSpec(0, 0.0, 64, 1.0, "any")])
    with pytest.raises(ClusterError, match="64 GPUs"):
        compare_schedulers({"first": InOrder()}, [huge], Setup(CLUSTER, IdealModel()), optional=["first"])


@pytest.mark.parametrize(
    ("schedulers", "options", "said"),
    [
        ({}, {}, "no scheduler is chosen"),
        ({"first": InOrder()}, {"reference": "fifo"}, "reference 'fifo' is not compared; choose one of first"),
        ({"blind": Refusing()}, {"optional": ["blind"]}, "no scheduler can run here"),
        ({"blind": Refusing(), "greedy": Greedy()}, {}, "no scheduler can run here .*blind: failed .*greedy: failed"),
    ],
)
def test_impossible_comparisons_are_refused_in_one_line(schedulers, options, said):
    with pytest.raises(MurmurationError, match=said) as raised:
        versus(schedulers, **options)
    assert "\n" not in str(raised.value)


def test_a_comparison_needs_a_workload():
    with pytest.raises(MurmurationError, match="no workload"):
        versus({"first": InOrder()}, number=0)


def test_fifo_is_the_reference_if_it_is_compared():
    assert versus({"last": Preempting(), "fifo": InOrder()}).reference == "fifo"
    assert versus({"last": Preempting(), "first": InOrder()}).reference == "last"
    assert versus({"last": Preempting(), "fifo": InOrder()}, reference="last").reference == "last"


def test_progress_is_reported_and_changes_no_result():
    told = []
    watched = versus({"a": InOrder(), "b": Preempting()}, progress=lambda *news: told.append(news))
    assert watched.runs["b"][1].log == versus({"b": Preempting()}).runs["b"][1].log
    begun = [(name, workload) for name, workload, share in told if share == 0]
    assert begun == [("a", 0), ("a", 1), ("b", 0), ("b", 1)]
    assert all(0 <= share <= 1 for _, _, share in told)


def test_a_watched_scheduler_keeps_its_attributes():
    scheduler = Declaring()
    watched = ReportingScheduler(scheduler, "s", 0, 10, lambda *news: None)
    assert watched.information == "estimate"
    assert watched.counters is scheduler.counters
    with pytest.raises(AttributeError):
        _ = watched.elastic


def test_counters_of_the_scheduler_reach_the_result():
    run = versus({"s": InOrder()}, progress=lambda *news: None).runs["s"][0]
    assert run.counters == {"decisions": run.num_rounds}


def test_settings_suffice_to_repeat_a_comparison():
    settings = versus({"first": InOrder()}).settings
    assert settings["cluster"] == {"name": "cluster", "nodes": 2, "gpus": {"V100": 8}}
    assert settings["scenario"]["restart_delay"] == 2
    assert settings["scenario"]["horizon"] is None
    assert settings["seed"] == 7
    assert [entry["jobs"] for entry in settings["workloads"]] == [25, 25]
    assert settings["workloads"][0]["offered_load"]["all"] > 0


def test_only_the_window_is_measured():
    inner = dataclasses.replace(workloads(1)[0], window=(50.0, 100.0))
    row = compare_schedulers({"first": InOrder()}, [inner], Setup(CLUSTER, IdealModel())).rows[0]
    assert row["num_measured"] == inner.measured.sum() < 25


def test_comparing_loads_neither_pictures_nor_tables():
    code = "import sys, envs.evaluation; print({'matplotlib', 'rich', 'torch', 'hydra'} & set(sys.modules))"
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert done.stdout.strip() == "set()"


def test_compiled_play_is_not_given_up_for_a_report_of_progress(monkeypatch):
    """A whole episode is one call, of which the beginning is reported."""

    def refuse(*_: object) -> None:
        raise AssertionError("decided by itself")

    monkeypatch.setattr(Fifo, "schedule", refuse)
    reports: list[tuple[str, int, float]] = []
    setup, workload = (
        Setup(CLUSTER, IdealModel()),
        Workload.of([JobSpec(0, 0.0, 1, 5.0, "any"), JobSpec(1, 1.0, 2, 5.0, "any")]),
    )
    found = compare_schedulers({"fifo": Fifo()}, [workload], setup, progress=lambda *each: reports.append(each))
    assert found.runs["fifo"][0].finished.all()
    assert reports[0] == ("fifo", 0, 0.0)
