"""Muri: jobs in order of priority, grouped in pairs by a matching where GPUs are scarce."""

from collections.abc import Iterator, Mapping, Sequence
from typing import Literal, TypeAlias

import numpy as np
from scipy.optimize import Bounds, LinearConstraint
from scipy.sparse import csr_array

from baselines.parts.arrays import gang_sizes, throughputs_at
from baselines.parts.estimates import remaining_time
from baselines.parts.grants import capacity_by_type
from baselines.parts.highs import milp
from baselines.parts.pairing import owner_first, place_beside, separate_pairs, type_of
from baselines.parts.placing import best_fit, start_waiting, types_by_throughput
from baselines.parts.priority import jobs_present, place_in_order, ranked
from baselines.parts.round_timer import RoundTimer
from envs.scheduling import ClusterView
from envs.types import Allocation, ClusterSpec, FloatArray, GpuSeconds, IntArray, JobId, MurmurationError, Seconds

Pair: TypeAlias = tuple[JobId, JobId]  # the lower one first

IN_TURNS = 1.0  # what two jobs keep together if they take turns
MOST_NODES = 10_000  # of the search for a matching; a guard


class Muri:
    """Pairs of jobs by a matching of largest weight (Zhao et al., SIGCOMM'22, sections 4 and 5): a reconstruction.

    As in the artifact: jobs are taken in order of priority while GPUs last, and with each of them the next one of its
    size, since two are to fit into its place. Among the jobs of a size that are taken, a matching of largest weight
    finds pairs, and pairs share GPUs, the most efficient ones first, only until all jobs taken have room.

    Simplified:

    - Groups have at most two jobs, since two may share GPUs here; Muri's have up to four.
    - The weight of a pair is what the two keep of their throughputs together (`view.pair_factors`), over 2 and as the
      mean over the GPU types on which both run. Muri derives it from the durations of the stages of their steps, which
      views do not have. A pair that keeps less than it would in turns counts as none, as with the artifact's
      `autopack`, and runs only on types where it keeps more.
    - The matching is an integer program over classes of jobs of one model. It has the weight of Muri's matching of
      single jobs, since jobs of one model are alike. Pairs that run already go first within their classes.
    - Groups take the place of their first job in the order of priority. GPUs that are left go to other waiting jobs.

    Args:
        by: "gpu_time" orders jobs by remaining time times GPUs (Muri-S). "service" needs no remaining work (Muri-L): by
            queues of attained service, in each by submission.
        limits: GPU-seconds at which a job falls to the next queue, ascending; only for "service".
        round_length: seconds of a round. In between, running jobs continue and others start on idle GPUs.

    Raises:
        MurmurationError: a setting is out of range.
    """

    preemptive = True
    elastic = False

    def __init__(
        self,
        by: Literal["gpu_time", "service"] = "gpu_time",
        limits: Sequence[GpuSeconds] = (3250.0, 7200.0, 18000.0),
        round_length: Seconds = 360.0,
    ) -> None:
        if by not in ("gpu_time", "service"):
            raise MurmurationError(f"Muri: by is {by!r}; it must be gpu_time or service")
        if not len(limits) or not (np.diff(limits, prepend=0.0) > 0).all():
            raise MurmurationError(
                f"Muri: limits are {list(limits)} GPU-seconds; give at least one, positive and ascending"
            )
        self.by, self.limits = by, np.array(limits, dtype=np.float64)
        self.information = "estimate" if by == "gpu_time" else "none"
        self._round_clock = RoundTimer("Muri", round_length)

    def reset(self, cluster: ClusterSpec, rng: np.random.Generator) -> None:
        """Begin a new episode."""
        self._round_clock.forget()

    def schedule(self, view: ClusterView) -> Allocation:
        """Group jobs and run them in order of priority; between rounds start jobs on idle GPUs.

        Raises:
            MurmurationError: jobs are to be ordered by GPU time, and the scenario hides remaining work.
        """
        order = self._order(view)
        allocation = view.allocation(keep_running=True)
        if not self._round_clock.begin(view.time):
            running = set(view.running.tolist())
            start_waiting(view, allocation, [job for job in order if job not in running], best_fit)
            return allocation
        sizes = dict(zip(order, gang_sizes(view, np.array(order, np.int64)).tolist(), strict=True))
        chosen = take_twice(sizes, int(view.capacity.sum()))
        allowed = group_in_pairs(view, {job: sizes[job] for job in chosen}) if view.shares_gpus else {}
        self._place(view, allocation, [*chosen, *(job for job in order if job not in chosen)], sizes, allowed)
        return allocation

    def _place(
        self,
        view: ClusterView,
        allocation: Allocation,
        order: Sequence[JobId],
        sizes: Mapping[JobId, int],
        pairs: Mapping[Pair, frozenset[int]],
    ) -> None:
        """Place jobs in order, pairs at the turn of their first job and on the GPU types that are allowed for them."""
        types = {job: types_by_throughput(view, job, sizes[job]) for job in order}
        turn = {job: place for place, job in enumerate(order)}
        owners: dict[JobId, JobId] = {}
        running = set(view.running.tolist())
        for pair, allowed in pairs.items():
            owner, guest = owner_first(view, pair, running)
            owners[guest], turn[owner] = owner, min(turn[job] for job in pair)
            types[owner] = [gpu_type for gpu_type in types[owner] if gpu_type in allowed]
        leading = sorted((job for job in order if job not in owners), key=turn.__getitem__)
        separate_pairs(view, allocation, set(leading))
        for job in owners:
            if allocation.placement(job) is not None:
                allocation.stop(job)
        place_in_order(view, allocation, leading, sizes, types)
        placed = {guest: owner for guest, owner in owners.items() if self._allowed(view, allocation, owner, types)}
        place_beside(view, allocation, placed)
        runs = allocation.jobs()
        start_waiting(view, allocation, [job for job in order if job not in runs], best_fit)

    def _allowed(
        self, view: ClusterView, allocation: Allocation, owner: JobId, types: Mapping[JobId, Sequence[int]]
    ) -> bool:
        place = allocation.placement(owner)
        return place is not None and type_of(view, place) in types[owner]

    def _order(self, view: ClusterView) -> Sequence[JobId]:
        jobs = jobs_present(view)
        if self.by == "gpu_time":
            return ranked(jobs, remaining_time(view, jobs, "Muri") * view.num_gpus[jobs])
        queue = np.searchsorted(self.limits, view.attained_service(jobs), side="right")
        return ranked(jobs, queue.astype(np.float64))


def take_twice(sizes: Mapping[JobId, int], num_gpus: int) -> list[JobId]:
    """Take jobs while GPUs last, and with each job that finds room the next one of its size.

    Args:
        sizes: GPUs of each job, in order of priority.
        num_gpus: of the cluster.

    Returns:
        The jobs taken, in their order.
    """
    waiting: dict[int, list[JobId]] = {}
    for job in reversed(list(sizes)):
        waiting.setdefault(sizes[job], []).append(job)
    taken: set[JobId] = set()
    for job, size in sizes.items():
        if job not in taken and size <= num_gpus:
            num_gpus -= size
            taken.update(waiting[size].pop() for _ in range(min(2, len(waiting[size]))))
    return [job for job in sizes if job in taken]


def group_in_pairs(view: ClusterView, sizes: Mapping[JobId, int]) -> dict[Pair, frozenset[int]]:
    """Choose pairs until all jobs have room: of the pairs of a matching of largest weight the most efficient ones.

    Args:
        view: the round.
        sizes: GPUs of each job, in order of priority.

    Returns:
        The GPU types, as indices, on which each pair keeps more than it would in turns.
    """
    found: list[tuple[float, Pair, frozenset[int]]] = []
    needed = sum(sizes.values()) - int(view.capacity.sum())
    for size in sorted(set(sizes.values()) if needed > 0 else ()):
        jobs = np.array([job for job, each in sizes.items() if each == size], np.int64)
        models, classes, count = np.unique(view.model[jobs], return_inverse=True, return_counts=True)
        runs = throughputs_at(view, jobs[np.unique(classes, return_index=True)[1]], np.full(len(models), size)) > 0
        kept = view.pair_factors[:, models[:, None], models[None]]
        back = kept.transpose(0, 2, 1)
        fits = (kept > 0) & (back > 0) & (runs[:, None] & runs[None]).transpose(2, 0, 1)
        together = np.where(fits & ((capacity_by_type(view) >= size)[:, None, None]), kept + back, 0.0)
        useful = together > IN_TURNS
        weight = np.where(useful, together, 0.0).sum(axis=0) / np.maximum(2 * useful.sum(axis=0), 1)
        for one, other, pair in pair_jobs(match_models(weight, count), jobs, classes, view.pairs):
            wasted = (1.0 - float(weight[one, other])) * size
            found.append((wasted, pair, frozenset(np.flatnonzero(useful[:, one, other]).tolist())))
    chosen: dict[Pair, frozenset[int]] = {}
    for _, pair, allowed in sorted(found, key=lambda each: each[:2]):
        if needed > 0:
            chosen[pair] = allowed
            needed -= sizes[pair[0]]
    return chosen


def match_models(weight: FloatArray, count: IntArray) -> IntArray:
    """Return how many pairs of each two classes a matching of largest weight has.

    Args:
        weight: float64[num_classes, num_classes], symmetric; a pair of weight 0 is not made.
        count: int64[num_classes], jobs of each class.

    Returns:
        int64[num_classes, num_classes], upper triangle; all 0 if the program was not solved.
    """
    number = np.zeros(weight.shape, np.int64)
    one, other = np.nonzero(np.triu(weight))
    if not one.size:
        return number
    column = np.arange(len(one))
    rows = csr_array(  # a class beside itself counts twice
        (np.ones(2 * len(one)), (np.concatenate([one, other]), np.tile(column, 2))), shape=(len(count), len(one))
    )
    found = milp(
        -weight[one, other],
        bounds=Bounds(0, np.inf),
        constraints=[LinearConstraint(rows, ub=count)],
        integrality=np.ones(len(one), np.int64),
        options={"node_limit": MOST_NODES},
    )
    if found.x is not None:
        number[one, other] = np.rint(found.x).astype(np.int64)
    return number


def pair_jobs(
    number: IntArray, jobs: IntArray, classes: IntArray, running: Mapping[JobId, JobId]
) -> Iterator[tuple[int, int, Pair]]:
    """Yield pairs of jobs with their classes: pairs that run already first, then jobs in order of priority.

    Args:
        number: int64[num_classes, num_classes], pairs of each two classes, upper triangle.
        jobs: int64[num_jobs], in order of priority.
        classes: int64[num_jobs], the class of each.
        running: the jobs that share GPUs now.
    """
    number = number.copy()
    members: list[list[JobId]] = [jobs[classes == each].tolist() for each in range(len(number))]
    class_of = dict(zip(jobs.tolist(), classes.tolist(), strict=True))
    for pair in running.items():
        if all(job in class_of for job in pair):
            one, other = sorted(class_of[job] for job in pair)
            if number[one, other] > 0:
                number[one, other] -= 1
                for job in pair:
                    members[class_of[job]].remove(job)
                yield one, other, (min(pair), max(pair))
    for one, other in np.argwhere(number > 0).tolist():
        for _ in range(number[one, other]):
            first, second = members[one].pop(0), members[other].pop(0)
            yield one, other, (min(first, second), max(first, second))
