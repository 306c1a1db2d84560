"""Space sharing: any scheduler, with waiting jobs beside running ones on the same GPUs."""

import math
from dataclasses import dataclass

import numpy as np

from baselines.parts.placing import constraints_at
from baselines.parts.priority import ranked
from envs.scheduling import ClusterView, Scheduler
from envs.simulation import SimulationView, Snapshot
from envs.types import Allocation, BoolArray, ClusterSpec, FloatArray, IntArray, JobId, MurmurationError, Placement

SHORTEST = 1.0  # seconds: a remaining time below it counts as this


@dataclass(frozen=True)
class Owners:
    """Jobs that have GPUs for themselves, and their GPUs.

    Attributes:
        jobs: int64[n].
        placements: of each.
        on_type: bool[n, num_gpu_types], the types of its GPUs.
        num_gpus, num_nodes: int64[n].
    """

    jobs: IntArray
    placements: tuple[Placement, ...]
    on_type: BoolArray
    num_gpus: IntArray
    num_nodes: IntArray

    @classmethod
    def of(cls, view: ClusterView, allocation: Allocation) -> "Owners":
        """Return the jobs that nobody shares GPUs with under an allocation."""
        found: list[tuple[JobId, Placement]] = []
        for job in sorted(allocation.jobs()):
            placement = allocation.placement(job)
            if placement is not None and placement.beside is None and allocation.guest(job) is None:
                found.append((job, placement))
        on_type = np.zeros((len(found), len(view.cluster.gpu_types)), np.bool_)
        for row, (_, placement) in enumerate(found):
            on_type[row, view.cluster.node_types[list(placement.gpus)]] = True
        placements = tuple(placement for _, placement in found)
        return cls(
            np.array([job for job, _ in found], np.int64),
            placements,
            on_type,
            np.array([placement.num_gpus for placement in placements], np.int64),
            np.array([len(placement.gpus) for placement in placements], np.int64),
        )

    def mean_of(self, values: FloatArray) -> FloatArray:
        """float64[n]: the mean of values by node over the GPUs of each job.

        Args:
            values: float64[num_nodes].
        """
        return np.array(
            [
                sum(gpus * values[node] for node, gpus in placement.gpus.items()) / placement.num_gpus
                for placement in self.placements
            ]
        )


class NodeLoads:
    """Cores and memory that the jobs on each node can use, where these are shared.

    Args:
        view: the cluster.
        allocation: who is where.
    """

    def __init__(self, view: ClusterView, allocation: Allocation) -> None:
        nodes = view.cluster.nodes
        self._view = view
        self._has = np.array([(node.cpu_cores, node.memory) for node in nodes])
        self._wanted = np.zeros((len(nodes), 2))
        self._held = np.zeros(len(nodes))  # GPUs, those of guests twice
        for job in allocation.jobs():
            placement = allocation.placement(job)
            if placement is not None:
                self.add(job, placement)

    def add(self, job: JobId, placement: Placement) -> None:
        """Count a job."""
        if not self._view.shares_cpu_memory:
            return
        for node, gpus in placement.gpus.items():
            self._wanted[node] += self._wants(job, node, gpus)
            self._held[node] += gpus

    def _wants(self, job: JobId, node: int, gpus: int) -> FloatArray:
        """float64[2]: cores and GB beyond which a job on GPUs of a node gains nothing."""
        saturating = self._view.shared_resources.tables.saturating
        width = min(gpus, saturating.shape[2] - 1)
        wanted: FloatArray = saturating[self._view.model[job], self._view.cluster.node_types[node], width] * gpus
        return wanted

    def lost(self, job: JobId, placement: Placement) -> float:
        """Return the loss of all jobs on these nodes if a job is added, in units of the job's own throughput.

        An estimate: where more is wanted than there is, each job keeps the fraction that the node has of it.
        """
        if not self._view.shares_cpu_memory:
            return 0.0
        lost = 0.0
        for node, gpus in placement.gpus.items():
            after = self._wanted[node] + self._wants(job, node, gpus)
            kept = [
                float(np.minimum(self._has[node] / np.maximum(each, 1e-9), 1.0).min())
                for each in (self._wanted[node], after)
            ]
            lost += (kept[0] - kept[1]) * self._held[node] + (1.0 - kept[1]) * gpus
        return lost / placement.num_gpus


@dataclass(frozen=True)
class PairingRule:
    """Which waiting jobs go beside which running ones; see `Packing`, whose arguments these are.

    Raises:
        MurmurationError: a setting is out of range.
    """

    least_gain: float = 0.3
    urgency: float = 0.5
    least_kept: float = 0.0
    parted_below: float = 1.3

    def __post_init__(self) -> None:
        if not (math.isfinite(self.least_gain) and math.isfinite(self.urgency) and 0 <= self.least_kept <= 1):
            raise MurmurationError(
                f"Packing: least_gain is {self.least_gain}, urgency {self.urgency}, least_kept {self.least_kept}; the "
                "first two must be finite, the last from 0 to 1"
            )
        if not 0 <= self.parted_below <= 2:
            raise MurmurationError(f"Packing: parted_below is {self.parted_below}; it must be from 0 to 2")

    def with_pairs(self, view: ClusterView, decided: Allocation, affinity: FloatArray | None = None) -> Allocation:
        """Return an allocation with pairs.

        Args:
            view: the cluster.
            decided: made on a copy of it in which all guests wait (`without_guests`), or on the view where there are
                none.
            affinity: float64[num_jobs, num_nodes], logarithms of factors on what is gained by a job on GPUs of a node,
                of which the mean over its GPUs counts. They choose between jobs beside which it gains enough without
                them. None for 0.
        """
        allocation = beside_kept_owners(view, decided) if view.pairs else decided
        if view.num_beliefs:
            self._part_harmful(view, allocation)
        placed = allocation.jobs()
        waiting = [job for job in np.concatenate([view.queued, view.running]).tolist() if job not in placed]
        if waiting:
            self._pack(view, allocation, np.array(waiting, np.int64), affinity)
        return allocation

    def _part_harmful(self, view: ClusterView, allocation: Allocation) -> None:
        """Stop guests that, as has been found out, keep too little together with their owners."""
        for owner, guest in view.pairs.items():
            placement = allocation.placement(guest)
            if placement is None or placement.beside != owner:
                continue
            types, models = view.cluster.node_types[list(placement.gpus)], view.model[[owner, guest]]
            kept = view.pair_factors[types][:, models, models[::-1]].min(axis=0)
            if kept.sum() < self.parted_below:
                allocation.stop(guest)

    def _pack(self, view: ClusterView, allocation: Allocation, waiting: IntArray, affinity: FloatArray | None) -> None:
        """Place waiting jobs beside running ones where that gains enough."""
        owners, loads = Owners.of(view, allocation), NodeLoads(view, allocation)
        free = np.ones(len(owners.jobs), np.bool_)
        left = view.remaining_time(np.arange(len(view.num_gpus)))
        known = not np.isnan(left[waiting]).any()
        left = np.maximum(left, SHORTEST)
        for job in ranked(waiting, left[waiting] if known else view.attained_service(waiting)):
            if not free.any():
                return
            weight = (left[job] / left[owners.jobs]) ** self.urgency if known else np.ones(len(free))
            gain = np.where(free, self._gains(view, job, owners, weight), -np.inf)
            for row in np.flatnonzero(gain > self.least_gain).tolist():
                gain[row] -= loads.lost(job, owners.placements[row])
            enough = gain > self.least_gain
            if enough.any():
                liking = 1.0 if affinity is None else np.exp(owners.mean_of(affinity[job]))
                best = int(np.where(enough, gain * liking, -np.inf).argmax())
                placement = Placement(owners.placements[best].gpus, beside=int(owners.jobs[best]))
                allocation.place(job, placement)
                loads.add(job, placement)
                free[best] = False

    def _gains(self, view: ClusterView, job: JobId, owners: Owners, weight: FloatArray) -> FloatArray:
        """float64[num_owners]: what is gained by placing a job beside each owner; -inf where it cannot go.

        A job whose constraints demand a division among nodes goes beside none.
        """
        throughputs, most_nodes = view.throughputs(job), view.most_nodes(job)
        size = np.minimum(owners.num_gpus, throughputs.shape[1] - 1)
        sized = (owners.num_gpus == size) & (size >= view.min_gpus[job]) & (size <= view.max_gpus[job])
        own, others = view.model[job], view.model[owners.jobs]
        kept = _least(view.pair_factors[:, own, others].T, owners.on_type)
        left = _least(view.pair_factors[:, others, own].T, owners.on_type)
        there = _least(throughputs[:, size].T, owners.on_type)
        reached = _least(most_nodes[:, size].T.astype(np.float64), owners.on_type) >= owners.num_nodes
        usual = throughputs[:, min(int(view.num_gpus[job]), throughputs.shape[1] - 1)].max()
        sized &= constraints_at(view, job).demand_nodes(1) == 0
        fits = sized & reached & (kept > 0) & (np.minimum(kept, left) >= self.least_kept) & (there > 0) & (usual > 0)
        gain = kept * there / max(usual, 1e-12) - weight * (1.0 - left)
        found: FloatArray = np.where(fits, gain, -np.inf)
        return found


class Packing:
    """An inner scheduler decides who gets GPUs; jobs that it leaves waiting share those of running jobs.

    Gavel (OSDI'20, section 3.1), Lucid (ASPLOS'23) and Muri (SIGCOMM'22) pair jobs that lose little to each other. Here
    the inner scheduler decides on a copy of the cluster in which nobody shares: guests wait there, so it gives them
    GPUs of their own whenever it would start them. Then each waiting job, shortest first, takes the owner beside which
    most is gained, if that is enough:

        gain = kept by the guest * its relative throughput there - (time left of the guest / of the owner) ** urgency
               * lost by the owner - lost by all jobs on these nodes for want of cores and memory

    With urgency 0, throughput counts alone, and least_gain=0.3 makes pairs whose combined rate is above 1.3; with a
    higher urgency, a short job may cost a long one more. Where work is hidden, jobs are in order of attained service,
    and urgency does not count. A pair stays until one of the two ends or the inner scheduler moves it; where
    throughputs must be found out, also until the two turn out to keep less than `parted_below` together. The rule is
    ours; it has Lucid's protection of running jobs as an option (`least_kept`).

    In worlds where jobs may not share GPUs, it is the inner scheduler. The defaults are the best of twelve candidates
    around Starling on eight training workloads of sharing-64, which differ by 2 %; `parted_below` is the best of four
    on as many of sharing-hidden-64, which differ by 1 %, less than can be told apart.

    Args:
        inner: decides who gets GPUs.
        least_gain: see above.
        urgency: see above.
        least_kept: the fraction of its throughput that each of the two must keep at least.
        parted_below: sum of both fractions below which a running pair is parted; 0 parts none.

    Raises:
        MurmurationError: a setting is out of range.
    """

    preemptive = True

    def __init__(
        self,
        inner: Scheduler,
        least_gain: float = 0.3,
        urgency: float = 0.5,
        least_kept: float = 0.0,
        parted_below: float = 1.3,
    ) -> None:
        self.inner, self.rule = inner, PairingRule(least_gain, urgency, least_kept, parted_below)
        self.information = getattr(inner, "information", "estimate")
        self.elastic = getattr(inner, "elastic", False)
        self._copy: Snapshot | None = None

    def reset(self, cluster: ClusterSpec, rng: np.random.Generator) -> None:
        """Begin a new episode, as the inner scheduler does."""
        self._copy = None
        self.inner.reset(cluster, rng)

    def schedule(self, view: ClusterView) -> Allocation:
        """Decide as the inner scheduler does, then place waiting jobs beside running ones."""
        if not view.shares_gpus:
            return self.inner.schedule(view)
        if not view.pairs:
            return self.rule.with_pairs(view, self.inner.schedule(view))
        if not isinstance(view, SimulationView):
            raise MurmurationError("Packing: plays on the compiled engine only, of which it takes copies")
        self._copy = without_guests(view, self._copy)
        return self.rule.with_pairs(view, self.inner.schedule(self._copy.view))


def without_guests(view: SimulationView, into: Snapshot | None) -> Snapshot:
    """Return a copy of the cluster in which all guests have returned to the queue.

    Args:
        view: the cluster.
        into: an earlier copy to overwrite.
    """
    copy = view.snapshot(into=into)
    if view.pairs:
        allocation = copy.view.allocation(keep_running=True)
        for guest in view.pairs.values():
            allocation.stop(guest)
        copy.apply(allocation)
    return copy


def beside_kept_owners(view: ClusterView, decided: Allocation) -> Allocation:
    """Return an allocation of a copy without guests as one of the cluster; guests stay beside owners that stay.

    Args:
        view: the cluster, in which jobs share GPUs.
        decided: made on a copy of it in which all guests wait.
    """
    allocation, pairs = view.allocation(keep_running=True), view.pairs
    guests, changes = set(pairs.values()), dict(decided.changes)
    running = [job for job in view.running.tolist() if job not in guests]
    if not decided.keep_running:
        changes |= {job: None for job in running if job not in changes}
    moves = {
        job
        for job in running
        if job in changes and ((placement := changes[job]) is None or placement.gpus != view.placement(job).gpus)
    }
    for owner, guest in pairs.items():
        if owner in moves or changes.get(guest) is not None:
            allocation.stop(guest)
    for job in moves:
        allocation.stop(job)
    for job, placement in changes.items():
        if placement is not None:
            allocation.place(job, placement)
    allocation.next_decision = decided.next_decision
    return allocation


def _least(values: FloatArray, counted: BoolArray) -> FloatArray:
    """float64[n]: the least counted value of each row."""
    least: FloatArray = np.where(counted, values, np.inf).min(axis=1)
    return least
