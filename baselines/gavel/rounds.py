"""Gavel's rounds: choose jobs and pairs so that in the long run each receives its share of every GPU type."""

from collections.abc import Collection, Mapping, Sequence
from typing import TypeAlias

import numpy as np

from baselines.parts.grants import Grant, free_by_type, held_grants, place_grants
from baselines.parts.pairing import owner_first, place_beside, separate_pairs
from baselines.parts.ties import merge_ties
from envs.scheduling import ClusterView
from envs.types import (
    Allocation,
    BoolArray,
    FloatArray,
    GpuSeconds,
    IntArray,
    JobId,
    Placement,
    Seconds,
)

Combination: TypeAlias = tuple[JobId, ...]  # a job alone, or two jobs on the same GPUs, the lower one first

NOTHING: Seconds = 1e-3  # owed time that counts as none
NEVER_RAN = 1e9  # priority per unit of share of a combination that has received no time


class TimeReceived:
    """Shares, and the time that each combination has received on each GPU type since they were computed (section 5).

    Args:
        head_start: seconds credited to every combination at the start, so that one round does not outweigh everything
            else.
    """

    def __init__(self, head_start: Seconds) -> None:
        self.head_start = head_start
        self._shares: dict[Combination, FloatArray] = {}
        self._time: dict[Combination, FloatArray] = {}  # seconds by type
        self._owed: dict[Combination, FloatArray] = {}  # seconds by type, owed from earlier shares
        self._all: FloatArray = np.zeros(0)  # seconds by type, of all combinations, including finished ones
        self._since: Seconds = 0.0
        self._running: dict[Combination, tuple[int, list[GpuSeconds], int]] = {}  # type, service then, GPUs of each

    def advance(self, view: ClusterView) -> None:
        """Add the time that combinations have received since the last round; of a pair, that of both together."""
        num_types = len(view.cluster.gpu_types)
        if not self._all.size:
            self._all = np.zeros(num_types)
        service = iter(view.attained_service(_members(self._running)).tolist())
        for combination, (gpu_type, before, gpus) in self._running.items():
            seconds = min((next(service) - then) / gpus for then in before)
            self._all[gpu_type] += seconds
            self._time.setdefault(combination, np.full(num_types, self.head_start))[gpu_type] += seconds

    def begin(self, view: ClusterView, allocation: Allocation) -> None:
        """Record where each combination runs from this round on."""
        found: dict[Combination, Placement] = {}
        for job in sorted(allocation.jobs()):
            place, guest = allocation.placement(job), allocation.guest(job)
            if place and place.beside is None:
                found[(job,) if guest is None else _pair(job, guest)] = place
        service = iter(view.attained_service(_members(found)).tolist())
        self._running = {
            combination: (
                int(view.cluster.node_types[min(place.gpus)]),
                [next(service) for _ in combination],
                place.num_gpus,
            )
            for combination, place in found.items()
        }

    def renew(self, time: Seconds, combinations: Sequence[Combination], shares: FloatArray) -> None:
        """Replace the shares; time not received under the old shares is owed.

        Args:
            time: now.
            combinations: of the new shares.
            shares: float64[num_combinations, num_gpu_types].
        """
        owed: dict[Combination, FloatArray] = {}
        for each in combinations:
            had = self._time.get(each, np.full(shares.shape[1], self.head_start)) - self.head_start
            due = self._shares.get(each, np.zeros(shares.shape[1])) * (time - self._since)
            owed[each] = self._owed.get(each, np.zeros(shares.shape[1])) + due - had
        self._owed = owed
        self._shares = dict(zip(combinations, shares, strict=True))
        self._time = {each: np.full(shares.shape[1], self.head_start) for each in combinations}
        self._all = np.full(shares.shape[1], self.head_start * len(combinations))
        self._since = time

    def pairs(self, jobs: Collection[JobId]) -> list[Combination]:
        """Pairs of these jobs that have shares."""
        return [each for each in self._shares if len(each) > 1 and all(job in jobs for job in each)]

    def ranks(self, combinations: Sequence[Combination], num_types: int) -> tuple[FloatArray, FloatArray, FloatArray]:
        """Sort keys, largest first: priority, seconds owed, share; each float64[len(combinations), num_types].

        Equal jobs have equal keys, although their times were added up in different steps.
        """
        nothing = np.zeros(num_types)
        share = np.array([self._shares.get(each, nothing) for each in combinations]).reshape(-1, num_types)
        time = np.array([self._time.get(each, nothing) for each in combinations]).reshape(-1, num_types)
        owed = np.array([self._owed.get(each, nothing) for each in combinations]).reshape(-1, num_types)
        fraction = np.divide(time, self._all, out=np.zeros_like(time), where=self._all > 0)
        priority = np.divide(share, fraction, out=share * NEVER_RAN, where=fraction > 0)
        return merge_ties(priority), merge_ties(owed, NOTHING), share


def choose_grants(
    view: ClusterView,
    allocation: Allocation,
    jobs: IntArray,
    sizes: IntArray,
    runs: BoolArray,
    gpu_types: Sequence[int],
    received: TimeReceived,
    *,
    keep: bool,
) -> dict[Combination, Grant]:
    """Choose GPUs for each job or pair of the next round; a job in no entry waits.

    Types are filled one after the other, combinations by priority, each job once. A gang that does not fit is skipped.
    A pair counts only on types of which it has a share.

    Args:
        view: the round.
        allocation: starts with the running jobs; not changed.
        jobs: int64[num_jobs], ascending; each runs on at least one type.
        sizes: int64[num_jobs], GPUs of each job.
        runs: bool[num_jobs, num_gpu_types], whether a job runs on its number of GPUs of a type.
        gpu_types: types in the order in which they are filled.
        received: shares and the time received.
        keep: whether running jobs continue whatever their priority, so that only idle GPUs are assigned.
    """
    place_of = {job: place for place, job in enumerate(jobs.tolist())}
    partners = view.pairs
    guests = set(partners.values())
    held = {job: grant for job, grant in held_grants(view).items() if job in place_of and job not in guests}
    left = free_by_type(allocation)
    chosen: dict[Combination, Grant] = {}
    for job, grant in held.items():
        if keep:
            chosen[_pair(job, partners[job]) if job in partners else (job,)] = grant
        else:
            left[grant.gpu_type] += grant.num_gpus
    taken = {job for each in chosen for job in each}
    combinations: list[Combination] = [*((job,) for job in place_of), *received.pairs(place_of)]
    first, second = (np.array([each[end] for each in combinations], np.int64) for end in (0, -1))
    at, beside = (np.array([place_of[job] for job in ends.tolist()], np.int64) for ends in (first, second))
    priority, owed, share = received.ranks(combinations, runs.shape[1])
    able = runs[at] & runs[beside] & ((at == beside)[:, None] | (share > 0))
    for gpu_type in gpu_types:
        order = np.lexsort((second, first, -share[:, gpu_type], -owed[:, gpu_type], -priority[:, gpu_type]))
        for place in order[able[order, gpu_type]].tolist():
            if left[gpu_type] == 0:
                break
            size = int(sizes[at[place]])
            if size <= left[gpu_type] and taken.isdisjoint(combinations[place]):
                chosen[combinations[place]] = Grant(gpu_type, size)
                taken.update(combinations[place])
                left[gpu_type] -= size
    return chosen


def place_combinations(
    view: ClusterView,
    allocation: Allocation,
    chosen: Mapping[Combination, Grant],
    spanning: Collection[JobId] = (),
) -> None:
    """Place what was chosen, as `place_grants` does; of a pair, one takes the GPUs and the other follows.

    A pair that continues, and a job whose partner leaves it, stay where they are. A job that does not run on as many
    nodes as its partner was given waits.

    Args:
        view: the round.
        allocation: the running jobs at first; changed in place.
        chosen: the grant of each job and pair that is to run.
        spanning: see `place_grants`.
    """
    held = held_grants(view)
    grants: dict[JobId, Grant] = {}
    owners: dict[JobId, JobId] = {}
    for combination, grant in chosen.items():
        owner, *others = owner_first(view, combination, {job for job in combination if held.get(job) == grant})
        grants[owner] = grant
        owners |= dict.fromkeys(others, owner)
    separate_pairs(view, allocation, {job for job, grant in grants.items() if held.get(job) == grant})
    place_grants(view, allocation, grants, spanning)
    place_beside(view, allocation, owners)


def _members(combinations: Collection[Combination]) -> IntArray:
    """int64[any]: the jobs of combinations, one after the other."""
    return np.array([job for each in combinations for job in each], dtype=np.int64)


def _pair(job: JobId, other: JobId) -> Combination:
    return min(job, other), max(job, other)


def order_types_by_throughput(throughput: FloatArray) -> list[int]:
    """Order GPU types by mean throughput, each job's relative to its best type; ties in the cluster's order.

    Args:
        throughput: float64[num_jobs, num_gpu_types], samples/s; no row is all zeros.
    """
    if not len(throughput):
        return []
    relative = (throughput / throughput.max(axis=1, keepdims=True)).mean(axis=0)
    order: list[int] = np.argsort(merge_ties(-relative), kind="stable").tolist()
    return order
