"""Why recorded jobs waited though GPUs that they could use were free: what a replay does not know of."""

import itertools
from dataclasses import dataclass

import numpy as np

from envs.performance import allows_type
from envs.types import BoolArray, ClusterSpec, FloatArray, IntArray, Seconds, constraints_of
from envs.types.units import HOUR
from envs.workloads import Workload
from murmuration.what_if.hours import grid_over, means_over, time_text
from murmuration.what_if.played import Fates
from murmuration.what_if.waits import MINUTE, groups_of

MOST_STEPS = 40_000
LEAST_GAP: Seconds = HOUR  # without any start, that is named
MORE = 1.5
LEAST_SHARE = 0.05  # of the GPU-hours waited in a partition, to be explained
NEARLY = 0.95
NAMED = 5  # of the explanations of each sort


@dataclass(frozen=True)
class Part:
    """The jobs of one partition, and when they were held back.

    Attributes:
        where: what messages call it.
        mine: bool[num_jobs], its jobs.
        used: float64[num_steps], GPUs of its nodes in use.
        total: GPUs of its nodes.
        node: GPUs of its smallest node.
        held: by tenant float64[num_steps], GPU-hours that jobs with room waited in each step of the record.
        usual: by tenant, GPU-hours that jobs with room waited in the replay.
    """

    where: str
    mine: BoolArray
    used: FloatArray
    total: int
    node: int
    held: dict[str, FloatArray]
    usual: dict[str, float]


class HeldBack:
    """When recorded jobs waited though GPUs that they could use were certainly free, and what explains that.

    A job of n GPUs for one node has room for certain where so many GPUs are free that some node has n of them, however
    they are divided. So fragmentation does not explain its wait. What remains: nodes that were down or drained, quotas,
    windows in which nothing starts, and reservations for larger jobs. The last happen in the replay too, so that only
    what the record has held back at least `MORE` times as much as the replay is spoken of. Looked at is the time until
    the last submission.

    Args:
        recorded: of the jobs.
        replayed: of the same jobs.
        workload: the jobs.
        cluster: with all of its nodes.
        jobs: bool[num_jobs], those that count.
    """

    def __init__(
        self, recorded: Fates, replayed: Fates, workload: Workload, cluster: ClusterSpec, jobs: BoolArray
    ) -> None:
        self._recorded, self._replayed, self._workload, self._cluster = recorded, replayed, workload, cluster
        self._jobs = jobs
        first, last = float(recorded.enter[jobs].min()), float(workload.jobs["submit_time"][-1])
        last = max(last, first + 1.0) if len(workload) > 1 else first + 1.0
        self._grid = grid_over(first, last, float(np.clip((last - first) / MOST_STEPS, 1.0, MINUTE)))
        self._tenants = np.array([workload.tenants[each] for each in workload.jobs["tenant"].tolist()], dtype=object)

    def reasons(self) -> list[str]:
        """Return what probably explains why jobs waited, in words, most GPU-hours first."""
        groups = groups_of(self._workload)
        names = np.asarray(groups, dtype=object)
        parts = [
            self._part(group or "the cluster", mine)
            for group in dict.fromkeys(groups)
            if (mine := (names == group) & self._jobs).any()
        ]
        found, explained = self._quotas(parts)
        for part in parts:
            held = sum(
                (each for tenant, each in part.held.items() if tenant not in explained), np.zeros(self._grid.count)
            )
            usual = sum(hours for tenant, hours in part.usual.items() if tenant not in explained)
            waited = float((self._recorded.wait * self._recorded.gpus)[part.mine].sum() / HOUR)
            if np.sum(held) >= max(MORE * usual, LEAST_SHARE * waited, 1e-9):
                full = part.used >= NEARLY * np.quantile(part.used, 0.995)  # as many as were ever in use
                gaps, rest = self._gaps(part.where, part.mine, np.where(full, 0.0, held))
                found += gaps
                found += self._spans(part.where, part.used, part.total, part.node, np.where(full, held, rest))
        found.sort(key=lambda each: -each[0])
        most = sum(hours for hours, _ in found)
        return [text for hours, text in found[: 2 * NAMED] if hours >= LEAST_SHARE * most]

    def _part(self, where: str, mine: BoolArray) -> Part:
        nodes = self._nodes(int(self._workload.jobs["model"][np.flatnonzero(mine)[0]]))
        sharing = self._sharing(mine)
        used, held = self._held_back(self._recorded, nodes, sharing, mine)
        usual = {
            name: float(each.sum()) for name, each in self._held_back(self._replayed, nodes, sharing, mine)[1].items()
        }
        return Part(where, mine, used, int(nodes.sum()), int(nodes.min()), held, usual)

    def _quotas(self, parts: list[Part]) -> tuple[list[tuple[float, str]], set[str]]:
        """Find tenants that were held back mostly while they held as many GPUs as ever: a quota, probably.

        Returns:
            Explanations with their GPU-hours, and the tenants.
        """
        tenants = {tenant for part in parts for tenant in part.held}
        if len(tenants) < 2:
            return [], set()
        grid, found, named = self._grid, [], set()
        all_held = sum(float(each.sum()) for part in parts for each in part.held.values())
        for tenant in sorted(tenants):
            held = np.sum([part.held[tenant] for part in parts if tenant in part.held], axis=0)
            usual = sum(part.usual.get(tenant, 0.0) for part in parts)
            if held.sum() < max(MORE * usual, 0.02 * all_held, 1e-9):
                continue
            own = self._recorded.known & (self._tenants == tenant)
            used = means_over(grid, self._recorded.start, self._recorded.end, self._recorded.gpus * own)
            most = float(used.max())
            at_most = float(held[used >= NEARLY * most].sum() / held.sum())
            if most >= 2 and at_most >= 0.5:
                named.add(tenant)
                found.append(
                    (
                        float(held.sum()),
                        f"{tenant or 'a user'} never held more than {most:,.0f} GPUs, and held about that many in "
                        f"{at_most:.0%} of the {held.sum():,.1f} GPU-hours that its jobs waited with room: a quota?",
                    )
                )
        return found, named

    def _nodes(self, model: int) -> IntArray:
        """Return the GPUs of each node that the jobs of a model may use."""
        asked = constraints_of(self._workload.models[model])
        allowed = [allows_type(asked, name) for name in self._cluster.gpu_types]
        gpus: IntArray = self._cluster.node_gpus[np.array(allowed)[self._cluster.node_types]]
        return gpus

    def _held_back(
        self, fates: Fates, nodes: IntArray, sharing: FloatArray, mine: BoolArray
    ) -> tuple[FloatArray, dict[str, FloatArray]]:
        """Return GPUs in use by step, and GPU-hours that jobs with room waited in each step, by tenant."""
        grid, codes = self._grid, self._workload.jobs["tenant"] * (int(fates.gpus.max()) + 1) + fates.gpus
        used = means_over(grid, fates.start, fates.end, fates.gpus * sharing)
        by_tenant: dict[str, FloatArray] = {}
        for code in np.unique(codes[mine]):
            jobs = np.flatnonzero(mine & (codes == code))
            size, tenant = int(fates.gpus[jobs[0]]), str(self._tenants[jobs[0]])
            held = by_tenant.setdefault(tenant, np.zeros(grid.count))
            if size <= nodes.max():
                sizes = fates.gpus[jobs].astype(np.float64)
                queue = means_over(grid, fates.enter[jobs], fates.start[jobs], sizes)
                held += np.where(nodes.sum() - used > np.minimum(nodes, size - 1).sum(), queue, 0.0) * grid.step / HOUR
        return used, by_tenant

    def _sharing(self, mine: BoolArray) -> FloatArray:
        """float64[num_jobs]: 1 for jobs that hold GPUs of the same nodes as these, of those with known places."""
        asked = [constraints_of(model) for model in self._workload.models]
        first = constraints_of(self._workload.models[int(self._workload.jobs["model"][np.flatnonzero(mine)[0]])])
        labels = [name for name in self._cluster.gpu_types if allows_type(first, name)]
        overlaps = np.array([any(allows_type(each, name) for name in labels) for each in asked], dtype=np.float64)
        shared: FloatArray = overlaps[self._workload.jobs["model"]]
        return shared

    def _gaps(self, where: str, mine: BoolArray, held: FloatArray) -> tuple[list[tuple[float, str]], FloatArray]:
        """Find spans without any start in which jobs were held back; return them, and the rest of what was held."""
        grid, rest = self._grid, held.copy()
        starts = np.sort(self._recorded.start[mine])
        least = min(LEAST_GAP, grid.step * grid.count / 10)
        found = []
        for low, high in itertools.pairwise(starts):
            if high - low < least:
                continue
            inside = (grid.times >= low) & (grid.times + grid.step <= high)
            hours, busy = float(held[inside].sum()), float((held[inside] > 0).mean()) if inside.any() else 0.0
            if hours <= 0 or busy < 0.5:
                continue
            rest[inside] = 0.0
            found.append((hours, low, high))
        found.sort(reverse=True)
        said = [
            (
                hours,
                f"{where}: nothing started for {_span(high - low)} from {self._when(low)} on, though jobs waited that "
                f"had room ({hours:,.1f} GPU-hours waited): maintenance, drained nodes, or no backfill then?",
            )
            for hours, low, high in found[:NAMED]
        ]
        return said, rest

    def _spans(self, where: str, used: FloatArray, total: int, node: int, held: FloatArray) -> list[tuple[float, str]]:
        """Say in which spans jobs with room waited while at least a node's GPUs were never in use."""
        grid, found = self._grid, []
        steps = np.flatnonzero(held > 0)
        apart = min(LEAST_GAP / grid.step, grid.count / 50)
        spans: list[IntArray] = []
        for inside in np.split(steps, np.flatnonzero(np.diff(steps) > apart) + 1):
            last = spans[-1] if spans else inside
            if spans and abs(used[last].max() - used[inside].max()) <= (1 - NEARLY) * total:  # the same level
                spans[-1] = np.concatenate([last, inside])
            else:
                spans.append(inside)
        for inside in spans:
            hours = float(held[inside].sum())
            if not len(inside) or hours < LEAST_SHARE * held.sum():
                continue
            most = float(np.quantile(used[inside], 0.98))
            if total - most < node:
                continue
            begin, end = grid.times[inside[0]], grid.times[inside[-1]] + grid.step
            found.append(
                (
                    hours,
                    f"{where}: from {self._when(begin)} to {self._when(end)} at most about {most:,.0f} of {total:,} "
                    f"GPUs were in use while jobs waited that had room ({hours:,.1f} GPU-hours): nodes that were "
                    "down or reserved, or jobs that the file does not have?",
                )
            )
        found.sort(reverse=True)
        return found[:NAMED]

    def _when(self, seconds: Seconds) -> str:
        past = self._workload.recorded
        return time_text(None if past is None else past.zero, seconds)


def _span(seconds: Seconds) -> str:
    return f"{seconds / HOUR:.1f} h" if seconds >= HOUR else f"{seconds / MINUTE:.1f} min"
