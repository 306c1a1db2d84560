"""What constraints leave of the GPUs of nodes, and of the parts of gangs: compiled functions for the listing."""

from envs.options.arrays import OptionArrays
from envs.simulation.compiled.jit import Records, leaf
from envs.simulation.world.shapes import ALONE, NUM_NODES, PER_NODE, is_divided
from envs.simulation.world.shares import share_on


@leaf
def could_run(a: OptionArrays, job: Records, n: int, total: int) -> bool:
    """Whether a job runs on so many GPUs if this node's type is among them, over some number of nodes."""
    throughputs = a.world.throughputs
    if total >= throughputs.shape[2]:
        return False
    for level in range(throughputs.shape[3]):
        if throughputs[job.model, a.world.nodes[n].gpu_type, total, level] > 0:
            return True
    return False


@leaf
def room_on(a: OptionArrays, job: Records, n: int) -> int:
    """GPUs that a job may take on a node where it holds none: only of a wholly free one if it is to be alone there."""
    node = a.world.nodes[n]
    return int(node.free) if a.world.shapes[job.model, ALONE] == 0 or node.free == node.num_gpus else 0


@leaf
def most_on(a: OptionArrays, job: Records, j: int, n: int) -> int:
    """GPUs that a job could have on a node, with those that it holds there and shares with no other."""
    node, here = a.world.nodes[n], share_on(a.world, j, n) if job.partner < 0 else 0
    if here > 0 and a.world.shapes[job.model, ALONE]:
        return int(node.num_gpus)
    return room_on(a, job, n) + here


@leaf
def keeps(a: OptionArrays, job: Records, n: int, gpus: int) -> int:
    """GPUs that a job with so many on a node keeps from other jobs."""
    return int(a.world.nodes[n].num_gpus) if gpus > 0 and a.world.shapes[job.model, ALONE] else gpus


@leaf
def may_take_part(a: OptionArrays, job: Records, gpus: int, rest: int) -> bool:
    """Whether constraints allow a node to give so many GPUs to a gang, of which other nodes are to give the rest."""
    each, others = a.world.shapes[job.model, PER_NODE], a.world.shapes[job.model, NUM_NODES] - job.num_shares - 1
    if each > 0 and each != gpus:
        return False
    return bool(a.world.shapes[job.model, NUM_NODES] == 0 or (others > 0 and others <= rest) or (others == 0 == rest))


@leaf
def may_resize(a: OptionArrays, job: Records, gpus: int) -> bool:
    """Whether constraints allow a job another number of GPUs on one of its nodes; 0 takes the node away."""
    return bool(a.world.shapes[job.model, PER_NODE if gpus > 0 else NUM_NODES] == 0)


@leaf
def rest_fits(a: OptionArrays, job: Records, j: int, n: int, rest: int) -> bool:
    """Whether nodes besides one can give a gang the rest in the division that constraints demand, if any."""
    each, left = a.world.shapes[job.model, PER_NODE], a.world.shapes[job.model, NUM_NODES] - job.num_shares - 1
    if a.world.shapes[job.model, NUM_NODES] == 0:
        left = (rest + each - 1) // each if each > 0 else 0
    for gpus in range(a.rules[0].node_gpus, 0, -1):  # from the nodes that can give most
        for other in range(len(a.world.nodes)):
            free = left > 0 and other != n and a.waited[other] == 0 and share_on(a.world, j, other) == 0
            if free and room_on(a, job, other) == gpus >= each and could_run(a, job, other, job.min_gpus):
                left -= 1
                rest -= each if each > 0 else min(gpus, rest)
    return bool(not is_divided(a.world.shapes[job.model]) or (left == 0 and rest <= 0))
