"""From an order to GPUs."""

import numpy as np
from hypothesis import given
from hypothesis import strategies as st

from baselines.parts.priority import jobs_present, keep_and_displace, place_in_order, plan_anew, ranked
from envs.types import ClusterSpec, NodeSpec, Placement
from tests.golden.playground import TwoSpeeds, fast_and_slow, jobs, two_nodes
from tests.unit.baselines.rounds import busy_round, round_at
from tests.unit.baselines.slow import place_in_order_slowly

LONG = 100.0


def long(running, speeds):
    """Seconds left of every running job."""
    return np.full(len(running), LONG)


def outcome(wish, count):
    """GPUs by node of each job; None for those that do not run."""
    return [dict(place.gpus) if (place := wish.placement(job)) else None for job in range(count)]


def test_jobs_present_in_order_of_submission():
    """Job 1 runs, 0 and 2 wait, 3 has not come."""
    workload = jobs((0, 1, LONG), (0, 1, LONG), (0, 1, LONG), (9, 1, LONG))
    view = round_at(1, workload, two_nodes(), place=[(0, {1: {0: 1}})])
    assert jobs_present(view).tolist() == [0, 1, 2]


def test_ranked_breaks_ties_by_submission():
    assert ranked(np.array([0, 1, 2, 3]), np.array([2.0, 1.0, 2.0, 1.0])) == [1, 3, 0, 2]


def test_who_runs_and_is_chosen_stays():
    view = round_at(1, jobs((0, 2, LONG), (0, 2, LONG)), two_nodes(), place=[(0, {0: {1: 2}})])
    wish = keep_and_displace(view, [0, 1], long)
    assert outcome(wish, 2) == [{1: 2}, {1: 2}]  # best fit beside job 0
    assert wish.changes.keys() == {1}


def test_the_last_in_order_makes_room():
    """Jobs 0 and 1 hold a node each; 2 goes before both, 0 before 1: so 1 goes."""
    workload = jobs((0, 4, LONG), (0, 4, LONG), (1, 4, LONG))
    view = round_at(1, workload, two_nodes(), place=[(0, {0: {0: 4}, 1: {1: 4}})])
    assert outcome(keep_and_displace(view, [2, 0, 1], long), 3) == [{0: 4}, None, {1: 4}]
    assert outcome(keep_and_displace(view, [2, 1, 0], long), 3) == [None, {1: 4}, {0: 4}]


def test_nobody_makes_room_in_vain():
    """Job 2 needs 8 GPUs, but 0 goes before it and holds 1: it is skipped, and 1 is not disturbed for it."""
    workload = jobs((0, 1, LONG), (0, 4, LONG), (1, 8, LONG))
    view = round_at(1, workload, two_nodes(), place=[(0, {0: {0: 1}, 1: {1: 4}})])
    wish = keep_and_displace(view, [0, 2, 1], long)
    assert outcome(wish, 3) == [{0: 1}, {1: 4}, None]


def test_those_not_in_the_way_come_back():
    """Job 3 needs a whole node. 2 (last) and 1 are taken off in turn until node 1 is free; 2, on node 0, was not in
    the way.
    """
    workload = jobs((0, 2, LONG), (0, 4, LONG), (0, 2, LONG), (1, 4, LONG))
    view = round_at(1, workload, two_nodes(), place=[(0, {0: {0: 2}, 1: {1: 4}, 2: {0: 2}})])
    wish = keep_and_displace(view, [0, 3, 1, 2], long)
    assert outcome(wish, 4) == [{0: 2}, None, {0: 2}, {1: 4}]


def test_the_displaced_look_for_another_place():
    """Job 2 (3 GPUs) takes node 0 from job 1 (2 GPUs), which finds room beside job 0 on node 1."""
    workload = jobs((0, 2, LONG), (0, 2, LONG), (1, 4, LONG))
    view = round_at(1, workload, two_nodes(), place=[(0, {0: {1: 2}, 1: {0: 2}})])
    wish = keep_and_displace(view, [2, 0, 1], long)
    assert outcome(wish, 3) == [{1: 2}, {1: 2}, {0: 4}]


def test_sizes_and_types_may_be_given():
    view = round_at(0, jobs((0, 4, LONG), (0, 4, LONG), elastic=(1, 8)), fast_and_slow(), performance=TwoSpeeds())
    wish = view.allocation(keep_running=True)
    place_in_order(view, wish, [0, 1], {0: 3, 1: 1}, {0: [0], 1: [1, 0]})
    assert outcome(wish, 2) == [{0: 3}, {1: 1}]


def test_moving_up_needs_enough_left():
    """10 s on slow GPUs are 5 s on fast ones: worth a restart of 4 s, not one of 5 s."""
    for restart, place in ((4.0, {1: 2}), (5.0, {0: 2})):
        view = round_at(
            1,
            jobs((0, 2, LONG)),
            fast_and_slow(),
            place=[(0, {0: {0: 2}})],
            performance=TwoSpeeds(),
            restart_delay=restart,
        )
        assert outcome(keep_and_displace(view, [0], lambda running, speeds: np.full(len(running), 10.0)), 1) == [place]


def test_planning_anew_forgets_places():
    view = round_at(1, jobs((0, 2, LONG), (0, 8, LONG)), two_nodes(), place=[(0, {0: {1: 2}})])
    assert outcome(plan_anew(view, [0, 1]), 2) == [{0: 2}, None]
    assert outcome(plan_anew(view, [1, 0]), 2) == [None, {0: 4, 1: 4}]


def test_planning_anew_takes_the_fastest_type_with_room():
    view = round_at(0, jobs((0, 3, LONG), (0, 3, LONG), (0, 7, LONG)), fast_and_slow(), performance=TwoSpeeds())
    assert outcome(plan_anew(view, [0, 1, 2]), 3) == [{1: 3}, {0: 3}, None]
    assert outcome(plan_anew(view, [2, 0, 1]), 3) == [None, None, {1: 4, 0: 3}]


@given(
    sizes=st.lists(st.integers(1, 12), min_size=1, max_size=8),
    seed=st.integers(0, 1000),
)
def test_the_first_in_order_always_runs_and_nothing_fits_that_was_skipped(sizes, seed):
    """Whatever ran before: no job that could have been placed in the GPUs left over is left waiting."""
    cluster = ClusterSpec(tuple(NodeSpec("plain", 4) for _ in range(3)))
    workload = jobs(*((0.0, size, LONG) for size in sizes))
    rng = np.random.default_rng(seed)
    first = round_at(0, workload, cluster)
    before = keep_and_displace(first, rng.permutation(len(sizes)).tolist(), long)
    running = {job: dict(place.gpus) for job in range(len(sizes)) if (place := before.placement(job))}
    view = round_at(1, workload, cluster, place=[(0, running)])
    order = rng.permutation(len(sizes)).tolist()
    wish = keep_and_displace(view, order, long)
    assert wish.placement(order[0])
    assert (wish.free_gpus >= 0).all()
    for job in order:
        assert wish.placement(job) or not wish.pack(job)


def test_who_comes_back_is_not_disturbed():
    """Job 2 is taken off for job 3 and comes back: the wish does not speak of it, so it names none of its cores."""
    workload = jobs((0, 2, LONG), (0, 4, LONG), (0, 2, LONG), (1, 4, LONG))
    view = round_at(1, workload, two_nodes(), place=[(0, {0: {0: 2}, 1: {1: 4}, 2: {0: 2}})])
    assert keep_and_displace(view, [0, 3, 1, 2], long).changes == {1: None, 3: Placement({1: 4})}


def lengths(running, speeds):
    """Seconds left that differ from job to job and by speed."""
    return 7.0 * (1 + running % 5) + speeds


@given(seed=st.integers(0, 10_000), restart=st.sampled_from([0.0, 2.0, 40.0]), idle=st.integers(0, 3))
def test_the_compiled_way_is_the_plain_way(seed, restart, idle):
    """Against the slow twin: same placements, whatever runs and in any order, with some free nodes down."""
    view = busy_round(seed, restart_delay=restart)
    rng = np.random.default_rng(seed)
    order = rng.permutation(jobs_present(view)).tolist()
    quick, slow = view.allocation(keep_running=True), view.allocation(keep_running=True)
    for wish in (quick, slow):
        wish.free_gpus[:idle] = 0  # as if down
    place_in_order(view, quick, order, seconds_left=lengths)
    place_in_order_slowly(view, slow, order, lengths)
    assert outcome(quick, len(order)) == outcome(slow, len(order))
    assert quick.free_gpus.tolist() == slow.free_gpus.tolist()


@given(seed=st.integers(0, 10_000), keep=st.booleans())
def test_the_same_with_sizes_and_types_in_the_middle_of_a_wish(seed, keep):
    """Some jobs have been stopped or placed before; some that run are not in the order, and keep what they hold."""
    view = busy_round(seed)
    rng = np.random.default_rng(seed)
    present = jobs_present(view).tolist()
    order = rng.permutation(present)[: int(rng.integers(1, len(present) + 1))].tolist()
    sizes = {job: int(rng.integers(1, 13)) for job in order}
    kinds = {job: rng.permutation(3)[: int(rng.integers(0, 4))].tolist() for job in order}
    wishes = [view.allocation(keep_running=keep) for _ in range(2)]
    for job in rng.permutation(present)[: len(present) // 3].tolist():
        for wish in wishes:
            if wish.placement(job):
                wish.stop(job)
            else:
                wish.pack(job)
    place_in_order(view, wishes[0], order, sizes, kinds)
    place_in_order_slowly(view, wishes[1], order, None, sizes, kinds)
    assert outcome(wishes[0], len(present)) == outcome(wishes[1], len(present))
    assert wishes[0].free_gpus.tolist() == wishes[1].free_gpus.tolist()


def test_nobody_to_place():
    view = round_at(0, jobs((0, 2, LONG)), two_nodes())
    wish = view.allocation(keep_running=True)
    place_in_order(view, wish, [])
    assert not wish.changes
