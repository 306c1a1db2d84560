"""A scheduler's wish as the servers' choices: how heuristics teach agents.

A round's wish is reached decision by decision: each server first takes GPUs from jobs that should have fewer here,
then claims waiting jobs that it should hold, in queue order, then gives more to jobs that should have more. What the
interface cannot express (a waiting job beyond the head of the queue, an elastic job that should begin on two servers
although one would do) is left undone, so a demonstration can be a little worse than its scheduler.
"""

from collections.abc import Mapping

import numpy as np

from envs.gpu_cluster.negotiation import Negotiation
from envs.simulation.kernels import RUNNING
from envs.types import Allocation, IntArray, JobId, NodeId

Wish = Mapping[NodeId, Mapping[JobId, int]]  # by node, the GPUs of each job that should have some there


def wish_of(allocation: Allocation, negotiation: Negotiation, b: int = 0) -> Wish:
    """An allocation by node. Jobs that it leaves out are absent, unless it keeps what runs."""
    wish: dict[NodeId, dict[JobId, int]] = {}
    state = negotiation.state
    if allocation.keep_running:
        for job in np.flatnonzero(state.jobs[b]["status"] == RUNNING).tolist():
            if job not in allocation.changes:
                for node, gpus in _held(negotiation, b, job).items():
                    wish.setdefault(node, {})[job] = gpus
    for job, node, gpus in allocation.shares():
        wish.setdefault(node, {})[job] = gpus
    return wish


def _held(negotiation: Negotiation, b: int, job: JobId) -> dict[NodeId, int]:
    held: dict[NodeId, int] = {}
    share = negotiation.state.jobs[b, job].first_share
    while share >= 0:
        record = negotiation.state.shares[b, share]
        held[int(record.node)] = int(record.gpus)
        share = record.next_of_job
    return held


def demonstrate(wish: Wish, negotiation: Negotiation, b: int = 0) -> IntArray:
    """The joint action int64[num_servers] that brings the plan of episode `b` nearer to the wish; all 0 once there."""
    arrays, spec = negotiation.arrays, negotiation.spec
    heads = arrays.heads[b]
    mask = arrays.mask[b]
    actions = np.zeros(spec.num_servers, np.int64)
    for n in range(spec.num_servers):
        wanted = wish.get(n, {})
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
    """Jobs in the plan on a server and their GPUs there, in the order of its slots."""
    slots: list[tuple[JobId, int]] = []
    share = negotiation.state.nodes[b, n].first_share
    while share >= 0 and len(slots) < negotiation.spec.num_slots:
        record = negotiation.state.shares[b, share]
        slots.append((int(record.job), int(record.gpus)))
        share = record.next_of_node
    return slots
