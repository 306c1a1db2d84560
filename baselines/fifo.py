"""First in, first out, with three kinds of backfilling."""

from typing import Literal

import numpy as np

from baselines.estimates import remaining_time, remaining_time_in_place, types_by_speed
from envs.scheduling import ClusterView
from envs.types import Allocation, ClusterSpec, JobId, MurmurationError, Seconds


class Fifo:
    """Gangs in order of submission on their requested GPUs; nothing is ever preempted.

    Args:
        backfill: what happens behind a job that does not fit.
            "none": nobody passes it; GPUs idle until it starts.
            "skip": whoever fits starts, in order of submission. Keeps GPUs busy; a large job can starve for as
                long as small ones keep coming.
            "easy": the blocked head gets a reservation at the earliest instant at which running jobs, by their estimates, will have left
                room for it; others pass only if they do not delay it (Lifka, "The ANL/IBM SP scheduling system", JSSPP'95). Only the
                head is protected, as in the original.
    """

    preemptive = False
    elastic = False

    def __init__(self, backfill: Literal["none", "skip", "easy"] = "none") -> None:
        if backfill not in ("none", "skip", "easy"):
            raise MurmurationError(f"Fifo: backfill is {backfill!r}; it must be none, skip or easy")
        self.backfill = backfill
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
                wish.pack(job)
            return wish
        while waiting and wish.pack(waiting[0]):
            waiting.pop(0)
        if self.backfill == "easy" and len(waiting) > 1:
            _pass_head(view, wish, waiting[0], waiting[1:])
        return wish


def _pass_head(view: ClusterView, wish: Allocation, head: JobId, others: list[JobId]) -> None:
    """Start those of `others` that do not delay the head: they end before its start, or use GPUs that it leaves."""
    reservation = _reserve(view, wish, head)
    if reservation is None:  # not even an empty cluster holds the head: it cannot be delayed
        for job in others:
            wish.pack(job)
        return
    start, later = reservation
    for job in others:
        trial = view.allocation(keep_running=True)
        trial.free_gpus[:] = wish.free_gpus
        if not trial.pack(job):
            continue
        if view.time + _duration(view, trial, job) <= start:
            wish.place(job, _placed(trial, job))
            continue
        trial = view.allocation(keep_running=True)
        trial.free_gpus[:] = np.minimum(wish.free_gpus, later.free_gpus)
        if trial.pack(job):
            wish.place(job, _placed(trial, job))
            later.place(job, _placed(trial, job))


def _reserve(view: ClusterView, wish: Allocation, head: JobId) -> tuple[Seconds, Allocation] | None:
    """When the head can start at the earliest, and the cluster of that instant with the head on its GPUs."""
    later = view.allocation(keep_running=True)
    started = [int(job) for job in view.queued if wish.placement(int(job))]
    for job in started:
        later.place(job, _placed(wish, job))
    ends = list(zip(remaining_time_in_place(view, view.running, "Fifo"), view.running.tolist(), strict=True))
    ends += [(_duration(view, wish, job), job) for job in started]
    for left, job in sorted(ends):
        later.stop(job)
        if later.pack(head):
            return view.time + float(left), later
    return None
