"""Sharing GPUs out by marginal gain."""

from itertools import product

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from baselines.parts.grants import Grant
from tests.unit.baselines.marginal_gain import Demand, share_out


def demand(*work_by_type: float, least: int = 1, most: int = 8, weight: float = 1.0, present: Grant | None = None):
    """Create a job with linear scaling and these seconds on one GPU of each type; inf: it does not run there."""
    sizes = np.arange(most + 1)
    cost = np.full((len(work_by_type), most + 1), np.inf)
    for gpu_type, work in enumerate(work_by_type):
        cost[gpu_type, least:] = work / sizes[least:]
    return Demand(cost, weight, present)


def total(demands, grants):
    """Return the weighted seconds of the jobs with a grant."""
    return sum(demands[job].weight * demands[job].cost[grant.gpu_type, grant.num_gpus] for job, grant in grants.items())


def test_a_single_job_takes_all_useful_gpus():
    assert share_out({0: demand(16.0)}, np.array([4])) == {0: Grant(0, 4)}
    assert share_out({0: demand(16.0, most=3)}, np.array([4])) == {0: Grant(0, 3)}


def test_a_job_does_not_grow_without_gain():
    flat = Demand(np.array([[np.inf, 5.0, 4.0, 4.0, 4.5]]), 1.0)
    assert share_out({0: flat}, np.array([4])) == {0: Grant(0, 2)}


def test_a_step_may_skip_sizes_that_do_not_run():
    """Runs on 1, 2 or 4 GPUs, and is no faster on 2: from 1 to 4 at once."""
    gappy = Demand(np.array([[np.inf, 8.0, 8.0, np.inf, 2.0]]), 1.0)
    assert share_out({0: gappy}, np.array([4])) == {0: Grant(0, 4)}
    assert share_out({0: gappy}, np.array([3])) == {0: Grant(0, 1)}


def test_gpus_go_to_the_larger_gain():
    """64 and 16 GPU-s on 8 GPUs: 5 and 3, as worked by hand in the golden test."""
    assert share_out({0: demand(64.0), 1: demand(16.0)}, np.array([8])) == {0: Grant(0, 5), 1: Grant(0, 3)}


def test_weights_shift_gpus():
    shares = share_out({0: demand(64.0, weight=0.25), 1: demand(16.0)}, np.array([8]))
    assert shares == {0: Grant(0, 4), 1: Grant(0, 4)}


def test_with_too_many_jobs_the_shortest_go_first():
    """Three GPUs, four jobs: the one with the most GPU-seconds waits."""
    shares = share_out({job: demand(work) for job, work in enumerate([9.0, 7.0, 8.0, 6.0])}, np.array([3]))
    assert shares == {1: Grant(0, 1), 2: Grant(0, 1), 3: Grant(0, 1)}


def test_a_job_that_cannot_run_gets_nothing():
    assert share_out({0: demand(np.inf, least=8, most=8)}, np.array([4])) == {}
    assert share_out({0: demand(9.0, least=8)}, np.array([4])) == {}


def test_running_jobs_keep_their_type():
    """Job 0 runs on the slow type; new job 1 gets the fast one; they do not swap."""
    demands = {0: demand(8.0, 4.0, most=1, present=Grant(0, 1)), 1: demand(8.0, 4.0, most=1)}
    assert share_out(demands, np.array([1, 1])) == {0: Grant(0, 1), 1: Grant(1, 1)}


def test_a_job_moves_to_idle_gpus_of_another_type():
    """Job 0 runs alone on the slow type: the fast one is free and better."""
    assert share_out({0: demand(8.0, 4.0, present=Grant(0, 2))}, np.array([4, 4])) == {0: Grant(1, 4)}


def test_least_sizes_and_gpu_time():
    some = Demand(np.array([[np.inf, np.inf, 6.0], [np.inf, 7.0, 4.0], [np.inf] * 3]), 1.0)
    assert some.least.tolist() == [2, 1, 0]
    assert some.least_gpu_time == 7.0
    none = Demand(np.full((2, 3), np.inf), 1.0)
    assert none.least_gpu_time == np.inf


convex = st.lists(st.floats(1.0, 100.0), min_size=1, max_size=4)


@given(works=convex, capacity=st.integers(1, 9))
def test_optimal_for_one_type_and_convex_costs(works, capacity):
    """Compare with all ways to share out the GPUs among the admitted jobs."""
    demands = {job: demand(work) for job, work in enumerate(works)}
    grants = share_out(demands, np.array([capacity]))
    admitted = sorted(grants)
    best = min(
        total(demands, {job: Grant(0, size) for job, size in zip(admitted, sizes, strict=True)})
        for sizes in product(range(1, 9), repeat=len(admitted))
        if sum(sizes) <= capacity
    )
    assert len(admitted) == min(capacity, len(works))
    assert total(demands, grants) == pytest.approx(best)


@st.composite
def any_demands(draw):
    """Draw up to six jobs on three types with gaps and costs that are not convex."""
    demands = {}
    for job in range(draw(st.integers(1, 6))):
        cost = np.array(draw(st.lists(st.lists(st.floats(1, 50), min_size=6, max_size=6), min_size=3, max_size=3)))
        cost[:, 0] = np.inf
        gaps = draw(st.lists(st.tuples(st.integers(0, 2), st.integers(1, 5)), max_size=8))
        for gpu_type, size in gaps:
            cost[gpu_type, size] = np.inf
        demands[job] = Demand(cost, draw(st.floats(0.1, 2.0)))
    return demands


@given(demands=any_demands(), capacity=st.lists(st.integers(0, 6), min_size=3, max_size=3))
def test_grants_fit_and_run_and_no_single_move_is_better(demands, capacity):
    """No type is over-committed, each grant is a size on which the job runs, and no single job could gain from idle
    GPUs of its own or another type.
    """
    grants = share_out(demands, np.array(capacity))
    left = np.array(capacity)
    for job, grant in grants.items():
        assert np.isfinite(demands[job].cost[grant.gpu_type, grant.num_gpus])
        left[grant.gpu_type] -= grant.num_gpus
    assert (left >= 0).all()
    for job, grant in grants.items():
        now = demands[job].cost[grant.gpu_type, grant.num_gpus]
        for gpu_type in range(3):
            room = left[gpu_type] + (grant.num_gpus if gpu_type == grant.gpu_type else 0)
            sizes = range(grant.num_gpus + 1 if gpu_type == grant.gpu_type else 1, min(room, 5) + 1)
            assert all(demands[job].cost[gpu_type, size] >= now - 1e-6 for size in sizes)
