"""Participants, restart factors, and placing grants on nodes."""

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from baselines import Pollux, Sia
from baselines.parts.arrays import gang_sizes
from baselines.parts.grants import (
    Grant,
    capacity_by_type,
    free_by_type,
    held_grants,
    place_grants,
)
from baselines.parts.offers import OfferTable
from baselines.parts.round_timer import RoundTimer
from baselines.parts.sizing import (
    History,
    configurations,
    largest_fastest,
    not_slower,
    participants,
    restart_factor,
    room_for,
    start_queued,
    throughputs,
)
from baselines.pollux import average_over_types, fair_throughputs
from envs.types import FloatArray, IntArray, JobSpec, MurmurationError
from envs.workloads import Workload
from tests.golden.playground import TwoThroughputs, fast_and_slow, jobs, two_nodes
from tests.unit.baselines.rounds import CROWDED, busy_round, round_at, runs_on_one_type


@pytest.mark.parametrize(
    ("age", "changes", "restart", "factor"),
    [
        (0.0, 0, 10.0, 1.0),
        (9.9, 0, 10.0, 1.0),
        (10.0, 0, 10.0, 0.5),
        (90.0, 0, 10.0, 0.9),
        (90.0, 4, 10.0, 0.5),
        (90.0, 40, 10.0, 0.0),
        (90.0, 40, 0.0, 1.0),
    ],
)
def test_restart_factor_by_hand(age, changes, restart, factor):
    assert restart_factor(*one(age, changes, restart)).tolist() == [factor]


def one(age: float, changes: int, restart: float) -> tuple[FloatArray, IntArray, FloatArray]:
    """One job, as arrays."""
    return np.array([age]), np.array([changes]), np.array([restart])


@given(age=st.floats(0, 1e6), changes=st.integers(0, 100), restart=st.floats(0, 1e3))
def test_restart_factor_is_between_0_and_1(age, changes, restart):
    factor = restart_factor(*one(age, changes, restart))
    assert 0.0 <= factor <= 1.0
    assert restart_factor(*one(age, changes + 1, restart)) <= factor


def test_history_counts_what_changes():
    """Job 0 continues unchanged, job 1 is moved, 2 is stopped, 3 starts."""
    rows = jobs((0, 2, 100), (0, 2, 100), (0, 2, 100), (0, 2, 100))
    view = round_at(1, rows, two_nodes(), place=[(0, {0: {0: 2}, 1: {0: 2}, 2: {1: 2}})])
    history = History()
    before = round_at(0, rows, two_nodes())
    first = before.allocation()
    for job, node in ((0, 0), (1, 0), (2, 1)):
        first.place(job, {node: 2})
    history.remember(before, first)
    assert history.changes(np.arange(4)).tolist() == [0, 0, 0, 0]
    allocation = view.allocation(keep_running=True)
    allocation.keep(0)
    allocation.stop(2)
    allocation.place(1, {1: 2})
    allocation.place(3, {1: 2})
    history.remember(view, allocation)
    assert history.changes(np.arange(4)).tolist() == [0, 1, 0, 0]
    assert history.most_gpus(np.arange(5)).tolist() == [2, 2, 2, 2, 0]


def test_rounds_of_a_schedulers_own_length():
    timer = RoundTimer("X", 10.0)
    assert [timer.begin(time) for time in (0.0, 9.0, 10.0, 19.9999999, 20.1, 30.0)] == [
        True,
        False,
        True,
        True,
        False,
        True,
    ]
    timer.forget()
    assert timer.begin(0.0)
    assert RoundTimer("X", 0.0).begin(0.0)
    with pytest.raises(MurmurationError, match="X: round_length is -1 s"):
        RoundTimer("X", -1)


@given(seed=st.integers(0, 10_000))
@settings(max_examples=40)
def test_grants_that_fit_are_placed_and_stay_where_they_are(seed):
    """Random grants within each type's GPUs: all are placed, on their type, and jobs without a grant do not run."""
    view = busy_round(seed)
    rng = np.random.default_rng(seed)
    present = np.sort(np.concatenate([view.queued, view.running]))
    typed = runs_on_one_type(view, present)
    spanning = present[~typed]
    left = room_for(view, spanning)
    held = held_grants(view)
    grants: dict[int, Grant] = {}
    for job in rng.permutation(present[typed]).tolist():
        gpu_types = np.flatnonzero(throughputs(view, job).max(axis=1) > 0)
        gpu_type = held[job].gpu_type if job in held and rng.random() < 0.5 else int(rng.choice(gpu_types))
        size = int(view.num_gpus[job])
        if throughputs(view, job)[gpu_type, size] > 0 and size <= left[gpu_type]:
            grants[job] = Grant(gpu_type, size)
            left[gpu_type] -= size
    allocation = view.allocation(keep_running=True)
    place_grants(view, allocation, grants, spanning.tolist())
    for job, grant in grants.items():
        place = allocation.placement(job)
        assert place is not None
        assert place.num_gpus == grant.num_gpus
        assert {int(view.cluster.node_types[node]) for node in place.gpus} == {grant.gpu_type}
    assert allocation.jobs() - set(spanning.tolist()) == set(grants)
    assert set(spanning.tolist()) & set(view.running.tolist()) <= allocation.jobs()


def test_a_gang_in_one_piece_moves_jobs_in_its_way():
    """Two nodes of 4, a job of 2 on each; a gang of 4 has a grant too: one of the two moves, and the gang is in one
    piece.
    """
    rows = jobs((0, 2, 100), (0, 2, 100), (0, 4, 100))
    view = round_at(1, rows, two_nodes(), place=[(0, {0: {0: 2}, 1: {1: 2}})])
    allocation = view.allocation(keep_running=True)
    place_grants(view, allocation, {0: Grant(0, 2), 1: Grant(0, 2), 2: Grant(0, 4)})
    places = [allocation.placement(job) for job in range(3)]
    assert [dict(place.gpus) for place in places if place] == [{1: 2}, {1: 2}, {0: 4}]


def test_a_gang_is_scattered_where_nothing_else_helps():
    """Three jobs of 3, 3 and 2 GPUs on two nodes of 4: the last finds one GPU on each."""
    view = round_at(0, jobs((0, 3, 9), (0, 3, 9), (0, 2, 9)), two_nodes())
    allocation = view.allocation(keep_running=True)
    place_grants(view, allocation, {0: Grant(0, 3), 1: Grant(0, 3), 2: Grant(0, 2)})
    place = allocation.placement(2)
    assert place is not None
    assert dict(place.gpus) == {0: 1, 1: 1}


def test_types_are_counted():
    view = round_at(0, jobs((0, 2, 9)), fast_and_slow(), performance=TwoThroughputs())
    allocation = view.allocation(keep_running=True)
    allocation.place(0, {1: 2})
    assert capacity_by_type(view).tolist() == [4, 4]
    assert free_by_type(allocation).tolist() == [4, 2]


def test_as_many_waiting_jobs_take_part_as_there_are_gpus():
    """8 GPUs: the running job and the eight waiting ones with the least service, first come first."""
    rows = jobs(*[(0.0, 1, 100.0)] * 12)
    view = round_at(1, rows, two_nodes(), place=[(0, {5: {0: 1}})])
    assert participants(view, np.arange(12)).tolist() == [0, 1, 2, 3, 4, 5, 6, 7, 8]


def test_throughputs_are_0_outside_the_range_and_the_view_is_unchanged():
    workload = Workload.of([JobSpec(0, 0.0, 3, 10.0, "any", min_gpus=2, max_gpus=4)])
    view = round_at(0, workload, two_nodes())
    assert throughputs(view, 0)[0].tolist() == [0, 0, 2, 3, 4, 0, 0, 0, 0]
    assert view.throughputs(0)[0, 8] == 8


@pytest.mark.parametrize(("taken", "sizes"), [({0: 4}, [4, 4, 0]), ({0: 3, 1: 1}, [3, 4, 0])])
def test_waiting_jobs_start_as_requested_or_at_the_least_size(taken, sizes):
    """3 to 8 GPUs, 4 requested; job 1 has taken 4, so that a whole node is left, or only 3 GPUs of one."""
    view = round_at(0, jobs((0, 4, 10), (0, 4, 10), (0, 4, 10), elastic=(3, 8)), two_nodes())
    allocation = view.allocation(keep_running=True)
    allocation.place(1, taken)
    start_queued(view, allocation)
    assert [place.num_gpus if (place := allocation.placement(job)) else 0 for job in range(3)] == sizes


def test_configurations_by_hand():
    """Two nodes of 4 GPUs: 1, 2, 4, 8, and the requested size; within the range."""

    def sizes(requested: int, least: int, most: int) -> list[int]:
        workload = Workload.of([JobSpec(0, 0.0, requested, 10.0, "any", min_gpus=least, max_gpus=most)])
        return [grant.num_gpus for grant in configurations(round_at(0, workload, two_nodes()), 0)]

    assert sizes(4, 1, 8) == [1, 2, 4, 8]
    assert sizes(3, 2, 8) == [2, 3, 4, 8]
    assert sizes(5, 5, 7) == [5]
    assert sizes(1, 1, 1) == [1]


def test_configurations_of_a_gang_larger_than_the_cluster():
    """A job requests 12 GPUs, with a range of 6 to 12, of 8: it may have 8, which are two whole nodes."""
    workload = Workload.of([JobSpec(0, 0.0, 12, 10.0, "any", min_gpus=6, max_gpus=12)])
    assert configurations(round_at(0, workload, two_nodes()), 0) == [Grant(0, 8)]
    seven = Workload.of([JobSpec(0, 0.0, 12, 10.0, "any", min_gpus=6, max_gpus=12), JobSpec(1, 0.0, 7, 1.0, "any")])
    assert configurations(round_at(0, seven, two_nodes()), 1) == [Grant(0, 7)]


@given(seed=st.integers(0, 500))
@settings(max_examples=20)
def test_every_job_of_one_type_has_configurations_that_run(seed):
    view = busy_round(seed, CROWDED)
    present = np.sort(np.concatenate([view.queued, view.running]))
    for job, typed in zip(present.tolist(), runs_on_one_type(view, present).tolist(), strict=True):
        own = configurations(view, job)
        assert bool(own) is typed
        assert all(throughputs(view, job)[grant.gpu_type, grant.num_gpus] > 0 for grant in own)


def test_mean_throughputs_do_not_fall_where_types_drop_out():
    table = np.array([[0.0, 2.0, 4.0, 8.0], [0.0, 1.0, 2.0, 0.0], [0.0, 9.0, 0.0, 0.0]])
    assert average_over_types(table).tolist() == [0.0, 4.0, 4.0, 8.0]
    assert average_over_types(np.zeros((2, 3))).tolist() == [0.0, 0.0, 0.0]


def test_fair_throughput_is_that_of_the_largest_size_within_the_share():
    """The first job may have 2 or 4 GPUs, of two types, the second 3."""
    job, size = np.array([0, 0, 0, 0, 1]), np.array([2, 4, 2, 4, 3])
    offered = OfferTable(job, np.array([0, 0, 1, 1, 0]), size, np.array([2.0, 4.0, 2.0, 4.0, 9.0]))
    found = [fair_throughputs(offered, 2, fair).tolist() for fair in (1, 2, 3, 4, 9)]
    assert found == [[2.0, 9.0], [2.0, 9.0], [2.0, 9.0], [4.0, 9.0], [4.0, 9.0]]


@pytest.mark.parametrize(
    ("build", "words"),
    [
        (lambda: Sia(power=0.0), ("Sia", "power", "0.0", "negative")),
        (lambda: Sia(idle_penalty=-1.0), ("Sia", "idle_penalty", "-1.0", "not negative")),
        (lambda: Sia(change_penalty=float("nan")), ("Sia", "change_penalty", "nan")),
        (lambda: Sia(node_limit=0), ("Sia", "node_limit", "0", "positive")),
        (lambda: Sia(round_length=-1.0), ("Sia", "round_length", "-1.0")),
        (lambda: Pollux(power=1.0), ("Pollux", "power", "1.0", "negative")),
        (lambda: Pollux(growth=0.5), ("Pollux", "growth", "0.5", "at least 1")),
        (lambda: Pollux(node_limit=-1), ("Pollux", "node_limit", "-1", "positive")),
        (lambda: Pollux(round_length=float("inf")), ("Pollux", "round_length", "inf")),
    ],
)
def test_bad_options(build, words):
    with pytest.raises(MurmurationError) as error:
        build()
    assert "\n" not in str(error.value)
    assert all(word in str(error.value) for word in words)


def test_a_gang_larger_than_the_cluster_gets_a_size_that_runs():
    """8 GPUs of one type: 12 are 8, or what the range allows; 3 stay 3. Of two types with 4 each, 12 are 4."""
    rows = [(12, 2, 16), (12, 6, 12), (3, 1, 8)]
    specs = [JobSpec(i, 0.0, gpus, 9.0, "any", min_gpus=low, max_gpus=high) for i, (gpus, low, high) in enumerate(rows)]
    view = round_at(0, Workload.of(specs), two_nodes())
    assert gang_sizes(view, np.arange(3)).tolist() == [8, 8, 3]
    assert gang_sizes(view, np.zeros(0, np.int64)).tolist() == []
    mixed = round_at(0, Workload.of(specs), fast_and_slow(), performance=TwoThroughputs())
    assert gang_sizes(mixed, np.array([2, 0, 1])).tolist() == [3, 4, 8]  # 6 run on no one type: all, on both


def test_sizes_slower_than_smaller_ones_are_left_out():
    table = np.array([[0.0, 2, 3, 2.5, 3, 1], [0.0, 0, 0, 4, 3, 5]])
    assert not_slower(table).tolist() == [[0, 2, 3, 0, 3, 0], [0, 0, 0, 4, 0, 5]]
    assert [largest_fastest(curve) for curve in table] == [4, 5]
