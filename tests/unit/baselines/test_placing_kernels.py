"""Compiled searches, compared with the readable ones."""

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from baselines.parts.arrays import arrays_of, rank_types, rooms, shares_of, wanted_of
from baselines.parts.placing import best_fit, first_fit, types_by_throughput
from baselines.parts.placing_kernels import STAYS, WAITS, NodeArrays, Wanted, find_place
from envs.types import ClusterSpec, NodeSpec
from tests.golden.playground import jobs, two_nodes
from tests.unit.baselines.rounds import busy_round, round_at


def drawn_cluster(rng: np.random.Generator) -> ClusterSpec:
    """Draw up to nine nodes of the three types of `busy_round`, with at least 16 GPUs for its largest jobs."""
    node_types = ["small", *rng.choice(["old", "new", "small"], int(rng.integers(0, 7))).tolist()]
    others = [NodeSpec(gpu_type, int(rng.choice([1, 2, 3, 4, 8]))) for gpu_type in node_types]
    nodes = [NodeSpec("old", 8), NodeSpec("new", 8), *others]
    return ClusterSpec(tuple(nodes[at] for at in rng.permutation(len(nodes))))


def found(floor: NodeArrays, free: np.ndarray, wanted: Wanted, job: int, lowest: bool):
    """Return the result of the compiled search in the form of the readable one."""
    types, spanning, size, shape = wanted.types[job], wanted.spanning[job], wanted.sizes[job], wanted.shapes[job]
    nodes, gpus = np.zeros(len(free), np.int64), np.zeros(len(free), np.int64)
    floor = floor._replace(free=free, room=rooms(floor.gpu_types, free, floor.largest), idle=np.array([free.sum()]))
    count = find_place(floor, types, spanning, size, shape, lowest, nodes, gpus)
    assert (floor.room == rooms(floor.gpu_types, free, floor.largest)).all()
    assert floor.idle[0] == free.sum()
    return dict(zip(nodes[:count].tolist(), gpus[:count].tolist(), strict=True))


@pytest.mark.parametrize("find", [best_fit, first_fit])
@given(seed=st.integers(0, 100_000))
def test_compiled_and_readable_search_agree(find, seed):
    """Nodes of many sizes, wholly free or not, some down; gangs over several types. Free GPUs are not changed."""
    rng = np.random.default_rng(seed)
    view = busy_round(seed, drawn_cluster(rng), shapes=True)
    floor, _, _ = arrays_of(view.allocation(), np.zeros((0, 4), np.int64))
    present = np.arange(len(view.num_gpus))
    wanted = wanted_of(view, present, view.num_gpus[present], None)
    for job in present.tolist():
        free = np.where(rng.random(len(floor.total)) < 0.5, floor.total, rng.integers(0, floor.total + 1))
        free[rng.random(len(free)) < 0.2] = 0
        before, size = free.copy(), int(wanted.sizes[job])
        expected = find(view, free, job, size, types_by_throughput(view, job, size))
        got = found(floor, free, wanted, job, find is first_fit)
        assert list(got.items()) == list(expected.items())
        assert free.tolist() == before.tolist()


@given(seed=st.integers(0, 10_000))
def test_types_of_a_queue_equal_those_of_each_job(seed):
    view = busy_round(seed, shapes=True)
    queue = np.arange(len(view.num_gpus))
    for job, row in zip(queue.tolist(), wanted_of(view, queue, view.num_gpus[queue], None).types, strict=True):
        assert tuple(row[row >= 0].tolist()) == types_by_throughput(view, job, int(view.num_gpus[job]))


def test_rank_types_by_hand():
    throughputs = np.array([[2.0, 0.0, 3.0], [1.0, 1.0, 1.0], [0.0, 0.0, 0.0]])
    assert rank_types(throughputs).tolist() == [[2, 0, -1], [0, 1, 2], [-1, -1, -1]]


def test_shares_of_an_unfinished_allocation():
    """Job 0 continues, 1 is stopped, 2 is placed; an allocation that does not keep running jobs has only job 2."""
    view = round_at(1, jobs((0, 2, 9), (0, 4, 9), (1, 1, 9)), two_nodes(), place=[(0, {0: {0: 2}, 1: {1: 4}})])
    for keep, rows in ((True, [[0, 0, 2], [2, 1, 1]]), (False, [[2, 1, 1]])):
        allocation = view.allocation(keep_running=keep)
        allocation.stop(1)
        allocation.place(2, {1: 1})
        assert shares_of(view, allocation).tolist() == rows


def test_a_round_as_arrays():
    view = round_at(1, jobs((0, 6, 9)), two_nodes(), place=[(0, {0: {0: 4, 1: 2}})])
    floor, found, scratch = arrays_of(
        view.allocation(keep_running=True), np.zeros((2, 4), np.int64), np.array([[1, 0, 4], [1, 1, 2]])
    )
    assert floor.free.tolist() == [0, 2]
    assert floor.largest.tolist() == [4]
    assert found.fate.tolist() == [WAITS, STAYS]
    assert (found.first[1], found.length[1], found.used[0]) == (0, 2, 2)
    assert (found.nodes[:2].tolist(), found.gpus[:2].tolist()) == ([0, 1], [4, 2])
    assert len(found.nodes) == 2 + 8, "room for every GPU anew"
    assert len(scratch.held) == 2
