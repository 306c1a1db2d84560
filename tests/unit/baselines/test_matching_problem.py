"""The matching problem: completion times by hand, and invalid arguments."""

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from baselines.sampling_matching.problem import compute_completion_seconds, objective, of_jobs, problem
from envs.types import MurmurationError
from tests.unit.baselines.matching_worlds import any_problem, ring_overhead, some_matching


def test_completion_times_worked_by_hand():
    """Job 0 on both types: 90 / (2 x 10 + 1 x 25) = 2 s and 3 s of overhead; job 1: 40 / 20 = 2 s and 1 s."""
    made = problem([[10, 25], [20, 5]], [90, 40], supply=[3, 1], overhead=[[0, 1, 2, 3]] * 2, weight=[1, 10])
    counts = np.array([[2, 1], [1, 0]])
    assert compute_completion_seconds(made, counts).tolist() == [5, 3]
    assert objective(made, counts) == 5 + 30


def test_a_mixed_gang_is_slower_and_a_change_costs_a_restart():
    alone, mixed = [[4.0, 6.0]], [[3.0, 5.0]]
    throughputs = np.array([[alone, mixed]])
    made = problem(throughputs, [48], supply=[2, 2], present=[[2, 0]], restart=[7])
    assert compute_completion_seconds(made, np.array([[2, 0]])).tolist() == [6]
    assert compute_completion_seconds(made, np.array([[0, 2]])).tolist() == [4 + 7]
    assert compute_completion_seconds(made, np.array([[1, 1]])).tolist() == [6 + 7]


def test_jobs_that_cannot_run_have_infinite_times():
    made = problem([[1.0, 0.0]], [1], supply=[3, 3], least=[2], most=[3])
    assert compute_completion_seconds(made, np.array([[1, 0]])).tolist() == [np.inf]
    assert compute_completion_seconds(made, np.array([[2, 1]])).tolist() == [np.inf]
    assert compute_completion_seconds(made, np.array([[3, 0]])).tolist() == [1 / 3]


def test_ring_overhead_by_hand():
    """2 (k - 1) / k x 0.5 GB / 10 GB/s x 40 iterations: 0, 2, 8/3, 3 s."""
    assert ring_overhead(4, [40], [0.5], 10)[0, 1:] == pytest.approx([0, 2, 8 / 3, 3])


@given(seed=st.integers(0, 10_000))
def test_a_subset_of_jobs_keeps_its_completion_times(seed):
    made, counts = any_problem(seed), some_matching(any_problem(seed), seed)
    rows = np.flatnonzero(np.random.default_rng(seed).random(made.num_jobs) < 0.6)
    some = of_jobs(made, rows, made.supply)
    expected = compute_completion_seconds(made, counts)[rows]
    assert compute_completion_seconds(some, counts[rows]).tolist() == expected.tolist()


@pytest.mark.parametrize(
    ("change", "said"),
    [
        ({"work": [0, 1]}, "work is 0.0 for a job; it must be positive"),
        ({"throughputs": [[1, -1], [1, 1]]}, "a throughput is negative"),
        ({"throughputs": [[1, np.nan], [1, 1]]}, "a throughput is negative or not finite"),
        ({"least": [2, 1]}, "the jobs need 3 workers and there are 2; admit fewer"),
        ({"least": [0, 1]}, "starts below 1"),
        ({"most": [0, 1]}, "range of workers is empty"),
        ({"weight": [1]}, r"weight has shape \(1,\); it must match 2 jobs and 2 worker types"),
        ({"present": [[1, 0, 0], [0, 0, 0]]}, r"present has shape \(2, 3\)"),
        ({"weight": [1, np.inf]}, "positive and finite"),
    ],
)
def test_errors_have_one_line(change, said):
    options = {"throughputs": [[1, 1], [1, 1]], "work": [1, 1], **change}
    with pytest.raises(MurmurationError, match=said) as error:
        problem(options.pop("throughputs"), options.pop("work"), **options)
    assert "\n" not in str(error.value)
