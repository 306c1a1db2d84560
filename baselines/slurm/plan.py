"""The plan of a backfill pass: until when nodes are promised to jobs that wait."""

import itertools
import math
from collections.abc import Callable, Mapping

import numpy as np

from baselines.parts.placing import Gpus, fewest
from envs.types import BoolArray, IntArray, NodeId, Seconds

Choose = Callable[[IntArray], Gpus]  # nodes for a job among free GPUs; empty if there is no room


class Plan:
    """What is running until when, and spans of time with the nodes that no waiting job is promised.

    As in Slurm's `backfill.c`, a reservation takes whole nodes, and its ends are rounded down to the resolution.
    Differences: the end of every running job is looked at; Slurm looks at groups of them that double in length
    (`bf_window_linear`), which makes its plans a little later.

    Args:
        now: time of the pass.
        window: seconds for which it plans.
        resolution: of the ends of reservations, in seconds.
        free: int64[num_nodes], GPUs that no job holds now.
    """

    def __init__(self, now: Seconds, window: Seconds, resolution: Seconds, free: IntArray) -> None:
        self.now, self.until, self._resolution = now, now + window, resolution
        self._free = free.copy()
        self._running: list[tuple[Seconds, Mapping[NodeId, int]]] = []
        self.spans: list[tuple[Seconds, Seconds, BoolArray]] = [(now, self.until, np.ones(len(free), np.bool_))]

    def run(self, end: Seconds, gpus: Mapping[NodeId, int]) -> None:
        """Note a job that holds GPUs until a time; one that is past its limit is expected to end soon."""
        self._running.append((end if end > self.now else self.now + self._resolution, gpus))
        self._running.sort(key=lambda each: each[0])

    def start(self, limit: Seconds, gpus: Mapping[NodeId, int]) -> None:
        """Note a job that starts in this pass."""
        for node, count in gpus.items():
            self._free[node] -= count
        self.run(self.now + limit, gpus)

    def find(self, limit: Seconds, choose: Choose) -> tuple[Seconds, Gpus] | None:
        """Return the earliest start of a job for its whole limit, and its nodes; None if it is not in sight."""
        at = self.now
        while True:
            usable = np.ones(len(self._free), np.bool_)
            later = math.inf
            for begin, end, unpromised in self.spans:
                if end > at:
                    later = min(later, end)
                    if begin <= at + limit:
                        usable &= unpromised
            later = later if later < self.until else math.inf
            found = self._earliest(usable, choose)
            start = math.inf if found is None else max(found[0], at)
            if start <= self.now and found is not None:
                return found
            if start > later:
                at = later
            elif found is None:
                return None
            elif start > self.until or not self._is_promised(start, limit, found[1]):
                return start, found[1]
            elif start > at:
                at = start
            elif later < math.inf:
                at = later
            else:
                return None

    def reserve(self, start: Seconds, limit: Seconds, gpus: Gpus) -> None:
        """Promise nodes to a job."""
        first, last = self._ends(start, limit)
        spans: list[tuple[Seconds, Seconds, BoolArray]] = []
        for begin, end, unpromised in self.spans:
            cuts = [begin, *(cut for cut in (first, last) if begin < cut < end), end]
            spans += [(a, b, unpromised.copy()) for a, b in itertools.pairwise(cuts)]
        for begin, end, unpromised in spans:
            if begin >= first and end <= last:
                unpromised[list(gpus)] = False
        self.spans = spans

    def _ends(self, start: Seconds, limit: Seconds) -> tuple[Seconds, Seconds]:
        step = self._resolution
        return max(math.floor(start / step) * step, self.now), math.floor((start + limit) / step) * step

    def _is_promised(self, start: Seconds, limit: Seconds, gpus: Gpus) -> bool:
        first, last = self._ends(start, limit)
        nodes = list(gpus)
        return any(begin < last and end > first and not kept[nodes].all() for begin, end, kept in self.spans)

    def _earliest(self, usable: BoolArray, choose: Choose) -> tuple[Seconds, Gpus] | None:
        """Return the first time at which running jobs leave a job room on usable nodes, and its nodes then."""

        def at(count: int) -> Gpus:
            free = self._free.copy()
            for _, gpus in self._running[: count - 1]:
                for node, number in gpus.items():
                    free[node] += number
            return choose(np.where(usable, free, 0))

        count = fewest(1 + len(self._running), lambda count: bool(at(count)))
        if count is None:
            return None
        if count == 1:
            return self.now, at(1)
        end = self._running[count - 2][0]
        together = 1 + sum(1 for each in self._running if each[0] <= end)
        return end, at(together)
