"""Binary heaps on (time, member), indexed so that any member can be moved or removed.

One heap orders running jobs by predicted end, another orders nodes by the time at which they go down or come back.
Each entry holds its time, so moving an entry reads only the heap, whose entries are adjacent in memory.
`places[member]` is the index of a member in the heap, -1 if it is absent; `size` is the number of entries in use.
"""

from typing import Any

import numpy as np

from envs.simulation.jit import Records, leaf, part
from envs.types import IntArray

ENTRY: np.dtype[Any] = np.dtype((np.record, [("time", np.float64), ("member", np.int64)]), align=True)


@leaf
def comes_first(time: float, member: int, entry: Records) -> bool:
    """Return whether (time, member) comes before an entry; ties go to the lower member."""
    if time != entry.time:
        return bool(time < entry.time)
    return bool(member < entry.member)


@leaf
def second_comes_first(one: Records, two: Records) -> int:
    """Return 1 if the second of two entries comes first, else 0; no branch, since a processor could not predict it."""
    return int(two.time < one.time) | (int(two.time == one.time) & int(two.member < one.member))


@leaf
def put_entry(heap: Records, places: IntArray, place: int, time: float, member: int) -> None:
    """Write an entry and the index of its member."""
    heap[place].time = time
    heap[place].member = member
    places[member] = place


@leaf
def sift_up(heap: Records, places: IntArray, place: int, time: float, member: int) -> None:
    """Move a member from a hole at `place` towards the root."""
    while place > 0:
        parent = (place - 1) >> 1
        if not comes_first(time, member, heap[parent]):
            break
        put_entry(heap, places, place, heap[parent].time, heap[parent].member)
        place = parent
    put_entry(heap, places, place, time, member)


@leaf
def sift_down(heap: Records, places: IntArray, size: int, place: int, time: float, member: int) -> None:
    """Move a member from a hole at `place` towards the leaves."""
    while True:
        child = 2 * place + 1
        if child >= size:
            break
        if child + 1 < size:
            child += second_comes_first(heap[child], heap[child + 1])
        if comes_first(time, member, heap[child]):
            break
        put_entry(heap, places, place, heap[child].time, heap[child].member)
        place = child
    put_entry(heap, places, place, time, member)


@part
def heap_push(heap: Records, places: IntArray, size: int, time: float, member: int) -> None:
    """Add a member to a heap of `size` entries."""
    sift_up(heap, places, size, time, member)


@part
def heap_update(heap: Records, places: IntArray, size: int, time: float, member: int) -> None:
    """Change the time of a member."""
    place = places[member]
    if place > 0 and comes_first(time, member, heap[(place - 1) >> 1]):
        sift_up(heap, places, place, time, member)
    else:
        sift_down(heap, places, size, place, time, member)


@part
def heap_remove(heap: Records, places: IntArray, size: int, member: int) -> None:
    """Remove a member from a heap of `size` entries."""
    place = places[member]
    last = heap[size - 1].member
    time = heap[size - 1].time
    places[member] = -1
    if last != member:
        places[last] = place
        heap_update(heap, places, size - 1, time, last)
