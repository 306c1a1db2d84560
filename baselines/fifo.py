"""First in, first out, with three kinds of backfilling."""

from collections.abc import Callable
from typing import Literal, TypeAlias

import numpy as np

from baselines.estimates import remaining_time_on
from baselines.placing import pack, pack_first
from envs.scheduling import ClusterView
from envs.types import Allocation, ClusterSpec, IntArray, JobId, MurmurationError, Placement, Seconds

Put: TypeAlias = Callable[[ClusterView, Allocation, JobId], bool]  # places a job if there is room


class Fifo:
    """Gangs in order of submission on their requested GPUs; nothing is ever preempted.

    Args:
        backfill: what happens behind a job that does not fit.
            "none": nobody passes it; GPUs idle until it starts.
            "skip": whoever fits starts, in order of submission. Keeps GPUs busy; a large job can starve for as
                long as small ones keep coming.
            "easy": the blocked head gets a reservation at the earliest instant at which running jobs, by their
            estimates, will have left
                room for it; others pass only if they do not delay it (Lifka, "The ANL/IBM SP scheduling system",
                JSSPP'95). Only the head is protected, as in the original.
        placement: "best_fit" takes the node that leaves least free, "first_fit" the first with room, as the
            simulators of Tiresias and Muri do.
    """

    preemptive = False
    elastic = False

    def __init__(
        self,
        backfill: Literal["none", "skip", "easy"] = "none",
        placement: Literal["best_fit", "first_fit"] = "best_fit",
    ) -> None:
        if backfill not in ("none", "skip", "easy"):
            raise MurmurationError(f"Fifo: backfill is {backfill!r}; it must be none, skip or easy")
        if placement not in ("best_fit", "first_fit"):
            raise MurmurationError(f"Fifo: placement is {placement!r}; it must be best_fit or first_fit")
        self.backfill = backfill
        self.put: Put = pack if placement == "best_fit" else pack_first
        self.information = "estimate" if backfill == "easy" else "none"

    def reset(self, cluster: ClusterSpec, rng: np.random.Generator) -> None:
        """Nothing to remember."""

    def schedule(self, view: ClusterView) -> Allocation:
        """What runs goes on; those that wait start in order of submission.

        Raises:
            MurmurationError: backfill is "easy" and the scenario hides remaining work.
        """
        wish = view.allocation(keep_running=True)
        waiting = view.queued.tolist()
        if self.backfill == "skip":
            for job in waiting:
                self.put(view, wish, job)
            return wish
        while waiting and self.put(view, wish, waiting[0]):
            waiting.pop(0)
        if self.backfill == "easy" and len(waiting) > 1:
            _pass_head(view, wish, waiting[0], waiting[1:], self.put)
        return wish


def _pass_head(view: ClusterView, wish: Allocation, head: JobId, others: list[JobId], put: Put) -> None:
    """Start those of `others` that do not delay the head: they end before its start, or use GPUs that it leaves."""
    reservation = _reserve(view, wish, head, put)
    if reservation is None:  # not even an empty cluster holds the head: nobody can delay it
        for job in others:
            put(view, wish, job)
        return
    start, then = reservation
    for job in others:
        place = _find(view, job, wish.free_gpus, put)
        if place and view.time + _duration(view, job, place) <= start:
            wish.place(job, place)
            continue
        place = _find(view, job, np.minimum(wish.free_gpus, then.free_gpus), put)
        if place:
            wish.place(job, place)
            then.place(job, place)


def _reserve(view: ClusterView, wish: Allocation, head: JobId, put: Put) -> tuple[Seconds, Allocation] | None:
    """When the head can start at the earliest, and the cluster of that instant with the head on its GPUs."""
    then = view.allocation(keep_running=True)
    ends: list[tuple[Seconds, JobId]] = []
    for job in [*view.running.tolist(), *view.queued.tolist()]:
        place = wish.placement(job)
        if place:
            then.place(job, place)
            ends.append((view.time + _duration(view, job, place), job))
    for end, job in sorted(ends):
        then.stop(job)
        if put(view, then, head):
            return end, then
    return None


def _find(view: ClusterView, job: JobId, free_gpus: IntArray, put: Put) -> Placement | None:
    """Where a waiting job would be packed if only these GPUs were free."""
    trial = view.allocation()
    trial.free_gpus[:] = free_gpus
    put(view, trial, job)
    return trial.placement(job)


def _duration(view: ClusterView, job: JobId, place: Placement) -> Seconds:
    return float(remaining_time_on(view, np.array([job]), [place], "Fifo with backfill=easy")[0])
