"""Metrics of the cluster, worked by hand on `three_jobs` and counted second by second on random runs."""

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from envs.metrics import (
    fragmentation,
    gpu_hours,
    gpus_held,
    jobs_in_system,
    jobs_waiting,
    mean_jobs_in_system,
    measured_span,
    segments,
    utilisation,
)
from envs.metrics.cluster import integral
from envs.metrics.timeline import gpu_seconds, step_function
from tests.unit.metrics.fabricated import Told, fabricated, three_jobs


def test_segments_worked_by_hand():
    result = three_jobs()
    assert segments(result.log, result.end_time).tolist() == [
        (0, 0, 4, 0.0, 10.0, -1),
        (1, 1, 2, 1.0, 3.0, -1),
        (1, 1, 2, 4.0, 8.0, -1),
        (2, 0, 4, 10.0, 13.0, -1),
        (2, 1, 4, 10.0, 13.0, -1),
    ]


def test_a_resize_ends_one_segment_and_begins_the_next():
    result = fabricated([Told(0, 2, 9, [(1, {0: 2}), (4, {0: 2, 1: 1})], 6)])
    assert segments(result.log, 6.0).tolist() == [
        (0, 0, 2, 1.0, 4.0, -1),
        (0, 0, 2, 4.0, 6.0, -1),
        (0, 1, 1, 4.0, 6.0, -1),
    ]


def test_segments_are_cut_at_the_end_of_the_run():
    result = fabricated([Told(0, 2, 9, [(1, {0: 2})])], end=5)
    assert segments(result.log, 5.0).tolist() == [(0, 0, 2, 1.0, 5.0, -1)]


def test_a_stay_of_zero_length_is_dropped():
    result = fabricated([Told(0, 2, 9, [(1, {0: 2}), (1, {0: 3})], 6)])
    assert segments(result.log, 6.0).tolist() == [(0, 0, 3, 1.0, 6.0, -1)]


def test_a_run_without_starts_has_no_segments():
    result = fabricated([Told(0, 2, 9)], end=5)
    assert len(segments(result.log, 5.0)) == 0
    assert utilisation(result) == 0


def test_utilisation_worked_by_hand():
    """A 40, B 12, C 24 GPU-seconds of 13 x 8."""
    assert utilisation(three_jobs()) == pytest.approx(76 / 104)


def test_utilisation_within_a_window():
    """From 2 to 9: A 28, B 1 x 2 + 4 x 2 of 7 x 8."""
    result = three_jobs(window=(2.0, 9.0))
    assert measured_span(result) == (2, 9)
    assert utilisation(result) == pytest.approx(38 / 56)


def test_the_span_begins_with_the_first_submission_and_ends_with_the_run():
    result = fabricated([Told(5, 4, 5, [(5, {0: 4})], 10)], window=(0.0, 1000.0))
    assert measured_span(result) == (5, 10)
    assert utilisation(result) == pytest.approx(0.5)


def test_an_empty_span_has_no_figures():
    result = three_jobs(window=(50.0, 60.0))
    assert np.isnan([utilisation(result), mean_jobs_in_system(result), fragmentation(result)]).all()


def test_fragmentation_worked_by_hand():
    """Node 1 has 2 of 4 GPUs free from 1 to 3 and 4 to 8, too few for 2 of 3 jobs, and all free for 4 s: 8 of 28."""
    assert fragmentation(three_jobs()) == pytest.approx(8 / 28)


def test_a_free_cluster_is_not_fragmented():
    assert fragmentation(fabricated([Told(0, 64, 5)], end=10)) == 0


def test_a_full_cluster_has_no_fragmentation():
    assert np.isnan(fragmentation(fabricated([Told(0, 8, 5, [(0, {0: 4, 1: 4})], 5)])))


def test_free_gpus_that_suit_every_job_are_not_fragments():
    jobs = (Told(0, 1, 5, [(0, {0: 1})], 5), Told(0, 1, 5, [(0, {1: 1})], 5))
    assert fragmentation(fabricated(jobs)) == 0


def test_gpu_hours_count_measured_jobs_only():
    assert gpu_hours(three_jobs()) == pytest.approx(76 / 3600)
    assert gpu_hours(three_jobs(window=(0.5, 1.5))) == pytest.approx(12 / 3600)


def test_jobs_in_the_system_worked_by_hand():
    times, number = jobs_in_system(three_jobs())
    assert times.tolist() == [0, 1, 2, 8, 10, 13]
    assert number.tolist() == [1, 2, 3, 2, 1, 0]
    assert mean_jobs_in_system(three_jobs()) == pytest.approx(28 / 13)


def test_jobs_waiting_worked_by_hand():
    times, number = jobs_waiting(three_jobs())
    assert dict(zip(times.tolist(), number.tolist(), strict=True)) == {0: 0, 1: 0, 2: 1, 3: 2, 4: 1, 8: 1, 10: 0, 13: 0}


def test_gpus_held_by_node():
    times, held = gpus_held(three_jobs(), node=1)
    assert list(zip(times.tolist(), held.tolist(), strict=True)) == [(1, 2), (3, 0), (4, 2), (8, 0), (10, 4), (13, 0)]


def test_step_function_adds_jumps_at_the_same_time():
    times, values = step_function(np.array([2.0, 1.0, 2.0]), np.array([3, 1, -1]))
    assert times.tolist() == [1, 2]
    assert values.tolist() == [1, 3]


@pytest.mark.parametrize(
    ("start", "end", "area"), [(0, 10, 23), (2, 3, 5), (1.5, 2.5, 5), (8, 9, 2), (0, 1, 0), (4, 4, 0)]
)
def test_integral_of_a_step_function(start, end, area):
    """0 until 1, 5 until 3... and 2 from 3.5 on: 5 x 2.0 from 1 to 3, 0 until 3.5, then 2."""
    times, values = np.array([1.0, 3.0, 3.5]), np.array([5, 0, 2])
    assert integral(times, values, start, end) == pytest.approx(area)


@st.composite
def busy_runs(draw):
    """One node per job; every job starts, may be resized or stopped at whole seconds, and may never finish."""
    jobs = []
    for node in range(draw(st.integers(1, 5))):
        instants = sorted(draw(st.sets(st.integers(0, 25), min_size=2, max_size=6)))
        acts = [(time, {node: draw(st.integers(1, 4))} if i % 3 < 2 else None) for i, time in enumerate(instants[:-1])]
        finish = instants[-1] if acts[-1][1] and draw(st.booleans()) else None
        jobs.append(Told(acts[0][0], draw(st.integers(1, 6)), 5, acts, finish))
    start = draw(st.integers(0, 20))
    window = (start, draw(st.integers(start, 40)))
    jobs.sort(key=lambda job: job.submit)
    return fabricated(jobs, node_gpus=[4] * 5, end=30, window=window)


def second_by_second(result):
    """int64[nodes, 30]: GPUs held during each second, from a replay of the log event by event."""
    held = np.zeros((result.cluster.num_nodes, 31), dtype=np.int64)
    current = {}
    for second in range(30):
        for i in np.flatnonzero(result.log.events["time"] == second):
            job = int(result.log.events["job"][i])
            current[job] = dict(result.log.placement(int(i)).gpus)
        for gpus in current.values():
            for node, number in gpus.items():
                held[node, second] += number
    return held[:, :30]


@settings(deadline=None, max_examples=60)
@given(busy_runs())
def test_utilisation_equals_a_count_by_second(result):
    start, end = (int(t) for t in measured_span(result))
    if end > start:
        held = second_by_second(result)[:, start:end]
        assert utilisation(result) == pytest.approx(held.sum() / (20 * (end - start)))


@settings(deadline=None, max_examples=60)
@given(busy_runs())
def test_fragmentation_equals_a_count_by_second(result):
    start, end = (int(t) for t in measured_span(result))
    idle = 4 - second_by_second(result)[:, start:end]
    requests = result.records["num_gpus"]
    lost = sum(f * (requests > f).mean() for f in idle.ravel() if f < 4)
    if idle.sum():
        assert fragmentation(result) == pytest.approx(lost / idle.sum())


@settings(deadline=None, max_examples=60)
@given(busy_runs())
def test_node_step_functions_add_up_to_the_segments(result):
    by_node = sum(integral(*gpus_held(result, node), 0.0, 30.0) for node in range(result.cluster.num_nodes))
    held = segments(result.log, result.end_time)
    assert by_node == pytest.approx(gpu_seconds(held, 0.0, 30.0))
    assert integral(*gpus_held(result), 0.0, 30.0) == pytest.approx(by_node)


@settings(deadline=None, max_examples=60)
@given(busy_runs())
def test_littles_law(result):
    """Over the whole run, the integral of jobs in the system equals the total time that jobs spend in it."""
    leave = np.where(np.isnan(result.records["finish_time"]), 30.0, result.records["finish_time"])
    spent = (leave - result.records["submit_time"]).sum()
    assert integral(*jobs_in_system(result), 0.0, 30.0) == pytest.approx(spent)
