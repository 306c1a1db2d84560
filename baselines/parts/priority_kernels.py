"""The compiled form of `baselines.parts.priority.place_in_order`: assign GPUs to jobs in an order, over arrays.

The reference implementation is `tests.unit.baselines.slow.place_in_order_slowly`; tests check that both agree.
`baselines.compiled.srtf` plays whole episodes with these kernels.
"""

from baselines.parts.placing_kernels import (
    STAYS,
    STOPPED,
    NodeArrays,
    PlacementOutcome,
    Scratch,
    Wanted,
    find_place,
    is_hopeless,
    settle_on,
    take_place,
)
from envs.simulation.compiled.jit import kernel, leaf
from envs.types import IntArray


@leaf
def is_free(floor: NodeArrays, outcome: PlacementOutcome, at: int) -> bool:
    """Whether all GPUs of a job's placement are free, and its nodes as a whole if it is alone on them."""
    for i in range(outcome.first[at], outcome.first[at] + outcome.length[at]):
        n = outcome.nodes[i]
        if floor.free[n] < (floor.total[n] if outcome.alone[at] else outcome.gpus[i]):
            return False
    return True


@leaf
def move_up(
    floor: NodeArrays, shape: IntArray, outcome: PlacementOutcome, at: int, faster: IntArray, scratch: Scratch
) -> None:
    """Move a running job to the first of some types that has free GPUs for it."""
    take_place(floor, outcome, at, -1)
    size = 0
    for i in range(outcome.first[at], outcome.first[at] + outcome.length[at]):
        size += outcome.gpus[i]
    count = find_place(floor, faster, faster[:0], size, shape, False, scratch.nodes, scratch.gpus)
    if count > 0:
        settle_on(floor, outcome, at, count, scratch.nodes, scratch.gpus)
    else:
        take_place(floor, outcome, at, 1)


@leaf
def take_off(floor: NodeArrays, outcome: PlacementOutcome, held: IntArray, gone: int, count: int) -> int:
    """Free the GPUs of the last `count` of `held`, of which the last `gone` are freed already; return `count`."""
    for other in held[len(held) - count : len(held) - gone]:
        take_place(floor, outcome, other, -1)
    for other in held[len(held) - gone : len(held) - count]:
        take_place(floor, outcome, other, 1)
    return count


@kernel
def find_without(
    floor: NodeArrays,
    wanted: Wanted,
    outcome: PlacementOutcome,
    scratch: Scratch,
    at: int,
    held: IntArray,
    gone: int,
    count: int,
) -> int:
    """Free the last `count` of `held` instead of `gone` and find nodes for a job; return how many, 0: no room."""
    take_off(floor, outcome, held, gone, count)
    types, spanning, shape = wanted.types[at], wanted.spanning[at], wanted.shapes[at]
    return find_place(floor, types, spanning, wanted.sizes[at], shape, False, scratch.nodes, scratch.gpus)


@kernel
def fewest_in_the_way(
    floor: NodeArrays, wanted: Wanted, outcome: PlacementOutcome, scratch: Scratch, at: int, held: IntArray
) -> tuple[int, int]:
    """Find how many jobs of `held` must go, last ones first, until a job fits; 0 if all of them are too few.

    Searches as `baselines.parts.placing.fewest` does. The second number is how many are freed at the end.
    """
    most = len(held)
    gone = too_few = 0
    count = min(1, most)
    while count > 0:
        fits = find_without(floor, wanted, outcome, scratch, at, held, gone, count) > 0
        gone = count
        if fits:
            break
        if count == most:
            return 0, gone
        too_few = count
        count = min(2 * count, most)
    while count - too_few > 1:
        middle = (too_few + count) // 2
        if find_without(floor, wanted, outcome, scratch, at, held, gone, middle) > 0:
            count = middle
        else:
            too_few = middle
        gone = middle
    return count, gone


@kernel
def displace(
    floor: NodeArrays, wanted: Wanted, outcome: PlacementOutcome, scratch: Scratch, at: int, first: int, last: int
) -> int:
    """Stop jobs, last ones first, until a higher ranked one fits; put back those not in its way.

    Returns the new end of the jobs in `held` that hold GPUs; -1, with nothing changed, if the job fits nowhere.
    """
    held = scratch.held[first:last]
    count, gone = fewest_in_the_way(floor, wanted, outcome, scratch, at, held)
    if count == 0:
        take_off(floor, outcome, held, gone, 0)
        return -1
    nodes = find_without(floor, wanted, outcome, scratch, at, held, gone, count)
    settle_on(floor, outcome, at, nodes, scratch.nodes, scratch.gpus)
    end = last - count
    for i in range(last - count, last):
        other = scratch.held[i]
        if is_free(floor, outcome, other):
            take_place(floor, outcome, other, 1)
            scratch.held[end] = other
            end += 1
        else:
            outcome.fate[other] = STOPPED
    return end


@leaf
def list_held(outcome: PlacementOutcome, held: IntArray) -> int:
    """Write the ranks of jobs that hold GPUs; return how many."""
    count = 0
    for at in range(len(outcome.fate)):
        if outcome.fate[at] == STAYS:
            held[count] = at
            count += 1
    return count


@kernel
def place_by_rank(
    floor: NodeArrays, wanted: Wanted, outcome: PlacementOutcome, faster: IntArray, scratch: Scratch
) -> None:
    """Give GPUs to jobs in order; jobs that hold GPUs stay where they are, and the last ranked are stopped for others.

    Args:
        floor: the nodes; their free GPUs change.
        wanted: the jobs in order.
        outcome: the GPUs that jobs hold at first, the GPUs that they get in the end.
        faster: int64[num_jobs or 0, num_gpu_types], types to which a job that holds GPUs moves if there is
            room, in this order, padded with -1.
        scratch: overwritten.
    """
    first, last = 0, list_held(outcome, scratch.held)
    failed = 0
    for at in range(len(outcome.fate)):
        if first >= last and floor.idle[0] == 0:
            break
        if first < last and scratch.held[first] == at:
            first += 1
            if len(faster) > 0 and faster[at, 0] >= 0 and floor.idle[0] > 0:
                move_up(floor, wanted.shapes[at], outcome, at, faster[at], scratch)
            continue
        if is_hopeless(wanted, at, scratch.hopeless, failed):
            continue
        size, types, spanning = wanted.sizes[at], wanted.types[at], wanted.spanning[at]
        count = 0
        if size <= floor.idle[0]:
            count = find_place(floor, types, spanning, size, wanted.shapes[at], False, scratch.nodes, scratch.gpus)
        if count > 0:
            settle_on(floor, outcome, at, count, scratch.nodes, scratch.gpus)
            continue
        end = displace(floor, wanted, outcome, scratch, at, first, last) if first < last else -1
        if end >= 0:
            last = end
        else:
            scratch.hopeless[failed] = at
            failed += 1
