"""The plan of a backfill pass: until when nodes are promised to jobs that wait."""

import itertools
import math
from collections.abc import Callable, Mapping

import numpy as np

from baselines.parts.placing import Gpus, fewest
from baselines.slurm.settings import SlurmSettings
from envs.types import BoolArray, IntArray, NodeId, Seconds

FIRST_GROUP: Seconds = 30.0  # of ends
Choose = Callable[[IntArray], Gpus]  # nodes for a job among free GPUs; empty if there is no room


class Plan:
    """Ends of running jobs, and spans of time with the nodes that are not reserved for a waiting job.

    As in Slurm's `backfill.c`, a reservation takes whole nodes, and its ends are rounded down to the resolution.

    Args:
        now: time of the pass.
        rules: the settings in force.
        free: int64[num_nodes], GPUs that no job holds now.
    """

    def __init__(self, now: Seconds, rules: SlurmSettings, free: IntArray) -> None:
        self.now, self.until, self._resolution = now, now + rules.bf_window, rules.bf_resolution
        self._grouped, self._linear = rules.ends == "grouped", rules.bf_window_linear
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
            found = self._earliest_by_groups(usable, choose) if self._grouped else self._earliest(usable, choose)
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

    def _earliest_by_groups(self, usable: BoolArray, choose: Choose) -> tuple[Seconds, Gpus] | None:
        """Return the last end of the first group of running jobs that leave a job room, and its nodes then.

        As `_will_run_test` of select/cons_tres has it: groups end 30 s, 1 min, 2 min, ... after a first time. A group
        may take one end more, as jobs on other nodes are passed over without a look at their ends.
        """
        free, first, length, last = self._free.copy(), math.inf, FIRST_GROUP, -math.inf
        if gpus := choose(np.where(usable, free, 0)):
            return self.now, gpus
        following = [*(end for end, _ in self._running[1:]), math.inf]
        for (end, held), coming in zip(self._running, following, strict=True):
            if usable[list(held)].any():
                first = min(first, (math.floor(end / FIRST_GROUP) + 1) * FIRST_GROUP)
                for node, count in held.items():
                    free[node] += count
                last, complete = end, coming > first + length
            else:
                complete = last > -math.inf and coming == math.inf
            if not complete:
                continue
            length += self._linear or length
            while first + length < coming < math.inf:
                length += self._linear or length
            if gpus := choose(np.where(usable, free, 0)):
                return last, gpus
            last = -math.inf
        return None
