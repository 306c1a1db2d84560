"""Preemption by QoS or by partition (PreemptType)."""

from collections.abc import Callable, Mapping

import numpy as np

from baselines.parts.placing import Gpus
from baselines.slurm.job_table import JobTable
from baselines.slurm.settings import SlurmSettings
from envs.types import IntArray, JobId, NodeId, Seconds


def may_preempt(rules: SlurmSettings, table: JobTable, job: JobId, other: JobId) -> bool:
    """Return whether a waiting job may preempt a running one."""
    of_other, part = rules.qos.get(table.qos[other]), table.partitions[table.partition[other]]
    if rules.preempt_type == "partition_prio":
        return table.tier[job] > table.tier[other] and (part.preempt_mode or rules.preempt_mode) != "OFF"
    mode = (of_other.preempt_mode if of_other else "") or part.preempt_mode or rules.preempt_mode
    own = rules.qos.get(table.qos[job])
    return mode != "OFF" and own is not None and table.qos[other] in own.preempt


def find_victims(
    rules: SlurmSettings,
    table: JobTable,
    began: Mapping[JobId, Seconds],
    job: JobId,
    held: Mapping[JobId, Mapping[NodeId, int]],
    free: IntArray,
    find: Callable[[IntArray], Gpus],
) -> list[JobId]:
    """Return the running jobs to stop so that a waiting one starts; none if that makes no room.

    As Slurm does, jobs of the lowest QoS (or tier) come first, then those on the fewest nodes; of these the youngest,
    which is a rule of ours. Jobs that turn out not to be in the way stay.

    Args:
        rules: the settings in force.
        table: the jobs.
        began: when running jobs began.
        job: the waiting job.
        held: GPUs by node of running jobs.
        free: int64[num_nodes], free GPUs.
        find: nodes for the job among free GPUs.
    """

    def key(other: JobId) -> tuple[float, int, Seconds, JobId]:
        qos = rules.qos.get(table.qos[other])
        rank = table.tier[other] if rules.preempt_type == "partition_prio" else qos.priority if qos else 0.0
        return rank, len(held[other]), -began.get(other, 0.0), other

    candidates = sorted((other for other in held if may_preempt(rules, table, job, other)), key=key)
    victims: list[JobId] = []
    room = free.copy()
    for other in candidates:
        if find(room):
            break
        _add(room, held[other], 1)
        victims.append(other)
    if not find(room):
        return []
    for other in victims[::-1]:
        _add(room, held[other], -1)
        if find(room):
            victims.remove(other)
        else:
            _add(room, held[other], 1)
    return victims


def _add(room: IntArray, gpus: Mapping[NodeId, int], sign: int) -> None:
    for node, count in gpus.items():
        room[node] += sign * count
    assert np.all(room >= 0)
