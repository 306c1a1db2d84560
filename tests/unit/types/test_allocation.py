"""The builder of allocations: what it accepts, what it refuses, and where it packs jobs."""

from contextlib import suppress

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from envs.types import Allocation, AllocationError, ClusterSpec, JobId, NodeId, NodeSpec, Placement
from envs.types.allocation import consolidated, scattered

MIXED = ClusterSpec((NodeSpec("a", 8), NodeSpec("a", 4), NodeSpec("b", 8), NodeSpec("a", 8), NodeSpec("b", 2)))


def allocation(
    running: dict[JobId, dict[NodeId, int]] | None = None, *, keep_running: bool = False, size: int = 4
) -> Allocation:
    """On `MIXED`; all jobs request `size` GPUs and prefer "b" to "a"."""
    placements = {job: Placement(gpus) for job, gpus in (running or {}).items()}
    free = MIXED.node_gpus.copy()
    for gpus in (running or {}).values():
        for node, count in gpus.items():
            free[node] -= count
    return Allocation(MIXED, placements, free, lambda job: (1, 0), lambda job: size, keep_running=keep_running)


def gpus_of(answer: Allocation, job: JobId) -> dict[NodeId, int]:
    """GPUs by node of a job that runs under the allocation."""
    placement = answer.placement(job)
    assert placement is not None
    return dict(placement.gpus)


def test_place_takes_gpus_and_stop_returns_them():
    answer = allocation()
    answer.place(0, {0: 8, 1: 2})
    assert answer.free_gpus.tolist() == [0, 2, 8, 8, 2]
    assert gpus_of(answer, 0) == {0: 8, 1: 2}
    answer.stop(0)
    assert answer.free_gpus.tolist() == [8, 4, 8, 8, 2]
    assert answer.placement(0) is None
    assert answer.changes == {0: None}


def test_place_returns_the_gpus_of_an_earlier_placement():
    """The eight GPUs of node 0 are free for the job that already holds them."""
    answer = allocation()
    answer.place(0, {0: 8})
    answer.place(0, {0: 6, 1: 1})
    assert answer.free_gpus.tolist() == [2, 3, 8, 8, 2]


def test_keep_running_begins_with_the_running_jobs():
    answer = allocation({7: {0: 4}}, keep_running=True)
    assert answer.free_gpus.tolist() == [4, 4, 8, 8, 2]
    assert gpus_of(answer, 7) == {0: 4}
    assert answer.changes == {}
    answer.place(7, {0: 8})
    assert answer.free_gpus[0] == 0
    answer.stop(7)
    assert answer.free_gpus[0] == 8


def test_without_keep_running_the_allocation_begins_empty():
    answer = allocation({7: {0: 4}})
    assert answer.free_gpus.tolist() == [8, 4, 8, 8, 2]
    assert answer.placement(7) is None
    answer.keep(7)
    assert answer.free_gpus[0] == 4
    assert list(answer.shares()) == [(7, 0, 4)]


def test_jobs_are_those_that_run_under_the_allocation():
    keeping, empty = allocation({7: {0: 4}, 8: {1: 1}}, keep_running=True), allocation({7: {0: 4}})
    assert keeping.jobs() == {7, 8}
    assert empty.jobs() == set()
    for answer in (keeping, empty):
        answer.stop(7)
        answer.place(1, {2: 1})
    assert keeping.jobs() == {1, 8}
    assert empty.jobs() == {1}


def test_a_placement_object_keeps_its_cpus_and_plan():
    answer = allocation()
    placement = Placement({1: 2}, cpus={1: 8.0}, batch_size=64)
    answer.place(3, placement)
    assert answer.placement(3) is placement
    assert placement.num_gpus == 2


@pytest.mark.parametrize(
    ("gpus", "says"),
    [
        ({}, "job 3: a placement needs at least one GPU; use stop() to take all GPUs away"),
        ({5: 1}, "job 3: node 5 does not exist; nodes are 0 to 4"),
        ({-1: 1}, "job 3: node -1 does not exist; nodes are 0 to 4"),
        ({1: 5}, "job 3: asks for 5 GPUs on node 1, where 4 are free"),
        ({0: 1, 1: 0}, "job 3: asks for 0 GPUs on node 1, where 4 are free"),
        ({0: -2}, "job 3: asks for -2 GPUs on node 0, where 8 are free"),
        ({0: 1.5}, "job 3: asks for 1.5 GPUs on node 0; give a whole number"),
    ],
)
def test_a_placement_that_does_not_fit_is_refused_and_changes_nothing(gpus, says):
    answer = allocation()
    answer.place(3, {2: 3})
    with pytest.raises(AllocationError) as error:
        answer.place(3, gpus)
    assert str(error.value) == says
    assert answer.free_gpus.tolist() == [8, 4, 5, 8, 2]
    assert gpus_of(answer, 3) == {2: 3}


def test_a_job_that_does_not_run_cannot_be_kept():
    with pytest.raises(AllocationError, match="job 1: does not run, so it has no placement to keep"):
        allocation({7: {0: 4}}).keep(1)


def test_a_job_whose_gpus_were_given_away_cannot_be_kept():
    answer = allocation({7: {0: 4}})
    answer.place(1, {0: 6})
    with pytest.raises(AllocationError, match="job 7: asks for 4 GPUs on node 0, where 2 are free"):
        answer.keep(7)


def test_stopping_an_unknown_job_is_harmless():
    answer = allocation()
    answer.stop(9)
    assert answer.free_gpus.tolist() == MIXED.node_gpus.tolist()


def test_numpy_integers_are_accepted():
    answer = allocation()
    answer.place(0, {int(node): gpus for node, gpus in zip(np.array([1]), np.array([3]), strict=True)})
    assert answer.free_gpus[1] == 1
    assert [type(key) for key in gpus_of(answer, 0)] == [int]


def test_pack_takes_the_best_fit_of_the_preferred_type():
    """Type b first: 2 GPUs fit best on node 4, then node 2 takes 4 and 4 more; then type a, best on node 1."""
    answer = allocation()
    assert answer.pack(0, 2)
    assert answer.pack(1)
    assert answer.pack(2)
    assert answer.pack(3)
    assert list(answer.shares()) == [(0, 4, 2), (1, 2, 4), (2, 2, 4), (3, 1, 4)]


def test_pack_may_reuse_the_gpus_that_the_job_holds():
    answer = allocation()
    answer.place(0, {2: 8})
    assert answer.pack(0, 8, gpu_types=(1,))
    assert gpus_of(answer, 0) == {2: 8}


def test_pack_without_room_changes_nothing():
    answer = allocation({7: {4: 1}}, keep_running=True)
    answer.place(1, {2: 1})
    assert not answer.pack(7, 8, gpu_types=(1,))
    assert gpus_of(answer, 7) == {4: 1}
    assert answer.free_gpus.tolist() == [8, 4, 7, 8, 1]
    assert not answer.pack(5, 99)
    assert answer.placement(5) is None


def test_a_job_larger_than_a_node_takes_whole_nodes_and_one_remainder():
    """20 GPUs of type a: nodes 0 and 3 whole, 4 on node 1. 18: two whole and 2 on node 1."""
    for want, last in ((20, 4), (18, 2)):
        answer = allocation()
        assert answer.pack(0, want, gpu_types=(0,))
        assert gpus_of(answer, 0) == {0: 8, 3: 8, 1: last}


def test_a_job_that_fits_on_one_node_is_scattered_only_on_request():
    answer = allocation()
    answer.place(1, {0: 4})
    answer.place(2, {3: 4})
    answer.place(3, {2: 4})
    assert not answer.pack(0, 6)
    assert answer.pack(0, 6, scatter=True)
    assert gpus_of(answer, 0) == {2: 4, 4: 2}


counts = st.lists(st.integers(0, 8), min_size=5, max_size=5)


@given(taken=counts, want=st.integers(1, 22), gpu_type=st.integers(0, 1))
def test_found_gpus_are_free_of_one_type_and_exactly_enough(taken, want, gpu_type):
    free = np.maximum(MIXED.node_gpus - taken, 0)
    for find in (consolidated, scattered):
        found = find(free, MIXED, want, gpu_type)
        if found is None:
            continue
        assert sum(found.values()) == want
        for node, gpus in found.items():
            assert 1 <= gpus <= free[node]
            assert MIXED.node_types[node] == gpu_type


@given(taken=counts, want=st.integers(1, 22), gpu_type=st.integers(0, 1))
def test_scattered_finds_room_if_there_is_any(taken, want, gpu_type):
    free = np.maximum(MIXED.node_gpus - taken, 0)
    of_type = MIXED.node_types == gpu_type
    assert (scattered(free, MIXED, want, gpu_type) is not None) == (free[of_type].sum() >= want)
    if (free[of_type] >= want).any():
        found = consolidated(free, MIXED, want, gpu_type)
        assert found is not None
        assert len(found) == 1
        assert free[next(iter(found))] == free[of_type & (free >= want)].min()


@given(acts=st.lists(st.tuples(st.integers(0, 3), st.integers(0, 4), st.integers(0, 9)), max_size=25))
def test_free_gpus_are_those_that_no_job_holds(acts):
    """Place, move and stop at random, and recompute the count of every node from the placements."""
    answer = allocation({0: {0: 4}, 1: {1: 1}}, keep_running=True)
    for job, node, gpus in acts:
        if gpus == 0:
            answer.stop(job)
        elif gpus == 9:
            answer.pack(job)
        else:
            with suppress(AllocationError):
                answer.place(job, {node: gpus})
        left = MIXED.node_gpus.copy()
        for other in range(4):
            placed = answer.placement(other)
            for at, count in placed.gpus.items() if placed else ():
                left[at] -= count
        assert answer.free_gpus.tolist() == left.tolist()
        assert (left >= 0).all()


@pytest.mark.parametrize(
    ("gpus", "says"),
    [({0: 1.5}, "asks for 1.5 GPUs on node 0; give a whole number"), (((0, 8),), r"gpus are .*; give \{node: GPUs\}")],
)
def test_a_malformed_placement_is_refused(gpus, says):
    answer = allocation()
    with pytest.raises(AllocationError, match=f"job 3: .*{says}"):
        answer.place(3, Placement(gpus))
    assert (answer.changes, answer.free_gpus.tolist()) == ({}, MIXED.node_gpus.tolist())
