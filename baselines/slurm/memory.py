"""The arrays that the compiled form of Slurm's policy reads and writes."""

from typing import Any, NamedTuple

import numpy as np

from baselines.slurm.job_table import JobTable
from baselines.slurm.settings import SlurmSettings
from envs.simulation.compiled.jit import Records
from envs.types import BoolArray, ClusterSpec, FloatArray, IntArray

BITS = 32  # nodes in a word of a set of nodes


class Rules(NamedTuple):
    """The settings that the passes read; see `SlurmSettings`."""

    multifactor: bool
    shares: bool  # whether fair share counts
    weight_age: float
    weight_fairshare: float
    max_age: float
    calc_period: float
    backfill: bool
    window: float
    resolution: float
    interval: float
    tests: int
    by_user: int
    by_part: int
    reserves: int
    depth: int
    sched_interval: float


class Queue(NamedTuple):
    """What the passes read of jobs and partitions; see `JobTable`.

    Attributes:
        tier, association, user, partition: int64[num_jobs].
        group: int64[num_jobs], equal for jobs with the same partition, GPUs, limit and types.
        limit, fixed: float64[num_jobs].
        types: bool[num_jobs, num_gpu_types], the types that a job may use.
        lln: bool[num_partitions], whether least loaded nodes come first.
        of_partition: bool[num_partitions, num_gpu_types], the types of its nodes.
        first_limit: int64[num_jobs + 1], where the limits of each job begin in `limits`.
        limits: int64[n], numbers of limits of QoS and associations, job by job.
        most_gpus, most_jobs: float64[num_limits], what may run at once.
    """

    tier: IntArray
    association: IntArray
    user: IntArray
    partition: IntArray
    group: IntArray
    limit: FloatArray
    fixed: FloatArray
    types: BoolArray
    lln: BoolArray
    of_partition: BoolArray
    first_limit: IntArray
    limits: IntArray
    most_gpus: FloatArray
    most_jobs: FloatArray


STATE = np.dtype(
    (
        np.record,
        [
            ("due", np.float64),  # of the next backfill pass
            ("request", np.float64),  # what to ask the engine for once the round has taken effect; negative for none
            ("num_waiting", np.int64),
            ("num_held", np.int64),
            ("submitted", np.int64),  # jobs that have been taken in
            ("known", np.int64),  # associations that have factors
            ("calculated", np.int64),  # period in which priorities were calculated
            ("tested_all", np.int64),  # period in which the main pass looked at the whole queue
            ("seen_jobs", np.int64),  # at the end of the last round
            ("seen_running", np.int64),
            ("seen_up", np.int64),
            ("in_round", np.int64),
            ("ranked", np.int64),  # whether factors are up to date in this round
            ("begun", np.int64),
            ("num_spans", np.int64),
            ("passes", np.int64),  # backfill passes so far
        ],
    ),
    align=True,
)


class Memory(NamedTuple):
    """State that the passes keep between rounds, and working memory.

    Attributes:
        state: STATE[1].
        factors: float64[num_associations], fair-share factors.
        priority: int64[num_jobs].
        eligible: float64[num_jobs], from when the age of a job counts; see `JobTable`.
        waiting: int64[num_jobs], jobs in order of priority.
        waits: bool[num_jobs], whether a job is in `waiting`.
        began: float64[num_jobs], when a running job began; NaN if it does not run.
        held: int64[num_jobs], jobs that have held GPUs since usage was last brought up to date.
        is_held: bool[num_jobs].
        free: int64[num_nodes], GPUs among which to choose.
        nodes, gpus: int64[num_nodes], the choice.
        closed: bool[num_gpu_types], types whose nodes a blocked partition has.
        blocked: bool[num_partitions].
        when: float64[num_nodes, most GPUs of a node + 1], when running jobs leave so many GPUs free.
        ends, counts: float64 and int64[jobs of a node], of the jobs on a node.
        begin, end: float64[num_spans], spans of the plan.
        after: int64[num_spans], the span that follows; -1 for none.
        unpromised: int64[num_spans, words], nodes that no job is promised in a span.
        usable: int64[words], nodes.
        reserved, by_part: int64[num_partitions], of this pass.
        by_user: int64[num_users].
        planned: int64[num_groups], the last pass in which a job of the group was planned.
        resume: float64[num_groups], where that search ended: plans only fill, so the next one begins there.
        soonest: float64[num_groups], in that pass, when a job of the group would have room if nothing were promised.
        stuck: int64[num_groups], the last pass in which no job of the group could start at once.
        used_gpus, used_jobs: int64[num_limits], what runs at present.
    """

    state: Records
    factors: FloatArray
    priority: IntArray
    eligible: FloatArray
    waiting: IntArray
    waits: BoolArray
    began: FloatArray
    held: IntArray
    is_held: BoolArray
    free: IntArray
    nodes: IntArray
    gpus: IntArray
    closed: BoolArray
    blocked: BoolArray
    when: FloatArray
    ends: FloatArray
    counts: IntArray
    begin: FloatArray
    end: FloatArray
    after: IntArray
    unpromised: IntArray
    usable: IntArray
    reserved: IntArray
    by_part: IntArray
    by_user: IntArray
    planned: IntArray
    resume: FloatArray
    soonest: FloatArray
    stuck: IntArray
    used_gpus: IntArray
    used_jobs: IntArray


def compiled_rules(settings: SlurmSettings) -> Rules:
    """Return the settings for compiled code."""
    return Rules(
        settings.multifactor,
        settings.multifactor and settings.weight_fairshare > 0,
        float(settings.weight_age),
        float(settings.weight_fairshare),
        float(settings.max_age),
        float(settings.calc_period),
        settings.backfill,
        float(settings.bf_window),
        float(settings.bf_resolution),
        float(settings.bf_interval),
        settings.bf_max_job_test,
        settings.bf_max_job_user,
        settings.bf_max_job_part,
        settings.bf_job_part_count_reserve,
        settings.default_queue_depth,
        float(settings.sched_interval),
    )


def queue_of(table: JobTable, sizes: IntArray, types: BoolArray, settings: SlurmSettings) -> Queue:
    """Return a table of jobs for compiled code.

    Args:
        table: the jobs.
        sizes: int64[num_jobs], GPUs of each.
        types: bool[num_jobs, num_gpu_types], the types that each may use.
        settings: the settings in force.
    """
    alike = np.column_stack([table.partition, sizes, table.limit, types])
    group: IntArray = np.unique(alike, axis=0, return_inverse=True)[1].reshape(-1).astype(np.int64)
    lln = np.array([settings.lln or part.lln for part in table.partitions], np.bool_)
    return Queue(
        tier=np.array(table.tier, np.int64),
        association=np.array(table.association, np.int64),
        user=np.array(table.user, np.int64),
        partition=np.array(table.partition, np.int64),
        group=group,
        limit=np.array(table.limit, np.float64),
        fixed=np.array(table.fixed, np.float64),
        types=types,
        lln=lln,
        of_partition=np.array(table.partition_types, np.bool_),
        first_limit=np.cumsum([0, *map(len, table.limits_of)], dtype=np.int64),
        limits=np.array([number for each in table.limits_of for number in each], np.int64),
        most_gpus=np.array([each.gpus for each in table.limits.ceilings], np.float64),
        most_jobs=np.array([each.jobs for each in table.limits.ceilings], np.float64),
    )


def memory_of(queue: Queue, rules: Rules, cluster: ClusterSpec, slots: int, eligible: FloatArray) -> Memory:
    """Return the memory for an episode that begins.

    Args:
        queue: its jobs.
        rules: the settings.
        cluster: its nodes.
        slots: share records of a node.
        eligible: float64[num_jobs], from when their ages count.
    """
    jobs, nodes, most = len(queue.tier), cluster.num_nodes, int(cluster.node_gpus.max())
    spans, words = min(rules.tests, 2 * jobs) + 6, -(-nodes // BITS)
    state: Any = np.zeros(1, STATE).view(np.recarray)
    state["due"], state["request"], state["calculated"], state["tested_all"] = np.inf, -1.0, -1, -1
    return Memory(
        state=state,
        factors=np.zeros(int(queue.association.max()) + 1),
        priority=np.zeros(jobs, np.int64),
        eligible=eligible,
        waiting=np.zeros(jobs, np.int64),
        waits=np.zeros(jobs, np.bool_),
        began=np.full(jobs, np.nan),
        held=np.zeros(jobs, np.int64),
        is_held=np.zeros(jobs, np.bool_),
        free=np.zeros(nodes, np.int64),
        nodes=np.zeros(nodes, np.int64),
        gpus=np.zeros(nodes, np.int64),
        closed=np.zeros(len(cluster.gpu_types), np.bool_),
        blocked=np.zeros(len(queue.lln), np.bool_),
        when=np.zeros((nodes, most + 1)),
        ends=np.zeros(slots),
        counts=np.zeros(slots, np.int64),
        begin=np.zeros(spans),
        end=np.zeros(spans),
        after=np.zeros(spans, np.int64),
        unpromised=np.zeros((spans, words), np.int64),
        usable=np.zeros(words, np.int64),
        reserved=np.zeros(len(queue.lln), np.int64),
        by_part=np.zeros(len(queue.lln), np.int64),
        by_user=np.zeros(int(queue.user.max()) + 1, np.int64),
        planned=np.zeros(int(queue.group.max()) + 1, np.int64),
        resume=np.zeros(int(queue.group.max()) + 1),
        soonest=np.zeros(int(queue.group.max()) + 1),
        stuck=np.zeros(int(queue.group.max()) + 1, np.int64),
        used_gpus=np.zeros(len(queue.most_gpus), np.int64),
        used_jobs=np.zeros(len(queue.most_gpus), np.int64),
    )
