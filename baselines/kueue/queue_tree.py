"""A tree of queues with quotas: what a queue may still take, and how much it borrows.

The rules are those of Kueue at commit ff69552e (pkg/cache/scheduler/resource_node.go and fair_sharing.go), for one
resource: GPUs. A queue with children is what Kueue calls a cohort.
"""

import math
from collections.abc import Iterable, Mapping
from dataclasses import dataclass

from envs.types import MurmurationError

_WITHIN, _RECLAIM = ("never", "lower_priority", "lower_or_newer"), ("never", "lower_priority", "any")
WeightedShare = tuple[int, float]  # 0 and the share; of what borrows without any weight, 1 and the unweighted share


@dataclass(frozen=True, slots=True)
class QueueSettings:
    """One queue, or a cohort of queues.

    Raises:
        MurmurationError: a quota, limit or weight is out of range.
    """

    name: str
    parent: str = ""  # the cohort above; "" for none
    nominal: float = 0.0  # GPUs that are its own
    borrowing_limit: float = math.inf  # GPUs that it may take from the cohort above, at most
    lending_limit: float = math.inf  # GPUs of its own that others may take, at most
    weight: float = 1.0  # its part when queues compete for GPUs that they borrow; with 0 it comes behind all others
    strict: bool = False  # whether a job that is not admitted blocks those behind it (Kueue's StrictFIFO)
    within_queue: str = "lower_priority"  # its own jobs that one of them may preempt: never, lower_priority,
    # lower_or_newer: also those of equal priority that were submitted later
    reclaim: str = "any"  # which jobs of other queues, of those that borrow: never, lower_priority, any

    def __post_init__(self) -> None:
        for field in ("nominal", "borrowing_limit", "lending_limit"):
            if not getattr(self, field) >= 0:
                raise MurmurationError(f"queue {self.name}: {field} is {getattr(self, field)}; it must be 0 or more")
        if not (0 <= self.weight < math.inf and self.nominal < math.inf):
            raise MurmurationError(
                f"queue {self.name}: weight is {self.weight} and nominal is {self.nominal}; "
                "both must be finite, and no weight negative"
            )
        for field, known in (("within_queue", _WITHIN), ("reclaim", _RECLAIM)):
            if getattr(self, field) not in known:
                value, names = getattr(self, field), " or ".join(known)
                raise MurmurationError(f"queue {self.name}: {field} is {value!r}; it must be {names}")
        for field in ("borrowing_limit", "lending_limit"):
            if not self.parent and getattr(self, field) < math.inf:
                raise MurmurationError(f"queue {self.name}: {field} needs a parent; name one or leave the limit out")


class QueueTree:
    """Quotas and use of a tree of queues.

    Args:
        queues: in any order.

    Raises:
        MurmurationError: two queues share a name, a parent is missing, or queues are their own ancestors.
    """

    def __init__(self, queues: Iterable[QueueSettings]) -> None:
        self.settings: dict[str, QueueSettings] = {}
        for queue in queues:
            if queue.name in self.settings:
                raise MurmurationError(f"queue {queue.name} is there twice; remove one or rename it")
            self.settings[queue.name] = queue
        self.children: dict[str, list[str]] = {name: [] for name in self.settings}
        for name, queue in self.settings.items():
            if queue.parent and queue.parent not in self.settings:
                raise MurmurationError(f"queue {name}: its parent {queue.parent} is no queue; add it or correct it")
            if queue.parent:
                self.children[queue.parent].append(name)
        self.path = {name: self._path_of(name) for name in self.settings}
        self.quota = {name: queue.nominal for name, queue in self.settings.items()}  # with what descendants lend
        for name in sorted(self.settings, key=lambda name: -len(self.path[name])):
            if parent := self.settings[name].parent:
                self.quota[parent] += self.quota[name] - self._own(name)
        self.used = dict.fromkeys(self.settings, 0.0)
        self.leaves = {name: None for name, below in self.children.items() if not below}  # the queues that take jobs
        self.total = sum(queue.nominal for queue in self.settings.values())  # GPUs

    def _path_of(self, name: str) -> tuple[str, ...]:
        """Return a queue and all cohorts above it, upwards."""
        path = [name]
        while parent := self.settings[path[-1]].parent:
            if parent in path:
                raise MurmurationError(f"queue {name}: {' -> '.join([*path, parent])} is a cycle; remove one parent")
            path.append(parent)
        return tuple(path)

    def _own(self, name: str) -> float:
        """Return the GPUs of a queue that it never lends."""
        return max(0.0, self.quota[name] - self.settings[name].lending_limit)

    def available(self, name: str) -> float:
        """Return the GPUs that a queue may take besides those that it has, given all others; negative if it must give.

        The root's free quota comes down the tree. Each level adds what it never lends, and cuts at its borrowing limit.
        """
        left = math.inf
        for node in reversed(self.path[name]):
            if not self.settings[node].parent:
                left = self.quota[node] - self.used[node]
                continue
            own = self._own(node)
            stored = self.quota[node] - own - max(0.0, self.used[node] - own)
            left = min(left, stored + self.settings[node].borrowing_limit) + max(0.0, own - self.used[node])
        return left

    def most(self, name: str) -> float:
        """Return the GPUs that a queue could have if no other used any."""
        left = math.inf
        for node in reversed(self.path[name]):
            if not self.settings[node].parent:
                left = self.quota[node]
                continue
            left = min(self._own(node) + left, self.quota[node] + self.settings[node].borrowing_limit)
        return left

    def use(self, name: str, gpus: float) -> None:
        """Add GPUs to what a queue uses, or take them away where negative; what it borrows or lends counts above it."""
        for node in self.path[name]:
            own = self._own(node)
            before = max(0.0, self.used[node] - own)
            self.used[node] += gpus
            gpus = max(0.0, self.used[node] - own) - before

    def borrows(self, name: str, more: float = 0.0) -> bool:
        """Return whether a queue uses more than its quota once it has `more` GPUs."""
        return self.used[name] + more > self.quota[name]

    def share(self, name: str) -> WeightedShare:
        """Return the weighted share: GPUs used beyond quota, of those that the cohort above has, by weight.

        Dominant resource fairness (Ghodsi et al., NSDI'11) of one resource; (0, 0) for a queue that borrows nothing.
        """
        settings = self.settings[name]
        beyond = self.used[name] - self.quota[name]
        if not settings.parent or beyond <= 0:
            return 0, 0.0
        lendable = self.most(settings.parent)
        ratio = beyond / lendable if lendable > 0 else 0.0
        return (0, ratio / settings.weight) if settings.weight else (1, ratio)

    def below_common(self, one: str, other: str) -> tuple[str, str] | None:
        """Return two queues, or the cohorts above them, just below the lowest cohort of both; None if there is none.

        Args:
            one: a queue without children.
            other: another one.
        """
        above = set(self.path[other])
        level = next((place for place, node in enumerate(self.path[one]) if node in above), None)
        if level is None:
            return None
        return self.path[one][level - 1], self.path[other][self.path[other].index(self.path[one][level]) - 1]

    def fairest(self, heads: Mapping[str, float]) -> str:
        """Return the queue whose next job is admitted first, by a tournament up the tree.

        In each cohort the child wins that would have the smallest share with the job of its winner
        (pkg/scheduler/fair_sharing_iterator.go). Ties go to the queue that comes first in `heads`.

        Args:
            heads: GPUs of the next job of each queue that has one; at least one queue.
        """
        ranks = {name: place for place, name in enumerate(heads)}
        tops = dict.fromkeys(self.path[name][-1] for name in heads)
        return min((self._winner(top, heads, ranks) for top in tops), key=ranks.__getitem__)

    def _winner(self, node: str, heads: Mapping[str, float], ranks: Mapping[str, int]) -> str:
        """Return the winner of the tournament below a node, which has a head there; "" if none has."""
        if not self.children[node]:
            return node if node in heads else ""
        winners = [(child, self._winner(child, heads, ranks)) for child in self.children[node]]
        shares = {winner: self.share_with(child, winner, heads[winner]) for child, winner in winners if winner}
        return min(shares, key=lambda winner: (shares[winner], ranks[winner]), default="")

    def share_with(self, node: str, name: str, gpus: float) -> WeightedShare:
        """Return the share of a node if a queue, at or below it, had so many GPUs more (fewer where negative)."""
        self.use(name, gpus)
        share = self.share(node)
        self.use(name, -gpus)
        return share
