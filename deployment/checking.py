"""Checks of what a cluster reports, before it is believed, and of what a scheduler decides, before it is done."""

from collections import Counter
from collections.abc import Sequence

import numpy as np

from deployment.reading import quote
from deployment.state import ClusterState, Decision
from envs.simulation import SimulationView, Snapshot
from envs.types import AllocationError, ClusterSpec, JobId, JobSpec, MurmurationError

MOST = 2**31  # a job, a node or a number of GPUs beyond it is none


def check_known(job: JobId, submitted: int) -> None:
    """Check that a job was submitted.

    Raises:
        MurmurationError: it was not.
    """
    if not 0 <= job < submitted:
        raise MurmurationError(f"job {job}: was not submitted; jobs are 0 to {submitted - 1}")


def check_state(state: ClusterState, cluster: ClusterSpec, jobs: Sequence[JobSpec], done: Sequence[bool]) -> None:
    """Check the jobs and nodes of a state, and that each placement exists, before their numbers index anything.

    Whether all placements fit on the cluster together is left to the engine.

    Args:
        state: the state.
        cluster: the nodes.
        jobs: all jobs that were submitted.
        done: which of them are completed.

    Raises:
        MurmurationError: a job is unknown, is there twice, is both open and done or neither, or a node does not exist.
        AllocationError: a placement has more GPUs than a node, or a number outside of the job's range.
    """
    when = f"at t = {state.time:g} s"
    seen = {each.job for each in state.jobs}
    for job in (job for job, over in enumerate(done) if not over and job not in seen):
        raise MurmurationError(f"job {job}: has no state {when} and is not completed either")
    if len(seen) < len(state.jobs):
        twice = Counter(each.job for each in state.jobs).most_common(1)[0][0]
        raise MurmurationError(f"job {twice}: has several states {when}; send one")
    for node in sorted({*state.down, *(node for each in state.jobs if each.placement for node in each.placement.gpus)}):
        if not 0 <= node < cluster.num_nodes:
            raise MurmurationError(f"node {node} does not exist; nodes are 0 to {cluster.num_nodes - 1}")
    for each in state.jobs:
        check_known(each.job, len(jobs))
        if done[each.job]:
            raise MurmurationError(f"job {each.job}: is completed, and has a state {when} all the same")
        spec, gpus = jobs[each.job], each.placement.gpus if each.placement else {}
        for node, count in gpus.items():
            most = cluster.nodes[node].num_gpus
            if not 1 <= count <= most:
                raise AllocationError(f"job {each.job}: holds {count} GPUs on node {node} {when}, which has {most}")
        if gpus and not spec.min_gpus <= sum(gpus.values()) <= spec.max_gpus:
            raise AllocationError(
                f"job {each.job}: holds {sum(gpus.values())} GPUs {when}; its range is {spec.min_gpus} to "
                f"{spec.max_gpus}"
            )


def check_decision(decision: Decision, trial: Snapshot) -> None:
    """Apply a decision to a copy of the cluster, which refuses what the simulator refuses.

    Args:
        decision: changes of what runs.
        trial: the copy, which changes.

    Raises:
        AllocationError: the decision does not fit; one line names the job, the node or the resource.
    """
    allocation = trial.view.allocation(keep_running=True)
    try:
        _check_form(decision, trial.view)
        allocation.changes.update(decision.placements)
        allocation.next_decision = decision.next_decision
        trial.apply(allocation)
    except MurmurationError:
        raise
    except (TypeError, ValueError, LookupError, ArithmeticError, AttributeError) as error:
        raise AllocationError(
            f"the decision at t = {trial.view.time:g} s has a value of the wrong type "
            f"({type(error).__name__}: {error}); give placements as docs/how_to/scheduler.md does"
        ) from error


def _check_form(decision: Decision, view: SimulationView) -> None:
    """Check what the engine takes for granted: jobs, nodes and GPUs are whole numbers, a guest's GPUs its owner's.

    Raises:
        AllocationError: one is not.
    """
    for job, placement in decision.placements.items():
        if placement is None:
            numbers: list[object] = [job]
        else:
            numbers = [job, *placement.gpus.keys(), *placement.gpus.values()]
        for number in numbers:
            if isinstance(number, bool) or not isinstance(number, int | np.integer) or abs(int(number)) > MOST:
                raise AllocationError(
                    f"job {quote(job)}: its placement has {quote(number)} for a job, a node or GPUs; give whole numbers"
                )
        if placement is None or placement.beside is None:
            continue
        running = view.placement(placement.beside) if placement.beside in view.running else None
        owner = decision.placements.get(placement.beside, running)
        if owner is None or dict(owner.gpus) != dict(placement.gpus):
            raise AllocationError(
                f"job {job}: is to share the GPUs of job {quote(placement.beside)}, which holds "
                f"{'none' if owner is None else 'other GPUs'}; both must hold the same"
            )
