"""Gavel's rounds: who runs next, so that in the long run everybody receives its share of each type of GPU."""

from collections.abc import Sequence

import numpy as np

from baselines.parts.grants import free_by_type, held_grants
from baselines.parts.marginal_gain import Grant
from envs.scheduling import ClusterView
from envs.types import Allocation, BoolArray, FloatArray, GpuSeconds, IntArray, JobId, Seconds

NEVER_RAN = 1e9  # priority per share of a job that has received nothing


class Received:
    """Shares, and the time that each job has had on each type since they were computed (OSDI'20, section 5).

    Args:
        head_start: seconds that every job is taken to have had from the start, so that one round does not count as
            everything.
    """

    def __init__(self, head_start: Seconds) -> None:
        self.head_start = head_start
        self._shares: dict[JobId, FloatArray] = {}
        self._time: dict[JobId, FloatArray] = {}  # seconds by type
        self._owed: dict[JobId, FloatArray] = {}  # seconds by type, of earlier shares
        self._all: FloatArray = np.zeros(0)  # seconds by type, of all jobs, those that have left included
        self._since: Seconds = 0.0
        self._running: dict[JobId, tuple[int, GpuSeconds, int]] = {}  # type, service at the last round, GPUs

    def advance(self, view: ClusterView) -> None:
        """Count what jobs have received since the last round."""
        num_types = len(view.cluster.gpu_types)
        if not self._all.size:
            self._all = np.zeros(num_types)
        jobs = np.array(list(self._running), dtype=np.int64)
        for job, service in zip(jobs.tolist(), view.attained_service(jobs).tolist(), strict=True):
            kind, before, gpus = self._running[job]
            seconds = (service - before) / gpus
            self._all[kind] += seconds
            self._time.setdefault(job, np.full(num_types, self.head_start))[kind] += seconds

    def begin(self, view: ClusterView, wish: Allocation) -> None:
        """Remember who runs where from this round on."""
        self._running = {}
        jobs = np.array(sorted(wish.jobs()), dtype=np.int64)
        for job, service in zip(jobs.tolist(), view.attained_service(jobs).tolist(), strict=True):
            place = wish.placement(job)
            if place:
                self._running[job] = int(view.cluster.node_types[min(place.gpus)]), service, place.num_gpus

    def renew(self, time: Seconds, jobs: IntArray, shares: FloatArray) -> None:
        """Begin anew with other shares; what jobs have not had of the old ones is owed to them."""
        owed: dict[JobId, FloatArray] = {}
        for job in jobs.tolist():
            had = self._time.get(job, np.full(shares.shape[1], self.head_start)) - self.head_start
            due = self._shares.get(job, np.zeros(shares.shape[1])) * (time - self._since)
            owed[job] = self._owed.get(job, np.zeros(shares.shape[1])) + due - had
        self._owed = owed
        self._shares = dict(zip(jobs.tolist(), shares, strict=True))
        self._time = {job: np.full(shares.shape[1], self.head_start) for job in jobs.tolist()}
        self._all = np.full(shares.shape[1], self.head_start * len(jobs))
        self._since = time

    def ranks(self, jobs: IntArray, num_types: int) -> tuple[FloatArray, FloatArray, FloatArray]:
        """float64[len(jobs), num_types] thrice: priority, seconds owed and share; larger goes first, in this order."""
        nothing = np.zeros(num_types)
        share = np.array([self._shares.get(job, nothing) for job in jobs.tolist()]).reshape(-1, num_types)
        time = np.array([self._time.get(job, nothing) for job in jobs.tolist()]).reshape(-1, num_types)
        owed = np.array([self._owed.get(job, nothing) for job in jobs.tolist()]).reshape(-1, num_types)
        fraction = np.divide(time, self._all, out=np.zeros_like(time), where=self._all > 0)
        priority = np.divide(share, fraction, out=share * NEVER_RAN, where=fraction > 0)
        return priority, owed, share


def choose(
    view: ClusterView,
    wish: Allocation,
    jobs: IntArray,
    sizes: IntArray,
    runs: BoolArray,
    kinds: Sequence[int],
    received: Received,
    *,
    keep: bool,
) -> dict[JobId, Grant]:
    """The GPUs on which each job of the next round runs; a job left out waits.

    Types are filled one after the other, each by priority; a gang that does not fit is passed.

    Args:
        view: the round.
        wish: begins with what runs; not changed.
        jobs: int64[num_jobs], all of which run on some type.
        sizes: int64[num_jobs], GPUs that each takes.
        runs: bool[num_jobs, num_gpu_types], whether it runs there on so many.
        kinds: types in the order in which they are filled.
        received: shares and what has been had of them.
        keep: whether jobs that run go on whatever their priority, so that only idle GPUs are given away.
    """
    present = set(jobs.tolist())
    held = {job: grant for job, grant in held_grants(view).items() if job in present}
    left = free_by_type(wish)
    chosen = dict(held) if keep else {}
    if not keep:
        for grant in held.values():
            left[grant.gpu_type] += grant.num_gpus
    priority, owed, share = received.ranks(jobs, runs.shape[1])
    for kind in kinds:
        order = np.lexsort((jobs, -share[:, kind], -owed[:, kind], -priority[:, kind]))
        for place in order[runs[order, kind]].tolist():
            if left[kind] == 0:
                break
            if sizes[place] <= left[kind] and (job := int(jobs[place])) not in chosen:
                chosen[job] = Grant(kind, int(sizes[place]))
                left[kind] -= sizes[place]
    return chosen


def fastest_first(rate: FloatArray) -> list[int]:
    """GPU types by the jobs' mean speed on them, each in units of its best; ties in the cluster's order.

    Args:
        rate: float64[num_jobs, num_gpu_types], samples/s; no row of zeros.
    """
    if not len(rate):
        return []
    relative = (rate / rate.max(axis=1, keepdims=True)).mean(axis=0)
    order: list[int] = np.argsort(-relative, kind="stable").tolist()
    return order
