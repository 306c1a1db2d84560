"""Laws that hold for every run, tested on random workloads in the engine and on fabricated runs."""

import dataclasses

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from envs.metrics import (
    average_contention,
    finish_time_fairness,
    gpus_held,
    jobs_in_system,
    jobs_waiting,
    measured_span,
    segments,
    summarise,
)
from envs.metrics.cluster import integral
from envs.metrics.timeline import gpu_seconds
from envs.performance import IdealModel
from envs.simulation import Scenario, Setup, Simulator, run_episode
from envs.types import ClusterSpec, JobSpec, NodeSpec
from envs.workloads import Workload
from tests.unit.metrics.fabricated import Told, fabricated

CLUSTER = ClusterSpec((NodeSpec("V100", 4), NodeSpec("V100", 2), NodeSpec("V100", 2)))
IN_SECONDS = ("mean_jct", "p50_jct", "p99_jct", "mean_jct_censored", "makespan", "mean_wait", "mean_time_to_start")
WITHOUT_UNIT = ("mean_slowdown", "mean_fairness", "worst_fairness", "jain_index", "utilisation", "fragmentation")


class Shuffling:
    """Stops running jobs at random and starts queued jobs that fit, for many starts and stops."""

    def reset(self, cluster, rng):
        self.rng = rng

    def schedule(self, view):
        allocation = view.allocation(keep_running=True)
        for job in view.running.tolist():
            if self.rng.random() < 0.3:
                allocation.stop(job)
        for job in self.rng.permutation(view.queued).tolist():
            allocation.pack(job)
        return allocation


@st.composite
def played(draw):
    """A random workload of rigid jobs, run to its end or to a horizon."""
    jobs = []
    for _ in range(draw(st.integers(1, 12))):
        gpus = draw(st.sampled_from([1, 2, 3, 4, 6]))
        jobs.append(JobSpec(0, draw(st.floats(0, 60)), gpus, draw(st.floats(1, 200)), "any"))
    horizon = draw(st.sampled_from([np.inf, 50.0, 120.0]))
    scenario = Scenario(restart_delay=draw(st.sampled_from([0.0, 3.0])), horizon=horizon)
    start = draw(st.sampled_from([0.0, 20.0]))
    workload = dataclasses.replace(Workload.of(jobs), window=(start, draw(st.sampled_from([40.0, np.inf]))))
    simulator = Simulator(workload, Setup(CLUSTER, IdealModel(), scenario), draw(st.integers(0, 99)))
    return run_episode(Shuffling(), simulator, "shuffling")


@settings(deadline=None, max_examples=20)
@given(played())
def test_shares_are_between_zero_and_one(result):
    summary = summarise(result)
    for name in ("utilisation", "fragmentation", "jain_index"):
        value = getattr(summary, name)
        assert np.isnan(value) or -1e-12 <= value <= 1 + 1e-12, name


@settings(deadline=None, max_examples=20)
@given(played())
def test_every_measured_job_is_finished_or_unfinished(result):
    summary = summarise(result)
    assert summary.num_measured == summary.num_compared + summary.num_unfinished
    assert summary.num_measured == result.records["measured"].sum()


@settings(deadline=None, max_examples=20)
@given(played())
def test_a_rigid_job_is_never_quicker_than_alone(result):
    summary = summarise(result)
    if summary.num_compared:
        assert summary.mean_slowdown >= 1 - 1e-9
        assert summary.mean_bounded_slowdown >= 1
        assert summary.p50_jct <= summary.p99_jct + 1e-9
        assert summary.mean_time_to_start <= summary.mean_wait <= summary.mean_jct
        assert summary.makespan >= summary.p99_jct - 1e-9


@settings(deadline=None, max_examples=20)
@given(played())
def test_held_gpu_seconds_cover_the_work(result):
    """In IdealModel a sample is a GPU-second, so a finished job held GPU-seconds for its work and its restarts."""
    held = segments(result.log, result.end_time)
    for row in result.records[result.finished]:
        service = gpu_seconds(held[held["job"] == row["job"]], 0.0, result.end_time)
        work = float(result.workload.jobs["work"][row["job"]])
        delays = row["num_restarts"] * 3.0 * row["num_gpus"]
        assert work - 1e-6 <= service <= work + delays + 1e-6


@settings(deadline=None, max_examples=20)
@given(played())
def test_jobs_never_hold_more_gpus_than_exist(result):
    for node, gpus in enumerate(CLUSTER.node_gpus):
        _, held = gpus_held(result, node)
        assert held.max(initial=0) <= gpus
        assert held.min(initial=0) >= 0


@settings(deadline=None, max_examples=20)
@given(played())
def test_every_job_in_the_system_waits_or_runs(result):
    """Waiting and running jobs, integrated, add up to jobs in the system; running jobs come from segments."""
    held = segments(result.log, result.end_time)
    stays = np.unique(held[["job", "start", "end"]])
    running = float((stays["end"] - stays["start"]).sum())
    waiting = integral(*jobs_waiting(result), 0.0, result.end_time)
    assert waiting + running == pytest.approx(integral(*jobs_in_system(result), 0.0, result.end_time), abs=1e-6)


@settings(deadline=None, max_examples=20)
@given(played())
def test_a_window_splits_utilisation(result):
    """The held GPU-seconds of two adjacent spans add up to those of both."""
    start, end = measured_span(result)
    middle = (start + end) / 2
    held = segments(result.log, result.end_time)
    parts = gpu_seconds(held, start, middle) + gpu_seconds(held, middle, end)
    assert parts == pytest.approx(gpu_seconds(held, start, end))


@settings(deadline=None, max_examples=20)
@given(played())
def test_contention_is_at_least_one_and_at_most_all_jobs(result):
    contention = average_contention(result)
    assert (contention >= 1).all()
    assert (contention <= len(result.records) + 1e-9).all()


@settings(deadline=None, max_examples=20)
@given(played())
def test_equal_sharing_is_never_quicker_than_alone(result):
    """Therefore rho is at most the slowdown."""
    rho = finish_time_fairness(result)[result.finished]
    rows = result.records[result.finished]
    slowdown = (rows["finish_time"] - rows["submit_time"]) / rows["ideal_duration"]
    assert (rho <= slowdown + 1e-9).all()


@st.composite
def told(draw):
    """A few jobs on separate nodes, and the same jobs slower by a constant factor."""
    jobs = []
    for node in range(draw(st.integers(1, 4))):
        submit, wait, run = draw(st.integers(0, 9)), draw(st.integers(0, 5)), draw(st.integers(1, 9))
        finish = submit + wait + run if draw(st.booleans()) else None
        jobs.append(
            Told(submit, draw(st.integers(1, 4)), draw(st.integers(20, 30)), [(submit + wait, {node: 2})], finish)
        )
    jobs.sort(key=lambda job: job.submit)
    return jobs, draw(st.sampled_from([60.0, 3600.0]))


def slower(job, factor):
    """The same job with all times multiplied by `factor`."""
    acts = [(time * factor, gpus) for time, gpus in job.acts]
    finish = None if job.finish is None else job.finish * factor
    return Told(job.submit * factor, job.num_gpus, job.ideal * factor, acts, finish)


@settings(deadline=None, max_examples=20)
@given(told())
def test_times_scale_and_ratios_do_not_change(made):
    """If all times are multiplied by a factor, metrics in seconds are too, and metrics without a unit do not change."""
    jobs, factor = made
    plain = summarise(fabricated(jobs, node_gpus=[4] * 4, end=30))
    scaled = summarise(fabricated([slower(job, factor) for job in jobs], node_gpus=[4] * 4, end=30 * factor))
    for name in IN_SECONDS:
        assert getattr(scaled, name) == pytest.approx(getattr(plain, name) * factor, nan_ok=True), name
    for name in WITHOUT_UNIT:
        assert getattr(scaled, name) == pytest.approx(getattr(plain, name), nan_ok=True), name
    assert scaled.gpu_hours == pytest.approx(plain.gpu_hours * factor)
    assert scaled.mean_jobs_in_system == pytest.approx(plain.mean_jobs_in_system)


@settings(deadline=None, max_examples=20)
@given(told())
def test_an_earlier_finish_makes_no_metric_worse(made):
    """If one finish moves to an earlier time, mean JCT and jobs in the system do not grow."""
    jobs, _ = made
    finished = [i for i, job in enumerate(jobs) if job.finish is not None and job.finish > job.acts[0][0] + 1]
    if not finished:
        return
    first = finished[0]
    earlier = list(jobs)
    earlier[first] = dataclasses.replace(jobs[first], finish=jobs[first].acts[0][0] + 1)
    before = summarise(fabricated(jobs, node_gpus=[4] * 4, end=30))
    after = summarise(fabricated(earlier, node_gpus=[4] * 4, end=30))
    assert after.mean_jct < before.mean_jct
    assert after.mean_jobs_in_system < before.mean_jobs_in_system
    assert after.gpu_hours < before.gpu_hours
