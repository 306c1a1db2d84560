"""Translation of a scheduler's allocation into the nodes' choices, from which agents learn by imitation.

A round's allocation is reached decision by decision. Each node first takes GPUs from jobs that should have fewer here,
then gives GPUs to candidates that it should hold, in their order, then to jobs that should have more.

With `amendments` every allocation that names no plans or batch sizes is reached, if its jobs are among the candidates,
its amounts of cores and memory are among the levels, and the round is long enough. Other amounts are replaced by the
next larger level, after all others, and cut to what the node has left. Without amendments much cannot be expressed: a
waiting job beyond the head of the queue, or an elastic job that should start on two nodes although one suffices, is
skipped.
"""

import math
from collections.abc import Mapping
from typing import NamedTuple

import numpy as np

from envs.gpu_cluster.negotiation import Negotiation
from envs.simulation.exact import PARTS
from envs.simulation.kernels import RUNNING
from envs.simulation.shares import NAMED_CPUS, NAMED_MEMORY
from envs.types import Allocation, IntArray, JobId, NodeId

OPEN_AMOUNT = math.nan
ROUNDING = 1e-3  # relative difference of an amount in whole 64ths and the level that it was rounded from


class RequestedShare(NamedTuple):
    """What an allocation gives a job on one node; NaN for cores and GB that it leaves to the simulator."""

    gpus: int
    cpus: float = OPEN_AMOUNT
    memory: float = OPEN_AMOUNT


NO_SHARE = RequestedShare(0)
RequestedShares = Mapping[NodeId, Mapping[JobId, RequestedShare]]  # by node and job


def requested_shares(allocation: Allocation, negotiation: Negotiation, b: int = 0) -> RequestedShares:
    """Return an allocation by node. Jobs that it omits are absent, unless it keeps running jobs.

    The plan of episode `b` must be that of the beginning of the round, without a proposal.
    """
    requested: dict[NodeId, dict[JobId, RequestedShare]] = {}
    if allocation.keep_running:
        for job in np.flatnonzero(negotiation.state.jobs[b]["status"] == RUNNING).tolist():
            if job not in allocation.changes:
                for node, share in _held(negotiation, b, job).items():
                    requested.setdefault(node, {})[job] = share
    for job, placement in allocation.changes.items():
        if placement is None:
            continue
        for node, gpus in placement.gpus.items():
            cpus = placement.cpus[node] if placement.cpus else OPEN_AMOUNT
            memory = placement.memory[node] if placement.memory else OPEN_AMOUNT
            requested.setdefault(node, {})[job] = RequestedShare(gpus, cpus, memory)
    return requested


def _held(negotiation: Negotiation, b: int, job: JobId) -> dict[NodeId, RequestedShare]:
    held: dict[NodeId, RequestedShare] = {}
    share = int(negotiation.state.jobs[b, job].first_share)
    while share >= 0:
        held[int(negotiation.state.shares[b, share].node)] = _share(negotiation, b, share)
        share = int(negotiation.state.shares[b, share].next_of_job)
    return held


def _share(negotiation: Negotiation, b: int, share: int) -> RequestedShare:
    """Return a share of the present plan, with the amounts that it names."""
    record = negotiation.state.shares[b, share]
    named = int(negotiation.state.jobs[b, record.job].named)
    if negotiation.arrays.amended[b, record.job]:
        named = NAMED_CPUS | NAMED_MEMORY  # NaN where the amendment names none
    return RequestedShare(
        int(record.gpus),
        float(record.cpus) if named & NAMED_CPUS else OPEN_AMOUNT,
        float(record.memory) if named & NAMED_MEMORY else OPEN_AMOUNT,
    )


def demonstrate(requested: RequestedShares, negotiation: Negotiation, b: int = 0) -> IntArray:
    """Return the joint action int64[num_nodes] that moves the plan of episode `b` towards the requested shares.

    All nodes pass once the plan is reached, or as near as the action space allows.
    """
    spec, mask, heads = negotiation.spec, negotiation.arrays.mask[b], negotiation.arrays.heads[b].tolist()
    actions = np.zeros(spec.num_nodes, np.int64)
    for n in range(spec.num_nodes):
        wanted = requested.get(n, {})
        less, claims, more = (list[tuple[bool, int]]() for _ in range(3))  # actions that are exact come first
        for slot, (job, present) in enumerate(_slots(negotiation, b, n)):
            share = wanted.get(job, NO_SHARE)
            goal, exact = _gpus_and_level(negotiation, b, n, job, share)
            changed = negotiation.arrays.amended[b, job] > 0 or negotiation.spec.num_levels == 1
            now = _gpus_and_level(negotiation, b, n, job, present)[0]
            if goal != now if changed else not _equal(share, present):
                action = spec.action(spec.num_candidates + slot, *goal)
                (less if share.gpus < present.gpus else more).append((not exact, action))
        for c, job in enumerate(heads):
            if job in wanted:
                goal, exact = _gpus_and_level(negotiation, b, n, job, wanted[job])
                claims.append((not exact, spec.action(c, *goal)))
        rest = sorted((*claims, *more), key=lambda each: each[0])
        actions[n] = next((action for _, action in (*less, *rest) if mask[n, action]), 0)
    return actions


def _gpus_and_level(
    negotiation: Negotiation, b: int, n: NodeId, job: JobId, share: RequestedShare
) -> tuple[tuple[int, int], bool]:
    """Return the GPUs of a share and its level of cores and memory, and whether that names exactly its amounts.

    It is the nearest level that names at least these amounts, which are cut at the end of the round, or the nearest.
    """
    arrays = negotiation.arrays
    if share.gpus == 0 or math.isnan(share.cpus) or math.isnan(share.memory):
        return (share.gpus, 0), True
    place = int(negotiation.state.jobs[b, job].model), int(negotiation.state.nodes[b, n].gpu_type), share.gpus
    more_cpus = arrays.level_cpus[place] * share.gpus / share.cpus - 1.0
    more_memory = arrays.level_memory[place] * share.gpus / share.memory - 1.0
    off = np.abs(more_cpus) + np.abs(more_memory)
    if np.isnan(off).all():
        return (share.gpus, 0), False
    enough = np.minimum(more_cpus, more_memory) > -ROUNDING
    level = int(np.nanargmin(np.where(enough, off, np.nan) if enough.any() else off))
    return (share.gpus, level), bool(off[level] < ROUNDING)


def _equal(one: RequestedShare, other: RequestedShare) -> bool:
    """Whether shares have equal GPUs, and equal amounts up to a 64th for each GPU."""
    if one.gpus != other.gpus:
        return False
    return one.gpus == 0 or bool(
        np.allclose(one[1:], other[1:], rtol=0.0, atol=one.gpus / PARTS + 1e-9, equal_nan=True)
    )


def _slots(negotiation: Negotiation, b: int, n: NodeId) -> list[tuple[JobId, RequestedShare]]:
    """Return the jobs in the plan on a node and their shares there, in the order of its slots."""
    slots: list[tuple[JobId, RequestedShare]] = []
    share = int(negotiation.state.nodes[b, n].first_share)
    while share >= 0 and len(slots) < negotiation.spec.num_slots:
        record = negotiation.state.shares[b, share]
        slots.append((int(record.job), _share(negotiation, b, share)))
        share = int(record.next_of_node)
    return slots
