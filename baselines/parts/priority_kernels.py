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
    count = find_place(floor, faster, faster[:0], size, False, scratch.nodes, scratch.gpus)
    if count > 0:
        settle_on(floor, plan, at, count, scratch.nodes, scratch.gpus)
    else:
        take_place(floor, plan, at, 1)


@leaf
def take_off(floor: Floor, plan: Plan, held: IntArray, gone: int, count: int) -> int:
    """Take the last `count` of `held` off the floor, where the last `gone` of them are off already; return `count`."""
    for other in held[len(held) - count : len(held) - gone]:
        take_place(floor, plan, other, -1)
    for other in held[len(held) - gone : len(held) - count]:
        take_place(floor, plan, other, 1)
    return count


@kernel
def find_without(
    floor: Floor, wanted: Wanted, plan: Plan, scratch: Scratch, at: int, held: IntArray, gone: int, count: int
) -> int:
    """Take off the last `count` of `held` instead of `gone` and look where a job fits: how many nodes."""
    take_off(floor, plan, held, gone, count)
    return find_place(
        floor, wanted.types[at], wanted.spanning[at], wanted.sizes[at], False, scratch.nodes, scratch.gpus
    )


@kernel
def fewest_in_the_way(
    floor: Floor, wanted: Wanted, plan: Plan, scratch: Scratch, at: int, held: IntArray
) -> tuple[int, int]:
    """How many of those in `held` go until a job fits, last ones first; 0 if all do not do.

    As `baselines.parts.placing.fewest`. The second number is how many are off the floor in the end.
    """
    most = len(held)
    gone = too_few = 0
    count = min(1, most)
    while count > 0:
        fits = find_without(floor, wanted, plan, scratch, at, held, gone, count) > 0
        gone = count
        if fits:
            break
        if count == most:
            return 0, gone
        too_few = count
        count = min(2 * count, most)
    while count - too_few > 1:
        middle = (too_few + count) // 2
        if find_without(floor, wanted, plan, scratch, at, held, gone, middle) > 0:
            count = middle
        else:
            too_few = middle
        gone = middle
    return count, gone


@kernel
def displace(floor: Floor, wanted: Wanted, plan: Plan, scratch: Scratch, at: int, first: int, last: int) -> int:
    """Take jobs off, last ones first, until a better one fits; bring back those not in its way.

    Returns where those that hold GPUs end in `held` from now on; -1, and nothing has changed, if it fits nowhere.
    """
    held = scratch.held[first:last]
    count, gone = fewest_in_the_way(floor, wanted, plan, scratch, at, held)
    if count == 0:
        take_off(floor, plan, held, gone, 0)
        return -1
    nodes = find_without(floor, wanted, plan, scratch, at, held, gone, count)
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
    failed = 0
    for at in range(len(plan.fate)):
        if first >= last and floor.idle[0] == 0:
            break
        if first < last and scratch.held[first] == at:
            first += 1
            if len(faster) > 0 and faster[at, 0] >= 0 and floor.idle[0] > 0:
                move_up(floor, plan, at, faster[at], scratch)
            continue
        if is_hopeless(wanted, at, scratch.hopeless, failed):
            continue
        size, types, spanning = wanted.sizes[at], wanted.types[at], wanted.spanning[at]
        count = 0
        if size <= floor.idle[0]:
            count = find_place(floor, types, spanning, size, False, scratch.nodes, scratch.gpus)
        if count > 0:
            settle_on(floor, plan, at, count, scratch.nodes, scratch.gpus)
            continue
        end = displace(floor, wanted, plan, scratch, at, first, last) if first < last else -1
        if end >= 0:
            last = end
        else:
            scratch.hopeless[failed] = at
            failed += 1
