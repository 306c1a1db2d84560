"""Heaps on (time, member) with four children to an entry, indexed so that any member can be moved or removed.

One heap orders running jobs by predicted end, another orders nodes by the time at which they go down or come back.
Each entry holds its time, so moving an entry reads only the heap. The four children of an entry are one cache line, so
that a heap of thousands is half as deep as with two, for no more lines read.
`places[member]` is the index of a member in the heap, -1 if it is absent; `size` is the number of entries in use.
"""

from typing import Any

import numpy as np
import numpy.typing as npt

from envs.simulation.compiled.jit import Records, leaf, part

Places = npt.NDArray[np.int32]

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
def first_child(heap: Records, size: int, child: int) -> int:
    """Return the child that comes first, of up to four from `child` on."""
    if child + 3 < size:
        one = child + second_comes_first(heap[child], heap[child + 1])
        two = child + 2 + second_comes_first(heap[child + 2], heap[child + 3])
        return two if second_comes_first(heap[one], heap[two]) else one
    first = child
    for other in range(child + 1, size):
        first = other if second_comes_first(heap[first], heap[other]) else first
    return first


@leaf
def put_entry(heap: Records, places: Places, place: int, time: float, member: int) -> None:
    """Write an entry and the index of its member."""
    heap[place].time = time
    heap[place].member = member
    places[member] = place


@leaf
def sift_up(heap: Records, places: Places, place: int, time: float, member: int) -> None:
    """Move a member from a hole at `place` towards the root."""
    while place > 0:
        parent = (place - 1) >> 2
        if not comes_first(time, member, heap[parent]):
            break
        put_entry(heap, places, place, heap[parent].time, heap[parent].member)
        place = parent
    put_entry(heap, places, place, time, member)


@leaf
def sift_down(heap: Records, places: Places, size: int, place: int, time: float, member: int) -> None:
    """Move a member from a hole at `place` towards the leaves."""
    while True:
        child = 4 * place + 1
        if child >= size:
            break
        child = first_child(heap, size, child)
        if comes_first(time, member, heap[child]):
            break
        put_entry(heap, places, place, heap[child].time, heap[child].member)
        place = child
    put_entry(heap, places, place, time, member)


@part
def heap_push(heap: Records, places: Places, size: int, time: float, member: int) -> None:
    """Add a member to a heap of `size` entries."""
    sift_up(heap, places, size, time, member)


@part
def heap_update(heap: Records, places: Places, size: int, time: float, member: int) -> None:
    """Change the time of a member."""
    place = places[member]
    if place > 0 and comes_first(time, member, heap[(place - 1) >> 2]):
        sift_up(heap, places, place, time, member)
    else:
        sift_down(heap, places, size, place, time, member)


@leaf
def heap_adjust(heap: Records, places: Places, size: int, time: float, member: int) -> None:
    """`heap_update` without a call where the entry, like three quarters of all, has no children and stays in place."""
    place = places[member]
    if 4 * place + 1 >= size and (place == 0 or not comes_first(time, member, heap[(place - 1) >> 2])):
        heap[place].time = time
    else:
        heap_update(heap, places, size, time, member)


@part
def heap_remove(heap: Records, places: Places, size: int, member: int) -> None:
    """Remove a member from a heap of `size` entries."""
    place = places[member]
    last = heap[size - 1].member
    time = heap[size - 1].time
    places[member] = -1
    if last != member:
        places[last] = place
        heap_update(heap, places, size - 1, time, last)
