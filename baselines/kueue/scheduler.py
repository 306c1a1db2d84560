"""Kueue's admission, fair sharing and preemption before any scheduler that places jobs."""

from collections.abc import Iterable
from typing import Any

import numpy as np

from baselines.kueue.preemption import Admitted, Preemption
from baselines.kueue.queue_tree import QueueSettings, QueueTree
from envs.scheduling import ClusterView, Scheduler
from envs.types import Allocation, ClusterSpec, IntArray, JobId, MurmurationError


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
        inner: places jobs. It sees only admitted jobs, and may not change their numbers of GPUs.
        queues: the tree; jobs belong to queues without children.
        fair_sharing: whether shares order admission and preemption between queues.
        strategies: with fair sharing, the rules tried in this order: "final" is LessThanOrEqualToFinalShare, "initial"
            is LessThanInitialShare.

    Raises:
        MurmurationError: a setting is unknown, the tree is contradictory, or the inner scheduler resizes jobs.
    """

    preemptive = True
    elastic = False

    def __init__(
        self,
        inner: Scheduler,
        queues: Iterable[QueueSettings],
        fair_sharing: bool = True,
        strategies: tuple[str, ...] = ("final", "initial"),
    ) -> None:
        if getattr(inner, "elastic", False):
            name = type(inner).__name__
            raise MurmurationError(
                f"Kueue: {name} changes numbers of GPUs, which quotas would not see; take Fifo or Srtf"
            )
        self.inner, self.queues, self.fair_sharing = inner, tuple(queues), fair_sharing
        self.strategies = tuple(strategies)
        self.information = getattr(inner, "information", "estimate")
        self._tree = QueueTree(self.queues)
        self._preemption = Preemption(self._tree, fair_sharing, self.strategies)
        self._admitted: dict[JobId, Admitted] = {}

    def reset(self, cluster: ClusterSpec, rng: np.random.Generator) -> None:
        """Begin a new episode with no job admitted."""
        self._tree = QueueTree(self.queues)
        self._preemption = Preemption(self._tree, self.fair_sharing, self.strategies)
        self._admitted = {}
        self.inner.reset(cluster, rng)

    def schedule(self, view: ClusterView) -> Allocation:
        """Admit jobs, stop victims, and let the inner scheduler place what is admitted.

        Raises:
            MurmurationError: a job's tenant is no queue without children, or the inner scheduler needs what an
                admission layer cannot show.
        """
        waiting = view.queued.tolist()
        present = {*waiting, *view.running.tolist()}
        for job in [job for job in self._admitted if job not in present]:
            self._leave(job)
        running = set(view.running.tolist())
        self._admit(view, [job for job in waiting if job not in self._admitted])
        seen = AdmittedView(view, self._admitted)
        allocation = self.inner.schedule(seen)
        for job in running - self._admitted.keys():
            allocation.stop(job)
        return allocation

    def _leave(self, job: JobId) -> None:
        left = self._admitted.pop(job)
        self._tree.use(left.queue, -left.gpus)

    def _admit(self, view: ClusterView, waiting: list[JobId]) -> None:
        """Admit waiting jobs until no queue has a job that fits or may preempt."""
        lines: dict[str, list[Admitted]] = {}
        for job in waiting:
            spec = view.job(job)
            if self._tree.children.get(spec.tenant, True):
                raise MurmurationError(
                    f"job {job}: its tenant {spec.tenant or '(none)'} is no queue that takes jobs; "
                    f"queues are {', '.join(name for name, below in self._tree.children.items() if not below)[:200]}"
                )
            lines.setdefault(spec.tenant, []).append(
                Admitted(job, spec.tenant, spec.num_gpus, spec.priority, spec.submit_time, view.time)
            )
        for line in lines.values():
            line.sort(key=Admitted.rank, reverse=True)  # the next one stands last
        while lines := {queue: line for queue, line in lines.items() if line}:
            queue = self._next_queue({queue: line[-1] for queue, line in lines.items()})
            head = lines[queue].pop()
            if self._tree.available(queue) < head.gpus:
                victims = self._preemption.victims(head, self._admitted.values())
                if not victims:
                    if self._tree.settings[queue].strict:
                        lines[queue].clear()
                    continue
                for victim in victims:
                    self._leave(victim.job)
            self._admitted[head.job] = head
            self._tree.use(queue, head.gpus)

    def _next_queue(self, heads: dict[str, Admitted]) -> str:
        """Return the queue whose next job is considered first."""
        ordered = sorted(heads, key=lambda queue: heads[queue].rank())
        if self.fair_sharing:
            return self._tree.fairest({queue: heads[queue].gpus for queue in ordered})
        return min(ordered, key=lambda queue: self._tree.borrows(queue, heads[queue].gpus))


class AdmittedView:
    """A view of the cluster in which jobs that are not admitted neither wait nor run; all else is forwarded.

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
