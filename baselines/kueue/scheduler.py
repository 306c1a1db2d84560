"""Kueue's admission, fair sharing and preemption before any scheduler that places jobs."""

from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import replace
from typing import Any

import numpy as np

from baselines.fifo import Fifo
from baselines.kueue.compiled import play_behind_queues
from baselines.kueue.preemption import Admitted, Preemption
from baselines.kueue.queue_tree import QueueSettings, QueueTree
from baselines.parts.placing import best_fit
from baselines.within_limits import keep_within_limits
from envs.scheduling import ClusterView, Scheduler
from envs.simulation import SimulatedEpisode
from envs.types import Allocation, ClusterSpec, FloatArray, IntArray, JobId, JobSpec, MurmurationError


class Kueue:
    """Queues with quotas admit jobs; an inner scheduler places the admitted ones.

    After Kueue at commit ff69552e (kubernetes-sigs/kueue, pkg/scheduler). A job's tenant names its queue. Each queue
    offers its next job, by priority, then by submission. Without fair sharing, jobs that need no borrowing come first;
    with it, the tournament of `QueueTree.fairest` decides. A job that fits the quota is admitted and holds that quota
    until it ends or is preempted, even while the inner scheduler finds no room for it, as in Kueue. A job that does not
    fit may name victims (`Preemption`), which lose their GPUs and return to their queue in the same round.

    Left out: resource flavors (one quota counts GPUs of all types), resources other than GPUs, partial admission,
    admission checks, topologies, back-off of evicted jobs, and the half-life of admission fair sharing.

    Args:
        inner: places jobs. It sees only admitted jobs, each with the number of GPUs that it requests and no other.
        queues: the tree; jobs belong to queues without children. Without any, each tenant is a queue, in one cohort,
            and has an equal part of the cluster's GPUs.
        fair_sharing: whether shares order admission and preemption between queues.
        strategies: with fair sharing, the rules tried in this order: "final" is LessThanOrEqualToFinalShare, "initial"
            is LessThanInitialShare.
        local: queues by the names of tenants that are no queues themselves; a tenant with several is refused.
        overcommit: whether quotas may sum to more GPUs than the cluster has. Jobs are then admitted that wait for GPUs
            while they hold quota, as in Kueue.

    Raises:
        MurmurationError: a setting is unknown, or the tree is contradictory.
    """

    preemptive = True
    elastic = False

    def __init__(
        self,
        inner: Scheduler,
        queues: Iterable[QueueSettings] = (),
        fair_sharing: bool = True,
        strategies: Sequence[str] = ("final", "initial"),
        local: Mapping[str, Sequence[str]] | None = None,
        overcommit: bool = False,
    ) -> None:
        self.inner, self.queues, self.fair_sharing = inner, tuple(queues), fair_sharing
        self.strategies, self.local, self.overcommit = tuple(strategies), dict(local or {}), overcommit
        self.information = getattr(inner, "information", "estimate")
        self._start(self.queues)

    def _start(self, queues: Iterable[QueueSettings]) -> None:
        self._tree = QueueTree(queues)
        self._preemption = Preemption(self._tree, self.fair_sharing, self.strategies)
        self._admitted: dict[JobId, Admitted] = {}

    def around(self, inner: Scheduler) -> "Kueue":
        """Return the same queues before another scheduler."""
        return Kueue(inner, self.queues, self.fair_sharing, self.strategies, self.local, self.overcommit)

    def describe(self) -> list[str]:
        """Return the settings in force, as short lines, and those of the inner scheduler."""
        leaves = self._tree.leaves
        rule = f"fair sharing ({', '.join(self.strategies)})" if self.fair_sharing else "no fair sharing"
        size = f"{len(leaves)} queues of {self._tree.total:g} GPUs" if leaves else "a queue for each tenant"
        inner = getattr(self.inner, "describe", None)
        return [f"behind Kueue: {size}, {rule}", *(inner() if callable(inner) else [])]

    def reset(self, cluster: ClusterSpec, rng: np.random.Generator) -> None:
        """Begin a new episode with no job admitted.

        Raises:
            MurmurationError: quotas sum to more GPUs than the cluster has, without `overcommit`.
        """
        self._start(self.queues)
        total, there = self._tree.total, cluster.num_gpus
        if total > there and not self.overcommit:
            raise MurmurationError(
                f"Kueue: quotas sum to {total:g} GPUs, and {cluster.name} has {there}: admitted jobs would wait for "
                "GPUs; lower nominal quotas, or set overcommit=true"
            )
        self.inner.reset(cluster, rng)

    def queue_of(self, tenant: str) -> str:
        """Return the queue of a tenant.

        Raises:
            MurmurationError: there is none without children, or there are several.
        """
        leaves = self._tree.leaves
        found = [tenant] if tenant in leaves else self.local.get(tenant, ())
        if len(found) == 1:
            return found[0]
        if found:
            raise MurmurationError(
                f"tenant {tenant}: has LocalQueues of several queues ({', '.join(found)}), and its jobs do not say "
                "which; give it one"
            )
        raise MurmurationError(
            f"tenant {tenant or '(none)'}: is no queue that takes jobs, and no LocalQueue leads to one; queues are "
            f"{', '.join(leaves)[:200]}"
        )

    def doubts(self, jobs: Iterable[tuple[str, int]], num_gpus: int) -> list[str]:
        """Return lines on jobs that are larger than their queues, and on quotas that a cluster cannot hold.

        Args:
            jobs: tenant and GPUs of each.
            num_gpus: GPUs of the cluster.

        Raises:
            MurmurationError: a tenant has no queue.
        """
        larger = Counter(queue for tenant, gpus in jobs if gpus > self._tree.most(queue := self.queue_of(tenant)))
        lines = [
            f"{count:,} jobs of queue {queue} ask for more GPUs than it can ever have, {self._tree.most(queue):g}, and "
            "are never admitted"
            for queue, count in larger.items()
        ]
        if self._tree.total > num_gpus:
            lines.append(
                f"quotas sum to {self._tree.total:g} GPUs, and the cluster has {num_gpus}: admitted jobs may hold "
                "quota and wait for GPUs"
            )
        return lines

    def play(self, simulator: SimulatedEpisode) -> bool:
        """Play a whole episode in compiled code; return False where the inner scheduler or a rule needs `schedule`.

        Raises:
            MurmurationError: a job's tenant has no queue.
        """
        inner = self.inner
        if type(inner) is not Fifo or inner.backfill == "easy" or inner.find is not best_fit:
            return False
        workload = simulator.workload
        tree = QueueTree(self.queues or _equal_queues(simulator.cluster.num_gpus, len(workload.tenants)))
        names = workload.tenants if self.queues else map(str, range(len(workload.tenants)))
        number = {name: place for place, name in enumerate(tree.settings)}
        used = set(workload.jobs["tenant"].tolist())
        of = [number[self.queue_of(name) if self.queues else name] if i in used else 0 for i, name in enumerate(names)]
        queues = np.array(of, np.int64)[workload.jobs["tenant"]]
        return play_behind_queues(simulator, tree, queues, self.strategies, self.fair_sharing, inner.backfill == "skip")

    def schedule(self, view: ClusterView) -> Allocation:
        """Admit jobs, stop victims, and let the inner scheduler place what is admitted.

        Raises:
            MurmurationError: a job's tenant has no queue, or the inner scheduler needs what an admission layer cannot
                show or gives a job another number of GPUs than it requests.
        """
        if not self._tree.settings:
            self._start(_equal_queues(view.cluster.num_gpus, len(view.quotas)))
        waiting = view.queued.tolist()
        present = {*waiting, *view.running.tolist()}
        for job in [job for job in self._admitted if job not in present]:
            self._leave(job)
        running = set(view.running.tolist())
        self._admit(view, [job for job in waiting if job not in self._admitted])
        seen = AdmittedView(view, self._admitted)
        allocation = self.inner.schedule(seen)
        for job, placement in allocation.changes.items():
            if placement is not None and placement.num_gpus != view.num_gpus[job]:
                raise MurmurationError(
                    f"Kueue: {type(self.inner).__name__} gives job {job} {placement.num_gpus} GPUs, and it holds quota "
                    f"for {view.num_gpus[job]}; take a scheduler that keeps numbers of GPUs"
                )
        for job in running - self._admitted.keys():
            allocation.stop(job)
        keep_within_limits(allocation, view)
        return allocation

    def _leave(self, job: JobId) -> None:
        left = self._admitted.pop(job)
        self._tree.use(left.queue, -left.gpus)

    def _admit(self, view: ClusterView, waiting: list[JobId]) -> None:
        """Admit waiting jobs until no queue has a job that fits or may preempt."""
        lines: dict[str, list[Admitted]] = {}
        for job in waiting:
            spec = view.job(job)
            queue = self.queue_of(spec.tenant) if self.queues else str(view.tenant[job])
            lines.setdefault(queue, []).append(
                Admitted(job, queue, spec.num_gpus, spec.priority, spec.submit_time, view.time)
            )
        for line in lines.values():
            line.sort(key=Admitted.rank, reverse=True)  # the next one stands last
        refused: set[tuple[str, float, float]] = set()  # since the last admission; equal jobs would be refused as well
        while lines := {queue: line for queue, line in lines.items() if _drop_refused(line, refused)}:
            queue = self._next_queue({queue: line[-1] for queue, line in lines.items()})
            head = lines[queue].pop()
            if self._tree.available(queue) < head.gpus:
                victims = self._preemption.victims(head, self._admitted.values())
                if not victims:
                    refused.add(head.shape)
                    if self._tree.settings[queue].strict:
                        lines[queue].clear()
                    continue
                for victim in victims:
                    self._leave(victim.job)
            self._admitted[head.job] = head
            self._tree.use(queue, head.gpus)
            refused.clear()

    def _next_queue(self, heads: dict[str, Admitted]) -> str:
        """Return the queue whose next job is considered first."""
        ordered = sorted(heads, key=lambda queue: heads[queue].rank())
        if self.fair_sharing:
            return self._tree.fairest({queue: heads[queue].gpus for queue in ordered})
        return min(ordered, key=lambda queue: self._tree.borrows(queue, heads[queue].gpus))


def _drop_refused(line: list[Admitted], refused: set[tuple[str, float, float]]) -> list[Admitted]:
    """Drop the next jobs of a queue as long as an equal one was refused; return what is left."""
    while line and line[-1].shape in refused:
        line.pop()
    return line


def _equal_queues(num_gpus: int, num_tenants: int) -> list[QueueSettings]:
    """Return a queue for each tenant, by number, with an equal part of the GPUs."""
    part = num_gpus / num_tenants
    return [QueueSettings("all"), *(QueueSettings(str(number), "all", part) for number in range(num_tenants))]


class AdmittedView:
    """A view of the cluster in which jobs that are not admitted neither wait nor run, and none is elastic.

    All else is forwarded.

    Args:
        view: the cluster.
        admitted: the jobs to show.
    """

    def __init__(self, view: ClusterView, admitted: Iterable[JobId]) -> None:
        self._view, self._jobs = view, np.array(sorted(admitted), dtype=np.int64)

    def __getattr__(self, name: str) -> Any:
        if name.startswith("_") or name == "snapshot":
            raise MurmurationError(
                f"Kueue: the inner scheduler asks for {name}, which shows jobs that are not admitted; "
                "take one that decides on the view alone, such as Fifo, Las or Srtf"
            )
        return getattr(self._view, name)

    def _kept(self, jobs: IntArray) -> IntArray:
        kept: IntArray = jobs[np.isin(jobs, self._jobs)]
        return kept

    @property
    def queued(self) -> IntArray:
        """int64[num_queued]: admitted jobs that wait."""
        return self._kept(self._view.queued)

    @property
    def running(self) -> IntArray:
        """int64[num_running]: jobs that run and stay admitted."""
        return self._kept(self._view.running)

    @property
    def min_gpus(self) -> IntArray:
        """int64[num_submitted]: GPUs requested."""
        return self._view.num_gpus

    @property
    def max_gpus(self) -> IntArray:
        """int64[num_submitted]: GPUs requested."""
        return self._view.num_gpus

    def job(self, job: JobId) -> JobSpec:
        """Return the job as submitted, with no range of GPUs."""
        spec = self._view.job(job)
        return replace(spec, min_gpus=spec.num_gpus, max_gpus=spec.num_gpus) if spec.elastic else spec

    def attained_service(self, jobs: IntArray) -> FloatArray:
        """float64[len(jobs)]: GPU-seconds; 0 of jobs that wait for admission, which would look like ended ones."""
        waiting = self._view.queued[~np.isin(self._view.queued, self._jobs)]
        served: FloatArray = np.where(np.isin(jobs, waiting), 0.0, self._view.attained_service(jobs))
        return served

    @property
    def shares(self) -> IntArray:
        """int64[num_shares, 3]: the placements of these."""
        rows = self._view.shares
        kept: IntArray = rows[np.isin(rows[:, 0], self._jobs)]
        return kept

    @property
    def free_gpus(self) -> IntArray:
        """int64[num_nodes]: GPUs that none of these holds."""
        return self.allocation(keep_running=True).free_gpus

    def allocation(self, *, keep_running: bool = False) -> Allocation:
        """Return a builder, empty or with the placements of the jobs that run and stay admitted."""
        allocation = self._view.allocation(keep_running=keep_running)
        if keep_running:
            for job in self._view.running[~np.isin(self._view.running, self._jobs)].tolist():
                allocation.stop(job)
        return allocation
