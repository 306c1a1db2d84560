"""Which admitted jobs lose their quota for a job that does not fit (Kueue, pkg/scheduler/preemption)."""

from collections.abc import Iterable
from dataclasses import dataclass

from baselines.kueue.queue_tree import QueueTree, WeightedShare
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

    @property
    def shape(self) -> tuple[str, float, float]:
        """Its queue, GPUs and priority, which decide whether it is admitted."""
        return self.queue, self.gpus, self.priority

    def rank(self) -> tuple[float, Seconds, JobId]:
        """Return what orders jobs of a queue, first ones least: priority, then submission."""
        return -self.priority, self.submit_time, self.job


class Preemption:
    """Finds victims as Kueue does, by fair sharing or without it; see `Kueue` for the settings.

    Raises:
        MurmurationError: the strategies are unknown.
    """

    def __init__(self, tree: QueueTree, fair_sharing: bool, strategies: tuple[str, ...]) -> None:
        if strategies not in (("final",), ("initial",), ("final", "initial")):
            raise MurmurationError(
                f"Kueue: strategies are {strategies!r}; they must be (final,), (initial,) or (final, initial)"
            )
        self._tree, self._fair, self._strategies = tree, fair_sharing, strategies

    def victims(self, head: Admitted, admitted: Iterable[Admitted]) -> list[Admitted]:
        """Return the jobs to preempt so that another fits; none if that cannot be reached. The tree stays as it is.

        Args:
            head: asks for quota.
            admitted: all jobs that hold some.
        """
        if head.gpus > self._tree.most(head.queue):
            return []
        reclaimed = {queue for queue in self._tree.settings if self._may_reclaim(queue, head.queue)}
        candidates = [job for job in admitted if self._may_lose(job, head, reclaimed)]
        if not candidates:
            return []
        candidates.sort(key=lambda job: _order(job, head))
        self._tree.use(head.queue, head.gpus)  # shares count the job that asks
        search = _Search(self._tree, head, candidates)
        if not self._fair:
            found = search.reclaim()
        else:
            found = search.first(self._strategies[0]) or (len(self._strategies) > 1 and search.second())
        taken = search.needed() if found else []
        search.undo()
        self._tree.use(head.queue, -head.gpus)
        return taken

    def _may_reclaim(self, queue: str, own: str) -> bool:
        """Return whether a queue borrows from the cohort of another."""
        tree = self._tree
        return queue != own and tree.path[queue][-1] == tree.path[own][-1] and tree.borrows(queue)

    def _may_lose(self, job: Admitted, head: Admitted, reclaimed: set[str]) -> bool:
        settings = self._tree.settings[head.queue]
        if job.queue == head.queue:
            newer = settings.within_queue == "lower_or_newer" and job.submit_time > head.submit_time
            lower = job.priority < head.priority
            return settings.within_queue != "never" and (lower or (newer and job.priority == head.priority))
        if job.queue not in reclaimed:
            return False
        return settings.reclaim == "any" or (settings.reclaim == "lower_priority" and job.priority < head.priority)


def _order(job: Admitted, head: Admitted) -> tuple[bool, float, float, int]:
    """Sort first what loses first: other queues, then low priority, then late admission (preemption/common)."""
    return job.queue == head.queue, job.priority, -job.admit_time, -job.job


class _Search:
    """One search for victims, on a tree that counts the job that asks (preemption.go, fairsharing/ordering.go)."""

    def __init__(self, tree: QueueTree, head: Admitted, candidates: list[Admitted]) -> None:
        self._tree, self._head, self._candidates = tree, head, candidates
        self._taken: list[Admitted] = []
        self._retry: list[Admitted] = []
        self._pruned: set[str] = set()
        self._lines: dict[str, list[Admitted]] = {}

    def reclaim(self) -> bool:
        """Take what others borrow if the queue stays within its quota, and what is less urgent in the queue itself."""
        own = self._head.queue
        for job in self._candidates:
            reclaimed = not self._tree.borrows(own) and self._borrows_from(job.queue)
            if (job.queue == own or reclaimed) and self._take(job):
                return True
        return False

    def first(self, rule: str) -> bool:
        """Take from the queue with the largest share again and again, by a strategy; return whether the job fits."""
        self._line_up(self._candidates)
        while queue := self._largest():
            if queue == self._head.queue or not self._tree.borrows(self._head.queue):
                if self._take(self._lines[queue].pop(0)):
                    return True
                continue
            mine, theirs, below = self._shares(queue)
            while self._lines[queue]:
                job = self._lines[queue].pop(0)
                without = self._tree.share_with(below, queue, -job.gpus)
                if (mine <= without) if rule == "final" else (mine < theirs):
                    if self._take(job):
                        return True
                    break  # another queue may have the largest share now
                self._retry.append(job)
        return False

    def second(self) -> bool:
        """Try what the first strategy left, by LessThanInitialShare and one job of each queue."""
        self._line_up(self._retry)
        while queue := self._largest():
            mine, theirs, _ = self._shares(queue)
            if mine < theirs and self._take(self._lines[queue].pop(0)):
                return True
            self._pruned.add(queue)
        return False

    def needed(self) -> list[Admitted]:
        """Give quota back to those, the last taken first, without whose quota the job fits too; return the others."""
        for job in self._taken[-2::-1]:
            self._tree.use(job.queue, job.gpus)
            if self._fits():
                self._taken.remove(job)
            else:
                self._tree.use(job.queue, -job.gpus)
        return list(self._taken)

    def undo(self) -> None:
        """Give all quota back."""
        for job in self._taken:
            self._tree.use(job.queue, job.gpus)

    def _line_up(self, jobs: list[Admitted]) -> None:
        self._lines, self._pruned = {}, set()
        for job in jobs:
            self._lines.setdefault(job.queue, []).append(job)

    def _fits(self) -> bool:
        self._tree.use(self._head.queue, -self._head.gpus)
        fits = self._tree.available(self._head.queue) >= self._head.gpus
        self._tree.use(self._head.queue, self._head.gpus)
        return fits

    def _take(self, job: Admitted) -> bool:
        self._tree.use(job.queue, -job.gpus)
        self._taken.append(job)
        return self._fits()

    def _borrows_from(self, queue: str) -> bool:
        """Return whether a queue and all above it, below the cohort of both, use more than their quotas."""
        sides = self._tree.below_common(self._head.queue, queue)
        path = self._tree.path[queue]
        return sides is not None and all(self._tree.borrows(node) for node in path[: path.index(sides[1]) + 1])

    def _shares(self, queue: str) -> tuple[WeightedShare, WeightedShare, str]:
        """Return the shares of both sides below their common cohort, and the other side."""
        sides = self._tree.below_common(self._head.queue, queue)
        assert sides is not None, "candidates share a cohort with the job"
        return self._tree.share(sides[0]), self._tree.share(sides[1]), sides[1]

    def _largest(self) -> str:
        """Return the queue to take from next, "" for none: the largest share wins in each cohort, from the root on."""
        root = self._tree.path[self._head.queue][-1]
        if root == self._head.queue:
            return root if self._lines.get(root) else ""
        while root not in self._pruned:
            if queue := self._descend(root):
                return queue
        return ""

    def _descend(self, cohort: str) -> str:
        """Return the queue with candidates that wins below a cohort; where none is, prune it and return ""."""
        tree, own = self._tree, self._tree.path[self._head.queue]
        best, best_share = "", (-1, 0.0)
        for child in sorted(tree.children[cohort], key=lambda child: bool(tree.children[child])):  # cohorts last
            if child in self._pruned:
                continue
            inner, share = bool(tree.children[child]), tree.share(child)
            if not (tree.borrows(child) or child in own) or not (inner or self._lines.get(child)):
                self._pruned.add(child)
            elif share > best_share or (share == best_share and (inner or self._earlier(child, best))):
                best, best_share = child, share
        if not best:
            self._pruned.add(cohort)
            return ""
        return self._descend(best) if tree.children[best] else best

    def _earlier(self, one: str, other: str) -> bool:
        return _order(self._lines[one][0], self._head) < _order(self._lines[other][0], self._head)
