"""The lower bound as a row of every comparison."""

import io
import json
from dataclasses import replace
from unittest.mock import Mock

import numpy as np
import pytest
import scipy.optimize

from baselines import Fifo, Srtf, Starling
from envs.evaluation import Comparison, compare_schedulers
from envs.evaluation.comparison import ANY_BATCH, BOUND
from envs.evaluation.said_of_runs import names_batches
from envs.metrics.bounds import Relaxation
from envs.performance import IdealModel, default_model
from envs.pictures.texts import TextConsole
from envs.scheduling import Scheduler
from envs.simulation import RunResult, Scenario, Setup
from envs.types import ClusterSpec, JobSpec, NodeSpec, Placement
from envs.workloads import Workload
from murmuration.reports.page import markdown_page
from murmuration.reports.side_by_side import captions
from murmuration.reports.table import all_columns, print_table
from tests.golden.playground import TwoThroughputs, fast_and_slow, jobs, two_nodes

GPUS = ClusterSpec((NodeSpec("V100", 4),))
ROWS = [(3.0 * i, 1 + i % 4, 20.0 + 7 * (i % 5)) for i in range(12)]


@pytest.fixture(scope="module")
def comparison():
    workloads = [jobs(*ROWS), jobs(*ROWS[:7])]
    players: dict[str, Scheduler] = {"fifo": Fifo(), "srtf": Srtf(), "starling": Starling()}
    setup = Setup(two_nodes(), IdealModel(), Scenario(restart_delay=0.0))
    return compare_schedulers(players, workloads, setup, resamples=50)


def test_no_scheduler_is_below_the_bound(comparison):
    for row in comparison.rows:
        assert row["mean_jct"] >= comparison.bounds[0]["mean_jct"]
        assert row["makespan"] >= comparison.bounds[0]["makespan"]
        assert row["mean_jct_ratio"] >= comparison.bounds[0]["mean_jct_ratio"]


def test_the_bound_is_the_mean_over_workloads_on_the_compared_jobs(comparison):
    each = [
        Relaxation.of(run.workload, Setup(two_nodes(), IdealModel())).of_jobs(np.sort(run.records["job"]))
        for run in comparison.runs["fifo"]
    ]
    assert comparison.bounds[0]["mean_jct"] == pytest.approx(np.mean([one.mean_jct() for one in each]))
    assert comparison.bounds[0]["makespan"] == pytest.approx(np.mean([one.makespan() for one in each]))
    logs = [np.log(one.mean_jct() / summary.mean_jct)
            for one, summary in zip(each, comparison.summaries["fifo"], strict=True)]  # fmt: skip
    assert comparison.bounds[0]["mean_jct_ratio"] == pytest.approx(np.exp(np.mean(logs)))


def test_jobs_that_end_at_their_time_limits_have_a_column_and_are_in_no_mean(comparison):
    """Every third job may run for 15 s and needs more: none of these counts as finished, or as unfinished."""
    workload = Workload.of([replace(job, time_limit=15.0) if job.id % 3 == 0 else job for job in jobs(*ROWS)])
    found = compare_schedulers({"fifo": Fifo()}, [workload], Setup(two_nodes(), IdealModel()), resamples=50)
    (row,) = found.rows
    assert (row["num_at_limit"], row["num_unfinished"], row["num_compared"]) == (4, 0, 8)
    assert [column.cells[0] for column in all_columns(found) if column.head == "at limit"] == ["4"]
    runs = [run for run in found.runs["fifo"] if isinstance(run, RunResult)]
    assert captions(runs)[0].endswith(", 4 ended at their limit")
    assert not any(column.head == "at limit" for column in all_columns(comparison))


def test_unfinished_jobs_are_left_out_of_the_bound():
    """FIFO is cut at 30 s: the bound is over the finished jobs, as if there were no others."""
    cut = compare_schedulers(
        {"fifo": Fifo()}, [jobs(*ROWS)], Setup(two_nodes(), IdealModel(), Scenario(horizon=30.0)), resamples=50
    )
    finished = cut.compared[0]
    assert 0 < len(finished) < len(ROWS)
    whole = Relaxation.of(cut.runs["fifo"][0].workload, Setup(two_nodes(), IdealModel()))
    assert cut.bounds[0]["mean_jct"] == whole.of_jobs(finished).mean_jct()
    assert cut.bounds[0]["mean_jct"] <= cut.rows[0]["mean_jct"]


def test_the_bound_is_printed_and_saved(comparison):
    page = io.StringIO()
    print_table(comparison, TextConsole(page, width=200))
    lines = [line for line in page.getvalue().splitlines() if line.strip().startswith(BOUND)]
    assert len(lines) == 1
    assert "No scheduler can be below the lower bound" in comparison.caption
    assert json.loads(comparison.to_json())["bounds"] == comparison.bounds
    frame = comparison.table()
    assert frame["scheduler"].tolist() == ["fifo", "srtf", "starling", BOUND]
    assert frame["mean_jct"].iloc[-1] == comparison.bounds[0]["mean_jct"]


def test_a_comparison_searches_the_prices_of_a_workload_once(monkeypatch):
    """The check of every scheduler, the row of the bound and its makespan are of one search."""
    search = Mock(wraps=scipy.optimize.minimize)
    monkeypatch.setattr(scipy.optimize, "minimize", search)
    setup = Setup(fast_and_slow(), TwoThroughputs(), Scenario(restart_delay=0.0))
    comparison = compare_schedulers({"fifo": Fifo(), "srtf": Srtf()}, [jobs(*ROWS)], setup, resamples=50)
    comparison.to_json()
    assert comparison.bounds[0]["makespan"] > 0
    assert search.call_count == 1


def test_a_known_bound_is_not_searched_again(comparison, monkeypatch):
    """It is found by the hash of jobs, columns and supply, which other jobs or another cluster do not have."""
    known = {digest: 2 * total for digest, total in comparison.searched_bounds.items()}
    assert len(known) == comparison.num_workloads
    workload, setup = comparison.runs["fifo"][0].workload, Setup(two_nodes(), IdealModel(), Scenario(restart_delay=0.0))
    searched, found = (Relaxation.of(workload, setup, known=each) for each in ({}, known))
    assert found.searched == {digest: 2 * total for digest, total in searched.searched.items()}
    fewer = np.arange(5)
    assert found.of_jobs(fewer).mean_jct() == searched.of_jobs(fewer).mean_jct()
    larger = Setup(ClusterSpec(two_nodes().nodes * 2), IdealModel(), Scenario(restart_delay=0.0))
    assert found.searched.keys() != Relaxation.of(workload, larger, known=known).searched.keys()


def test_without_relaxations_there_is_no_bound(comparison):
    bare = Comparison(comparison.runs)
    assert bare.bounds == []
    assert BOUND not in bare.table()["scheduler"].tolist()
    assert "lower bound" not in bare.caption


def test_every_workload_needs_a_relaxation(comparison):
    with pytest.raises(ValueError, match="lower bound: 1 relaxations of 2 workloads"):
        Comparison(comparison.runs, relaxations={BOUND: comparison.relaxations[BOUND][:1]})


class DoubleBatches:
    """FIFO with one GPU per job and twice the usual batch size."""

    def reset(self, cluster, rng):
        """Has no state to reset."""

    def schedule(self, view):
        """Start waiting jobs."""
        allocation = view.allocation(keep_running=True)
        for job in view.queued.tolist()[: int(allocation.free_gpus[0])]:
            allocation.place(job, Placement({0: 1}, batch_size=128))
        return allocation


def with_batches(*choosing, setting="measured"):
    """Compare FIFO with schedulers that choose batch sizes, on two workloads of the zoo."""
    players: dict[str, Scheduler] = {"fifo": Fifo(), **{name: DoubleBatches() for name in choosing}}
    made = [
        Workload.of([JobSpec(i, 5.0 * i, 1, 1e4 + 3e3 * i, "resnet18") for i in range(number)], f"w{number}")
        for number in (9, 5)
    ]
    scenario = Scenario(restart_delay=0.0, statistical_efficiency=setting)
    return compare_schedulers(players, made, Setup(GPUS, default_model(), scenario), resamples=50)


def test_schedulers_that_choose_batch_sizes_have_a_separate_bound():
    """The second row is below the first: ResNet-18 is offered 128 to 256 samples on a GPU, its usual size is 64."""
    comparison = with_batches("doubles")
    assert names_batches(comparison.runs) == ["doubles"]
    assert [row["scheduler"] for row in comparison.bounds] == [BOUND, ANY_BATCH]
    first, second = comparison.bounds
    for metric in ("mean_jct", "makespan", "mean_jct_ratio"):
        assert second[metric] < first[metric] <= comparison.rows[0][metric]
        assert second[metric] <= comparison.rows[1][metric]
    each = [
        Relaxation.of(run.workload, Setup(GPUS, default_model()), any_batch=True).of_jobs(np.sort(run.records["job"]))
        for run in comparison.runs["fifo"]
    ]
    assert second["mean_jct"] == pytest.approx(np.mean([one.mean_jct() for one in each]))
    assert second["makespan"] == pytest.approx(np.mean([one.makespan() for one in each]))


def test_the_second_bound_is_printed_and_saved():
    comparison = with_batches("doubles")
    assert "doubles chooses batch sizes; only the second bound holds for it.\n" in comparison.caption
    page = io.StringIO()
    print_table(comparison, TextConsole(page, width=200))
    firsts = [line.split("  ")[0].strip() for line in page.getvalue().splitlines()[1:5]]
    assert firsts == ["fifo", "doubles", BOUND, ANY_BATCH]
    rows = [line.split(" | ")[0] for line in markdown_page(comparison).splitlines() if line.startswith("| lower")]
    assert rows == [f"| {BOUND}", f"| {ANY_BATCH}"]
    assert comparison.table()["scheduler"].tolist() == ["fifo", "doubles", BOUND, ANY_BATCH]
    assert json.loads(comparison.to_json())["bounds"] == comparison.bounds


def test_what_is_assumed_of_batch_sizes_is_in_the_caption():
    every, measured = (with_batches("doubles", setting=setting) for setting in ("every_sample", "measured"))
    note = "every sample counts alike at every batch size: statistical efficiency is left out"
    assert every.caption.endswith(f"\nNote: {note}.")
    assert json.loads(every.to_json())["settings"]["notes"] == [note]
    assert "Note:" not in measured.caption
    assert measured.settings["notes"] == []


def test_several_schedulers_that_choose_batch_sizes_are_named():
    caption = with_batches("doubles", "others").caption
    assert "doubles, others choose batch sizes; only the second bound holds for them.\n" in caption


def test_without_chosen_batch_sizes_there_is_no_second_bound(comparison):
    assert names_batches(comparison.runs) == []
    assert list(comparison.relaxations) == [BOUND]
    assert "batch sizes;" not in comparison.caption
