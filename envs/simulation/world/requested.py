"""A requested allocation as rows, and the compiled function that checks and plans it."""

import numpy as np

from envs.simulation.compiled.jit import Records, kernel, leaf
from envs.simulation.world.arrays import World
from envs.simulation.world.exact import PARTS
from envs.simulation.world.job_throughput import kept_beside_partner, placement_throughput
from envs.simulation.world.kernels import QUEUED, RUNNING
from envs.simulation.world.shares import (
    NAMED_CPUS,
    NAMED_MEMORY,
    clear_job,
    forget_partner,
    idle_gpus,
    make_partners,
    new_share,
    restore_job,
    same_gpus,
)
from envs.types import IntArray

REQUESTED = np.dtype(
    (
        np.record,
        [
            ("job", np.int64),
            ("node", np.int64),
            ("gpus", np.int64),
            ("cpus", np.float64),  # NaN if the placement names none
            ("memory", np.float64),
            ("plan", np.int64),  # from here on as in JOB, equal in all rows of a job
            ("batch_size", np.int64),
            ("named", np.int64),
            ("exact", np.float64),
            ("sample_traffic", np.float64),
            ("owner", np.int64),  # 1 + the job whose GPUs it shares, else 0; such rows come last
        ],
    ),
    align=True,
)
# Results of `plan_requested`.
FITS, NOT_THERE, OUT_OF_RANGE, NO_GPUS, DOES_NOT_RUN, NO_CPUS, NO_MEMORY, NO_NODE = 0, 1, 2, 3, 4, 5, 6, 7
NO_OWNER, OTHER_GPUS, TOO_LARGE_TOGETHER = 8, 9, 10


@leaf
def is_there(world: World, j: int) -> bool:
    """Return whether a job is in the system."""
    return bool(
        0 <= j < world.episode[0].next_job and (world.jobs[j].status == QUEUED or world.jobs[j].status == RUNNING)
    )


@leaf
def undo_draft(world: World) -> None:
    """Undo all changes of this round."""
    for i in range(world.episode[0].num_touched):  # clear all jobs first, so that there is room for the old placements
        clear_job(world, world.touched[i])
    for i in range(world.episode[0].num_touched):
        restore_job(world, world.touched[i])
    for i in range(world.episode[0].num_touched):
        forget_partner(world, world.jobs[world.touched[i]])
    world.episode[0].num_touched = 0


@leaf
def least_amount(world: World, share: int, memory: bool) -> float:
    """Fewest cores (or memory) that a share needs: what its placement names, or a 64th per GPU."""
    record = world.shares[share]
    named = world.jobs[record.job].named
    if memory:
        return float(record.memory if named & NAMED_MEMORY else record.gpus / PARTS)
    return float(record.cpus if named & NAMED_CPUS else record.gpus / PARTS)


@leaf
def node_feeds(world: World, n: int, memory: bool) -> bool:
    """Return whether a node has cores (or memory) for all named amounts, and 1/64 for each other GPU, free or held."""
    left = world.nodes[n].memory if memory else world.nodes[n].cpus
    left -= idle_gpus(world, n) / PARTS
    share = world.nodes[n].first_share
    while share >= 0:
        left -= least_amount(world, share, memory)
        share = world.shares[share].next_of_node
    return bool(left >= 0)


@leaf
def may_join(world: World, j: int, owner: int) -> bool:
    """Return whether a job may share the GPUs that another job holds for itself in the draft."""
    return bool(owner != j and is_there(world, owner) and world.jobs[owner].gpus > 0 and world.jobs[owner].partner < 0)


@leaf
def plan_rows(world: World, rows: Records) -> tuple[int, int]:
    """Put requested rows into the draft until one does not fit; return (error code, row)."""
    for i in range(len(rows)):
        row = rows[i]
        job = world.jobs[row.job]
        if row.owner == 0:
            if row.gpus > world.nodes[row.node].free:
                return NO_GPUS, i
        elif job.partner != row.owner - 1:
            if job.partner >= 0 or not may_join(world, row.job, row.owner - 1):
                return NO_OWNER, i
            make_partners(world, row.owner - 1, row.job)
        new_share(world, row.job, row.node, row.gpus, row.cpus, row.memory)
        job.plan = row.plan
        job.batch_size = row.batch_size
        job.named = row.named
        job.exact = row.exact
        job.sample_traffic = row.sample_traffic
    return FITS, 0


@leaf
def check_rows(world: World, rows: Records) -> tuple[int, int]:
    """Check that every planned job is in its range of GPUs, runs, and gets cores and memory: (error code, row)."""
    for i in range(len(rows)):
        row = rows[i]
        job = world.jobs[row.job]
        if not (job.min_gpus <= job.gpus <= job.max_gpus):
            return OUT_OF_RANGE, i
        if job.exact == 0.0 and not placement_throughput(world, job, job.first_share) > 0:
            return DOES_NOT_RUN, i
        if row.owner and not same_gpus(world, job.first_share, world.jobs[row.owner - 1].first_share):
            return OTHER_GPUS, i
        if row.owner and not kept_beside_partner(world, job) > 0:
            return TOO_LARGE_TOGETHER, i
        if world.episode[0].shares_cpu_memory:
            if not node_feeds(world, row.node, False):
                return NO_CPUS, i
            if not node_feeds(world, row.node, True):
                return NO_MEMORY, i
    return FITS, 0


@kernel
def plan_requested(world: World, stopped: IntArray, rows: Records) -> tuple[int, int]:
    """Plan a requested allocation, or find the first error and plan nothing.

    Args:
        world: between rounds, with no job touched.
        stopped: int64[...], jobs that lose their GPUs.
        rows: REQUESTED[...], the placements of the other jobs, job by job.

    Returns:
        FITS or an error code, and the index of the wrong row in `rows` (for NOT_THERE in `stopped`, then `rows`).
    """
    for i in range(len(stopped)):
        if not is_there(world, stopped[i]):
            undo_draft(world)
            return NOT_THERE, i
        if world.jobs[stopped[i]].status == RUNNING:
            clear_job(world, stopped[i])
    for i in range(len(rows)):
        if not is_there(world, rows[i].job):
            undo_draft(world)
            return NOT_THERE, len(stopped) + i
        if not 0 <= rows[i].node < len(world.nodes) or rows[i].gpus < 1:
            undo_draft(world)
            return NO_NODE, i
        if world.jobs[rows[i].job].touched == 0:
            clear_job(world, rows[i].job)
    wrong, place = plan_rows(world, rows)
    if wrong == FITS:
        wrong, place = check_rows(world, rows)
    if wrong != FITS:
        undo_draft(world)
    return wrong, place
