"""The heap of times against `heapq`."""

import heapq

import numpy as np
from hypothesis import given
from hypothesis import strategies as st

from envs.simulation.world.heap import ENTRY, Places, comes_first, heap_push, heap_remove, heap_update

CAPACITY = 24
times = st.sampled_from([0.0, 1.0, 1.0 + 1e-12, 2.0, 5.5, np.inf])
operations = st.lists(
    st.tuples(st.sampled_from(["push", "pop", "update", "remove"]), st.integers(0, CAPACITY - 1), times)
)


class ReferenceHeap:
    """The same operations on `heapq` with entries (time, member), rebuilt after every change in the middle."""

    def __init__(self) -> None:
        self.entries: list[tuple[float, int]] = []

    def without(self, member: int) -> None:
        """Remove a member at any position."""
        self.entries = [entry for entry in self.entries if entry[1] != member]
        heapq.heapify(self.entries)

    def push(self, member: int, time: float) -> None:
        """Add a member."""
        heapq.heappush(self.entries, (time, member))


def empty_heap(capacity: int) -> tuple[np.ndarray, Places]:
    """Entries with arbitrary values, and no member in the heap."""
    return np.full(capacity, np.array((np.nan, -7), ENTRY), ENTRY), np.full(capacity, -1, np.int32)


@given(operations)
def test_the_same_as_heapq_after_every_operation(steps):
    heap, places = empty_heap(CAPACITY)
    reference = ReferenceHeap()
    for name, member, time in steps:
        present = {entry[1] for entry in reference.entries}
        size = len(present)
        if name == "push" and member not in present:
            heap_push(heap, places, size, time, member)
            reference.push(member, time)
        elif name == "pop" and size:
            heap_remove(heap, places, size, heap[0].member)
            heapq.heappop(reference.entries)
        elif name == "update" and member in present:
            heap_update(heap, places, size, time, member)
            reference.without(member)
            reference.push(member, time)
        elif name == "remove" and member in present:
            heap_remove(heap, places, size, member)
            reference.without(member)
        check(heap, places, reference)


def check(heap: np.ndarray, places: Places, reference: ReferenceHeap) -> None:
    """Check entries, the first one, heap order, and the index of every member."""
    size = len(reference.entries)
    assert sorted(heap[:size].tolist()) == sorted(reference.entries)
    for place, member in enumerate(heap["member"][:size].tolist()):
        assert places[member] == place
        assert place == 0 or not comes_first(heap[place].time, member, heap[(place - 1) // 4])
    if size:
        assert heap[0].member == reference.entries[0][1]
    absent = np.setdiff1d(np.arange(CAPACITY), heap["member"][:size])
    assert (places[absent] == -1).all()


def test_ties_go_to_the_lower_member():
    heap, places = empty_heap(4)
    for size, member in enumerate((3, 1, 2, 0)):
        heap_push(heap, places, size, 5.0, member)
    order = []
    for size in (4, 3, 2, 1):
        order.append(int(heap[0].member))
        heap_remove(heap, places, size, heap[0].member)
    assert order == [0, 1, 2, 3]
