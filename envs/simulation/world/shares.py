"""Shares of jobs on nodes, as records in two linked lists: per job in order of nodes, per node in order of jobs.

Two jobs may be partners, which hold the same GPUs: a node counts them once, as those of the partner that is no guest.
When one of the two leaves, the other holds them for itself.

While a round is planned, `clear_job`, `new_share` and `set_share` change placements and store what a job held when the
round began. `restore_job` undoes the changes, `envs.simulation.world.kernels.settle` applies them.
"""

import numpy as np

from envs.simulation.compiled.jit import Records, leaf, part
from envs.simulation.world.arrays import World
from envs.simulation.world.ordered_set import insert, remove
from envs.simulation.world.shapes import ALONE

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
def is_alone(world: World, share: int) -> bool:
    """Return whether the job of a share keeps others off its nodes: none of their GPUs are free then."""
    return bool(world.shapes[world.jobs[world.shares[share].job].model, ALONE] > 0)


@leaf
def idle_gpus(world: World, n: int) -> int:
    """Return the GPUs of a node that no job holds, also where others may not have them; 0 while it is down."""
    node = world.nodes[n]
    if node.first_share >= 0 and is_alone(world, node.first_share):
        return int(node.num_gpus - world.shares[node.first_share].gpus)
    return int(node.free)


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
def note_refed(world: World, j: int) -> None:
    """Add a job to the list of those whose cores, memory or partner have changed; `update_throughputs` empties it."""
    job = world.jobs[j]
    if job.refed == 0:
        job.next_refed = world.episode[0].first_refed
        world.episode[0].first_refed = j + 1
    job.refed = 1


@leaf
def same_gpus(world: World, one: int, other: int) -> bool:
    """Return whether two lists of shares, by their first ones, have the same GPUs on the same nodes."""
    while one >= 0 and other >= 0:
        if world.shares[one].node != world.shares[other].node or world.shares[one].gpus != world.shares[other].gpus:
            return False
        one = world.shares[one].next_of_job
        other = world.shares[other].next_of_job
    return bool(one < 0 and other < 0)


@leaf
def make_partners(world: World, owner: int, guest: int) -> None:
    """Make two jobs partners; the caller counts the GPUs as the owner's."""
    world.jobs[owner].partner = guest
    world.jobs[owner].guest = 0
    world.jobs[guest].partner = owner
    world.jobs[guest].guest = 1


@leaf
def link_to_node(world: World, share: int, takes: bool) -> None:
    """Insert a share into its node's list, in ascending order of jobs; `takes` says whether it takes free GPUs."""
    shares = world.shares
    n = shares[share].node
    node = world.nodes[n]
    if takes:
        set_free(world, n, 0 if is_alone(world, share) else node.free - shares[share].gpus)
        world.episode[0].num_free -= shares[share].gpus
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
def unlink_from_node(world: World, share: int, frees: bool) -> None:
    """Remove a share from its node's list; `frees` says whether its GPUs are free then."""
    shares = world.shares
    record = shares[share]
    node = world.nodes[record.node]
    if frees:
        set_free(world, record.node, node.num_gpus if is_alone(world, share) else node.free + record.gpus)
        world.episode[0].num_free += record.gpus
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
    link_to_node(world, share, job.guest == 0)


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
    """Remove all shares of a job from their nodes; a partner keeps the GPUs. The records themselves do not change."""
    job = world.jobs[j]
    partner = job.partner
    share = job.first_share
    while share >= 0:
        unlink_from_node(world, share, partner < 0)
        share = world.shares[share].next_of_job
    if partner >= 0:
        world.jobs[partner].partner = -1
        world.jobs[partner].guest = 0
        job.partner = -1
        job.guest = 0
        note_refed(world, partner)
        note_refed(world, j)  # in a round it may come back to these GPUs, as if it had never left


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
    if job.before_partner < 0 and job.partner >= 0 and world.jobs[job.partner].touched == 0:
        partner = world.jobs[job.partner]  # not one that came in this round
        job.before_partner = job.partner
        job.before_guest = job.guest
        partner.before_partner = j
        partner.before_guest = 1 - job.guest


@leaf
def forget_partner(world: World, job: Records) -> None:
    """Forget, at the end of a round, which partner a job had at its begin; so does the partner."""
    if job.before_partner >= 0:
        world.jobs[job.before_partner].before_partner = -1
        job.before_partner = -1


@part
def clear_job(world: World, j: int) -> None:
    """Take all GPUs from a job in this round's draft; the first call in a round stores what it held."""
    job = world.jobs[j]
    first = job.touched == 0
    if first:
        store_placement(world, j)
    unlink_job(world, j)
    if not first:
        free_list(world, job.first_share)
    clear_named_settings(job)
    empty_job(world, j)


@leaf
def join_job(world: World, j: int, owner: int) -> None:
    """Place a job beside another one in this round's draft, on all its GPUs."""
    clear_job(world, j)
    make_partners(world, owner, j)
    share = world.jobs[owner].first_share
    while share >= 0:
        new_share(world, j, world.shares[share].node, world.shares[share].gpus, np.nan, np.nan)
        share = world.shares[share].next_of_job


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


@leaf
def restore_partner(world: World, j: int) -> bool:
    """Make a job the partner again that it was when the round began; return whether its shares take free GPUs."""
    job = world.jobs[j]
    if job.before_partner < 0:
        return True
    if job.before_guest:
        make_partners(world, job.before_partner, j)
        return False
    partner = world.jobs[job.before_partner]
    holds = partner.first_share >= 0 and partner.partner != j  # for itself: the round did not change that one
    make_partners(world, j, job.before_partner)
    return not holds


@part
def restore_job(world: World, j: int) -> None:
    """Undo this round's draft for a touched job without GPUs: it holds its old placement again."""
    job = world.jobs[j]
    takes = restore_partner(world, j)
    job.first_share = job.before_share
    job.num_shares = job.before_shares
    job.gpus = job.before_gpus
    restore_named_settings(job)
    job.before_share = -1
    job.touched = 0
    share = job.first_share
    while share >= 0:
        link_to_node(world, share, takes)
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

    The caller must check that the node has room, and that the job has no partner.
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
        unlink_from_node(world, share, True)
        job.gpus -= record.gpus
        job.num_shares -= 1
        if before < 0:
            job.first_share = record.next_of_job
        else:
            world.shares[before].next_of_job = record.next_of_job
        free_share(world, share)
    if gpus > 0:
        new_share(world, j, n, gpus, np.nan, np.nan)
