"""Which jobs the nodes see: the candidates and all running jobs, as rows."""

from envs.bidding.arrays import NUM_LISTED, NUM_WAITING, BiddingArrays
from envs.episodes.candidates import enter_sorted, queue_key
from envs.episodes.physics import size_of
from envs.simulation.jit import leaf
from envs.simulation.ordered_set import next_member


@leaf
def forget_rows(a: BiddingArrays) -> None:
    """Empty the rows of the last observation."""
    for row in range(a.sizes[NUM_LISTED]):
        if a.listed[row] >= 0:
            a.row_of[a.listed[row]] = -1
        a.listed[row] = -1
        for column in range(a.jobs.shape[1]):
            a.jobs[row, column] = 0.0
    a.sizes[NUM_LISTED] = 0


@leaf
def list_candidates(a: BiddingArrays) -> int:
    """Write the candidates into the first rows of `listed`; return their number.

    First the waiting jobs in queue order, then running jobs: first the one with the smallest fraction of its best
    throughput, which has most to gain from a change. Ties by job.
    """
    world = a.world
    capacity = len(a.keys)
    count = 0
    waiting = 0
    j = next_member(world.queued, len(world.jobs), 0)
    while j >= 0:
        waiting += 1
        count = enter_sorted(a.listed, a.keys, capacity, count, j, queue_key(world, a.rules[0], world.jobs[j]))
        j = next_member(world.queued, len(world.jobs), j + 1)
    a.sizes[NUM_WAITING] = waiting
    left = capacity - count
    moving = 0
    j = next_member(world.running, len(world.jobs), 0)
    while j >= 0 and left > 0:
        job = world.jobs[j]
        best = world.reference[job.model, size_of(world, job)]
        key = job.throughput / best if best > 0 else 0.0
        moving = enter_sorted(a.listed[count:], a.keys[count:], left, moving, j, key)
        j = next_member(world.running, len(world.jobs), j + 1)
    return count + moving


@leaf
def list_jobs(a: BiddingArrays) -> None:
    """Write `listed` and `row_of`: the candidates, then all other running jobs in ascending order."""
    world = a.world
    forget_rows(a)
    count = list_candidates(a)
    for row in range(count):
        a.row_of[a.listed[row]] = row
    row = len(a.keys)
    j = next_member(world.running, len(world.jobs), 0)
    while j >= 0:
        if a.row_of[j] < 0:
            a.listed[row] = j
            a.row_of[j] = row
            row += 1
        j = next_member(world.running, len(world.jobs), j + 1)
    a.sizes[NUM_LISTED] = row
