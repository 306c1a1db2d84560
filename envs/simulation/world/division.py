"""Division of a node's cores and memory among the shares that name none: max-min fair per GPU, up to saturation.

The rule is stated in `docs/world.md`; amounts are whole 64ths. A change costs nothing while a job runs, so the world
divides a node anew whenever its jobs change.
"""

import math

import numpy as np

from envs.simulation.compiled.jit import Records, leaf
from envs.simulation.world.arrays import World
from envs.simulation.world.exact import PARTS
from envs.simulation.world.shares import note_refed

SHORT_OF_CPUS, SHORT_OF_MEMORY = 1, 2  # bits of a node's `short`


@leaf
def claim(world: World, j: int) -> None:
    """Let a job's new shares claim what they name, or what saturates them, and give them that for the time being.

    A node is marked if its shares claim more than it has.
    """
    model = world.jobs[j].model
    share = world.jobs[j].first_share
    while share >= 0:
        record = world.shares[share]
        node = world.nodes[record.node]
        width = min(record.gpus, world.saturating.shape[2] - 1)
        record.most_cpus = 0
        record.most_memory = 0
        if np.isnan(record.cpus):
            record.most_cpus = saturating_parts(world.saturating[model, node.gpu_type, width, 0], record.gpus)
            record.cpus = record.most_cpus / PARTS
        if np.isnan(record.memory):
            record.most_memory = saturating_parts(world.saturating[model, node.gpu_type, width, 1], record.gpus)
            record.memory = record.most_memory / PARTS
        node.claimed_cpus += claimed(record, False)
        node.claimed_memory += claimed(record, True)
        if node.claimed_cpus > node.cpus * PARTS or node.claimed_memory > node.memory * PARTS:
            mark_uneven(world, record.node)
        share = record.next_of_job


@leaf
def renounce(world: World, first_share: int) -> None:
    """Take back the claims of a job's shares; nodes that were short are marked."""
    share = first_share
    while share >= 0:
        record = world.shares[share]
        node = world.nodes[record.node]
        node.claimed_cpus -= claimed(record, False)
        node.claimed_memory -= claimed(record, True)
        if node.short:
            mark_uneven(world, record.node)
        share = record.next_of_job


@leaf
def mark_uneven(world: World, n: int) -> None:
    """Mark a node whose cores and memory must be divided anew."""
    node = world.nodes[n]
    if node.uneven == 0:
        node.uneven = 1
        world.uneven[world.episode[0].num_uneven] = n
        world.episode[0].num_uneven += 1


@leaf
def claimed(record: Records, memory: bool) -> int:
    """64ths of cores, or of memory, that a share claims: what it names, or what saturates it."""
    most = most_of(record, memory)
    return most if most > 0 else int((record.memory if memory else record.cpus) * PARTS)


@leaf
def saturating_parts(saturating: float, gpus: int) -> int:
    """64ths that saturate a share, at least one for each GPU."""
    return max(math.ceil(saturating * gpus * PARTS), gpus)


@leaf
def most_of(record: Records, memory: bool) -> int:
    """64ths of cores, or of memory, up to which the world gives to a share; 0 if its placement names the amount."""
    return int(record.most_memory if memory else record.most_cpus)


@leaf
def give(world: World, share: int, memory: bool, parts: int) -> None:
    """Give a share this many 64ths; its job gets a new throughput if that is a change."""
    record = world.shares[share]
    amount = parts / PARTS
    if memory:
        if record.memory != amount:
            record.memory = amount
            note_refed(world, record.job)
    elif record.cpus != amount:
        record.cpus = amount
        note_refed(world, record.job)


@leaf
def give_all(world: World, n: int, memory: bool) -> None:
    """Give each share of a node that names no cores, or no memory, as much as saturates it."""
    share = world.nodes[n].first_share
    while share >= 0:
        most = most_of(world.shares[share], memory)
        if most > 0:
            give(world, share, memory, most)
        share = world.shares[share].next_of_node


@leaf
def put_in_order(serving: Records, count: int, per_gpu: float, share: int) -> None:
    """Insert a share into the first `count` entries, which ascend, after its equals.

    It passes all entries, without branches: a processor could not predict where to stop.
    """
    for place in range(count - 1, -1, -1):
        entry = serving[place]
        other, other_share = entry.per_gpu, entry.share
        later = other > per_gpu
        serving[place + 1].per_gpu = other if later else per_gpu
        serving[place + 1].share = other_share if later else share
        per_gpu = per_gpu if later else other
        share = share if later else other_share
    serving[0].per_gpu = per_gpu
    serving[0].share = share


@leaf
def serve_in_order(world: World, n: int, memory: bool) -> tuple[int, int, int]:
    """Put the shares of a node that name no cores, or no memory, into `serving`, by (saturating per GPU, job).

    Returns how many these are, their GPUs, and the 64ths that the other shares name. Amounts per GPU that differ have
    different quotients, for they are fractions of whole numbers below 2**26.
    """
    total = 0
    named = 0
    count = 0
    share = world.nodes[n].first_share
    while share >= 0:  # ascending job: a share comes after its equals
        record = world.shares[share]
        most = most_of(record, memory)
        if most > 0:
            total += record.gpus
            put_in_order(world.serving, count, most / record.gpus, share)
            count += 1
        else:
            named += claimed(record, memory)
        share = record.next_of_node
    return count, total, named


@leaf
def divide(world: World, n: int, memory: bool) -> None:
    """Divide the cores of a node that are too few, or its memory, among the shares that name none.

    In ascending order of (saturating amount per GPU, job), each share takes the smaller of that amount and its GPUs'
    part of what is left, rounded down.
    """
    node = world.nodes[n]
    left = int((node.memory if memory else node.cpus) * PARTS)
    count, gpus, named = serve_in_order(world, n, memory)
    left -= named
    for i in range(count):
        share = world.serving[i].share
        record = world.shares[share]
        parts = most_of(record, memory)
        if parts * gpus > left * record.gpus:
            parts = left * record.gpus // gpus
        give(world, share, memory, parts)
        left -= parts
        gpus -= record.gpus


@leaf
def divide_uneven_nodes(world: World) -> None:
    """Divide the cores and memory of all marked nodes; the marks stay until throughputs are recomputed.

    What a node had enough of before and has enough of now is not divided anew: its shares have all that they can use.
    """
    for i in range(world.episode[0].num_uneven):
        n = world.uneven[i]
        node = world.nodes[n]
        before = node.short
        node.short = 0
        if node.claimed_cpus > node.cpus * PARTS:
            node.short += SHORT_OF_CPUS
            divide(world, n, False)
        elif before & SHORT_OF_CPUS:
            give_all(world, n, False)
        if node.claimed_memory > node.memory * PARTS:
            node.short += SHORT_OF_MEMORY
            divide(world, n, True)
        elif before & SHORT_OF_MEMORY:
            give_all(world, n, True)
