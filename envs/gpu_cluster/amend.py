"""Rules of amendments: nodes set the GPUs of jobs, and what does not run is found at the end of the round.

A round's plan begins with the placements that jobs hold, or with a proposal. Each node may set the GPUs that any job
shown gets on it, to any number that the node has. Amendments of one joint decision take effect in ascending order of
nodes. An amendment that needs more GPUs than are free takes them from the other jobs on its node, last in queue order
first: such a job loses what is missing, or all its GPUs if it cannot run on the rest. So an eviction and the claim for
which it makes room are one decision.

While the round lasts a job may have any number of GPUs on any types, so no order of amendments blocks another one, and
every allocation that fits can be reached. At the end of the round an amended job must be in its range of GPUs and run.
Otherwise it gets back what it held when the round began, if that is still free, or waits.

A node may name a level of cores and memory with the GPUs, see `envs.gpu_cluster.levels`. A job names amounts only if
all its nodes do. The first amendment of a job in a round clears what its placement named before, a plan and a batch
size too. Where a node has too little for all that is named, the amounts of jobs that were amended last are cut.
"""

import numpy as np

from envs.episodes.candidates import enter_sorted, queue_key
from envs.gpu_cluster.arrays import SLOT_JOB, EnvArrays
from envs.gpu_cluster.columns import FIRST_CHOICE, PASS
from envs.gpu_cluster.decide import job_in_slot
from envs.gpu_cluster.masks import runs_elsewhere, runs_on
from envs.gpu_cluster.observe import least_gpus
from envs.simulation.exact import PARTS
from envs.simulation.jit import Records, leaf
from envs.simulation.job_throughput import placement_throughput
from envs.simulation.kernels import QUEUED
from envs.simulation.ordered_set import next_member
from envs.simulation.requested import least_amount
from envs.simulation.shares import (
    NAMED_CPUS,
    NAMED_MEMORY,
    clear_job,
    clear_named_settings,
    new_share,
    restore_named_settings,
    set_share,
    share_on,
)
from envs.simulation.world import World
from envs.types import IntArray

PROPOSED_RANK, QUEUED_RANK, RUNNING_RANK = 0, 1, 2  # ranks of candidates


@leaf
def most_gpus(rules: Records, job: Records) -> int:
    """The most GPUs on which the rules let a job run: its maximum, or the requested number without elasticity."""
    return int(job.max_gpus if rules[0].elastic else job.num_gpus)


@leaf
def may_lose(rules: Records, job: Records) -> bool:
    """Whether GPUs may be taken from a job: it does not run yet, or running jobs may be evicted."""
    return bool(rules[0].preemptive or job.status == QUEUED)


@leaf
def enter_members(a: EnvArrays, members: IntArray, rank: int, first: int, count: int) -> int:
    """Enter the jobs of a set that have a rank into `heads` from place `first`; return the number of jobs there."""
    world, order = a.world, a.rules[0].queue_order
    capacity = len(a.heads) - first
    j = next_member(members, len(world.jobs), 0)
    while j >= 0:
        job = world.jobs[j]
        own = PROPOSED_RANK if job.touched else (QUEUED_RANK if job.status == QUEUED else RUNNING_RANK)
        if own == rank and capacity > 0:
            key = queue_key(world, order, job)
            count = enter_sorted(a.heads[first:], a.keys[first:], capacity, count, j, key)
        j = next_member(members, len(world.jobs), j + 1)
    return count


@leaf
def rank_candidates(a: EnvArrays) -> None:
    """At the beginning of a round, fill `heads` with jobs, then -1; in the round they stay.

    First are the jobs that the proposal changes, then waiting jobs, then running jobs; each in queue order, ties by id.
    """
    if a.rules[0].decision > 0:
        return
    for c in range(len(a.heads)):
        a.heads[c] = -1
    first = 0
    for rank in range(3):
        count = enter_members(a, a.world.queued, rank, first, 0)
        first += enter_members(a, a.world.running, rank, first, count)


@leaf
def room_on_node(a: EnvArrays, j: int, n: int) -> int:
    """GPUs that a node can give to a job: the free ones, its own, and those of jobs that may lose them."""
    world = a.world
    room = world.nodes[n].free
    share = world.nodes[n].first_share
    while share >= 0:
        record = world.shares[share]
        if record.job == j or may_lose(a.rules, world.jobs[record.job]):
            room += record.gpus
        share = record.next_of_node
    return int(room)


@leaf
def largest_total(a: EnvArrays, job: Records, gpu_type: int) -> int:
    """The most GPUs, within its range, on which a job runs when this type is among them; 0 if there are none."""
    throughputs = a.world.throughputs
    total = min(most_gpus(a.rules, job), throughputs.shape[2] - 1)
    least = least_gpus(a.rules, job)
    while total >= least:
        if runs_on(throughputs, job.model, gpu_type, total):
            return int(total)
        total -= 1
    return 0


@leaf
def allow_amounts(a: EnvArrays, j: int, n: int, choice: int, here: int) -> int:
    """Allow what node `n` may set a job to that holds `here` GPUs there, GPUs and levels; return the number of choices.

    With several levels a node may also set the GPUs that it has, to change their level.
    """
    job, gpu_type, count = a.world.jobs[j], a.world.nodes[n].gpu_type, 0
    num_levels, amounts = a.level_cpus.shape[3], a.slots.shape[1] + 1  # as many slots as GPUs of the largest node
    most = min(room_on_node(a, j, n), largest_total(a, job, gpu_type))
    for gpus in range(1, most + 1):
        first = FIRST_CHOICE + (choice * amounts + gpus) * num_levels
        for level in range(num_levels):
            named = level > 0 and not np.isnan(a.level_cpus[job.model, gpu_type, gpus, level])
            if named or (level == 0 and (gpus != here or num_levels > 1)):
                a.mask[n, first + level] = 1
                count += 1
    if here > 0 and may_lose(a.rules, job):
        a.mask[n, FIRST_CHOICE + choice * amounts * num_levels] = 1
        count += 1
    return count


@leaf
def mask_amendments(a: EnvArrays) -> int:
    """Write the mask int8[num_nodes, num_actions]; return how many choices other than passing are allowed.

    A candidate that holds GPUs on a node stands in the node's slots only. While the whole cluster is idle and there is
    no proposal, a node that can give GPUs to a candidate may not pass.
    """
    world, choices = a.world, 0
    idle = world.episode[0].num_free == world.episode[0].num_up and a.rules[0].proposes == 0
    for n in range(len(world.nodes)):
        for action in range(a.mask.shape[1]):
            a.mask[n, action] = 0
        a.mask[n, PASS] = 1
        for c in range(len(a.heads)):
            j = a.heads[c]
            if j >= 0 and share_on(world, j, n) == 0:
                allowed = allow_amounts(a, j, n, c, 0)
                choices += allowed
                if idle and allowed > 0:
                    a.mask[n, PASS] = 0
        share = world.nodes[n].first_share
        slot = 0
        while share >= 0 and slot < a.slots.shape[1]:
            record = world.shares[share]
            choices += allow_amounts(a, record.job, n, len(a.heads) + slot, record.gpus)
            slot += 1
            share = record.next_of_node
    return choices


@leaf
def clear_amounts(world: World, j: int) -> None:
    """Clear what a job's placement names besides its GPUs."""
    clear_named_settings(world.jobs[j])
    share = world.jobs[j].first_share
    while share >= 0:
        world.shares[share].cpus = np.nan
        world.shares[share].memory = np.nan
        share = world.shares[share].next_of_job


@leaf
def set_amended(a: EnvArrays, j: int, n: int, gpus: int, level: int) -> None:
    """Set the GPUs of a job on a node, with a level of cores and memory."""
    world = a.world
    job = world.jobs[j]
    if a.amended[j] == 0 and job.touched:
        clear_amounts(world, j)
    a.amended[j] = a.rules[0].decision
    set_share(world, j, n, gpus)
    if level > 0 and gpus > 0:
        gpu_type, share = world.nodes[n].gpu_type, job.first_share
        while world.shares[share].node != n:
            share = world.shares[share].next_of_job
        record = world.shares[share]
        cpus, memory = a.level_cpus[job.model, gpu_type, gpus, level], a.level_memory[job.model, gpu_type, gpus, level]
        record.cpus = np.floor(gpus * cpus * PARTS) / PARTS  # as the engine rounds what an allocation names
        record.memory = np.floor(gpus * memory * PARTS) / PARTS


@leaf
def last_in_queue(a: EnvArrays, n: int, j: int) -> int:
    """Return the job on a node, other than `j`, that loses GPUs first: last in queue order, of equals the last id."""
    world, order = a.world, a.rules[0].queue_order
    last = -1
    last_key = 0.0
    share = world.nodes[n].first_share
    while share >= 0:
        other = world.shares[share].job
        if other != j and may_lose(a.rules, world.jobs[other]):
            key = queue_key(world, order, world.jobs[other])
            if last < 0 or key >= last_key:
                last = other
                last_key = key
        share = world.shares[share].next_of_node
    return int(last)


@leaf
def give_way(a: EnvArrays, j: int, n: int, missing: int) -> None:
    """Take the missing GPUs on a node from a job, at most those it has there; all, if it cannot run on the rest."""
    world = a.world
    job = world.jobs[j]
    here = share_on(world, j, n)
    left = max(here - missing, 0)
    total = job.gpus - here + left
    runs = a.rules[0].elastic and total >= job.min_gpus and runs_elsewhere(world, job, n, total)
    if runs and (left == 0 or runs_on(world.throughputs, job.model, world.nodes[n].gpu_type, total)):
        set_amended(a, j, n, left, 0)
    else:
        clear_job(world, j)
        a.amended[j] = a.rules[0].decision


@leaf
def amend_on_node(a: EnvArrays, j: int, n: int, gpus: int, level: int) -> bool:
    """Set the GPUs of a job on a node, and make room for it; return False if the node cannot give so many."""
    node = a.world.nodes[n]
    if gpus > room_on_node(a, j, n):
        return False
    while gpus - share_on(a.world, j, n) > node.free:
        give_way(a, last_in_queue(a, n, j), n, gpus - share_on(a.world, j, n) - node.free)
    set_amended(a, j, n, gpus, level)
    return True


@leaf
def amend(a: EnvArrays) -> bool:
    """Apply the joint decision in `choice` and `gpus` to the plan; return whether the round is over."""
    world, candidates, rules = a.world, len(a.heads), a.rules[0]
    passed = True
    for n in range(len(world.nodes)):  # read all slots before an amendment moves them
        a.scratch[SLOT_JOB, n] = -1
        if a.choice[n] >= candidates:
            a.scratch[SLOT_JOB, n] = job_in_slot(world, n, a.choice[n] - candidates)
        elif a.choice[n] >= 0:
            a.scratch[SLOT_JOB, n] = a.heads[a.choice[n]]
    rules.decision += 1
    rules.decisions += 1
    for n in range(len(world.nodes)):
        if a.choice[n] >= 0:
            passed = False
            rules.claims += 1
            j = a.scratch[SLOT_JOB, n]
            if j < 0 or not amend_on_node(a, j, n, a.gpus[n], a.level[n]):
                rules.conflicts += 1
    return bool(passed or rules.decision >= rules.max_decisions)


@leaf
def is_complete(a: EnvArrays, job: Records) -> bool:
    """Whether a job is in the range of GPUs that the rules give it, and runs on those of its plan."""
    in_range = least_gpus(a.rules, job) <= job.gpus <= most_gpus(a.rules, job)
    return bool(in_range and placement_throughput(a.world, job, job.first_share) > 0)


@leaf
def give_back(world: World, j: int) -> None:
    """Give a job without GPUs what it held when the round began, if all of that is free."""
    job, shares = world.jobs[j], world.shares
    share = job.before_share
    while share >= 0:
        if shares[share].gpus > world.nodes[shares[share].node].free:
            return
        share = shares[share].next_of_job
    share = job.before_share
    while share >= 0:
        record = shares[share]
        new_share(world, j, record.node, record.gpus, record.cpus, record.memory)
        share = shares[share].next_of_job
    restore_named_settings(job)


@leaf
def name_amounts(a: EnvArrays, j: int) -> None:
    """Let an amended job name its cores and memory if all its nodes do."""
    world = a.world
    share = world.jobs[j].first_share
    while share >= 0:
        if np.isnan(world.shares[share].cpus):
            clear_amounts(world, j)
            return
        share = world.shares[share].next_of_job
    if world.jobs[j].gpus > 0:
        world.jobs[j].named = NAMED_CPUS | NAMED_MEMORY


@leaf
def missing_amount(world: World, n: int, memory: bool) -> float:
    """Cores (or GB) of which a node has too little for all named amounts, and a 64th for each other GPU."""
    node = world.nodes[n]
    left = (node.memory if memory else node.cpus) - node.free / PARTS
    share = node.first_share
    while share >= 0:
        left -= least_amount(world, share, memory)
        share = world.shares[share].next_of_node
    return float(-left)


@leaf
def last_named(a: EnvArrays, n: int, memory: bool) -> int:
    """Return the share on a node whose amount is cut first: amended last, of equals the last job; -1 for none."""
    world, last = a.world, -1
    share = world.nodes[n].first_share
    while share >= 0:
        record = world.shares[share]
        amount = record.memory if memory else record.cpus
        order = a.amended[record.job]
        can_shrink = order > 0 and world.jobs[record.job].named and amount > record.gpus / PARTS
        if can_shrink and (last < 0 or order >= a.amended[world.shares[last].job]):
            last = share
        share = record.next_of_node
    return int(last)


@leaf
def cut_amounts(a: EnvArrays, n: int, memory: bool) -> None:
    """On a node with too little for all named amounts, cut those of amended jobs, in whole 64ths for each GPU."""
    world = a.world
    missing = missing_amount(world, n, memory)
    share = last_named(a, n, memory)
    while missing > 0 and share >= 0:
        record = world.shares[share]
        amount = record.memory if memory else record.cpus
        parts = max(np.floor((amount - missing) / record.gpus * PARTS), 1.0)
        if memory:
            record.memory = record.gpus * parts / PARTS
        else:
            record.cpus = record.gpus * parts / PARTS
        missing = missing_amount(world, n, memory)
        share = last_named(a, n, memory)


@leaf
def close_amendments(a: EnvArrays) -> None:
    """End a round: an amended job that is not complete gets back what it held, or waits.

    The caller sets `exact` of the jobs that name amounts.
    """
    world = a.world
    for i in range(world.episode[0].num_touched):
        j = world.touched[i]
        job = world.jobs[j]
        if a.amended[j] and job.gpus > 0 and not is_complete(a, job):
            clear_job(world, j)
            a.amended[j] = -1
            a.rules[0].incomplete += 1
        elif a.amended[j]:
            name_amounts(a, j)
    for i in range(world.episode[0].num_touched):
        if a.amended[world.touched[i]] < 0:
            give_back(world, world.touched[i])
    if a.level_cpus.shape[3] > 1:
        for n in range(len(world.nodes)):
            cut_amounts(a, n, False)
            cut_amounts(a, n, True)
    for i in range(world.episode[0].num_touched):
        a.amended[world.touched[i]] = 0
    a.rules[0].decision = 0
