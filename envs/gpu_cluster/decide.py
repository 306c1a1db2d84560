"""Rules that turn the nodes' simultaneous choices into one plan.

All choices of one joint decision refer to the same observation. They take effect in this order:

1. Changes of jobs that run on the choosing node, node by node. A change is refused if it would break the job's GPU
   range because another node has changed the same job.
2. Claims on waiting jobs, candidate by candidate. The largest claim wins; ties go to the node on which the job has the
   higher throughput, then to the lower index. Further claims on the same job join it only while it has fewer than its
   minimum GPUs (a gang over several nodes). All others are refused.

Refused choices count as conflicts. A refused node may choose again, since the round continues until all pass.
"""

from envs.gpu_cluster.arrays import CLAIM_DONE, NEXT_CLAIM, SLOT_JOB, EnvArrays
from envs.gpu_cluster.masks import amount_allowed, runs_elsewhere, runs_on
from envs.gpu_cluster.observe import least_gpus
from envs.simulation.jit import leaf
from envs.simulation.job_throughput import placement_throughput
from envs.simulation.shares import clear_job, set_share, share_on
from envs.simulation.world import World


@leaf
def job_in_slot(world: World, n: int, slot: int) -> int:
    """Return the job shown in a slot of a node; -1 if the slot is empty."""
    share = world.nodes[n].first_share
    for _ in range(slot):
        if share < 0:
            return -1
        share = world.shares[share].next_of_node
    return int(world.shares[share].job) if share >= 0 else -1


@leaf
def change_here(a: EnvArrays, j: int, n: int, gpus: int) -> bool:
    """Set the GPUs of a job that runs on node `n`; return False if the change is refused."""
    world = a.world
    job, node = world.jobs[j], world.nodes[n]
    here = share_on(world, j, n)
    if here == 0 or gpus - here > node.free:
        return False
    total = job.gpus - here + gpus
    if gpus > 0:
        if total < job.min_gpus or not amount_allowed(a.rules, job, total):
            return False
        if not runs_on(world.throughputs, job.model, node.gpu_type, total) or not runs_elsewhere(world, job, n, total):
            return False
    set_share(world, j, n, gpus)
    return True


@leaf
def list_claims(a: EnvArrays) -> None:
    """Build linked lists of the nodes that claim each candidate, in `first_claim` and `scratch[NEXT_CLAIM]`."""
    for c in range(len(a.heads)):
        a.first_claim[c] = -1
    for n in range(len(a.choice) - 1, -1, -1):  # backwards, so that each list is in ascending order
        c = a.choice[n]
        if 0 <= c < len(a.heads):
            a.scratch[NEXT_CLAIM, n] = a.first_claim[c]
            a.first_claim[c] = n


@leaf
def best_claim(a: EnvArrays, j: int, c: int) -> int:
    """Return the node whose claim on a candidate is served next; -1 if none is left."""
    throughputs, nodes = a.world.throughputs, a.world.nodes
    best = -1
    best_throughput = 0.0
    n = a.first_claim[c]
    while n >= 0:
        if a.scratch[CLAIM_DONE, n] == 0:
            throughput = throughputs[
                a.world.jobs[j].model, nodes[n].gpu_type, min(a.gpus[n], throughputs.shape[2] - 1), 0
            ]
            if best < 0 or a.gpus[n] > a.gpus[best] or (a.gpus[n] == a.gpus[best] and throughput > best_throughput):
                best = n
                best_throughput = throughput
        n = a.scratch[NEXT_CLAIM, n]
    return best


@leaf
def refuse_claims(a: EnvArrays, c: int) -> None:
    """Refuse and count the remaining claims on a candidate."""
    n = a.first_claim[c]
    while n >= 0:
        if a.scratch[CLAIM_DONE, n] == 0:
            a.rules[0].claims += 1
            a.rules[0].conflicts += 1
        n = a.scratch[NEXT_CLAIM, n]


@leaf
def take_claims(a: EnvArrays) -> None:
    """Resolve the claims on waiting jobs."""
    world = a.world
    list_claims(a)
    for c in range(len(a.heads)):
        j = a.heads[c]
        if j < 0:
            continue
        job = world.jobs[j]
        while True:
            if job.gpus >= least_gpus(a.rules, job):
                refuse_claims(a, c)
                break
            n = best_claim(a, j, c)
            if n < 0:
                break
            a.scratch[CLAIM_DONE, n] = 1
            a.rules[0].claims += 1
            fits = share_on(world, j, n) == 0 and 1 <= a.gpus[n] <= world.nodes[n].free
            if fits and amount_allowed(a.rules, job, job.gpus + a.gpus[n]):
                set_share(world, j, n, a.gpus[n])
            else:
                a.rules[0].conflicts += 1


@leaf
def decide(a: EnvArrays) -> bool:
    """Apply the joint decision in `choice` and `gpus` to the plan; return whether the round is over."""
    world, candidates = a.world, len(a.heads)
    passed = True
    for n in range(len(world.nodes)):  # read all slots before a change moves them
        a.scratch[CLAIM_DONE, n] = 0
        a.scratch[SLOT_JOB, n] = -1
        if a.choice[n] >= 0:
            passed = False
        if a.choice[n] >= candidates:
            a.scratch[SLOT_JOB, n] = job_in_slot(world, n, a.choice[n] - candidates)
    a.rules[0].decision += 1
    a.rules[0].decisions += 1
    if not passed:
        for n in range(len(world.nodes)):
            if a.choice[n] >= candidates:
                a.rules[0].claims += 1
                j = a.scratch[SLOT_JOB, n]
                if j < 0 or not change_here(a, j, n, a.gpus[n]):
                    a.rules[0].conflicts += 1
        take_claims(a)
    return bool(passed or a.rules[0].decision >= a.rules[0].max_decisions)


@leaf
def drop_incomplete(a: EnvArrays) -> None:
    """At the end of a round, free the GPUs of jobs below their minimum and of mixes of GPU types that do not run."""
    world = a.world
    for i in range(world.episode[0].num_touched):
        j = world.touched[i]
        job = world.jobs[j]
        if job.gpus == 0:
            continue
        runs = placement_throughput(world, job, job.first_share) > 0
        if job.gpus < least_gpus(a.rules, job) or not runs:
            clear_job(world, j)
            a.rules[0].incomplete += 1
    a.rules[0].decision = 0
