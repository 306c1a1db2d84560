"""Comparisons of workloads with a measurement window: every figure of jobs is over the measured ones."""

import io
import json
from dataclasses import asdict, replace

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from baselines import Fifo, Srtf, Starling
from envs.evaluation import compare_schedulers
from envs.metrics import job_completion_times, summarise
from envs.metrics.bounds import Relaxation
from envs.performance import IdealModel, default_model
from envs.pictures.texts import TextConsole
from envs.scheduling import Scheduler
from envs.simulation import Scenario, Setup, Simulator, run_episode
from envs.simulation.reference import ReferenceSimulator
from envs.types import ClusterSpec, NodeSpec
from envs.workloads import SyntheticSource
from murmuration.reports.report import describe_windows, print_workloads
from tests.golden.playground import jobs, two_nodes

CLUSTER = ClusterSpec((NodeSpec("V100", 4), NodeSpec("V100", 4)), "eight")
SETUP = Setup(CLUSTER, default_model(), Scenario())
# At t = 0 one job for 100 s on all GPUs of both nodes; then short ones, measured from t = 10 to 20.
ROWS = [(0.0, 8, 100.0), (10.0, 1, 5.0), (12.0, 1, 5.0), (20.0, 8, 1000.0)]


def windowed(seed=0, warm_up=8, measured=20, num_jobs=40):
    """A synthetic workload on eight GPUs with a window."""
    source = SyntheticSource(
        CLUSTER, SETUP.performance, num_jobs=num_jobs, warm_up=warm_up, measured=measured, max_gpus=4, seed=seed
    )
    return source.evaluation()


@pytest.fixture(scope="module")
def comparison():
    players: dict[str, Scheduler] = {"fifo": Fifo(), "srtf": Srtf(), "starling": Starling()}
    return compare_schedulers(players, windowed(), SETUP, resamples=50)


def test_means_are_over_the_measured_jobs_by_hand():
    """Under FIFO both short jobs start at 100 and end at 105; the last job runs from 105 to 1105 and counts nowhere."""
    workload = replace(jobs(*ROWS), window=(10.0, 20.0))
    setup = Setup(two_nodes(), IdealModel(), Scenario(restart_delay=0.0))
    found = compare_schedulers({"fifo": Fifo()}, [workload], setup, resamples=50)
    (row,) = found.rows
    assert row["mean_jct"] == pytest.approx((95 + 93) / 2)
    assert (row["num_measured"], row["num_compared"]) == (2, 2)
    assert row["makespan"] == pytest.approx(105 - 10)
    # Alone on eight GPUs each short job takes 5 s, and both fit side by side.
    assert found.bounds[0]["mean_jct"] == pytest.approx(5)
    # The last submission is at t = 20: the measured jobs are in the system for 95 + 93 s, of which 85 s each are later.
    assert "Under fifo, 100.0% of measured jobs end after the last submission" in found.caption
    assert f"and {170 / 188:.1%} of the measured jobs' time is after it" in found.caption


@given(st.integers(0, 10**6), st.integers(0, 12), st.integers(1, 12))
@settings(max_examples=15)
def test_both_engines_and_both_ways_to_play_measure_the_same_jobs(seed, warm_up, measured):
    """Compiled episodes, episodes round by round, and the reference engine give the same summary."""
    workload = windowed(seed, warm_up, measured, num_jobs=24)[0]
    for scheduler in (Fifo, Srtf):
        compiled = run_episode(scheduler(), Simulator(workload, SETUP, 0))
        by_rounds = run_episode(scheduler(), Simulator(workload, SETUP, 0), compiled=False)
        reference = run_episode(scheduler(), ReferenceSimulator(workload, SETUP, 0))
        for other in (by_rounds, reference):
            np.testing.assert_equal(asdict(summarise(other)), asdict(summarise(compiled)))  # NaN equals NaN
        chosen = compiled.records[np.isin(compiled.records["job"], np.flatnonzero(workload.measured))]
        assert summarise(compiled).num_measured == len(chosen) == workload.measured.sum()
        assert summarise(compiled).mean_jct == pytest.approx(job_completion_times(chosen).mean())


def test_the_window_changes_no_decision():
    plain, measured = windowed(warm_up=0, measured=None)[0], windowed()[0]
    runs = [run_episode(Srtf(), Simulator(workload, SETUP, 0)) for workload in (plain, measured)]
    assert (runs[0].records["finish_time"] == runs[1].records["finish_time"]).all()


def test_bounds_hold_for_the_measured_jobs(comparison):
    usual, any_batch = comparison.bounds
    for row in comparison.rows:
        bound = any_batch if row["scheduler"] == "starling" else usual  # it chooses batch sizes
        assert row["mean_jct"] >= bound["mean_jct"]
        assert row["makespan"] >= bound["makespan"]
    expected = [
        Relaxation.of(run.workload, SETUP).of_jobs(np.flatnonzero(run.workload.measured)).mean_jct()
        for run in comparison.runs["fifo"]
    ]
    assert comparison.bounds[0]["mean_jct"] == pytest.approx(np.mean(expected))


def test_intervals_and_ratios_are_over_the_measured_jobs(comparison):
    for run, compared in zip(comparison.runs["srtf"], comparison.compared, strict=True):
        assert compared.tolist() == np.flatnonzero(run.workload.measured).tolist()
    means = [summary.mean_jct for summary in comparison.summaries["srtf"]]
    assert comparison.estimate("mean_jct", "srtf").value == pytest.approx(np.mean(means))


def test_caption_and_files_state_the_window(comparison):
    late = np.concatenate(
        [
            run.records["finish_time"][run.records["measured"]] > run.workload.jobs["submit_time"][-1]
            for run in comparison.runs["fifo"]
        ]
    )
    assert f"Under fifo, {late.mean():.1%} of measured jobs end after the last submission" in comparison.caption
    assert "over the 100 of 100 measured jobs" in comparison.caption
    saved = json.loads(comparison.to_json())
    assert saved["caption"] == comparison.caption
    for entry, run in zip(saved["settings"]["workloads"], comparison.runs["fifo"], strict=True):
        assert (entry["jobs"], entry["measured"]) == (40, 20)
        assert entry["window"] == list(run.workload.window)
        assert entry["efficient_load"] == run.workload.efficient_load(CLUSTER, SETUP.performance)
    assert [row["num_measured"] for row in saved["schedulers"]] == [100] * 3


def test_a_workload_without_a_window_says_nothing_of_it():
    whole = compare_schedulers({"fifo": Fifo()}, windowed(warm_up=0, measured=None), SETUP, resamples=50)
    assert "Measured jobs are" not in whole.caption
    assert describe_windows([run.workload for run in whole.runs["fifo"]]) == ""


def test_load_and_window_are_printed_first():
    page = io.StringIO()
    setup = Setup(two_nodes(), IdealModel())
    workload = replace(jobs(*ROWS), window=(10.0, 20.0))
    print_workloads([workload], setup, TextConsole(page, width=200))
    text = page.getvalue()
    assert "measured: 2 of 4 jobs, submitted over 2.00 s, after a warm-up of 10.0 s; arrivals go on for 8.00 s" in text
    assert f"at efficient sizes {workload.efficient_load(two_nodes(), IdealModel()):.2f}" in text
