"""Finding nodes for gangs."""

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from baselines.parts.arrays import shapes_at
from baselines.parts.placing import (
    best_fit,
    could_fit,
    fewest,
    first_fit,
    first_nodes,
    pack,
    start_waiting,
    types_by_throughput,
)
from envs.types import ClusterSpec, JobSpec, NodeSpec, Placement
from envs.workloads import Workload
from tests.conformance.worlds import Curved
from tests.golden.playground import TwoThroughputs, fast_and_slow, jobs, two_nodes
from tests.unit.baselines.rounds import CROWDED, busy_round, round_at
from tests.unit.baselines.slow import start_slowly


def packed(view, job=0, size=None, before=()):
    """Return where `pack` places a job after other jobs were placed by hand; None if nowhere."""
    allocation = view.allocation()
    for other, gpus in before:
        allocation.place(other, gpus)
    found = pack(view, allocation, job, size)
    assert found is (allocation.placement(job) is not None)
    return dict(allocation.placement(job).gpus) if found else None


def test_types_fastest_first():
    view = round_at(0, jobs((0, 2, 1)), fast_and_slow(), performance=TwoThroughputs())
    assert list(types_by_throughput(view, 0, 2)) == [1, 0]


def test_equally_fast_types_are_in_the_clusters_order():
    view = round_at(0, jobs((0, 2, 1)), fast_and_slow())
    assert list(types_by_throughput(view, 0, 2)) == [0, 1]


def test_types_too_small_are_left_out():
    """4 GPUs of each type: a job of 5 runs consolidated on neither."""
    view = round_at(0, jobs((0, 5, 1)), fast_and_slow())
    assert list(types_by_throughput(view, 0, 4)) == [0, 1]
    assert list(types_by_throughput(view, 0, 5)) == []


def test_types_on_which_a_model_does_not_run_are_left_out():
    cluster = ClusterSpec((NodeSpec("small", 4), NodeSpec("old", 4)))
    large = Workload.of([JobSpec(0, 0.0, 2, 1.0, "large")])
    view = round_at(0, large, cluster, performance=Curved())
    assert list(types_by_throughput(view, 0, 2)) == [1]
    assert packed(view) == {1: 2}


def test_best_fit_on_the_fastest_type_with_room():
    view = round_at(0, jobs((0, 2, 1), (0, 3, 1)), fast_and_slow(), performance=TwoThroughputs())
    assert packed(view) == {1: 2}
    assert packed(view, before=[(1, {1: 3})]) == {0: 2}  # rather than wait


def test_no_room_changes_nothing():
    view = round_at(0, jobs((0, 4, 1), (0, 1, 1), (0, 1, 1)), two_nodes())
    assert packed(view, before=[(1, {0: 1}), (2, {1: 1})]) is None


def test_a_size_may_be_given():
    view = round_at(0, jobs((0, 4, 1), elastic=(1, 8)), two_nodes())
    assert packed(view, size=6) == {0: 4, 1: 2}


def test_a_gang_over_types_only_if_no_type_is_large_enough():
    """5 GPUs exceed both types of 4. A job of 4 does not: it waits if both types have only 3 left."""
    view = round_at(0, jobs((0, 5, 1), (0, 4, 1), (0, 1, 1), (0, 1, 1)), fast_and_slow(), performance=TwoThroughputs())
    assert packed(view, 0) == {1: 4, 0: 1}
    assert packed(view, 1, before=[(2, {0: 1}), (3, {1: 1})]) is None


def test_a_gang_over_types_never_takes_gpus_that_are_too_small_for_the_model():
    cluster = ClusterSpec((NodeSpec("small", 4), NodeSpec("old", 4), NodeSpec("new", 4)))
    large = Workload.of([JobSpec(0, 0.0, 7, 1.0, "large")])
    assert packed(round_at(0, large, cluster, performance=Curved())) == {2: 4, 1: 3}


def test_first_fit_takes_the_first_node_with_room():
    view = round_at(0, jobs((0, 2, 1), (0, 3, 1)), two_nodes())
    allocation = view.allocation()
    assert first_nodes(allocation.free_gpus, allocation.cluster, 2, 0) == {0: 2}
    allocation.place(1, {0: 3})
    assert first_nodes(allocation.free_gpus, allocation.cluster, 1, 0) == {0: 1}
    assert first_nodes(allocation.free_gpus, allocation.cluster, 2, 0) == {1: 2}
    assert first_nodes(allocation.free_gpus, allocation.cluster, 8, 0) == {}


@given(
    sizes=st.lists(st.integers(1, 8), min_size=1, max_size=5),
    taken=st.lists(st.integers(0, 8), min_size=5, max_size=5),
    want=st.integers(1, 30),
)
def test_first_fit_gives_all_requested_gpus_from_free_ones(sizes, taken, want):
    """The GPUs found are free, sum to the request, and a larger job gets whole nodes except one."""
    cluster = ClusterSpec(tuple(NodeSpec("plain", size) for size in sizes))
    view = round_at(0, jobs((0, 1, 1)), cluster)
    allocation = view.allocation()
    allocation.free_gpus -= [min(taken[i], size) for i, size in enumerate(sizes)]
    found = first_nodes(allocation.free_gpus, allocation.cluster, want, 0)
    assert all(1 <= gpus <= allocation.free_gpus[node] for node, gpus in found.items())
    assert sum(found.values()) in (0, want)
    assert sum(gpus < sizes[node] for node, gpus in found.items()) <= 1
    if want <= max(allocation.free_gpus):
        assert len(found) <= 1 or want > max(sizes)
        assert found


def test_the_allocation_accepts_the_placements():
    """The allocation accepts the nodes that are found."""
    view = round_at(0, jobs((0, 6, 1)), two_nodes())
    allocation = view.allocation()
    allocation.place(0, Placement(first_nodes(allocation.free_gpus, allocation.cluster, 6, 0)))
    assert allocation.free_gpus.tolist() == [0, 2]


def test_no_other_types_for_a_job_that_one_type_could_hold():
    """Without types to try, a job does not span types if one type is large enough: it waits."""
    view = round_at(0, jobs((0, 4, 1)), fast_and_slow())
    allocation = view.allocation()
    assert not pack(view, allocation, 0, 4, ())
    assert allocation.placement(0) is None


both_ways = pytest.mark.parametrize("find", [best_fit, first_fit])


@both_ways
@given(seed=st.integers(0, 10_000))
def test_jobs_ruled_out_by_the_quick_check_do_not_fit(find, seed):
    """The quick check never rejects a job that fits, gangs over several types included."""
    view = busy_round(seed, shapes=True)
    free = np.random.default_rng(seed).integers(0, CROWDED.node_gpus + 1)
    jobs = np.arange(len(view.num_gpus))
    able = could_fit(CROWDED, free, view.num_gpus, shapes_at(view, jobs))
    for job in jobs[~able].tolist():
        size = int(view.num_gpus[job])
        assert not find(view, free, job, size, types_by_throughput(view, job, size))


def test_the_quick_check_by_hand():
    """On nodes of 4: a job of 2 needs them on one node, one of 5 in all."""
    cluster, anywhere = two_nodes(), np.zeros((1, 4), np.int64)
    assert could_fit(cluster, np.array([1, 2]), np.array([1, 2, 3, 5]), anywhere).tolist() == [True, True, False, False]
    assert could_fit(cluster, np.array([1, 4]), np.array([4, 5, 6]), anywhere).tolist() == [True, True, False]
    assert not could_fit(cluster, np.array([0, 0]), np.array([1]), anywhere).any()
    assert could_fit(cluster, np.array([1, 2]), np.array([3]), np.array([[2, 0, 0, 0]])).all()


@both_ways
@given(seed=st.integers(0, 10_000))
def test_starting_the_queue_is_trying_every_job(find, seed):
    """Early exits do not change the result, for any free GPUs and any order."""
    view = busy_round(seed, shapes=True)
    waiting = np.random.default_rng(seed).permutation(view.queued).tolist()
    quick, slow = view.allocation(keep_running=True), view.allocation(keep_running=True)
    start_waiting(view, quick, waiting, find)
    start_slowly(view, slow, waiting, find)
    assert list(quick.shares()) == list(slow.shares())


@both_ways
@given(seed=st.integers(0, 10_000), down=st.integers(0, 3))
def test_the_same_with_sizes_and_types(find, seed, down):
    view = busy_round(seed, shapes=True)
    rng = np.random.default_rng(seed)
    waiting = rng.permutation(view.queued).tolist()
    sizes = {job: int(rng.integers(1, 13)) for job in waiting}
    gpu_types = {job: rng.permutation(3)[: int(rng.integers(0, 4))].tolist() for job in waiting}
    quick, slow = view.allocation(keep_running=True), view.allocation(keep_running=True)
    for allocation in (quick, slow):
        allocation.free_gpus[:down] = 0  # as if down
    start_waiting(view, quick, waiting, find, sizes, gpu_types)
    start_slowly(view, slow, waiting, find, sizes, gpu_types)
    assert list(quick.shares()) == list(slow.shares())


def test_long_queues_are_processed_in_parts():
    """Of 900 jobs the 8 on one GPU fit, the last one of them at the end."""
    sizes = [4 if i % 130 else 1 for i in range(900)] + [1]
    view = round_at(0, jobs(*((0, size, 1) for size in sizes)), ClusterSpec((NodeSpec("plain", 4),) * 3))
    allocation = view.allocation()
    start_waiting(view, allocation, list(range(len(sizes))), best_fit)
    slow = view.allocation()
    start_slowly(view, slow, list(range(len(sizes))), best_fit)
    assert list(allocation.shares()) == list(slow.shares())


def test_an_unknown_search_is_refused():
    view = round_at(0, jobs((0, 2, 1)), two_nodes())
    with pytest.raises(ValueError, match="best_fit or first_fit"):
        start_waiting(view, view.allocation(), [0], lambda *_: {0: 2})


@given(most=st.integers(0, 40), enough=st.integers(1, 50))
def test_fewest_finds_the_smallest_count_that_is_enough(most, enough):
    asked = []

    def answer(count):
        asked.append(count)
        return count >= enough

    assert fewest(most, answer) == (enough if enough <= most else None)
    assert all(1 <= count <= most for count in asked)
    assert len(asked) <= 2 * most.bit_length() + 1
