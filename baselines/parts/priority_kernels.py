"""`baselines.parts.priority.place_in_order` compiled: from an order of jobs to GPUs, over arrays.

The readable form is the slow twin of the tests, `tests.unit.baselines.slow.place_in_order_slowly`; they hold the two
equal. `baselines.compiled.srtf` plays whole episodes with these kernels.
"""

from baselines.parts.placing_kernels import (
    STAYS,
    STOPPED,
    Floor,
    Plan,
    Scratch,
    Wanted,
    count_free,
    find_place,
    is_hopeless,
    settle_on,
    take_place,
)
from envs.simulation.jit import kernel, leaf
from envs.types import IntArray


@leaf
def is_free(floor: Floor, plan: Plan, at: int) -> bool:
    """Whether all of a job's place is free."""
    for i in range(plan.first[at], plan.first[at] + plan.length[at]):
        if floor.free[plan.nodes[i]] < plan.gpus[i]:
            return False
    return True


@leaf
def move_up(floor: Floor, plan: Plan, at: int, faster: IntArray, scratch: Scratch) -> None:
    """Move a running job to the first of some types that has free GPUs for it."""
    take_place(floor, plan, at, -1)
    size = 0
    for i in range(plan.first[at], plan.first[at] + plan.length[at]):
        size += plan.gpus[i]
    count = find_place(floor, floor.free, faster, faster[:0], size, False, scratch.nodes, scratch.gpus)
    if count > 0:
        settle_on(floor, plan, at, count, scratch.nodes, scratch.gpus)
    else:
        take_place(floor, plan, at, 1)


@kernel
def find_without(floor: Floor, wanted: Wanted, plan: Plan, scratch: Scratch, at: int, last: int, count: int) -> int:
    """Where a job fits without the last `count` of those that hold GPUs, up to `last` in `held`: how many nodes."""
    for n in range(len(floor.free)):
        scratch.spare[n] = floor.free[n]
    for other in scratch.held[last - count : last]:
        for i in range(plan.first[other], plan.first[other] + plan.length[other]):
            scratch.spare[plan.nodes[i]] += plan.gpus[i]
    return find_place(
        floor,
        scratch.spare,
        wanted.types[at],
        wanted.spanning[at],
        wanted.sizes[at],
        False,
        scratch.nodes,
        scratch.gpus,
    )


@kernel
def fewest_in_the_way(
    floor: Floor, wanted: Wanted, plan: Plan, scratch: Scratch, at: int, first: int, last: int
) -> int:
    """How many of those from `first` to `last` in `held` go until a job fits, last ones first; 0 if all do not do.

    As `baselines.parts.placing.fewest`.
    """
    most = last - first
    too_few = 0
    count = min(1, most)
    while count > 0 and find_without(floor, wanted, plan, scratch, at, last, count) == 0:
        if count == most:
            return 0
        too_few = count
        count = min(2 * count, most)
    while count - too_few > 1:
        middle = (too_few + count) // 2
        if find_without(floor, wanted, plan, scratch, at, last, middle) > 0:
            count = middle
        else:
            too_few = middle
    return count


@kernel
def displace(floor: Floor, wanted: Wanted, plan: Plan, scratch: Scratch, at: int, first: int, last: int) -> int:
    """Take jobs off, last ones first, until a better one fits; bring back those not in its way.

    Returns where those that hold GPUs end in `held` from now on; -1, and nothing has changed, if it fits nowhere.
    """
    count = fewest_in_the_way(floor, wanted, plan, scratch, at, first, last)
    if count == 0:
        return -1
    nodes = find_without(floor, wanted, plan, scratch, at, last, count)
    for other in scratch.held[last - count : last]:
        take_place(floor, plan, other, -1)
    settle_on(floor, plan, at, nodes, scratch.nodes, scratch.gpus)
    end = last - count
    for i in range(last - count, last):
        other = scratch.held[i]
        if is_free(floor, plan, other):
            take_place(floor, plan, other, 1)
            scratch.held[end] = other
            end += 1
        else:
            plan.fate[other] = STOPPED
    return end


@leaf
def list_held(plan: Plan, held: IntArray) -> int:
    """Write the ranks of jobs that hold GPUs; return how many."""
    count = 0
    for at in range(len(plan.fate)):
        if plan.fate[at] == STAYS:
            held[count] = at
            count += 1
    return count


@kernel
def place_by_rank(floor: Floor, wanted: Wanted, plan: Plan, faster: IntArray, scratch: Scratch) -> None:
    """Give GPUs to the first jobs in order; those that hold some stay where they are, and those ranked last make room.

    Args:
        floor: the nodes; their free GPUs change.
        wanted: the jobs in order.
        plan: who holds what; becomes who gets what.
        faster: int64[num_jobs or 0, num_gpu_types], types to which a job that holds GPUs moves if it can, in this
            order, -1 behind them.
        scratch: overwritten.
    """
    first, last = 0, list_held(plan, scratch.held)
    idle = count_free(floor)
    failed = 0
    for at in range(len(plan.fate)):
        if first >= last and idle == 0:
            break
        if first < last and scratch.held[first] == at:
            first += 1
            if len(faster) > 0 and faster[at, 0] >= 0 and idle > 0:
                move_up(floor, plan, at, faster[at], scratch)
            continue
        if is_hopeless(wanted, at, scratch.hopeless, failed):
            continue
        size, types, spanning = wanted.sizes[at], wanted.types[at], wanted.spanning[at]
        count = 0
        if size <= idle:
            count = find_place(floor, floor.free, types, spanning, size, False, scratch.nodes, scratch.gpus)
        if count > 0:
            settle_on(floor, plan, at, count, scratch.nodes, scratch.gpus)
            idle -= size
            continue
        end = displace(floor, wanted, plan, scratch, at, first, last) if first < last else -1
        if end >= 0:
            last = end
            idle = count_free(floor)
        else:
            scratch.hopeless[failed] = at
            failed += 1
