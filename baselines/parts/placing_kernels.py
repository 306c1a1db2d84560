"""`baselines.parts.placing` compiled: where a gang goes, found in arrays, for queues of thousands of jobs.

`best_fit` and `first_fit` there are the readable form; tests hold the two equal. Arguments recur: `free`
int64[num_nodes], free GPUs, the same when a search is over as before it; `nodes` and `gpus`, int64[num_nodes], receive
what is found, node by node.
"""

from typing import NamedTuple

from envs.simulation.jit import kernel, leaf
from envs.types import IntArray


class Floor(NamedTuple):
    """The nodes.

    Attributes:
        kinds: int64[num_nodes], GPU type of each.
        total: int64[num_nodes], its GPUs, whether it is up or down.
        largest: int64[num_gpu_types], GPUs of the largest node of each type.
        free: int64[num_nodes], GPUs that nobody holds; 0 while a node is down.
    """

    kinds: IntArray
    total: IntArray
    largest: IntArray
    free: IntArray


class Wanted(NamedTuple):
    """Jobs in some order.

    Attributes:
        sizes: int64[num_jobs], GPUs that each wants.
        types: int64[num_jobs, num_gpu_types], the types to try, in this order, -1 behind them.
        spanning: int64[num_jobs, num_gpu_types], the types whose nodes a gang that runs on no one type may take
            together, -1 behind them.
    """

    sizes: IntArray
    types: IntArray
    spanning: IntArray


class Plan(NamedTuple):
    """What becomes of jobs.

    Attributes:
        fate: int64[num_jobs], one of WAITS, STAYS, STOPPED and PLACED.
        first: int64[num_jobs], where a job's place begins in `nodes` and `gpus`.
        length: int64[num_jobs], nodes of the place.
        nodes: int64[...], places one after the other; behind those of jobs that hold GPUs there is room for all GPUs.
        gpus: int64[...], GPUs on each of these nodes.
        used: int64[1], entries of both so far.
    """

    fate: IntArray
    first: IntArray
    length: IntArray
    nodes: IntArray
    gpus: IntArray
    used: IntArray


class Scratch(NamedTuple):
    """Room to work in.

    Attributes:
        spare: int64[num_nodes].
        nodes: int64[num_nodes].
        gpus: int64[num_nodes].
        held: int64[num_jobs].
        hopeless: int64[num_jobs].
    """

    spare: IntArray
    nodes: IntArray
    gpus: IntArray
    held: IntArray
    hopeless: IntArray


WAITS, STAYS, STOPPED, PLACED = 0, 1, 2, 3  # STAYS where it was, if it held GPUs; PLACED anew


@leaf
def tightest_node(floor: Floor, free: IntArray, kind: int, gpus: int) -> int:
    """The node of a type with the fewest free GPUs that has so many, the first of equals; -1 if none has."""
    best = -1
    for n in range(len(free)):
        if floor.kinds[n] == kind and free[n] >= gpus and (best < 0 or free[n] < free[best]):
            best = n
            if free[n] == gpus:
                break
    return best


@leaf
def first_node(floor: Floor, free: IntArray, kind: int, gpus: int) -> int:
    """The first node of a type with so many free GPUs; -1 if none has."""
    for n in range(len(free)):
        if floor.kinds[n] == kind and free[n] >= gpus:
            return n
    return -1


@leaf
def largest_whole(floor: Floor, free: IntArray, kind: int) -> int:
    """GPUs of the largest wholly free node of a type; 0 if there is none."""
    size = 0
    for n in range(len(free)):
        if floor.kinds[n] == kind and free[n] == floor.total[n] and free[n] > size:
            size = free[n]
    return size


@leaf
def put_last(node: int, left: int, whole: int, free: IntArray, nodes: IntArray, gpus: IntArray) -> int:
    """End a search over whole nodes with one for the rest (-1: none): free them again; how many nodes, 0: no room."""
    for i in range(whole):
        free[nodes[i]] = gpus[i]
    if left == 0:
        return whole
    if node < 0:
        return 0
    nodes[whole] = node
    gpus[whole] = left
    return whole + 1


@leaf
def on_whole_nodes(floor: Floor, free: IntArray, kind: int, want: int, nodes: IntArray, gpus: IntArray) -> int:
    """Wholly free nodes of a type, largest first, and what is left on the tightest other; how many nodes, 0: no room.

    For a gang larger than every node of the type. What is taken is marked by having nothing free.
    """
    count = 0
    left = want
    size = largest_whole(floor, free, kind)
    while 0 < size <= left:
        for n in range(len(free)):
            if floor.kinds[n] == kind and free[n] == floor.total[n] == size <= left:
                nodes[count] = n
                gpus[count] = size
                free[n] = 0
                count += 1
                left -= size
        size = largest_whole(floor, free, kind)
    last = tightest_node(floor, free, kind, left) if left > 0 else -1
    return put_last(last, left, count, free, nodes, gpus)


@kernel
def fill_nodes(floor: Floor, free: IntArray, types: IntArray, want: int, nodes: IntArray, gpus: IntArray) -> int:
    """Wholly free nodes of some types in order, if not too large, then the first with room for what is left.

    Returns how many nodes, 0: no room.
    """
    count = 0
    left = want
    for kind in types:
        for n in range(len(free)):
            if floor.kinds[n] == kind and free[n] == floor.total[n] and 0 < free[n] <= left:
                nodes[count] = n
                gpus[count] = free[n]
                left -= free[n]
                free[n] = 0
                count += 1
    last = -1
    if left > 0:
        for kind in types:
            if last < 0:
                last = first_node(floor, free, kind, left)
    return put_last(last, left, count, free, nodes, gpus)


@leaf
def place_of_type(
    floor: Floor, free: IntArray, kinds: IntArray, want: int, lowest: bool, nodes: IntArray, gpus: IntArray
) -> int:
    """The place on a type, the only one in `kinds`; how many nodes, 0: no room."""
    kind = kinds[0]
    if want > floor.largest[kind]:
        if lowest:
            return fill_nodes(floor, free, kinds, want, nodes, gpus)
        return on_whole_nodes(floor, free, kind, want, nodes, gpus)
    node = first_node(floor, free, kind, want) if lowest else tightest_node(floor, free, kind, want)
    return put_last(node, want, 0, free, nodes, gpus)


@kernel
def find_place(
    floor: Floor,
    free: IntArray,
    types: IntArray,
    spanning: IntArray,
    want: int,
    lowest: bool,
    nodes: IntArray,
    gpus: IntArray,
) -> int:
    """Where a gang goes: how many nodes, 0: no room.

    Args:
        floor: the nodes; of their free GPUs `free` tells.
        free: those among which to look.
        types: the types to try, in this order, -1 behind them.
        spanning: types to take together if there is none to try.
        want: GPUs.
        lowest: whether the first node with room is taken instead of the tightest.
        nodes: receives the nodes.
        gpus: receives the GPUs on each of them.
    """
    for i in range(len(types)):
        if types[i] < 0:
            break
        count = place_of_type(floor, free, types[i : i + 1], want, lowest, nodes, gpus)
        if count > 0:
            return count
    if len(spanning) > 0 and types[0] < 0 <= spanning[0]:
        return fill_nodes(floor, free, spanning, want, nodes, gpus)
    return 0


@leaf
def take_place(floor: Floor, plan: Plan, at: int, sign: int) -> None:
    """Take the GPUs of a job's place off the free ones, or give them back with a sign of -1."""
    for i in range(plan.first[at], plan.first[at] + plan.length[at]):
        floor.free[plan.nodes[i]] -= sign * plan.gpus[i]


@leaf
def settle_on(floor: Floor, plan: Plan, at: int, count: int, nodes: IntArray, gpus: IntArray) -> None:
    """Give a job what was found for it."""
    plan.first[at] = plan.used[0]
    plan.length[at] = count
    plan.fate[at] = PLACED
    for i in range(count):
        plan.nodes[plan.used[0]] = nodes[i]
        plan.gpus[plan.used[0]] = gpus[i]
        plan.used[0] += 1
    take_place(floor, plan, at, 1)


@leaf
def is_hopeless(wanted: Wanted, at: int, hopeless: IntArray, count: int) -> bool:
    """Whether a job of the same size and types has found no room; of a gang over several types nobody can tell."""
    if wanted.types[at, 0] < 0:
        return False
    for i in range(count):
        other = hopeless[i]
        if wanted.sizes[at] == wanted.sizes[other] and same_types(wanted, at, other):
            return True
    return False


@leaf
def same_types(wanted: Wanted, at: int, other: int) -> bool:
    """Whether two jobs try the same types in the same order."""
    for i in range(wanted.types.shape[1]):  # noqa: SIM110  kernels have no generators
        if wanted.types[at, i] != wanted.types[other, i]:
            return False
    return True


@leaf
def count_free(floor: Floor) -> int:
    """GPUs that nobody holds, on all nodes together."""
    idle = 0
    for n in range(len(floor.free)):
        idle += floor.free[n]
    return idle


@kernel
def start_by_rank(floor: Floor, wanted: Wanted, plan: Plan, scratch: Scratch, lowest: bool) -> None:
    """Give free GPUs to jobs in order; who does not fit is passed."""
    idle = count_free(floor)
    failed = 0
    for at in range(len(wanted.sizes)):
        size = wanted.sizes[at]
        if size > idle or is_hopeless(wanted, at, scratch.hopeless, failed):
            continue
        count = find_place(
            floor, floor.free, wanted.types[at], wanted.spanning[at], size, lowest, scratch.nodes, scratch.gpus
        )
        if count > 0:
            settle_on(floor, plan, at, count, scratch.nodes, scratch.gpus)
            idle -= size
        else:
            scratch.hopeless[failed] = at
            failed += 1
