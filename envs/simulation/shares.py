"""Shares of jobs on nodes, as records in two linked lists: per job in order of nodes, per node in order of jobs.

While a round is planned, `clear_job`, `new_share` and `set_share` change placements and store what a job held when the
round began. `restore_job` undoes the changes, `envs.simulation.kernels.settle` applies them.
"""

import numpy as np

from envs.simulation.jit import Records, leaf, part
from envs.simulation.ordered_set import insert, remove
from envs.simulation.world import World

OFF, MEASURED, WORST_CASE = 0, 1, 2  # envs.performance.contention.MODES
NAMED_CPUS, NAMED_MEMORY = 1, 2  # bits of a job's `named`


@leaf
def set_free(world: World, n: int, free: int) -> None:
    """Set the number of free GPUs of a node, and move it to the set of nodes with that number."""
    node = world.nodes[n]
    remove(world.room[node.gpu_type, node.free], len(world.nodes), n)
    insert(world.room[node.gpu_type, free], len(world.nodes), n)
    node.free = free


@leaf
def mark_dirty(world: World, n: int, has_traffic: bool) -> None:
    """Mark a node whose jobs have changed, if that affects the others: by traffic, or always in the worst case."""
    if has_traffic or world.episode[0].contention == WORST_CASE:
        node = world.nodes[n]
        if node.dirty == 0 and world.episode[0].contention != OFF:
            node.dirty = 1
            world.dirty[world.episode[0].num_dirty] = n
            world.episode[0].num_dirty += 1


@leaf
def link_to_node(world: World, share: int) -> None:
    """Insert a share into its node's list, in ascending order of jobs."""
    shares = world.shares
    n = shares[share].node
    node = world.nodes[n]
    set_free(world, n, node.free - shares[share].gpus)
    node.planned = world.episode[0].num_rounds + 1
    node.num_jobs += 1
    before = -1
    after = node.first_share
    while after >= 0 and shares[after].job < shares[share].job:
        before = after
        after = shares[after].next_of_node
    shares[share].next_of_node = after
    if before < 0:
        node.first_share = share
    else:
        shares[before].next_of_node = share


@leaf
def unlink_from_node(world: World, share: int) -> None:
    """Remove a share from its node's list and free its GPUs."""
    shares = world.shares
    record = shares[share]
    node = world.nodes[record.node]
    set_free(world, record.node, node.free + record.gpus)
    node.planned = world.episode[0].num_rounds + 1
    node.num_jobs -= 1
    before = -1
    here = node.first_share
    while here != share:
        before = here
        here = shares[here].next_of_node
    if before < 0:
        node.first_share = record.next_of_node
    else:
        shares[before].next_of_node = record.next_of_node
    mark_dirty(world, record.node, world.jobs[record.job].traffic > 0)


@leaf
def new_share(world: World, j: int, n: int, gpus: int, cpus: float, memory: float) -> None:
    """Give a job GPUs on a node where it has none; its list stays in order of nodes.

    `cpus` and `memory` are the amounts that the placement names, NaN where it names none.
    """
    shares = world.shares
    job = world.jobs[j]
    share = world.nodes[n].free_share
    record = shares[share]
    world.nodes[n].free_share = record.next_of_job
    record.job = j
    record.node = n
    record.gpus = gpus
    record.cpus = cpus
    record.memory = memory
    record.network = 1.0
    record.cpu_stage = 1.0
    before = -1
    after = job.first_share
    while after >= 0 and shares[after].node < n:
        before = after
        after = shares[after].next_of_job
    record.next_of_job = after
    if before < 0:
        job.first_share = share
    else:
        shares[before].next_of_job = share
    job.num_shares += 1
    job.gpus += gpus
    world.episode[0].num_free -= gpus
    link_to_node(world, share)


@leaf
def free_share(world: World, share: int) -> None:
    """Return a share record to those of its node that are unused."""
    record = world.shares[share]
    node = world.nodes[record.node]
    record.next_of_job = node.free_share
    node.free_share = share


@leaf
def free_list(world: World, first_share: int) -> None:
    """Return a list of share records to those that are unused."""
    share = first_share
    while share >= 0:
        after = world.shares[share].next_of_job
        free_share(world, share)
        share = after


@leaf
def unlink_job(world: World, j: int) -> None:
    """Remove all shares of a job from their nodes; the records themselves do not change."""
    share = world.jobs[j].first_share
    while share >= 0:
        unlink_from_node(world, share)
        share = world.shares[share].next_of_job
    world.episode[0].num_free += world.jobs[j].gpus


@leaf
def empty_job(world: World, j: int) -> None:
    """Leave a job without shares."""
    job = world.jobs[j]
    job.first_share = -1
    job.num_shares = 0
    job.gpus = 0


@leaf
def store_placement(world: World, j: int) -> None:
    """Store what a job holds when this round's draft first changes it."""
    job = world.jobs[j]
    job.touched = 1
    world.touched[world.episode[0].num_touched] = j
    world.episode[0].num_touched += 1
    job.before_share = job.first_share
    job.before_shares = job.num_shares
    job.before_gpus = job.gpus
    job.before_plan = job.plan
    job.before_batch_size = job.batch_size
    job.before_named = job.named
    job.before_exact = job.exact
    job.before_sample_traffic = job.sample_traffic


@part
def clear_job(world: World, j: int) -> None:
    """Take all GPUs from a job in this round's draft; the first call in a round stores what it held."""
    job = world.jobs[j]
    first = job.touched == 0
    unlink_job(world, j)
    if first:
        store_placement(world, j)
    else:
        free_list(world, job.first_share)
    clear_named_settings(job)
    empty_job(world, j)


@leaf
def clear_named_settings(job: Records) -> None:
    """Clear all named settings of a job, so that only its GPUs are given."""
    job.plan = -1
    job.batch_size = 0
    job.named = 0
    job.exact = 0.0
    job.sample_traffic = 0.0


@leaf
def restore_named_settings(job: Records) -> None:
    """Restore the named settings that a job had when the round began."""
    job.plan = job.before_plan
    job.batch_size = job.before_batch_size
    job.named = job.before_named
    job.exact = job.before_exact
    job.sample_traffic = job.before_sample_traffic


@part
def restore_job(world: World, j: int) -> None:
    """Undo this round's draft for a touched job: it holds its old placement again."""
    job = world.jobs[j]
    unlink_job(world, j)
    free_list(world, job.first_share)
    job.first_share = job.before_share
    job.num_shares = job.before_shares
    job.gpus = job.before_gpus
    restore_named_settings(job)
    job.before_share = -1
    job.touched = 0
    world.episode[0].num_free -= job.gpus
    share = job.first_share
    while share >= 0:
        link_to_node(world, share)
        share = world.shares[share].next_of_job


@leaf
def share_on(world: World, j: int, n: int) -> int:
    """GPUs that a job holds on a node in the current draft."""
    share = world.jobs[j].first_share
    while share >= 0:
        if world.shares[share].node == n:
            return int(world.shares[share].gpus)
        share = world.shares[share].next_of_job
    return 0


@part
def begin_change(world: World, j: int) -> None:
    """Copy the GPUs that a job holds into the draft, with nothing else named, if the round has not changed it yet."""
    job = world.jobs[j]
    if job.touched == 0:  # copy the list, so that the old one does not change
        clear_job(world, j)
        share = job.before_share
        while share >= 0:
            record = world.shares[share]
            new_share(world, j, record.node, record.gpus, np.nan, np.nan)
            share = world.shares[share].next_of_job


@part
def set_share(world: World, j: int, n: int, gpus: int) -> None:
    """Set a job's GPUs on one node (0 takes them away); its other nodes do not change.

    The caller must check that the node has room.
    """
    job = world.jobs[j]
    begin_change(world, j)
    before = -1
    share = job.first_share
    while share >= 0 and world.shares[share].node != n:
        before = share
        share = world.shares[share].next_of_job
    if share >= 0:
        record = world.shares[share]
        unlink_from_node(world, share)
        world.episode[0].num_free += record.gpus
        job.gpus -= record.gpus
        job.num_shares -= 1
        if before < 0:
            job.first_share = record.next_of_job
        else:
            world.shares[before].next_of_job = record.next_of_job
        free_share(world, share)
    if gpus > 0:
        new_share(world, j, n, gpus, np.nan, np.nan)
