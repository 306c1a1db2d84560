"""The lower bound as a row of every comparison."""

import io
import json

import numpy as np
import pytest
from rich.console import Console

from baselines import Fifo, Srtf, Starling
from envs.evaluation import Comparison, compare
from envs.evaluation.comparison import BOUND
from envs.evaluation.table import print_table
from envs.metrics.bounds import Relaxation
from envs.performance import IdealModel
from envs.scheduling import Scheduler
from envs.simulation import Scenario
from tests.golden.playground import jobs, two_nodes

ROWS = [(3.0 * i, 1 + i % 4, 20.0 + 7 * (i % 5)) for i in range(12)]


@pytest.fixture(scope="module")
def comparison():
    workloads = [jobs(*ROWS), jobs(*ROWS[:7])]
    players: dict[str, Scheduler] = {"fifo": Fifo(), "srtf": Srtf(), "starling": Starling()}
    return compare(players, workloads, two_nodes(), IdealModel(), Scenario(restart_delay=0.0), resamples=50)


def test_nobody_is_below_it(comparison):
    for row in comparison.rows:
        assert row["mean_jct"] >= comparison.bound["mean_jct"]
        assert row["makespan"] >= comparison.bound["makespan"]
        assert row["mean_jct_ratio"] >= comparison.bound["mean_jct_ratio"]


def test_it_is_the_mean_over_workloads_on_the_compared_jobs(comparison):
    each = [
        Relaxation.of(run.workload, two_nodes(), IdealModel()).of_jobs(np.sort(run.records["job"]))
        for run in comparison.runs["fifo"]
    ]
    assert comparison.bound["mean_jct"] == pytest.approx(np.mean([one.mean_jct() for one in each]))
    assert comparison.bound["makespan"] == pytest.approx(np.mean([one.makespan() for one in each]))
    logs = [np.log(one.mean_jct() / summary.mean_jct)
            for one, summary in zip(each, comparison.summaries["fifo"], strict=True)]  # fmt: skip
    assert comparison.bound["mean_jct_ratio"] == pytest.approx(np.exp(np.mean(logs)))


def test_unfinished_jobs_are_left_out_of_it():
    """FIFO cut at 30 s: the bound is over the jobs that ended, in the presence of those alone."""
    cut = compare({"fifo": Fifo()}, [jobs(*ROWS)], two_nodes(), IdealModel(), Scenario(horizon=30.0), resamples=50)
    finished = cut.compared[0]
    assert 0 < len(finished) < len(ROWS)
    whole = Relaxation.of(cut.runs["fifo"][0].workload, two_nodes(), IdealModel())
    assert cut.bound["mean_jct"] == whole.of_jobs(finished).mean_jct()
    assert cut.bound["mean_jct"] <= cut.rows[0]["mean_jct"]


def test_it_is_shown_and_kept(comparison):
    page = io.StringIO()
    print_table(comparison, Console(file=page, width=200))
    lines = [line for line in page.getvalue().splitlines() if line.strip().startswith(BOUND)]
    assert len(lines) == 1
    assert "No scheduler can be below the lower bound" in comparison.caption
    assert json.loads(comparison.to_json())["bound"] == comparison.bound
    frame = comparison.table()
    assert frame["scheduler"].tolist() == ["fifo", "srtf", "starling", BOUND]
    assert frame["mean_jct"].iloc[-1] == comparison.bound["mean_jct"]


def test_without_relaxations_there_is_none(comparison):
    bare = Comparison(comparison.runs)
    assert bare.bound == {}
    assert BOUND not in bare.table()["scheduler"].tolist()
    assert "lower bound" not in bare.caption


def test_one_relaxation_a_workload(comparison):
    with pytest.raises(ValueError, match="1 relaxations of 2 workloads"):
        Comparison(comparison.runs, relaxations=comparison.relaxations[:1])
