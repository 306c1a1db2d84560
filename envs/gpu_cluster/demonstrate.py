"""Translation of a scheduler's allocation into the nodes' choices, from which agents learn by imitation.

A round's allocation is reached decision by decision. Each node first takes GPUs from jobs that should have fewer here,
then gives GPUs to candidates that it should hold, in their order, then to jobs that should have more.

Much cannot be expressed: a waiting job beyond the head of the queue, or an elastic job that should start on two nodes
although one suffices, is skipped; cores, memory, plans and batch sizes follow the simulator's rules.
`scripts/interface.py` measures it.
"""

from collections.abc import Mapping

import numpy as np

from envs.gpu_cluster.negotiation import Negotiation
from envs.simulation.kernels import RUNNING
from envs.types import Allocation, IntArray, JobId, NodeId

RequestedGpus = Mapping[NodeId, Mapping[JobId, int]]


def requested_gpus(allocation: Allocation, negotiation: Negotiation, b: int = 0) -> RequestedGpus:
    """Return the GPUs of an allocation by node and job. Jobs that it omits are absent, unless it keeps running jobs.

    The plan of episode `b` must be that of the beginning of the round.
    """
    requested: dict[NodeId, dict[JobId, int]] = {}
    if allocation.keep_running:
        for job in np.flatnonzero(negotiation.state.jobs[b]["status"] == RUNNING).tolist():
            if job not in allocation.changes:
                for node, gpus in _held(negotiation, b, job).items():
                    requested.setdefault(node, {})[job] = gpus
    for job, placement in allocation.changes.items():
        for node, gpus in placement.gpus.items() if placement else ():
            requested.setdefault(node, {})[job] = gpus
    return requested


def _held(negotiation: Negotiation, b: int, job: JobId) -> dict[NodeId, int]:
    held: dict[NodeId, int] = {}
    share = int(negotiation.state.jobs[b, job].first_share)
    while share >= 0:
        record = negotiation.state.shares[b, share]
        held[int(record.node)] = int(record.gpus)
        share = int(record.next_of_job)
    return held


def demonstrate(requested: RequestedGpus, negotiation: Negotiation, b: int = 0) -> IntArray:
    """Return the joint action int64[num_nodes] that moves the plan of episode `b` towards the requested GPUs.

    All nodes pass once the plan is reached, or as near as the action space allows.
    """
    spec, mask, heads = negotiation.spec, negotiation.arrays.mask[b], negotiation.arrays.heads[b].tolist()
    actions = np.zeros(spec.num_nodes, np.int64)
    for n in range(spec.num_nodes):
        wanted = requested.get(n, {})
        less, more = list[int](), list[int]()
        for slot, (job, present) in enumerate(_slots(negotiation, b, n)):
            gpus = wanted.get(job, 0)
            if gpus != present:
                (less if gpus < present else more).append(spec.action(spec.num_candidates + slot, gpus))
        claims = [spec.action(c, wanted[job]) for c, job in enumerate(heads) if job in wanted]
        actions[n] = next((action for action in (*less, *claims, *more) if mask[n, action]), 0)
    return actions


def _slots(negotiation: Negotiation, b: int, n: NodeId) -> list[tuple[JobId, int]]:
    """Return the jobs in the plan on a node and their GPUs there, in the order of its slots."""
    slots: list[tuple[JobId, int]] = []
    share = int(negotiation.state.nodes[b, n].first_share)
    while share >= 0 and len(slots) < negotiation.spec.num_slots:
        record = negotiation.state.shares[b, share]
        slots.append((int(record.job), int(record.gpus)))
        share = int(record.next_of_node)
    return slots
