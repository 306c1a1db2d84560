"""First in, first out, with three backfilling rules."""

from collections.abc import Sequence
from typing import Literal

import numpy as np

from baselines.compiled.fifo import play_fifo
from baselines.compiled.gang import gangs_of
from baselines.parts.arrays import gang_sizes, shapes_at
from baselines.parts.estimates import remaining_time, remaining_time_on, require_remaining_work
from baselines.parts.placing import (
    Find,
    Gpus,
    best_fit,
    constraints_at,
    could_fit,
    fewest,
    first_fit,
    start_waiting,
    types_by_throughput,
)
from envs.scheduling import ClusterView
from envs.simulation import SimulatedEpisode
from envs.simulation.world.kernels import LOG_FULL
from envs.types import Allocation, ClusterSpec, Constraints, IntArray, JobId, MurmurationError, Placement, Seconds

NAME = "Fifo with backfill=easy"  # in error messages


class Fifo:
    """Gangs in order of submission on their requested GPUs; nothing is ever preempted.

    Args:
        backfill: what happens behind a job that does not fit.
            "none": no job passes it; GPUs idle until it starts.
            "skip": every job that fits starts, in order of submission. This keeps GPUs busy, but a large job can
                starve for as long as small ones arrive.
            "easy": the blocked head gets a reservation at the earliest instant at which enough running jobs will have
                ended, by their estimates. Other jobs pass only if they do not delay it (Lifka, "The ANL/IBM SP
                scheduling system", JSSPP'95). Only the head is protected, as in the original.
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
        """Do nothing: no state is kept between rounds."""

    def play(self, simulator: SimulatedEpisode) -> bool:
        """Play a whole episode in compiled code; return False with reservations or first fit, which need `schedule`."""
        gangs = gangs_of(simulator) if self.backfill != "easy" and self.find is best_fit else None
        if gangs is None:
            return False
        while play_fifo(simulator.world, gangs, self.backfill == "skip") == LOG_FULL:
            simulator.grow_log()
        return True

    def schedule(self, view: ClusterView) -> Allocation:
        """Keep running jobs and start waiting ones in order of submission.

        Raises:
            MurmurationError: backfill is "easy" and the scenario hides remaining work.
        """
        allocation = view.allocation(keep_running=True)
        waiting = view.queued.tolist()
        if self.backfill == "skip":
            start_waiting(view, allocation, waiting, self.find)
            return allocation
        head = 0
        while head < len(waiting) and (found := _found(view, allocation.free_gpus, waiting[head], self.find)):
            allocation.place(waiting[head], found)
            head += 1
        if self.backfill == "easy" and head + 1 < len(waiting):
            _pass_head(view, allocation, waiting[head], waiting[head + 1 :], self.find)
        return allocation


def _pass_head(view: ClusterView, allocation: Allocation, head: JobId, others: list[JobId], find: Find) -> None:
    """Start those of `others` that do not delay the head: they end before its start, or use GPUs that it leaves."""
    require_remaining_work(view, np.array([head]), NAME)  # raise at once, not only when there is something to decide
    if not allocation.free_gpus.any():
        return
    reservation = _reserve(view, allocation, head, find)
    if reservation is None:  # not even an empty cluster holds the head, so no job can delay it
        start_waiting(view, allocation, others, find)
        return
    start, then = reservation
    jobs = np.array(others)
    sizes = gang_sizes(view, jobs)
    at_best = view.time + remaining_time(view, jobs, NAME) <= start  # on the fastest type; other types take longer
    while jobs.size:
        shapes = shapes_at(view, jobs)
        able = could_fit(view.cluster, allocation.free_gpus, sizes, shapes)
        able &= at_best | could_fit(view.cluster, np.minimum(allocation.free_gpus, then), sizes, shapes)
        jobs, sizes, at_best = jobs[able], sizes[able], at_best[able]
        passed = _first_to_pass(view, allocation, jobs.tolist(), sizes.tolist(), start, then, find) + 1
        jobs, sizes, at_best = jobs[passed:], sizes[passed:], at_best[passed:]


def _first_to_pass(
    view: ClusterView,
    allocation: Allocation,
    jobs: list[JobId],
    sizes: list[int],
    start: Seconds,
    then: IntArray,
    find: Find,
) -> int:
    """Start the first of `jobs` that may pass the head; return its index, or `len(jobs)` if none may."""
    places: dict[tuple[int, Sequence[int], Constraints], tuple[Gpus, Gpus]] = {}  # now, and beside the head later
    for index, (job, size) in enumerate(zip(jobs, sizes, strict=True)):
        types = types_by_throughput(view, job, size)
        like = size, types, constraints_at(view, job)
        if not types or like not in places:  # without types the model decides: no cache
            beside = np.minimum(allocation.free_gpus, then)
            places[like] = (
                find(view, allocation.free_gpus, job, size, types),
                find(view, beside, job, size, types),
            )
        now, later = places[like]
        if now and view.time + _duration(view, job, Placement(now)) <= start:
            allocation.place(job, now)
            return index
        if later:
            allocation.place(job, later)
            for node, gpus in allocation.held(job, later).items():
                then[node] -= gpus
            return index
    return len(jobs)


def _reserve(view: ClusterView, allocation: Allocation, head: JobId, find: Find) -> tuple[Seconds, IntArray] | None:
    """Return the earliest start of the head and the GPUs free at that instant beside the head; None if there is none.

    The number of free GPUs only grows with each job that ends, so the first end that suffices is found by bisection.
    """
    jobs = np.sort(np.array(list(allocation.jobs()), dtype=np.int64))
    places = [place for job in jobs.tolist() if (place := allocation.placement(job))]
    ends = view.time + remaining_time_on(view, jobs, places, NAME)
    order = np.lexsort((jobs, ends))

    def free_after(count: int) -> IntArray:
        """int64[num_nodes]: GPUs free when the first `count` jobs have ended."""
        free = allocation.free_gpus.copy()
        for index in order[:count].tolist():
            for node, gpus in allocation.held(int(jobs[index]), places[index].gpus).items():
                free[node] += gpus
        return free

    count = fewest(len(jobs), lambda count: bool(_found(view, free_after(count), head, find)))
    if count is None:
        return None
    then = free_after(count)
    for node, gpus in allocation.held(head, _found(view, then, head, find)).items():
        then[node] -= gpus
    return float(ends[order[count - 1]]), then


def _found(view: ClusterView, free: IntArray, job: JobId, find: Find) -> Gpus:
    """Find nodes for a job on its requested GPUs; empty if there is no room."""
    size = int(gang_sizes(view, np.array([job]))[0])
    return find(view, free, job, size, types_by_throughput(view, job, size))


def _duration(view: ClusterView, job: JobId, place: Placement) -> Seconds:
    return float(remaining_time_on(view, np.array([job]), [place], NAME)[0])
