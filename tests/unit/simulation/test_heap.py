"""The heap of finish times against Python's own."""

import heapq

import numpy as np
from hypothesis import given
from hypothesis import strategies as st

from envs.simulation.heap import comes_first, heap_pop, heap_push, heap_remove, heap_update
from envs.simulation.state import JOB

CAPACITY = 12
times = st.sampled_from([0.0, 1.0, 1.0 + 1e-12, 2.0, 5.5, np.inf])
operations = st.lists(st.tuples(st.sampled_from(["push", "pop", "update", "remove"]), st.integers(0, 11), times))


class Twin:
    """The same operations on `heapq`, entries (finish, job), rebuilt whenever something in the middle changes."""

    def __init__(self) -> None:
        self.entries: list[tuple[float, int]] = []

    def without(self, job: int) -> None:
        """Take a job out wherever it is."""
        self.entries = [entry for entry in self.entries if entry[1] != job]
        heapq.heapify(self.entries)

    def push(self, job: int, finish: float) -> None:
        """Add a job."""
        heapq.heappush(self.entries, (finish, job))


@given(operations)
def test_the_same_as_heapq_after_every_operation(steps):
    jobs, heap, twin = np.zeros(CAPACITY, JOB), np.full(CAPACITY, -7, np.int64), Twin()
    jobs["heap_place"] = -1
    for name, job, finish in steps:
        present = {entry[1] for entry in twin.entries}
        size = len(present)
        if name == "push" and job not in present:
            jobs[job].finish = finish
            heap_push(jobs, heap, size, job)
            twin.push(job, finish)
        elif name == "pop" and size:
            heap_pop(jobs, heap, size)
            heapq.heappop(twin.entries)
        elif name == "update" and job in present:
            jobs[job].finish = finish
            heap_update(jobs, heap, size, job)
            twin.without(job)
            twin.push(job, finish)
        elif name == "remove" and job in present:
            heap_remove(jobs, heap, size, job)
            twin.without(job)
        check(jobs, heap, twin)


def check(jobs: np.ndarray, heap: np.ndarray, twin: Twin) -> None:
    """Same jobs, the same first one, heap order throughout, and every job knows its place."""
    size = len(twin.entries)
    assert sorted(heap[:size].tolist()) == sorted(job for _, job in twin.entries)
    for place, job in enumerate(heap[:size].tolist()):
        assert jobs[job].heap_place == place
        assert place == 0 or not comes_first(jobs, job, heap[(place - 1) // 2])
    if size:
        assert heap[0] == twin.entries[0][1]
    absent = np.setdiff1d(np.arange(CAPACITY), heap[:size])
    assert (jobs["heap_place"][absent] == -1).all()


def test_ties_go_to_the_lower_id():
    jobs, heap = np.zeros(4, JOB), np.zeros(4, np.int64)
    for size, job in enumerate((3, 1, 2, 0)):
        heap_push(jobs, heap, size, job)
    order = []
    for size in (4, 3, 2, 1):
        order.append(int(heap[0]))
        heap_pop(jobs, heap, size)
    assert order == [0, 1, 2, 3]
