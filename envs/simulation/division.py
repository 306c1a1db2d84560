"""Division of a node's cores and memory among the shares that name none: max-min fair per GPU, up to saturation.

The rule is stated in `docs/world.md`; amounts are whole 64ths. A change costs nothing while a job runs, so the world
divides a node anew whenever its jobs change.
"""

import math

import numpy as np

from envs.simulation.exact import PARTS
from envs.simulation.jit import Records, leaf, part
from envs.simulation.world import World


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
            record.refed = 1
    elif record.cpus != amount:
        record.cpus = amount
        record.refed = 1


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
def next_served(world: World, n: int, memory: bool, last: int) -> int:
    """The share that follows `last` (-1: the first) in ascending order of (saturating amount per GPU, job)."""
    shares = world.shares
    chosen = -1
    share = world.nodes[n].first_share
    while share >= 0:  # ascending job: ties go to the lower
        record = shares[share]
        most = most_of(record, memory)
        if most > 0:
            beyond = 1
            if last >= 0:
                beyond = most * shares[last].gpus - most_of(shares[last], memory) * record.gpus
            waits = beyond > 0 or (beyond == 0 and record.job > shares[last].job)
            if waits and (chosen < 0 or most * shares[chosen].gpus < most_of(shares[chosen], memory) * record.gpus):
                chosen = share
        share = record.next_of_node
    return chosen


@leaf
def divide(world: World, n: int, memory: bool) -> None:
    """Divide the cores of a node that are too few, or its memory, among the shares that name none.

    In ascending order of (saturating amount per GPU, job), each share takes the smaller of that amount and its GPUs'
    part of what is left, rounded down.
    """
    node, shares = world.nodes[n], world.shares
    left = int((node.memory if memory else node.cpus) * PARTS)
    gpus = 0
    share = node.first_share
    while share >= 0:
        record = shares[share]
        if most_of(record, memory) == 0:
            left -= claimed(record, memory)
        else:
            gpus += record.gpus
        share = record.next_of_node
    served = -1
    while gpus > 0:
        served = next_served(world, n, memory, served)
        record = shares[served]
        parts = min(most_of(record, memory), left * record.gpus // gpus)
        give(world, served, memory, parts)
        left -= parts
        gpus -= record.gpus


@part
def divide_uneven_nodes(world: World) -> None:
    """Divide the cores and memory of all marked nodes; the marks stay until their jobs are rated."""
    for i in range(world.episode[0].num_uneven):
        n = world.uneven[i]
        node = world.nodes[n]
        node.short = 0
        for memory in (False, True):
            total = (node.memory if memory else node.cpus) * PARTS
            if (node.claimed_memory if memory else node.claimed_cpus) > total:
                node.short = 1
                divide(world, n, memory)
            else:
                give_all(world, n, memory)
