"""`baselines.parts.placing` compiled: where a gang goes, found in arrays, for queues of thousands of jobs.

`best_fit` and `first_fit` there are the readable form; tests hold the two equal. Nodes are looked up by their free
GPUs, so a search takes no longer on thousands of nodes. Arguments recur: `nodes` and `gpus`, int64[num_nodes], receive
what is found, node by node; the floor is the same when a search is over as before it.
"""

from typing import NamedTuple

from envs.simulation.jit import kernel, leaf, part
from envs.simulation.ordered_set import insert, is_empty, next_member, remove
from envs.types import IntArray


class Floor(NamedTuple):
    """The nodes.

    Attributes:
        kinds: int64[num_nodes], GPU type of each.
        total: int64[num_nodes], its GPUs, whether it is up or down.
        largest: int64[num_gpu_types], GPUs of the largest node of each type.
        free: int64[num_nodes], GPUs that nobody holds; 0 while a node is down.
        room: int64[num_gpu_types, most GPUs of a node + 1, words], ordered sets of the nodes by type and free GPUs.
        idle: int64[1], GPUs that nobody holds, on all nodes together.
    """

    kinds: IntArray
    total: IntArray
    largest: IntArray
    free: IntArray
    room: IntArray
    idle: IntArray


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
        nodes: int64[num_nodes].
        gpus: int64[num_nodes].
        held: int64[num_jobs].
        hopeless: int64[num_jobs].
    """

    nodes: IntArray
    gpus: IntArray
    held: IntArray
    hopeless: IntArray


WAITS, STAYS, STOPPED, PLACED = 0, 1, 2, 3  # STAYS where it was, if it held GPUs; PLACED anew


@leaf
def set_free(floor: Floor, n: int, free: int) -> None:
    """Change how many GPUs of a node are free."""
    remove(floor.room[floor.kinds[n], floor.free[n]], len(floor.free), n)
    insert(floor.room[floor.kinds[n], free], len(floor.free), n)
    floor.idle[0] += free - floor.free[n]
    floor.free[n] = free


@leaf
def tightest_node(room: IntArray, num_nodes: int, kind: int, gpus: int) -> int:
    """The node of a type with the fewest free GPUs that has so many, the first of equals; -1 if none has."""
    for free in range(gpus, room.shape[1]):
        if not is_empty(room[kind, free]):
            return next_member(room[kind, free], num_nodes, 0)
    return -1


@leaf
def first_node(floor: Floor, kind: int, gpus: int) -> int:
    """The first node of a type with so many free GPUs; -1 if none has."""
    first = -1
    for free in range(gpus, floor.room.shape[1]):
        n = next_member(floor.room[kind, free], len(floor.free), 0)
        if n >= 0 and (first < 0 or n < first):
            first = n
    return first


@leaf
def next_whole(floor: Floor, kind: int, size: int, first: int) -> int:
    """The first node from `first` on of a type and size that is wholly free; -1 if there is none."""
    n = next_member(floor.room[kind, size], len(floor.free), first)
    while n >= 0 and floor.total[n] != size:
        n = next_member(floor.room[kind, size], len(floor.free), n + 1)
    return n


@leaf
def put_last(floor: Floor, node: int, left: int, whole: int, nodes: IntArray, gpus: IntArray) -> int:
    """End a search over whole nodes with one for the rest (-1: none): free them again; how many nodes, 0: no room."""
    for i in range(whole):
        set_free(floor, nodes[i], gpus[i])
    if left == 0:
        return whole
    if node < 0:
        return 0
    nodes[whole] = node
    gpus[whole] = left
    return whole + 1


@part
def on_whole_nodes(floor: Floor, kind: int, want: int, nodes: IntArray, gpus: IntArray) -> int:
    """Wholly free nodes of a type, largest first, and what is left on the tightest other; how many nodes, 0: no room.

    For a gang larger than every node of the type. What is taken is marked by having nothing free.
    """
    count = 0
    left = want
    for size in range(floor.largest[kind], 0, -1):
        n = next_whole(floor, kind, size, 0)
        if n >= 0 and left < size:
            break
        while n >= 0 and left >= size:
            nodes[count] = n
            gpus[count] = size
            set_free(floor, n, 0)
            count += 1
            left -= size
            n = next_whole(floor, kind, size, n + 1)
        if n >= 0:
            break
    last = tightest_node(floor.room, len(floor.free), kind, left) if left > 0 else -1
    return put_last(floor, last, left, count, nodes, gpus)


@leaf
def next_whole_upto(floor: Floor, kind: int, most: int, first: int) -> int:
    """The first node from `first` on of a type and at most a size that is wholly free; -1 if there is none."""
    found = -1
    for size in range(1, min(most, floor.largest[kind]) + 1):
        n = next_whole(floor, kind, size, first)
        if n >= 0 and (found < 0 or n < found):
            found = n
    return found


@kernel
def fill_nodes(floor: Floor, types: IntArray, want: int, nodes: IntArray, gpus: IntArray) -> int:
    """Wholly free nodes of some types in order, if not too large, then the first with room for what is left.

    Returns how many nodes, 0: no room.
    """
    count = 0
    left = want
    for kind in types:
        n = next_whole_upto(floor, kind, left, 0) if kind >= 0 else -1
        while n >= 0:
            nodes[count] = n
            gpus[count] = floor.free[n]
            left -= floor.free[n]
            set_free(floor, n, 0)
            count += 1
            n = next_whole_upto(floor, kind, left, n + 1)
    last = -1
    if left > 0:
        for kind in types:
            if last < 0 <= kind:
                last = first_node(floor, kind, left)
    return put_last(floor, last, left, count, nodes, gpus)


@leaf
def place_of_type(floor: Floor, kinds: IntArray, want: int, lowest: bool, nodes: IntArray, gpus: IntArray) -> int:
    """The place on a type, the only one in `kinds`; how many nodes, 0: no room."""
    kind = kinds[0]
    if want > floor.largest[kind]:
        if lowest:
            return fill_nodes(floor, kinds, want, nodes, gpus)
        return on_whole_nodes(floor, kind, want, nodes, gpus)
    node = first_node(floor, kind, want) if lowest else tightest_node(floor.room, len(floor.free), kind, want)
    return put_last(floor, node, want, 0, nodes, gpus)


@kernel
def find_place(
    floor: Floor, types: IntArray, spanning: IntArray, want: int, lowest: bool, nodes: IntArray, gpus: IntArray
) -> int:
    """Where a gang goes: how many nodes, 0: no room.

    Args:
        floor: the nodes.
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
        count = place_of_type(floor, types[i : i + 1], want, lowest, nodes, gpus)
        if count > 0:
            return count
    if len(spanning) > 0 and types[0] < 0 <= spanning[0]:
        return fill_nodes(floor, spanning, want, nodes, gpus)
    return 0


@leaf
def take_place(floor: Floor, plan: Plan, at: int, sign: int) -> None:
    """Take the GPUs of a job's place off the free ones, or give them back with a sign of -1."""
    for i in range(plan.first[at], plan.first[at] + plan.length[at]):
        set_free(floor, plan.nodes[i], floor.free[plan.nodes[i]] - sign * plan.gpus[i])


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


@kernel
def start_by_rank(floor: Floor, wanted: Wanted, plan: Plan, scratch: Scratch, lowest: bool) -> None:
    """Give free GPUs to jobs in order; who does not fit is passed."""
    failed = 0
    for at in range(len(wanted.sizes)):
        size = wanted.sizes[at]
        if size > floor.idle[0] or is_hopeless(wanted, at, scratch.hopeless, failed):
            continue
        count = find_place(floor, wanted.types[at], wanted.spanning[at], size, lowest, scratch.nodes, scratch.gpus)
        if count > 0:
            settle_on(floor, plan, at, count, scratch.nodes, scratch.gpus)
        else:
            scratch.hopeless[failed] = at
            failed += 1
