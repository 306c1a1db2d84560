"""Admission to GPU types and changes between them."""

from collections.abc import Sequence
from types import SimpleNamespace
from typing import Any, cast

import numpy as np
from hypothesis import given
from hypothesis import strategies as st

from baselines.elastic_dp.types import TypeCapacity
from baselines.parts.grants import Grant
from baselines.parts.scalability import AnalysedJobs
from envs.types import IntArray


def analysed(*factors: Sequence[Sequence[float]]) -> AnalysedJobs:
    """Fake the analyser's result for `TypeCapacity`: factors by GPU type for each job; 0 where it cannot run."""
    table = np.array(factors, dtype=np.float64)
    found: Any = SimpleNamespace(factors=np.where(table > 0, table, -np.inf), table=np.arange(len(table)))
    return cast(AnalysedJobs, found)


LINEAR = [[0, 1, 2, 3, 4], [0, 2, 4, 6, 8]]  # the second type is twice as fast
RIGID = [[0, 0, 0, 0, 4], [0, 0, 0, 0, 8]]  # four GPUs or none
SLOW_ONLY = [[0, 1, 2, 3, 4], [0, 0, 0, 0, 0]]
NOWHERE = [[0, 0, 0, 0, 0], [0, 0, 0, 0, 0]]


def test_the_type_on_which_an_equal_share_is_worth_most():
    """4 + 4 GPUs. The first job takes the fast ones. To the second, two fast ones are worth as much as four slow ones,
    and the first type is taken. To the third, two fast ones are worth 4, two slow ones 2.
    """
    room = TypeCapacity(analysed(LINEAR, LINEAR, LINEAR), np.array([4, 4]))
    assert [room.admit(job) for job in range(3)] == [True] * 3
    assert room.gpu_types == {0: 1, 1: 0, 2: 1}


def test_running_jobs_keep_their_type():
    room = TypeCapacity(analysed(LINEAR, LINEAR), np.array([4, 4]))
    assert room.admit(0, 0)
    assert room.admit(1)
    assert room.gpu_types == {0: 0, 1: 1}


def test_a_lost_type_is_replaced():
    """A job whose present type has no room takes another type."""
    room = TypeCapacity(analysed(RIGID), np.array([0, 4]))
    assert room.admit(0, 0)
    assert room.gpu_types == {0: 1}


def test_least_sizes_fill_the_room():
    room = TypeCapacity(analysed(RIGID, RIGID, RIGID, SLOW_ONLY), np.array([4, 4]))
    assert [room.admit(job) for job in range(4)] == [True, True, False, False]
    assert room.gpu_types == {0: 1, 1: 0}


def test_reserved_gpus_are_not_shared_out():
    room = TypeCapacity(analysed(RIGID, LINEAR), np.array([4, 4]))
    room.take(np.array([0, 2]))
    assert room.capacity == [4, 2]
    assert room.admit(0)
    assert room.gpu_types == {0: 0}


def test_jobs_that_run_on_no_one_type_are_not_admitted():
    room = TypeCapacity(analysed(NOWHERE, LINEAR), np.array([4, 4]))
    assert [room.of_one_type(job) for job in (0, 1)] == [False, True]
    assert not room.admit(0)


def test_a_running_job_moves_if_that_is_worth_enough():
    """Alone on the slow type, the fast one is worth twice as much: enough for a factor of 1.5, not for one of 2."""
    for move_gain, gpu_type in ((1.5, 1), (2.0, 0)):
        room = TypeCapacity(analysed(LINEAR), np.array([4, 4]))
        room.admit(0, 0)
        room.rebalance({0: Grant(0, 4)}, move_gain)
        assert room.gpu_types == {0: gpu_type}


def test_a_new_job_moves_to_any_better_type():
    """A new job loses nothing by a move: it takes the faster type at any factor for running jobs."""
    room = TypeCapacity(analysed(LINEAR), np.array([4, 4]))
    room.admit(0, 0)
    room.rebalance({}, 1e9)
    assert room.gpu_types == {0: 1}


def test_no_job_moves_where_there_is_no_room():
    room = TypeCapacity(analysed(RIGID, RIGID), np.array([4, 4]))
    room.admit(0, 0)
    room.admit(1)
    room.rebalance({}, 1.0)
    assert room.gpu_types == {0: 0, 1: 1}


@given(seed=st.integers(0, 10_000))
def test_least_sizes_always_fit(seed):
    """After any admissions and moves each type holds the least sizes of its jobs; a refused job fits nowhere."""
    rng = np.random.default_rng(seed)
    num_types, jobs = int(rng.integers(1, 4)), int(rng.integers(1, 12))
    table = rng.integers(0, 9, (jobs, num_types, 6)).astype(float) * (rng.random((jobs, num_types, 6)) < 0.6)
    table[:, :, 0] = 0
    capacity = rng.integers(0, 9, num_types)
    room = TypeCapacity(analysed(*table.tolist()), capacity)
    least = np.where((table > 0).any(axis=2), (table > 0).argmax(axis=2), 99)
    held: dict[int, Grant] = {}
    for job in range(jobs):
        left = capacity - taken(room, least, num_types)
        present = int(rng.integers(num_types)) if rng.random() < 0.3 else None
        if room.admit(job, present):
            assert least[job, room.gpu_types[job]] <= left[room.gpu_types[job]]
            if present == room.gpu_types[job]:
                held[job] = Grant(present, 1)
        else:
            assert (least[job] > left).all()
    before = dict(room.gpu_types)
    room.rebalance(held, float(rng.choice([1.0, 1.5, 3.0])))
    assert room.gpu_types.keys() == before.keys()
    assert (taken(room, least, num_types) <= capacity).all()


def taken(room: TypeCapacity, least: IntArray, num_types: int) -> IntArray:
    """int64[num_gpu_types]: GPUs that the least sizes of the jobs on each type take."""
    return np.array(
        [
            sum(least[job, gpu_type] for job, its in room.gpu_types.items() if its == gpu_type)
            for gpu_type in range(num_types)
        ]
    )
