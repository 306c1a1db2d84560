"""The kernels that write candidates, against their reference implementations on random clusters, and by hand."""

from dataclasses import replace

import numpy as np
from hypothesis import given, settings
from hypothesis import strategies as st

from baselines.starling.growth import best_growth, grow_candidate
from baselines.starling.room import has_room, largest_room, shape_of, take_room
from baselines.starling.scratch import new_scratch
from baselines.starling.two_candidates import choose_by_part
from baselines.starling.worth import after_delay
from tests.unit.baselines import slow_candidates as slow
from tests.unit.baselines.kernel_candidates import candidate, merged_candidate
from tests.unit.baselines.slow_candidates import Rules, arrays, drawn, grid_of, is_sound, nodes_of

seeds = st.integers(0, 1_000_000)


@settings(max_examples=20)
@given(seed=seeds, size=st.integers(1, 16))
def test_has_room_agrees_with_take_room(seed, size):
    """`has_room` is true exactly if the reference implementation finds nodes, and `take_room` takes these nodes."""
    _, jobs, _, _ = drawn(seed)
    free = slow.free_under(jobs.at, jobs.capacity)
    held = jobs.at[0]
    row = grid_of([held], len(free))[0]
    for gpu_type in range(jobs.wanted.shape[1]):
        shape = shape_of(np.array(free), nodes_of(jobs), gpu_type, row)
        found = slow.find(free, jobs.capacity, jobs.types, gpu_type, size, held)
        assert has_room(size, *shape) == (found is not None)
        smaller = [n for n in range(size, 0, -1) if slow.find(free, jobs.capacity, jobs.types, gpu_type, n, held)]
        assert largest_room(size, *shape) == (smaller[0] if smaller else 0)
        if found is not None:
            left, filled = np.array(free), row.copy()
            take_room(left, nodes_of(jobs), gpu_type, size, filled, np.zeros(0))
            assert filled.tolist() == grid_of([{**held, **found}], len(free))[0].tolist()
            assert (np.array(free) - left).tolist() == (filled - row).tolist()


@settings(max_examples=20)
@given(seed=seeds, keep=st.booleans())
def test_fill_candidate_equals_the_reference(seed, keep):
    order, jobs, rules, _ = drawn(seed)
    its, nodes = arrays(jobs), nodes_of(jobs)
    expected = slow.fill(keep, order, jobs, rules)
    grid = candidate(keep, np.array(order), its, nodes, rules.numbers, grow=False)
    assert grid.tolist() == grid_of(expected, len(nodes.capacity)).tolist()


@settings(max_examples=20)
@given(seed=seeds)
def test_grow_candidate_equals_the_reference(seed):
    _, jobs, rules, _ = drawn(seed)
    its, nodes = arrays(jobs), nodes_of(jobs)
    grid = its.present.copy()
    free = nodes.capacity - grid.sum(axis=0)
    grow_candidate(its, free, nodes, rules.numbers, grid, new_scratch(its, nodes))
    expected = slow.grow(jobs.at, jobs, rules)
    assert grid.tolist() == grid_of(expected, len(free)).tolist()
    assert free.tolist() == slow.free_under(expected, jobs.capacity)


@settings(max_examples=20)
@given(seed=seeds)
def test_choose_by_part_equals_the_reference(seed):
    order, jobs, rules, _ = drawn(seed)
    num_nodes = len(jobs.capacity)
    kept, anew = slow.candidate(True, order, jobs, rules), slow.candidate(False, order, jobs, rules)
    grid = grid_of(anew, num_nodes)
    its, nodes = arrays(jobs), nodes_of(jobs)
    choose_by_part(its, nodes, rules.numbers, grid_of(kept, num_nodes), grid, new_scratch(its, nodes))
    assert grid.tolist() == grid_of(slow.choose(kept, anew, jobs, rules), num_nodes).tolist()


@settings(max_examples=20)
@given(seed=seeds)
def test_candidates_equal_the_reference_and_are_valid(seed):
    order, jobs, rules, _ = drawn(seed)
    its = arrays(jobs), nodes_of(jobs), rules.numbers
    for keep in (True, False):
        expected = slow.candidate(keep, order, jobs, rules)
        assert is_sound(expected, jobs)
        assert candidate(keep, np.array(order), *its).tolist() == grid_of(expected, len(jobs.types)).tolist()
    both = slow.merged_candidate(order, jobs, rules)
    assert is_sound(both, jobs)
    assert merged_candidate(np.array(order), *its).tolist() == grid_of(both, len(jobs.types)).tolist()


def world(curve, at, *, delay=0.0, work=1000.0, wanted=4, capacity=(4, 4)):
    """Create jobs of one curve on nodes of one type."""
    num = len(at)
    return slow.Jobs(
        throughputs=np.array([[[0.0, *curve]]] * num),
        work=[work] * num,
        delay=[delay] * num,
        weight=[1.0] * num,
        wanted=np.full((num, 1), wanted),
        at=at,
        capacity=capacity,
        types=[0] * len(capacity),
    )


LINEAR = (1, 2, 3, 4, 5, 6, 7, 8)


def planned(jobs, **rules):
    """Return the result of `merged_candidate` for jobs in their order, by job."""
    order = np.arange(len(jobs.work))
    return merged_candidate(order, arrays(jobs), nodes_of(jobs), Rules(**rules).numbers).tolist()


def test_a_job_takes_the_node_that_fits_best():
    """4 GPUs wanted: node 0 has 4 free, node 1 all of 8."""
    assert planned(world((1, 2, 3, 4), [{}], capacity=(4, 8))) == [[4, 0]]


def test_a_job_that_does_not_fit_shrinks():
    """Three jobs request 3 of 4 and 2 GPUs: the first gets 3, the second 2 on the other node, the third the last."""
    assert planned(world((1, 2, 3), [{}, {}, {}], wanted=3, capacity=(4, 2))) == [[3, 0], [0, 2], [1, 0]]


def test_leftover_gpus_go_beyond_the_knee():
    """Both request 2 of a node of 6. A further GPU is worth the same to both, so the lower job takes the GPUs left."""
    assert planned(world(LINEAR, [{}, {}], wanted=2, capacity=(6,))) == [[4], [2]]


def test_a_lone_job_spans_nodes():
    assert planned(world(LINEAR, [{}], wanted=4)) == [[4, 4]]


def test_growing_must_pay_for_its_restart():
    """4 to 8 GPUs over two nodes doubles 4 samples/s, for a pause of 100 s: a loss over 150 s, a gain over 1e4 s.

    With 1,000 samples left the job would end after 100 + 125 s, so the mean throughput is 8 * 125 / 225 = 4.4: a gain.
    """
    jobs = world(LINEAR, [{0: 4}], delay=100.0)
    assert planned(jobs, horizon=150.0) == [[4, 0]]
    assert planned(jobs, horizon=1e4) == [[4, 4]]


def test_moving_to_a_faster_type_must_pay_for_its_restart():
    """2 samples/s instead of 1 for 100 samples. A pause of 60 s makes it 0.91 on average, one of 10 s 1.67."""
    for delay, stays in ((60.0, True), (10.0, False)):
        jobs = slow.Jobs(
            throughputs=np.array([[[0.0, 1.0], [0.0, 2.0]]]), work=[100.0], delay=[delay], weight=[1.0],
            wanted=np.array([[1, 1]]), at=[{0: 1}], capacity=(1, 1), types=[0, 1],
        )  # fmt: skip
        anew = candidate(False, np.array([0]), arrays(jobs), nodes_of(jobs), Rules(stickiness=0.0).numbers)
        assert anew.tolist() == [[1, 0] if stays else [0, 1]]


def test_a_pause_is_averaged_over_the_remaining_time():
    assert after_delay(8.0, 1000.0, 100.0, 1e4) == 8 * (1 - 100 / 225)
    assert after_delay(8.0, 1000.0, 0.0, 1e4) == 8.0
    assert after_delay(8.0, 1.0, 100.0, 50.0) == 8 * 0.02  # the horizon is shorter than the pause


def test_a_shorter_job_displaces_another_if_that_is_worth_it():
    """One node of 4. The first job in order waits, the second runs on all; weights decide whether it is displaced."""
    for weight, plan_ in (((1.0, 1.0), [[0], [4]]), ((5.0, 1.0), [[4], [0]])):
        jobs = world((0, 0, 0, 4), [{}, {0: 4}], capacity=(4,), delay=10.0)
        jobs = replace(jobs, weight=weight)
        assert planned(jobs) == plan_


def test_parts_of_the_cluster_are_compared_separately():
    """On node 0 displacing pays, on node 1 it does not. The job displaced from node 0 is last in order and waits."""
    jobs = world((0, 0, 0, 4), [{}, {1: 4}, {0: 4}], delay=10.0)
    jobs = replace(jobs, weight=(5.0, 4.9, 1.0))
    assert planned(jobs) == [[4, 0], [0, 4], [0, 0]]


def test_a_grown_job_gives_back_gpus_that_others_need():
    """The job requests 2 and has grown to 4. Planned anew, it shrinks, and a second job gets the other two."""
    jobs = replace(world((1, 2, 2.1, 2.2), [{0: 4}, {}], wanted=2, capacity=(4,)), delay=(1.0, 0.0))
    assert planned(jobs, horizon=1e4) == [[2], [2]]


def test_no_growth_without_gain():
    flat = world((3, 3, 3, 3), [{0: 1}])
    its, nodes = arrays(flat), nodes_of(flat)
    free = nodes.capacity - its.present[0]
    assert best_growth(0, free, its.present, its, nodes, Rules(horizon=1e4).numbers, new_scratch(its, nodes)) == (
        0.0,
        0,
        -1,
    )
