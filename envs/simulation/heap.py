"""Running jobs as a binary heap on (finish time, job), indexed so that any job can be moved or removed.

`heap` holds job ids, `jobs[j].heap_place` the place of each; `size` is the number of entries in use.
"""

from typing import Any

from envs.simulation.jit import jit
from envs.types import IntArray

Records = Any


@jit
def comes_first(jobs: Records, a: int, b: int) -> bool:
    """Whether job `a` finishes before job `b`; ties go to the lower id."""
    if jobs[a].finish != jobs[b].finish:
        return bool(jobs[a].finish < jobs[b].finish)
    return a < b


@jit
def sift_up(jobs: Records, heap: IntArray, place: int, j: int) -> None:
    """Move job `j` from a hole at `place` towards the root."""
    while place > 0:
        parent = (place - 1) >> 1
        if not comes_first(jobs, j, heap[parent]):
            break
        heap[place] = heap[parent]
        jobs[heap[place]].heap_place = place
        place = parent
    heap[place] = j
    jobs[j].heap_place = place


@jit
def sift_down(jobs: Records, heap: IntArray, size: int, place: int, j: int) -> None:
    """Move job `j` from a hole at `place` towards the leaves."""
    while True:
        child = 2 * place + 1
        if child >= size:
            break
        if child + 1 < size and comes_first(jobs, heap[child + 1], heap[child]):
            child += 1
        if not comes_first(jobs, heap[child], j):
            break
        heap[place] = heap[child]
        jobs[heap[place]].heap_place = place
        place = child
    heap[place] = j
    jobs[j].heap_place = place


@jit
def heap_push(jobs: Records, heap: IntArray, size: int, j: int) -> None:
    """Add a job to a heap of `size` entries."""
    sift_up(jobs, heap, size, j)


@jit
def heap_update(jobs: Records, heap: IntArray, size: int, j: int) -> None:
    """Restore order after a job's finish time changed."""
    place = jobs[j].heap_place
    sift_up(jobs, heap, place, j)
    if jobs[j].heap_place == place:
        sift_down(jobs, heap, size, place, j)


@jit
def heap_remove(jobs: Records, heap: IntArray, size: int, j: int) -> None:
    """Take a job out of a heap of `size` entries."""
    place = jobs[j].heap_place
    last = heap[size - 1]
    jobs[j].heap_place = -1
    if last == j:
        return
    heap[place] = last
    jobs[last].heap_place = place
    heap_update(jobs, heap, size - 1, last)


@jit
def heap_pop(jobs: Records, heap: IntArray, size: int) -> None:
    """Take the first job out."""
    heap_remove(jobs, heap, size, heap[0])
