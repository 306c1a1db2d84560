"""Translation of a scheduler's allocation into the nodes' choices, from which agents learn by imitation.

A round's allocation is reached decision by decision. Each node first takes GPUs from jobs that should have fewer here,
then gives GPUs to candidates that it should hold, in their order, then to jobs that should have more.

With `amendments` every allocation that names no plans or batch sizes is reached, if its jobs are among the candidates,
its amounts of cores and memory are among the levels, and the round is long enough. Amounts that are no level are
replaced by the nearest level. Without amendments much cannot be expressed: a waiting job beyond the head of the queue,
or an elastic job that should start on two nodes although one suffices, is skipped. `scripts/interface.py` measures it.
"""

import math
from collections.abc import Mapping
from typing import NamedTuple

import numpy as np

from envs.gpu_cluster.negotiation import Negotiation
from envs.simulation.kernels import RUNNING
from envs.simulation.shares import NAMED_CPUS, NAMED_MEMORY
from envs.types import Allocation, IntArray, JobId, NodeId

UNNAMED = math.nan


class RequestedShare(NamedTuple):
    """What an allocation gives a job on one node; NaN for cores and GB that it leaves to the simulator."""

    gpus: int
    cpus: float = UNNAMED
    memory: float = UNNAMED


NOTHING = RequestedShare(0)
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
            cpus = placement.cpus[node] if placement.cpus else UNNAMED
            memory = placement.memory[node] if placement.memory else UNNAMED
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
        float(record.cpus) if named & NAMED_CPUS else UNNAMED,
        float(record.memory) if named & NAMED_MEMORY else UNNAMED,
    )


def demonstrate(requested: RequestedShares, negotiation: Negotiation, b: int = 0) -> IntArray:
    """Return the joint action int64[num_nodes] that moves the plan of episode `b` towards the requested shares.

    All nodes pass once the plan is reached, or as near as the action space allows.
    """
    spec, mask, heads = negotiation.spec, negotiation.arrays.mask[b], negotiation.arrays.heads[b].tolist()
    actions = np.zeros(spec.num_nodes, np.int64)
    for n in range(spec.num_nodes):
        wanted = requested.get(n, {})
        less, more = list[int](), list[int]()
        for slot, (job, present) in enumerate(_slots(negotiation, b, n)):
            share = wanted.get(job, NOTHING)
            goal, now = (_gpus_and_level(negotiation, b, n, job, one) for one in (share, present))
            if goal != now:
                (less if share.gpus < present.gpus else more).append(spec.action(spec.num_candidates + slot, *goal))
        claims = [
            spec.action(c, *_gpus_and_level(negotiation, b, n, job, wanted[job]))
            for c, job in enumerate(heads)
            if job in wanted
        ]
        actions[n] = next((action for action in (*less, *claims, *more) if mask[n, action]), 0)
    return actions


def _gpus_and_level(negotiation: Negotiation, b: int, n: NodeId, job: JobId, share: RequestedShare) -> tuple[int, int]:
    """Return the GPUs of a share and its level of cores and memory: the nearest one."""
    arrays = negotiation.arrays
    if share.gpus == 0 or math.isnan(share.cpus) or math.isnan(share.memory):
        return share.gpus, 0
    place = int(negotiation.state.jobs[b, job].model), int(negotiation.state.nodes[b, n].gpu_type), share.gpus
    off = np.abs(arrays.level_cpus[place] * share.gpus / share.cpus - 1.0)
    off += np.abs(arrays.level_memory[place] * share.gpus / share.memory - 1.0)
    return share.gpus, 0 if np.isnan(off).all() else int(np.nanargmin(off))


def _slots(negotiation: Negotiation, b: int, n: NodeId) -> list[tuple[JobId, RequestedShare]]:
    """Return the jobs in the plan on a node and their shares there, in the order of its slots."""
    slots: list[tuple[JobId, RequestedShare]] = []
    share = int(negotiation.state.nodes[b, n].first_share)
    while share >= 0 and len(slots) < negotiation.spec.num_slots:
        record = negotiation.state.shares[b, share]
        slots.append((int(record.job), _share(negotiation, b, share)))
        share = int(record.next_of_node)
    return slots
