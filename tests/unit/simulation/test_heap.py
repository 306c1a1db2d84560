"""The heap of times against Python's own."""

import heapq

import numpy as np
from hypothesis import given
from hypothesis import strategies as st

from envs.simulation.heap import ENTRY, comes_first, heap_push, heap_remove, heap_update
from envs.types import IntArray

CAPACITY = 12
times = st.sampled_from([0.0, 1.0, 1.0 + 1e-12, 2.0, 5.5, np.inf])
operations = st.lists(st.tuples(st.sampled_from(["push", "pop", "update", "remove"]), st.integers(0, 11), times))


class Twin:
    """The same operations on `heapq`, entries (time, member), rebuilt whenever something in the middle changes."""

    def __init__(self) -> None:
        self.entries: list[tuple[float, int]] = []

    def without(self, member: int) -> None:
        """Take a member out wherever it is."""
        self.entries = [entry for entry in self.entries if entry[1] != member]
        heapq.heapify(self.entries)

    def push(self, member: int, time: float) -> None:
        """Add a member."""
        heapq.heappush(self.entries, (time, member))


def empty_heap(capacity: int) -> tuple[np.ndarray, IntArray]:
    """Entries that stand for nothing, and every member outside."""
    return np.full(capacity, np.array((np.nan, -7), ENTRY), ENTRY), np.full(capacity, -1, np.int64)


@given(operations)
def test_the_same_as_heapq_after_every_operation(steps):
    heap, places = empty_heap(CAPACITY)
    twin = Twin()
    for name, member, time in steps:
        present = {entry[1] for entry in twin.entries}
        size = len(present)
        if name == "push" and member not in present:
            heap_push(heap, places, size, time, member)
            twin.push(member, time)
        elif name == "pop" and size:
            heap_remove(heap, places, size, heap[0].member)
            heapq.heappop(twin.entries)
        elif name == "update" and member in present:
            heap_update(heap, places, size, time, member)
            twin.without(member)
            twin.push(member, time)
        elif name == "remove" and member in present:
            heap_remove(heap, places, size, member)
            twin.without(member)
        check(heap, places, twin)


def check(heap: np.ndarray, places: IntArray, twin: Twin) -> None:
    """Same entries, the same first one, heap order throughout, and every member knows its place."""
    size = len(twin.entries)
    assert sorted(heap[:size].tolist()) == sorted(twin.entries)
    for place, member in enumerate(heap["member"][:size].tolist()):
        assert places[member] == place
        assert place == 0 or not comes_first(heap[place].time, member, heap[(place - 1) // 2])
    if size:
        assert heap[0].member == twin.entries[0][1]
    absent = np.setdiff1d(np.arange(CAPACITY), heap["member"][:size])
    assert (places[absent] == -1).all()


def test_ties_go_to_the_lower_item():
    heap, places = empty_heap(4)
    for size, member in enumerate((3, 1, 2, 0)):
        heap_push(heap, places, size, 5.0, member)
    order = []
    for size in (4, 3, 2, 1):
        order.append(int(heap[0].member))
        heap_remove(heap, places, size, heap[0].member)
    assert order == [0, 1, 2, 3]
