"""May a replay be believed? What was recorded beside what the incumbent does with the jobs, and why they differ."""

import itertools
from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from envs.performance import allows_type
from envs.types import BoolArray, ClusterSpec, FloatArray, IntArray, Seconds, constraints_of, plain_type, pools_of
from envs.types.units import DAY
from envs.workloads import Workload
from murmuration.what_if.hours import grid_over, means_over, time_text
from murmuration.what_if.played import Fates
from murmuration.what_if.waits import HOUR, MINUTE, figures_of

RESAMPLES = 2000
MOST_STEPS = 40_000
LEAST_GAP: Seconds = HOUR  # without any start, that is named
CLOSE, FAIR = 0.1, 1 / 3  # how far figures may be from the recorded ones
MORE = 1.5
LEAST_SHARE = 0.05  # of the GPU-hours waited in a partition, to be explained
NEARLY = 0.95
NAMED = 5  # of the explanations of each kind


@dataclass(frozen=True)
class ReplayTrust:
    """How well a replay repeats what was recorded.

    Attributes:
        overlap: from 0 to 1, the share of GPU-hours waited that both have in the same partition on the same day: twice
            the sum of the smaller ones over the sum of both (the Bray-Curtis similarity).
        low: end of its 95 % interval, by a bootstrap over days.
        high: the other end.
        recorded: figures of the waits, see `waits.figures_of`.
        replayed: the same of the replay.
        reasons: what probably explains the difference, most GPU-hours first.
    """

    overlap: float
    low: float
    high: float
    recorded: dict[str, float]
    replayed: dict[str, float]
    reasons: tuple[str, ...]

    @property
    def ratio(self) -> float:
        """GPU-hours waited in the replay over the recorded ones."""
        return self.replayed["GPU-hours"] / self.recorded["GPU-hours"] if self.recorded["GPU-hours"] else np.nan

    @property
    def verdict(self) -> str:
        """One sentence on whether to believe what is played."""
        if not self.recorded["GPU-hours"]:
            return "No job waited in the record, so there is nothing to compare."
        shares = abs(self.replayed["over a minute"] - self.recorded["over a minute"])
        off = max(abs(self.ratio - 1), shares / max(self.recorded["over a minute"], 0.01))
        word = "agrees with" if off <= CLOSE else "is within a third of" if off <= FAIR else "does not explain"
        advice = {
            "agrees with": "the changes below can be believed as far as their intervals say",
            "is within a third of": "read the changes below as directions, not as figures",
            "does not explain": "do not believe the changes below before the reasons are dealt with",
        }[word]
        return f"The replay {word} the record: {advice}."


def compare_with_record(recorded: Fates, replayed: Fates, workload: Workload, cluster: ClusterSpec) -> ReplayTrust:
    """Compare a replay with what was recorded.

    Args:
        recorded: of the jobs.
        replayed: of the same jobs under the incumbent.
        workload: the jobs.
        cluster: on which they were replayed.
    """
    both = recorded.known & replayed.known
    overlap, low, high = overlap_of(recorded, replayed, groups_of(workload), both)
    reasons = HeldBack(recorded, replayed, workload, cluster).reasons() if both.any() else ()
    return ReplayTrust(overlap, low, high, figures_of(recorded, both), figures_of(replayed, both), tuple(reasons))


def groups_of(workload: Workload) -> list[str]:
    """Return for each job the partition, or else the GPU type, to which it is tied; "" for none."""
    names = []
    for model in workload.models:
        asked = constraints_of(model)
        names.append("+".join(asked.pools or asked.gpu_types))
    return [names[model] for model in workload.jobs["model"].tolist()]


def overlap_of(
    recorded: Fates, replayed: Fates, groups: Sequence[str], jobs: BoolArray, seed: int = 0
) -> tuple[float, float, float]:
    """Return the overlap of GPU-hours waited by group and day, and its 95 % interval; see `ReplayTrust`."""
    if not jobs.any():
        return np.nan, np.nan, np.nan
    first = recorded.enter[jobs].min()
    length = min(DAY, max((recorded.enter[jobs].max() - first) / 20, 1.0))  # short recordings have twenty parts
    day = ((recorded.enter - first) // length)[jobs].astype(np.int64)
    _, codes = np.unique(np.asarray(groups, dtype=object)[jobs].astype(str), return_inverse=True)
    shape = (int(codes.max()) + 1, int(day.max()) + 1)
    cells = codes * shape[1] + day
    waited = [
        np.bincount(cells, (each.wait * each.gpus)[jobs], minlength=shape[0] * shape[1]).reshape(shape)
        for each in (recorded, replayed)
    ]
    common, total = 2 * np.minimum(*waited).sum(axis=0), (waited[0] + waited[1]).sum(axis=0)
    if not total.sum():
        return 1.0, 1.0, 1.0
    drawn = np.random.default_rng(seed).integers(0, shape[1], (RESAMPLES, shape[1]))
    with np.errstate(invalid="ignore"):
        shares = common[drawn].sum(axis=1) / total[drawn].sum(axis=1)
    low, high = np.nanquantile(shares, [0.025, 0.975])
    return float(common.sum() / total.sum()), float(low), float(high)


class HeldBack:
    """When recorded jobs waited though GPUs that they could use were certainly free, and what explains that.

    A job of n GPUs for one node has room for certain where so many GPUs are free that some node has n of them, however
    they are divided. So fragmentation does not explain its wait. What remains: nodes that were down or drained, quotas,
    windows in which nothing starts, and reservations for larger jobs. The last happen in the replay too, so that a
    partition is spoken of only if the record has held back at least `MORE` times what the replay has.

    Args:
        recorded: of the jobs.
        replayed: of the same jobs.
        workload: the jobs.
        cluster: with all of its nodes.
    """

    def __init__(self, recorded: Fates, replayed: Fates, workload: Workload, cluster: ClusterSpec) -> None:
        self._recorded, self._replayed, self._workload, self._cluster = recorded, replayed, workload, cluster
        known = recorded.known
        first, last = float(recorded.enter[known].min()), float(np.nanmax(recorded.end[known]))
        self._grid = grid_over(first, last, float(np.clip((last - first) / MOST_STEPS, 1.0, MINUTE)))
        self._groups = groups_of(workload)
        self._tenants = np.array([workload.tenants[each] for each in workload.jobs["tenant"].tolist()], dtype=object)

    def reasons(self) -> list[str]:
        """Return what probably explains why jobs waited, in words, most GPU-hours first."""
        found: list[tuple[float, str]] = []
        names = np.asarray(self._groups, dtype=object)
        for group in dict.fromkeys(self._groups):
            found += self._of_group(group, names == group)
        found.sort(key=lambda each: -each[0])
        most = sum(hours for hours, _ in found)
        return [text for hours, text in found[: 2 * NAMED] if hours >= LEAST_SHARE * most]

    def _nodes(self, model: int) -> IntArray:
        """Return the GPUs of each node that the jobs of a model may use."""
        asked = constraints_of(self._workload.models[model])
        allowed = [allows_type(asked, name) for name in self._cluster.gpu_types]
        gpus: IntArray = self._cluster.node_gpus[np.array(allowed)[self._cluster.node_types]]
        return gpus

    def _of_group(self, group: str, mine: BoolArray) -> list[tuple[float, str]]:
        """Return explanations of the jobs of one partition, each with its GPU-hours."""
        mine = mine & self._recorded.known
        if not mine.any():
            return []
        nodes = self._nodes(int(self._workload.jobs["model"][np.flatnonzero(mine)[0]]))
        total, sharing = int(nodes.sum()), self._sharing(mine)
        used, by_tenant = self._held_back(self._recorded, nodes, sharing, mine)
        held = np.sum(list(by_tenant.values()), axis=0)
        usual = sum(float(each.sum()) for each in self._held_back(self._replayed, nodes, sharing, mine)[1].values())
        all_waited = float((self._recorded.wait * self._recorded.gpus)[mine].sum() / HOUR)
        if held.sum() < max(MORE * usual, LEAST_SHARE * all_waited):
            return []
        where = group or "the cluster"
        full = used >= NEARLY * np.quantile(used, 0.995)  # as many as were ever in use
        gaps, rest = self._gaps(where, mine, np.where(full, 0.0, held))
        quotas, rest = self._quotas(where, mine, by_tenant, rest)
        return gaps + quotas + self._spans(where, used, total, np.where(full, held, rest))

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
                f"had room ({hours:,.1f} GPU-hours waited): maintenance, or nodes that were drained?",
            )
            for hours, low, high in found[:NAMED]
        ]
        return said, rest

    def _quotas(
        self, where: str, mine: BoolArray, by_tenant: dict[str, FloatArray], rest: FloatArray
    ) -> tuple[list[tuple[float, str]], FloatArray]:
        """Find tenants that were held back mostly while they held as many GPUs as ever: a quota, probably."""
        if len(by_tenant) < 2:
            return [], rest
        grid, found, left = self._grid, [], rest.copy()
        for tenant, held in by_tenant.items():
            held = np.where(rest > 0, held, 0.0)
            if held.sum() <= 0.02 * max(rest.sum(), 1e-9):
                continue
            own = mine & (self._tenants == tenant)
            used = means_over(grid, self._recorded.start, self._recorded.end, self._recorded.gpus * own)
            most = float(np.quantile(used[held > 0], 0.99))
            at_most = held[used >= NEARLY * most].sum() / held.sum()
            if most >= 2 and at_most >= 0.5 and most >= NEARLY * used.max():
                left -= held
                found.append(
                    (
                        float(held.sum()),
                        f"{where}: {tenant or 'a user'} never held more than about {most:,.0f} GPUs, and held "
                        f"that many in {at_most:.0%} of the {held.sum():,.1f} GPU-hours that its jobs waited with "
                        "room: a quota?",
                    )
                )
        found.sort(reverse=True)
        return found[:NAMED], np.maximum(left, 0.0)

    def _spans(self, where: str, used: FloatArray, total: int, held: FloatArray) -> list[tuple[float, str]]:
        """Say in which spans jobs with room waited, and how many GPUs were in use then at most."""
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


def describe_cluster(cluster: ClusterSpec) -> str:
    """Return the GPUs of a cluster by type and pools, such as "96 A100 (batch), 64 H100 (debug)"."""
    said = []
    for name, count in cluster.gpus_by_type.items():
        pools = ", ".join(pools_of(name))
        said.append(f"{count:,} {plain_type(name)}" + (f" ({pools})" if pools else ""))
    return ", ".join(said)
