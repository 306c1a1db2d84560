"""What constraints leave of the GPUs of nodes, and of the parts of gangs: compiled functions for the listing."""

from envs.options.arrays import OptionArrays
from envs.simulation.compiled.jit import Records, leaf
from envs.simulation.world.shapes import ALONE, NUM_NODES, PER_NODE
from envs.simulation.world.shares import share_on


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
