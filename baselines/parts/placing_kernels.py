"""The compiled form of `baselines.parts.placing`: find nodes for gangs in arrays, for queues of thousands of jobs.

`best_fit` and `first_fit` there are the readable form; tests check that both agree. Nodes are looked up by their free
GPUs, so a search takes no longer on thousands of nodes. Arguments recur: `nodes` and `gpus`, int64[num_nodes], receive
the result, node by node. A search leaves the free GPUs of `floor` as they were.
"""

from typing import NamedTuple

from envs.simulation.compiled.jit import kernel, leaf, part
from envs.simulation.world.ordered_set import insert, is_empty, next_member, remove
from envs.simulation.world.shapes import ALONE, divide_gang, is_divided, too_many_nodes
from envs.types import IntArray


class NodeArrays(NamedTuple):
    """The nodes.

    Attributes:
        gpu_types: int64[num_nodes], GPU type of each.
        total: int64[num_nodes], GPUs of each, also while it is down.
        largest: int64[num_gpu_types], GPUs of the largest node of each type.
        free: int64[num_nodes], GPUs that no job keeps from others; 0 while a node is down.
        room: int64[num_gpu_types, most GPUs of a node + 1, words], ordered sets of the nodes by type and free GPUs.
        idle: int64[1], GPUs that no job holds, on all nodes together.
    """

    gpu_types: IntArray
    total: IntArray
    largest: IntArray
    free: IntArray
    room: IntArray
    idle: IntArray


class Wanted(NamedTuple):
    """Jobs in some order.

    Attributes:
        sizes: int64[num_jobs], GPUs that each requests.
        types: int64[num_jobs, num_gpu_types], the types to try, in this order, padded with -1.
        spanning: int64[num_jobs, num_gpu_types], the types that a gang which runs on no one type may span, padded
            with -1.
        shapes: int64[num_jobs, 4], what constraints demand, see `envs.simulation.world.shapes`.
    """

    sizes: IntArray
    types: IntArray
    spanning: IntArray
    shapes: IntArray


class PlacementOutcome(NamedTuple):
    """The outcome of a round for each job.

    Attributes:
        fate: int64[num_jobs], one of WAITS, STAYS, STOPPED and PLACED.
        first: int64[num_jobs], index in `nodes` and `gpus` where a job's placement begins.
        length: int64[num_jobs], number of nodes of the placement.
        nodes: int64[...], placements one after the other: those of jobs that hold GPUs, then space for all GPUs.
        gpus: int64[...], GPUs on each of these nodes.
        used: int64[1], entries of `nodes` and `gpus` used so far.
        alone: int64[num_jobs], whether a job keeps others off its nodes.
    """

    fate: IntArray
    first: IntArray
    length: IntArray
    nodes: IntArray
    gpus: IntArray
    used: IntArray
    alone: IntArray


class Scratch(NamedTuple):
    """Working memory.

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
def set_free_gpus(floor: NodeArrays, n: int, free: int) -> None:
    """Set the number of free GPUs of a node."""
    remove(floor.room[floor.gpu_types[n], floor.free[n]], len(floor.free), n)
    insert(floor.room[floor.gpu_types[n], free], len(floor.free), n)
    floor.idle[0] += free - floor.free[n]
    floor.free[n] = free


@leaf
def tightest_node(room: IntArray, num_nodes: int, gpu_type: int, gpus: int) -> int:
    """Find the node of a type with the fewest, but at least `gpus`, free GPUs; the first of equals; -1 if none."""
    for free in range(gpus, room.shape[1]):
        if not is_empty(room[gpu_type, free]):
            return next_member(room[gpu_type, free], num_nodes, 0)
    return -1


@leaf
def first_node(floor: NodeArrays, gpu_type: int, gpus: int) -> int:
    """Find the first node of a type with at least `gpus` free GPUs; -1 if there is none."""
    first = -1
    for free in range(gpus, floor.room.shape[1]):
        n = next_member(floor.room[gpu_type, free], len(floor.free), 0)
        if n >= 0 and (first < 0 or n < first):
            first = n
    return first


@leaf
def find_whole_node(floor: NodeArrays, gpu_type: int, size: int, first: int) -> int:
    """Find the first wholly free node of a type and size from `first` on; -1 if there is none."""
    n = next_member(floor.room[gpu_type, size], len(floor.free), first)
    while n >= 0 and floor.total[n] != size:
        n = next_member(floor.room[gpu_type, size], len(floor.free), n + 1)
    return n


@leaf
def node_with_room(floor: NodeArrays, gpu_type: int, gpus: int, lowest: bool, alone: bool) -> int:
    """Find the first node of a type with so many free GPUs, or the tightest, among wholly free ones if `alone`."""
    if lowest and not alone:
        return first_node(floor, gpu_type, gpus)
    if not alone:
        return tightest_node(floor.room, len(floor.free), gpu_type, gpus)
    best = -1
    for size in range(gpus, floor.largest[gpu_type] + 1):
        n = find_whole_node(floor, gpu_type, size, 0)
        if n >= 0 and (best < 0 or (lowest and n < best)):
            best = n
    return best


@leaf
def put_last(floor: NodeArrays, node: int, left: int, whole: int, nodes: IntArray, gpus: IntArray) -> int:
    """End a search: free the `whole` nodes again, add one for the rest (-1: none); return the count, 0: no room."""
    for i in range(whole):
        set_free_gpus(floor, nodes[i], gpus[i])
    if left == 0:
        return whole
    if node < 0:
        return 0
    nodes[whole] = node
    gpus[whole] = left
    return whole + 1


@part
def on_whole_nodes(floor: NodeArrays, gpu_type: int, want: int, alone: bool, nodes: IntArray, gpus: IntArray) -> int:
    """Find wholly free nodes of a type, largest first, and the tightest other node for the remainder.

    For a gang larger than every node of the type. Nodes taken during the search are marked as having no free GPUs.
    Returns how many nodes, 0 if there is no room.
    """
    count = 0
    left = want
    for size in range(floor.largest[gpu_type], 0, -1):
        n = find_whole_node(floor, gpu_type, size, 0)
        if n >= 0 and left < size:
            break
        while n >= 0 and left >= size:
            nodes[count] = n
            gpus[count] = size
            set_free_gpus(floor, n, 0)
            count += 1
            left -= size
            n = find_whole_node(floor, gpu_type, size, n + 1)
        if n >= 0:
            break
    last = node_with_room(floor, gpu_type, left, False, alone) if left > 0 else -1
    return put_last(floor, last, left, count, nodes, gpus)


@leaf
def find_whole_node_upto(floor: NodeArrays, gpu_type: int, most: int, first: int) -> int:
    """Find the first wholly free node of a type from `first` on with at most `most` GPUs; -1 if there is none."""
    found = -1
    for size in range(1, min(most, floor.largest[gpu_type]) + 1):
        n = find_whole_node(floor, gpu_type, size, first)
        if n >= 0 and (found < 0 or n < found):
            found = n
    return found


@kernel
def fill_nodes(floor: NodeArrays, types: IntArray, want: int, alone: bool, nodes: IntArray, gpus: IntArray) -> int:
    """Find wholly free nodes of some types in order that are not too large, then the first with room for the remainder.

    Returns how many nodes, 0 if there is no room.
    """
    count = 0
    left = want
    for gpu_type in types:
        n = find_whole_node_upto(floor, gpu_type, left, 0) if gpu_type >= 0 else -1
        while n >= 0:
            nodes[count] = n
            gpus[count] = floor.free[n]
            left -= floor.free[n]
            set_free_gpus(floor, n, 0)
            count += 1
            n = find_whole_node_upto(floor, gpu_type, left, n + 1)
    last = -1
    if left > 0:
        for gpu_type in types:
            if last < 0 <= gpu_type:
                last = node_with_room(floor, gpu_type, left, True, alone)
    return put_last(floor, last, left, count, nodes, gpus)


@leaf
def place_of_type(
    floor: NodeArrays, gpu_types: IntArray, want: int, shape: IntArray, lowest: bool, nodes: IntArray, gpus: IntArray
) -> int:
    """Find nodes of one type, the only one in `gpu_types`; return how many nodes, 0 if there is no room."""
    gpu_type, alone = gpu_types[0], shape[ALONE] > 0
    if is_divided(shape):
        return divide_gang(floor.free, floor.total, floor.gpu_types, gpu_type, want, shape, nodes, gpus)
    if want <= floor.largest[gpu_type]:
        return put_last(floor, node_with_room(floor, gpu_type, want, lowest, alone), want, 0, nodes, gpus)
    if lowest:
        count = fill_nodes(floor, gpu_types, want, alone, nodes, gpus)
    else:
        count = on_whole_nodes(floor, gpu_type, want, alone, nodes, gpus)
    return 0 if too_many_nodes(shape, count) else count


@kernel
def find_place(
    floor: NodeArrays,
    types: IntArray,
    spanning: IntArray,
    want: int,
    shape: IntArray,
    lowest: bool,
    nodes: IntArray,
    gpus: IntArray,
) -> int:
    """Find nodes for a gang; return how many, 0 if there is no room.

    Args:
        floor: the nodes.
        types: the types to try, in this order, padded with -1.
        spanning: the types to span if there is no type to try.
        want: GPUs.
        shape: int64[4], what constraints demand.
        lowest: whether the first node with room is taken instead of the tightest.
        nodes: receives the nodes.
        gpus: receives the GPUs on each of them.
    """
    for i in range(len(types)):
        if types[i] < 0:
            break
        count = place_of_type(floor, types[i : i + 1], want, shape, lowest, nodes, gpus)
        if count > 0:
            return count
    if len(spanning) > 0 and types[0] < 0 <= spanning[0]:
        count = fill_nodes(floor, spanning, want, shape[ALONE] > 0, nodes, gpus)
        return 0 if too_many_nodes(shape, count) else count
    return 0


@leaf
def take_place(floor: NodeArrays, outcome: PlacementOutcome, at: int, sign: int) -> None:
    """Subtract a job's GPUs from the free ones, or add them back with a sign of -1; whole nodes if it is alone."""
    for i in range(outcome.first[at], outcome.first[at] + outcome.length[at]):
        n = outcome.nodes[i]
        kept = floor.total[n] if outcome.alone[at] else outcome.gpus[i]
        set_free_gpus(floor, n, floor.free[n] - sign * kept)


@leaf
def settle_on(
    floor: NodeArrays, outcome: PlacementOutcome, at: int, count: int, nodes: IntArray, gpus: IntArray
) -> None:
    """Give a job the GPUs found for it."""
    outcome.first[at] = outcome.used[0]
    outcome.length[at] = count
    outcome.fate[at] = PLACED
    for i in range(count):
        outcome.nodes[outcome.used[0]] = nodes[i]
        outcome.gpus[outcome.used[0]] = gpus[i]
        outcome.used[0] += 1
    take_place(floor, outcome, at, 1)


@leaf
def is_hopeless(wanted: Wanted, at: int, hopeless: IntArray, count: int) -> bool:
    """Whether a job of the same size, types and shape found no room; always False for a gang over several types."""
    if wanted.types[at, 0] < 0:
        return False
    for i in range(count):
        other = hopeless[i]
        if wanted.sizes[at] == wanted.sizes[other] and same_types(wanted, at, other):
            return True
    return False


@leaf
def same_types(wanted: Wanted, at: int, other: int) -> bool:
    """Whether two jobs try the same types in the same order, and demand the same shape."""
    for i in range(wanted.types.shape[1]):
        if wanted.types[at, i] != wanted.types[other, i]:
            return False
    for i in range(wanted.shapes.shape[1]):  # noqa: SIM110  kernels have no generators
        if wanted.shapes[at, i] != wanted.shapes[other, i]:
            return False
    return True


@kernel
def start_by_rank(floor: NodeArrays, wanted: Wanted, outcome: PlacementOutcome, scratch: Scratch, lowest: bool) -> None:
    """Give free GPUs to jobs in order; jobs that do not fit are skipped."""
    failed = 0
    for at in range(len(wanted.sizes)):
        size = wanted.sizes[at]
        if size > floor.idle[0] or is_hopeless(wanted, at, scratch.hopeless, failed):
            continue
        count = find_place(
            floor, wanted.types[at], wanted.spanning[at], size, wanted.shapes[at], lowest, scratch.nodes, scratch.gpus
        )
        if count > 0:
            settle_on(floor, outcome, at, count, scratch.nodes, scratch.gpus)
        else:
            scratch.hopeless[failed] = at
            failed += 1
