"""Which admitted jobs lose their quota for a job that does not fit (Kueue, pkg/scheduler/preemption)."""

from collections.abc import Iterable
from dataclasses import dataclass

from baselines.kueue.queue_tree import QueueTree
from envs.types import JobId, MurmurationError, Seconds


@dataclass(frozen=True, slots=True)
class Admitted:
    """A job that holds quota, or asks for it."""

    job: JobId
    queue: str
    gpus: int
    priority: float
    submit_time: Seconds
    admit_time: Seconds

    def rank(self) -> tuple[float, Seconds, JobId]:
        """Return what orders jobs of a queue, first ones least: priority, then submission."""
        return -self.priority, self.submit_time, self.job


class Preemption:
    """Finds victims, the fewest that its order gives; see `Kueue` for the settings.

    Raises:
        MurmurationError: a setting is unknown.
    """

    def __init__(
        self, tree: QueueTree, fair_sharing: bool, within_queue: bool, reclaim: str, strategies: tuple[str, ...]
    ) -> None:
        if reclaim not in ("never", "lower_priority", "any"):
            raise MurmurationError(f"Kueue: reclaim is {reclaim!r}; it must be never, lower_priority or any")
        if strategies not in (("final",), ("initial",), ("final", "initial")):
            raise MurmurationError(
                f"Kueue: strategies are {strategies!r}; they must be (final,), (initial,) or (final, initial)"
            )
        self._tree, self._fair, self._within, self._reclaim = tree, fair_sharing, within_queue, reclaim
        self._strategies = strategies

    def victims(self, head: Admitted, admitted: Iterable[Admitted]) -> list[Admitted]:
        """Return the jobs to preempt so that another fits; none if that cannot be reached. The tree stays as it is.

        Args:
            head: asks for quota.
            admitted: all jobs that hold some.
        """
        if head.gpus > self._tree.most(head.queue):
            return []
        candidates = [job for job in admitted if self._may_lose(job, head)]
        # Of a queue, the job of the lowest priority loses first; among equals, the one that was admitted last.
        candidates.sort(key=lambda job: (job.priority, -job.admit_time, -job.job))
        taken: list[Admitted] = []
        found = self._search(head, candidates, taken)
        if found:
            self._return_spared(head, taken)
        for job in taken:
            self._tree.use(job.queue, job.gpus)
        return taken if found else []

    def _may_lose(self, job: Admitted, head: Admitted) -> bool:
        if job.queue == head.queue:
            return self._within and job.priority < head.priority
        if self._reclaim == "never" or not self._borrows_from(job, head):
            return False
        return self._reclaim == "any" or job.priority < head.priority

    def _borrows_from(self, job: Admitted, head: Admitted) -> bool:
        """Return whether a job's queue and all above it, below the cohort of both, use more than their quotas."""
        sides = self._tree.below_common(head.queue, job.queue)
        if sides is None:
            return False
        path = self._tree.path[job.queue]
        return all(self._tree.borrows(node) for node in path[: path.index(sides[1]) + 1])

    def _fits(self, head: Admitted) -> bool:
        return self._tree.available(head.queue) >= head.gpus

    def _take(self, job: Admitted, taken: list[Admitted]) -> None:
        self._tree.use(job.queue, -job.gpus)
        taken.append(job)

    def _search(self, head: Admitted, candidates: list[Admitted], taken: list[Admitted]) -> bool:
        """Take candidates until the head fits; return whether it does."""
        for rule in self._strategies if self._fair else ("",):
            left = [job for job in candidates if job not in taken]
            while left and not self._fits(head):
                job = self._largest_share(head, left)
                left.remove(job)
                if job.queue == head.queue or (self._borrows_from(job, head) and self._passes(head, job, rule)):
                    self._take(job, taken)
        return self._fits(head)

    def _largest_share(self, head: Admitted, left: list[Admitted]) -> Admitted:
        """Return the next candidate: jobs of the head's queue, then those of the queue with the largest share."""
        firsts = {job.queue: job for job in reversed(left)}
        if head.queue in firsts or not self._fair:
            return firsts.get(head.queue) or left[0]
        return max(firsts.values(), key=lambda job: tuple(map(self._tree.share, reversed(self._tree.path[job.queue]))))

    def _passes(self, head: Admitted, job: Admitted, rule: str) -> bool:
        """Return whether the head may take a job of another queue.

        A queue within its own quota always may. One that would borrow needs fair sharing, and a share that stays at or
        below that of the other side without the job ("final"), or below that with it ("initial").
        """
        if not self._tree.borrows(head.queue, head.gpus):
            return True
        sides = self._tree.below_common(head.queue, job.queue)
        if not rule or sides is None:
            return False
        mine = self._tree.share_with(sides[0], head.queue, head.gpus)
        if rule == "final":
            return mine <= self._tree.share_with(sides[1], job.queue, -job.gpus)
        return mine < self._tree.share(sides[1])

    def _return_spared(self, head: Admitted, taken: list[Admitted]) -> None:
        """Give their quota back to those, the last taken first, without whose quota the head fits too."""
        for job in taken[-2::-1]:
            self._tree.use(job.queue, job.gpus)
            if self._fits(head):
                taken.remove(job)
            else:
                self._tree.use(job.queue, -job.gpus)
