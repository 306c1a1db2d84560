"""Checks of what a scheduler has decided, before anything is done."""

import numpy as np

from deployment.reading import quote
from deployment.state import Decision
from envs.simulation import SimulationView, Snapshot
from envs.types import AllocationError, MurmurationError

MOST = 2**31  # a job, a node or a number of GPUs beyond it is none


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
