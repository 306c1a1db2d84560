"""Action masks: which actions nodes may choose, written into preallocated arrays by compiled kernels."""

from envs.gpu_cluster.arrays import EnvArrays
from envs.gpu_cluster.columns import FIRST_CHOICE, PASS
from envs.gpu_cluster.observe import least_gpus
from envs.simulation.jit import Records, leaf
from envs.simulation.kernels import QUEUED
from envs.simulation.shares import share_on
from envs.simulation.world import World
from envs.types import FloatArray


@leaf
def amount_allowed(rules: Records, job: Records, total: int) -> bool:
    """Whether a job may hold `total` GPUs: at most its maximum, or the requested number without elasticity."""
    if total > job.max_gpus:
        return False
    return bool(rules[0].elastic or total <= job.num_gpus)


@leaf
def runs_on(throughputs: FloatArray, model: int, gpu_type: int, total: int) -> bool:
    """Whether a model runs on this many GPUs when this type is among them."""
    if total >= throughputs.shape[2]:
        return False
    for level in range(throughputs.shape[3]):  # noqa: SIM110  the loop stops at the first; `any` would allocate
        if throughputs[model, gpu_type, total, level] > 0:
            return True
    return False


@leaf
def one_node_holds(a: EnvArrays, job: Records) -> bool:
    """Whether some single node of this cluster could run the job if the node were free."""
    rules, nodes, throughputs = a.rules, a.world.nodes, a.world.throughputs
    least = least_gpus(rules, job)
    most = job.max_gpus if rules[0].elastic else job.num_gpus
    for n in range(len(nodes)):
        for gpus in range(least, min(most, nodes[n].num_gpus) + 1):
            if runs_on(throughputs, job.model, nodes[n].gpu_type, gpus):
                return True
    return False


@leaf
def claim_allowed(a: EnvArrays, job: Records, node: Records, gpus: int, is_gang: bool) -> bool:
    """Whether a node may claim a waiting job with this many GPUs.

    A claim below the job's minimum GPUs is part of a gang. It is allowed only if no single node could hold the job, and
    if the cluster has enough free GPUs for the rest.
    """
    total = job.gpus + gpus
    if gpus > node.free or not amount_allowed(a.rules, job, total):
        return False
    least = least_gpus(a.rules, job)
    if total < least:
        if not is_gang or a.world.episode[0].num_free < least - job.gpus:
            return False
        total = least
    return runs_on(a.world.throughputs, job.model, node.gpu_type, total)


@leaf
def runs_elsewhere(world: World, job: Records, n: int, total: int) -> bool:
    """Whether a job with this total of GPUs runs on the types of all its nodes other than `n`."""
    nodes, shares, throughputs = world.nodes, world.shares, world.throughputs
    share = job.first_share
    while share >= 0:
        other = shares[share].node
        if other != n and not runs_on(throughputs, job.model, nodes[other].gpu_type, total):
            return False
        share = shares[share].next_of_job
    return True


@leaf
def change_allowed(a: EnvArrays, job: Records, n: int, here: int, gpus: int) -> bool:
    """Whether node `n` may change the GPUs of a job that runs there from `here` to `gpus`."""
    rules, node = a.rules, a.world.nodes[n]
    if gpus == here or gpus - here > node.free:
        return False
    if gpus == 0:
        return bool(rules[0].preemptive or job.status == QUEUED)
    total = job.gpus - here + gpus
    if rules[0].elastic == 0 or total < job.min_gpus or not amount_allowed(rules, job, total):
        return False
    if not runs_on(a.world.throughputs, job.model, node.gpu_type, total):
        return False
    return runs_elsewhere(a.world, job, n, total)


@leaf
def allow(a: EnvArrays, n: int, choice: int, gpus: int) -> None:
    """Allow the action of node `n` that sets a choice to this many GPUs."""
    amounts = a.slots.shape[1] + 1  # as many slots as GPUs of the largest node
    a.mask[n, FIRST_CHOICE + choice * amounts + gpus] = 1


@leaf
def mask_claims(a: EnvArrays) -> int:
    """Allow the claims that nodes may make; return how many there are.

    While the whole cluster is idle, a node that can claim a waiting job may not pass. Otherwise a policy could leave
    the jobs waiting forever.
    """
    world = a.world
    idle = world.episode[0].num_free == world.episode[0].num_up
    choices = 0
    for c in range(len(a.heads)):
        j = a.heads[c]
        if j < 0:
            continue
        is_gang = not one_node_holds(a, world.jobs[j])
        for n in range(len(world.nodes)):
            node = world.nodes[n]
            if node.free == 0 or share_on(world, j, n) > 0:
                continue
            for gpus in range(1, node.free + 1):
                if claim_allowed(a, world.jobs[j], node, gpus, is_gang):
                    allow(a, n, c, gpus)
                    choices += 1
                    if idle:
                        a.mask[n, PASS] = 0
    return choices


@leaf
def mask_actions(a: EnvArrays) -> int:
    """Write the mask int8[num_nodes, num_actions]; return how many choices other than passing are allowed."""
    world = a.world
    for n in range(a.mask.shape[0]):
        for action in range(a.mask.shape[1]):
            a.mask[n, action] = 0
        a.mask[n, PASS] = 1
    choices = mask_claims(a)
    for n in range(len(world.nodes)):
        share = world.nodes[n].first_share
        slot = 0
        while share >= 0 and slot < a.slots.shape[1]:
            record = world.shares[share]
            for gpus in range(a.slots.shape[1] + 1):
                if change_allowed(a, world.jobs[record.job], n, record.gpus, gpus):
                    allow(a, n, len(a.heads) + slot, gpus)
                    choices += 1
            slot += 1
            share = record.next_of_node
    return choices
