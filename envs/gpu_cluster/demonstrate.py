"""Translation of a scheduler's allocation into the nodes' choices, from which agents learn by imitation.

A round's allocation is reached decision by decision. Each node first takes GPUs from jobs that should have fewer here,
then claims waiting jobs that it should hold, in queue order, then gives GPUs to jobs that should have more. The action
space cannot express everything: a waiting job beyond the head of the queue, or an elastic job that should start on two
nodes although one suffices, is skipped. A demonstration can therefore be slightly worse than its scheduler.
"""

from collections.abc import Mapping

import numpy as np

from envs.gpu_cluster.negotiation import Negotiation
from envs.simulation.kernels import RUNNING
from envs.types import Allocation, IntArray, JobId, NodeId

RequestedGpus = Mapping[NodeId, Mapping[JobId, int]]  # by node, the requested GPUs of each job there


def requested_gpus(allocation: Allocation, negotiation: Negotiation, b: int = 0) -> RequestedGpus:
    """Return an allocation by node. Jobs that it omits are absent, unless it keeps running jobs."""
    requested: dict[NodeId, dict[JobId, int]] = {}
    state = negotiation.state
    if allocation.keep_running:
        for job in np.flatnonzero(state.jobs[b]["status"] == RUNNING).tolist():
            if job not in allocation.changes:
                for node, gpus in _held(negotiation, b, job).items():
                    requested.setdefault(node, {})[job] = gpus
    for job, node, gpus in allocation.shares():
        requested.setdefault(node, {})[job] = gpus
    return requested


def _held(negotiation: Negotiation, b: int, job: JobId) -> dict[NodeId, int]:
    held: dict[NodeId, int] = {}
    share = negotiation.state.jobs[b, job].first_share
    while share >= 0:
        record = negotiation.state.shares[b, share]
        held[int(record.node)] = int(record.gpus)
        share = record.next_of_job
    return held


def demonstrate(requested: RequestedGpus, negotiation: Negotiation, b: int = 0) -> IntArray:
    """Return the joint action int64[num_nodes] that moves the plan of episode `b` towards the requested GPUs.

    All nodes pass once the plan is reached, or as near as the action space allows.
    """
    arrays, spec = negotiation.arrays, negotiation.spec
    heads = arrays.heads[b]
    mask = arrays.mask[b]
    actions = np.zeros(spec.num_nodes, np.int64)
    for n in range(spec.num_nodes):
        wanted = requested.get(n, {})
        slots = _slots(negotiation, b, n)
        options = [
            *(
                (spec.num_candidates + i, wanted.get(job, 0))
                for i, (job, here) in enumerate(slots)
                if wanted.get(job, 0) < here
            ),
            *((c, wanted[int(job)]) for c, job in enumerate(heads) if int(job) in wanted),
            *(
                (spec.num_candidates + i, wanted[job])
                for i, (job, here) in enumerate(slots)
                if wanted.get(job, 0) > here
            ),
        ]
        for choice, gpus in options:
            action = spec.action(choice, gpus)
            if mask[n, action]:
                actions[n] = action
                break
    return actions


def _slots(negotiation: Negotiation, b: int, n: NodeId) -> list[tuple[JobId, int]]:
    """Return the jobs in the plan on a node and their GPUs there, in the order of its slots."""
    slots: list[tuple[JobId, int]] = []
    share = negotiation.state.nodes[b, n].first_share
    while share >= 0 and len(slots) < negotiation.spec.num_slots:
        record = negotiation.state.shares[b, share]
        slots.append((int(record.job), int(record.gpus)))
        share = record.next_of_node
    return slots
