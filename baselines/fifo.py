"""First in, first out, with three kinds of backfilling."""

from collections.abc import Sequence
from typing import Literal

import numpy as np

from baselines.compiled.fifo import play_fifo
from baselines.compiled.gang import gangs_of
from baselines.parts.arrays import gang_sizes
from baselines.parts.estimates import remaining_time, remaining_time_on, remaining_work
from baselines.parts.placing import Find, Gpus, best_fit, could_fit, fewest, first_fit, start_waiting, types_by_speed
from envs.scheduling import ClusterView
from envs.simulation import Simulator
from envs.simulation.kernels import LOG_FULL
from envs.types import Allocation, ClusterSpec, IntArray, JobId, MurmurationError, Placement, Seconds

NAME = "Fifo with backfill=easy"  # in complaints


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
        self.find: Find = best_fit if placement == "best_fit" else first_fit
        self.information = "estimate" if backfill == "easy" else "none"

    def reset(self, cluster: ClusterSpec, rng: np.random.Generator) -> None:
        """Nothing to remember."""

    def play(self, simulator: Simulator) -> bool:
        """A whole episode in compiled code; with reservations or first fit only `schedule` plays."""
        gangs = gangs_of(simulator) if self.backfill != "easy" and self.find is best_fit else None
        if gangs is None:
            return False
        while play_fifo(simulator.world, gangs, self.backfill == "skip") == LOG_FULL:
            simulator.grow_log()
        return True

    def schedule(self, view: ClusterView) -> Allocation:
        """What runs goes on; those that wait start in order of submission.

        Raises:
            MurmurationError: backfill is "easy" and the scenario hides remaining work.
        """
        wish = view.allocation(keep_running=True)
        waiting = view.queued.tolist()
        if self.backfill == "skip":
            start_waiting(view, wish, waiting, self.find)
            return wish
        head = 0
        while head < len(waiting) and (found := _found(view, wish.free_gpus, waiting[head], self.find)):
            wish.place(waiting[head], found)
            head += 1
        if self.backfill == "easy" and head + 1 < len(waiting):
            _pass_head(view, wish, waiting[head], waiting[head + 1 :], self.find)
        return wish


def _pass_head(view: ClusterView, wish: Allocation, head: JobId, others: list[JobId], find: Find) -> None:
    """Start those of `others` that do not delay the head: they end before its start, or use GPUs that it leaves."""
    remaining_work(view, np.array([head]), NAME)  # complain at once, not only when there is something to decide
    if not wish.free_gpus.any():
        return
    reservation = _reserve(view, wish, head, find)
    if reservation is None:  # not even an empty cluster holds the head: nobody can delay it
        start_waiting(view, wish, others, find)
        return
    start, then = reservation
    jobs = np.array(others)
    sizes = gang_sizes(view, jobs)
    at_best = view.time + remaining_time(view, jobs, NAME) <= start  # on the fastest type; elsewhere it lasts longer
    while jobs.size:
        able = could_fit(view.cluster, wish.free_gpus, sizes)
        able &= at_best | could_fit(view.cluster, np.minimum(wish.free_gpus, then), sizes)
        jobs, sizes, at_best = jobs[able], sizes[able], at_best[able]
        passed = _first_to_pass(view, wish, jobs.tolist(), sizes.tolist(), start, then, find) + 1
        jobs, sizes, at_best = jobs[passed:], sizes[passed:], at_best[passed:]


def _first_to_pass(
    view: ClusterView,
    wish: Allocation,
    jobs: list[JobId],
    sizes: list[int],
    start: Seconds,
    then: IntArray,
    find: Find,
) -> int:
    """Start the first of `jobs` that may pass the head, and say which in the list it is; its length if none may."""
    places: dict[tuple[int, Sequence[int]], tuple[Gpus, Gpus]] = {}  # now, and beside the head then
    for index, (job, size) in enumerate(zip(jobs, sizes, strict=True)):
        types = types_by_speed(view, job, size)
        if not types or (size, types) not in places:  # without types it is the model that decides
            beside = np.minimum(wish.free_gpus, then)
            places[size, types] = find(view, wish.free_gpus, job, size, types), find(view, beside, job, size, types)
        now, later = places[size, types]
        if now and view.time + _duration(view, job, Placement(now)) <= start:
            wish.place(job, now)
            return index
        if later:
            wish.place(job, later)
            for node, gpus in later.items():
                then[node] -= gpus
            return index
    return len(jobs)


def _reserve(view: ClusterView, wish: Allocation, head: JobId, find: Find) -> tuple[Seconds, IntArray] | None:
    """When the head can start at the earliest, and the GPUs free at that instant with the head on its own.

    Free GPUs only become more from end to end, so the first end that suffices is found by bisection.
    """
    jobs = np.sort(np.array(list(wish.jobs()), dtype=np.int64))
    places = [place for job in jobs.tolist() if (place := wish.placement(job))]
    ends = view.time + remaining_time_on(view, jobs, places, NAME)
    order = np.lexsort((jobs, ends))

    def free_after(count: int) -> IntArray:
        """int64[num_nodes]: GPUs free when so many jobs have ended."""
        free = wish.free_gpus.copy()
        for index in order[:count].tolist():
            for node, gpus in places[index].gpus.items():
                free[node] += gpus
        return free

    count = fewest(len(jobs), lambda count: bool(_found(view, free_after(count), head, find)))
    if count is None:
        return None
    then = free_after(count)
    for node, gpus in _found(view, then, head, find).items():
        then[node] -= gpus
    return float(ends[order[count - 1]]), then


def _found(view: ClusterView, free: IntArray, job: JobId, find: Find) -> Gpus:
    """Where a job goes on its requested GPUs; empty if there is no room."""
    size = int(gang_sizes(view, np.array([job]))[0])
    return find(view, free, job, size, types_by_speed(view, job, size))


def _duration(view: ClusterView, job: JobId, place: Placement) -> Seconds:
    return float(remaining_time_on(view, np.array([job]), [place], NAME)[0])
