"""Assigning GPUs to jobs in an order."""

import numpy as np
from hypothesis import given
from hypothesis import strategies as st

from baselines.parts.priority import jobs_present, keep_and_displace, place_in_order, plan_anew, ranked
from envs.types import ClusterSpec, NodeSpec, Placement
from tests.golden.playground import TwoThroughputs, fast_and_slow, jobs, two_nodes
from tests.unit.baselines.rounds import busy_round, round_at
from tests.unit.baselines.slow import place_in_order_slowly

LONG = 100.0


def long(running, throughputs):
    """Return the same seconds left for every running job."""
    return np.full(len(running), LONG)


def outcome(allocation, count):
    """Return the GPUs by node of each job; None for jobs that do not run."""
    return [dict(place.gpus) if (place := allocation.placement(job)) else None for job in range(count)]


def test_jobs_present_in_order_of_submission():
    """Job 1 runs, 0 and 2 wait, 3 has not come."""
    workload = jobs((0, 1, LONG), (0, 1, LONG), (0, 1, LONG), (9, 1, LONG))
    view = round_at(1, workload, two_nodes(), place=[(0, {1: {0: 1}})])
    assert jobs_present(view).tolist() == [0, 1, 2]


def test_ranked_breaks_ties_by_submission():
    assert ranked(np.array([0, 1, 2, 3]), np.array([2.0, 1.0, 2.0, 1.0])) == [1, 3, 0, 2]


def test_a_running_job_that_is_chosen_stays():
    view = round_at(1, jobs((0, 2, LONG), (0, 2, LONG)), two_nodes(), place=[(0, {0: {1: 2}})])
    allocation = keep_and_displace(view, [0, 1], long)
    assert outcome(allocation, 2) == [{1: 2}, {1: 2}]  # best fit beside job 0
    assert allocation.changes.keys() == {1}


def test_the_last_job_in_order_is_displaced():
    """Jobs 0 and 1 hold a node each; 2 is before both, 0 before 1: so 1 is displaced."""
    workload = jobs((0, 4, LONG), (0, 4, LONG), (1, 4, LONG))
    view = round_at(1, workload, two_nodes(), place=[(0, {0: {0: 4}, 1: {1: 4}})])
    assert outcome(keep_and_displace(view, [2, 0, 1], long), 3) == [{0: 4}, None, {1: 4}]
    assert outcome(keep_and_displace(view, [2, 1, 0], long), 3) == [None, {1: 4}, {0: 4}]


def test_no_job_is_displaced_in_vain():
    """Job 2 needs 8 GPUs, but 0 goes before it and holds 1: it is skipped, and 1 is not disturbed for it."""
    workload = jobs((0, 1, LONG), (0, 4, LONG), (1, 8, LONG))
    view = round_at(1, workload, two_nodes(), place=[(0, {0: {0: 1}, 1: {1: 4}})])
    allocation = keep_and_displace(view, [0, 2, 1], long)
    assert outcome(allocation, 3) == [{0: 1}, {1: 4}, None]


def test_jobs_not_in_the_way_are_put_back():
    """Job 3 needs a whole node. 2 (last) and 1 are stopped in turn until node 1 is free; 2, on node 0, was not in
    the way.
    """
    workload = jobs((0, 2, LONG), (0, 4, LONG), (0, 2, LONG), (1, 4, LONG))
    view = round_at(1, workload, two_nodes(), place=[(0, {0: {0: 2}, 1: {1: 4}, 2: {0: 2}})])
    allocation = keep_and_displace(view, [0, 3, 1, 2], long)
    assert outcome(allocation, 4) == [{0: 2}, None, {0: 2}, {1: 4}]


def test_displaced_jobs_look_for_another_place():
    """Job 2 (3 GPUs) takes node 0 from job 1 (2 GPUs), which finds room beside job 0 on node 1."""
    workload = jobs((0, 2, LONG), (0, 2, LONG), (1, 4, LONG))
    view = round_at(1, workload, two_nodes(), place=[(0, {0: {1: 2}, 1: {0: 2}})])
    allocation = keep_and_displace(view, [2, 0, 1], long)
    assert outcome(allocation, 3) == [{1: 2}, {1: 2}, {0: 4}]


def test_sizes_and_types_may_be_given():
    view = round_at(0, jobs((0, 4, LONG), (0, 4, LONG), elastic=(1, 8)), fast_and_slow(), performance=TwoThroughputs())
    allocation = view.allocation(keep_running=True)
    place_in_order(view, allocation, [0, 1], {0: 3, 1: 1}, {0: [0], 1: [1, 0]})
    assert outcome(allocation, 2) == [{0: 3}, {1: 1}]


def test_a_move_to_a_faster_type_needs_enough_remaining_work():
    """10 s on slow GPUs are 5 s on fast ones: worth a restart of 4 s, not one of 5 s."""
    for restart, place in ((4.0, {1: 2}), (5.0, {0: 2})):
        view = round_at(
            1,
            jobs((0, 2, LONG)),
            fast_and_slow(),
            place=[(0, {0: {0: 2}})],
            performance=TwoThroughputs(),
            restart_delay=restart,
        )
        assert outcome(keep_and_displace(view, [0], lambda running, throughputs: np.full(len(running), 10.0)), 1) == [
            place
        ]


def test_planning_anew_ignores_present_placements():
    view = round_at(1, jobs((0, 2, LONG), (0, 8, LONG)), two_nodes(), place=[(0, {0: {1: 2}})])
    assert outcome(plan_anew(view, [0, 1]), 2) == [{0: 2}, None]
    assert outcome(plan_anew(view, [1, 0]), 2) == [None, {0: 4, 1: 4}]


def test_planning_anew_takes_the_fastest_type_with_room():
    view = round_at(0, jobs((0, 3, LONG), (0, 3, LONG), (0, 7, LONG)), fast_and_slow(), performance=TwoThroughputs())
    assert outcome(plan_anew(view, [0, 1, 2]), 3) == [{1: 3}, {0: 3}, None]
    assert outcome(plan_anew(view, [2, 0, 1]), 3) == [None, None, {1: 4, 0: 3}]


@given(
    sizes=st.lists(st.integers(1, 12), min_size=1, max_size=8),
    seed=st.integers(0, 1000),
)
def test_the_first_job_runs_and_no_skipped_job_would_fit(sizes, seed):
    """With any jobs running before, no job that fits on the GPUs left over waits."""
    cluster = ClusterSpec(tuple(NodeSpec("plain", 4) for _ in range(3)))
    workload = jobs(*((0.0, size, LONG) for size in sizes))
    rng = np.random.default_rng(seed)
    first = round_at(0, workload, cluster)
    before = keep_and_displace(first, rng.permutation(len(sizes)).tolist(), long)
    running = {job: dict(place.gpus) for job in range(len(sizes)) if (place := before.placement(job))}
    view = round_at(1, workload, cluster, place=[(0, running)])
    order = rng.permutation(len(sizes)).tolist()
    allocation = keep_and_displace(view, order, long)
    assert allocation.placement(order[0])
    assert (allocation.free_gpus >= 0).all()
    for job in order:
        assert allocation.placement(job) or not allocation.pack(job)


def test_a_job_put_back_is_not_changed():
    """Job 2 is stopped for job 3 and put back: the allocation does not mention it, so it names none of its cores."""
    workload = jobs((0, 2, LONG), (0, 4, LONG), (0, 2, LONG), (1, 4, LONG))
    view = round_at(1, workload, two_nodes(), place=[(0, {0: {0: 2}, 1: {1: 4}, 2: {0: 2}})])
    assert keep_and_displace(view, [0, 3, 1, 2], long).changes == {1: None, 3: Placement({1: 4})}


def lengths(running, throughputs):
    """Return seconds left that depend on the job and on its throughput."""
    return 7.0 * (1 + running % 5) + throughputs


@given(seed=st.integers(0, 10_000), restart=st.sampled_from([0.0, 2.0, 40.0]), idle=st.integers(0, 3))
def test_compiled_placing_equals_the_reference(seed, restart, idle):
    """Same placements as the reference implementation, for any running jobs and any order, some free nodes down."""
    view = busy_round(seed, restart_delay=restart, shapes=True)
    rng = np.random.default_rng(seed)
    order = rng.permutation(jobs_present(view)).tolist()
    quick, slow = view.allocation(keep_running=True), view.allocation(keep_running=True)
    for allocation in (quick, slow):
        allocation.free_gpus[:idle] = 0  # as if down
    place_in_order(view, quick, order, seconds_left=lengths)
    place_in_order_slowly(view, slow, order, lengths)
    assert outcome(quick, len(order)) == outcome(slow, len(order))
    assert quick.free_gpus.tolist() == slow.free_gpus.tolist()


@given(seed=st.integers(0, 10_000), keep=st.booleans())
def test_compiled_placing_with_sizes_and_types_equals_the_reference(seed, keep):
    """Some jobs were stopped or placed before; some running jobs are not in the order and keep their GPUs."""
    view = busy_round(seed, shapes=True)
    rng = np.random.default_rng(seed)
    present = jobs_present(view).tolist()
    order = rng.permutation(present)[: int(rng.integers(1, len(present) + 1))].tolist()
    sizes = {job: int(rng.integers(1, 13)) for job in order}
    gpu_types = {job: rng.permutation(3)[: int(rng.integers(0, 4))].tolist() for job in order}
    allocations = [view.allocation(keep_running=keep) for _ in range(2)]
    for job in rng.permutation(present)[: len(present) // 3].tolist():
        for allocation in allocations:
            if allocation.placement(job):
                allocation.stop(job)
            else:
                allocation.pack(job)
    place_in_order(view, allocations[0], order, sizes, gpu_types)
    place_in_order_slowly(view, allocations[1], order, None, sizes, gpu_types)
    assert outcome(allocations[0], len(present)) == outcome(allocations[1], len(present))
    assert allocations[0].free_gpus.tolist() == allocations[1].free_gpus.tolist()


def test_without_jobs_nothing_changes():
    view = round_at(0, jobs((0, 2, LONG)), two_nodes())
    allocation = view.allocation(keep_running=True)
    place_in_order(view, allocation, [])
    assert not allocation.changes
