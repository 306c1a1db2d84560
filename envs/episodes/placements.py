"""What a job gets in the plan of a round, as a placement."""

from collections.abc import Sequence

from envs.simulation import State
from envs.simulation.shares import NAMED_CPUS, NAMED_MEMORY
from envs.types import ExecutionPlan, JobId, NodeId, Placement


def placement_in_plan(state: State, b: int, job: JobId, plans: Sequence[ExecutionPlan] = ()) -> Placement | None:
    """Return what a job gets in the plan of an episode, with what the placement names; None for no GPUs.

    Args:
        state: the engine's arrays.
        b: the episode.
        job: a job that the plan has touched.
        plans: the execution plans to which placements refer.
    """
    record = state.jobs[b, job]
    gpus, cpus, memory = dict[NodeId, int](), dict[NodeId, float](), dict[NodeId, float]()
    share = record.first_share
    while share >= 0:
        part = state.shares[b, share]
        node = int(part.node)
        gpus[node], cpus[node], memory[node] = int(part.gpus), float(part.cpus), float(part.memory)
        share = part.next_of_job
    if not gpus:
        return None
    return Placement(
        gpus,
        cpus=cpus if record.named & NAMED_CPUS else None,
        memory=memory if record.named & NAMED_MEMORY else None,
        plan=plans[record.plan] if record.plan >= 0 else None,
        batch_size=int(record.batch_size) or None,
    )
