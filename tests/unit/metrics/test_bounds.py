"""Lower bounds: exact where the relaxation is the world, and never above what schedulers reach."""

import itertools

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from baselines import Fifo, Optimus, Srtf, Starling
from envs.metrics import makespan
from envs.metrics.bounds import Relaxation, busy_date_bound, busy_periods, preemptive
from envs.performance import IdealModel
from envs.simulation import Scenario, Simulator, run_episode
from envs.types import ClusterError, ClusterSpec, JobSpec, NodeSpec
from envs.workloads import Workload
from tests.conformance.worlds import CLUSTERS, Curved, workloads
from tests.golden.playground import TwoSpeeds, fast_and_slow, jobs, play

ONE_GPU = ClusterSpec((NodeSpec("plain", 1),))
times_of = st.lists(st.tuples(st.integers(0, 20), st.integers(1, 9)), min_size=1, max_size=9)


def relaxed(workload, cluster, performance=None):
    """The relaxation, by default at one sample per second and GPU."""
    return Relaxation.of(workload, cluster, performance or IdealModel())


@given(rows=times_of)
@settings(max_examples=25)
def test_it_is_reached_on_one_gpu(rows):
    """One machine, free restarts: shortest remaining first is optimal, and it is the bound."""
    workload = jobs(*((float(submit), 1, float(seconds)) for submit, seconds in rows))
    result = play(Srtf(), workload, ONE_GPU)
    bound = relaxed(workload, ONE_GPU)
    jct = result.records["finish_time"] - result.records["submit_time"]
    assert bound.mean_jct() == pytest.approx(jct.mean())
    assert bound.makespan() == pytest.approx(makespan(result))


@pytest.mark.parametrize("scheduler", [Fifo(), Srtf(), Optimus(), Starling()], ids=lambda one: type(one).__name__)
@pytest.mark.parametrize("cluster", sorted(CLUSTERS))
@settings(max_examples=15)
@given(data=st.data())
def test_nobody_is_better(scheduler, cluster, data):
    workload = data.draw(workloads(CLUSTERS[cluster]))
    result = run_episode(scheduler, Simulator(workload, CLUSTERS[cluster], Curved(), Scenario(restart_delay=0.0)))
    bound = relaxed(workload, CLUSTERS[cluster], Curved())
    some = np.flatnonzero(np.arange(len(workload)) % 3 != 1)
    jct = result.records["finish_time"] - result.records["submit_time"]
    assert jct.mean() >= bound.mean_jct() * (1 - 1e-9)
    assert jct[some].mean() >= bound.of_jobs(some).mean_jct() * (1 - 1e-9)
    assert makespan(result) >= bound.makespan() * (1 - 1e-9)


def test_alone_it_is_the_fastest_size_of_the_fastest_type():
    """100 samples on up to 8 of 4 slow and 4 fast GPUs at 2/s: no faster than 8 fast ones would be, if there were 8.

    By its demand it takes the whole cluster, 12 samples/s, for 100 / 12 s: more.
    """
    workload = Workload.of([JobSpec(0, 3.0, 1, 100.0, "any", min_gpus=1, max_gpus=8)])
    bound = relaxed(workload, fast_and_slow(), TwoSpeeds())
    assert bound.alone.tolist() == [100 / 16]
    assert bound.demand.tolist() == [[100.0, 50.0]]
    assert bound.mean_jct() == pytest.approx(100 / 12)


def test_two_kinds_of_gpu_are_priced_by_what_they_do():
    """Four slow and four fast GPUs are worth 12 samples/s: twelve such jobs at once take 8.33 s each, one after the
    other, and no price would make this larger. Their busy dates are 50 s on average; alone each takes 12.5 s.
    """
    workload = jobs(*((0.0, 4, 25.0) for _ in range(12)))
    bound = relaxed(workload, fast_and_slow(), TwoSpeeds())
    assert bound.cluster_seconds == pytest.approx(np.full(12, 100 / 12), rel=1e-3)
    assert bound.makespan() == pytest.approx(100, rel=1e-3)
    assert bound.mean_jct() == pytest.approx(50 + 12.5 / 2, rel=1e-3)


def test_both_limits_together():
    """Four jobs of one GPU and 10 s on two GPUs: two go at once, so the sum is 10 + 10 + 20 + 20.

    Alone: 40. As one machine, 5 s each: 5 + 10 + 15 + 20 = 50. Busy dates 2.5, 7.5, 12.5, 17.5 and half of 10 each: 60.
    """
    workload, pair = jobs(*((0.0, 1, 10.0) for _ in range(4))), ClusterSpec((NodeSpec("plain", 2),))
    bound = relaxed(workload, pair)
    assert busy_date_bound(bound.submit_time, bound.alone, bound.cluster_seconds) == pytest.approx(60)
    assert bound.mean_jct() == pytest.approx(15)
    assert play(Srtf(), workload, pair).records["finish_time"].mean() == 15


@given(rows=times_of, static=st.booleans())
def test_one_machine_against_a_clock(rows, static):
    """The same, second by second: integer times, so that every second belongs to one job."""
    submit, need = np.array(rows, dtype=float).T
    left, ends = need.copy(), np.zeros(len(need))
    seconds: list[list[float]] = [[] for _ in need]
    now = 0
    while left.any():
        here = [job for job in range(len(need)) if submit[job] <= now and left[job] > 0]
        if here:
            job = min(here, key=lambda job: ((need if static else left)[job], job))
            left[job] -= 1
            seconds[job].append(now + 0.5)
            ends[job] = now + 1
        now += 1
    found, busy = preemptive(submit, need, static=static)
    assert found.sum() == pytest.approx(ends.sum())
    assert (busy * need).sum() == pytest.approx(sum(map(sum, seconds)))


@given(rows=st.lists(st.tuples(st.integers(0, 6), st.integers(1, 4)), min_size=1, max_size=5))
@settings(max_examples=20)
def test_no_order_on_one_machine_has_smaller_busy_dates(rows):
    """Against every fixed order of preemption."""
    submit, need = np.array(rows, dtype=float).T
    least = preemptive(submit, need, static=True)[1].sum()
    for order in itertools.permutations(range(len(rows))):
        left, total, now = need.copy(), 0.0, 0
        while left.any():
            here = [job for job in order if submit[job] <= now and left[job] > 0]
            if here:
                left[here[0]] -= 1
                total += (now + 0.5) / need[here[0]]
            now += 1
        assert least <= total + 1e-9


def test_busy_periods_end_where_the_machine_rests():
    """0-3 and 2-5 are one; 5 begins as the machine rests; 20 by itself, though it stands first in the array."""
    parts = busy_periods(np.array([20.0, 0.0, 2.0, 5.0]), np.array([1.0, 3.0, 2.0, 1.0]))
    assert [part.tolist() for part in parts] == [[1, 2], [3], [0]]


def test_the_makespan_counts_what_comes_late():
    """Ten GPU-s at 0, and at 100 three jobs of 8 GPU-s on 8 GPUs, one GPU each at most: alone 8 s; together 3 s."""
    eight = ClusterSpec((NodeSpec("plain", 8),))
    assert relaxed(jobs((5, 1, 10), (100, 1, 8), (100, 1, 8), (100, 1, 8)), eight).makespan() == 103
    assert relaxed(jobs((5, 8, 2), (100, 8, 7), (100, 8, 7)), eight).makespan() == 109


def test_no_jobs_no_bound():
    nobody = relaxed(jobs((0, 1, 1)), ONE_GPU).of_jobs(np.zeros(0, np.int64))
    assert np.isnan(nobody.mean_jct())
    assert np.isnan(nobody.makespan())


def test_a_job_that_runs_nowhere_is_named():
    with pytest.raises(ClusterError, match="any on 2 to 2 GPUs runs nowhere on cluster cluster; take a larger cluster"):
        relaxed(jobs((0, 2, 1)), ONE_GPU)
