"""A draft of a round: what each job holds, what it can give up, and where other jobs fit."""

import math
from collections import defaultdict
from collections.abc import Hashable, Iterable, Iterator, Mapping
from dataclasses import dataclass, field
from itertools import count
from typing import NamedTuple

import numpy as np

from baselines.parts.placing import Gpus
from baselines.parts.ties import least_first, less
from baselines.rubick.curves import NOWHERE, CurvePoint, SensitivityCurve, SensitivityCurves, meets
from envs.performance.rubick import even_shares
from envs.scheduling import ClusterView
from envs.types import IntArray, JobId, NodeId
from envs.types.allocation import consolidated


@dataclass(frozen=True, slots=True)
class Held:
    """GPUs and plan of a job in the draft."""

    gpus: Mapping[NodeId, int]
    gpu_type: int  # index of the GPU type
    point: CurvePoint

    @property
    def num_gpus(self) -> int:
        """GPUs on all nodes together."""
        return sum(self.gpus.values())


class ShrinkOffer(NamedTuple):
    """The next step by which a job can shrink on a node."""

    slope: float  # throughput lost per GPU that the claimant needs, as a share of the original
    job: JobId
    keeps: Gpus  # empty if the job stops
    point: CurvePoint


class Change(NamedTuple):
    """State of a job before one step, for `undo`."""

    job: JobId
    held: Held | None
    since: int
    movable: bool
    version: int  # of the draft


class Claim(NamedTuple):
    """A job that claims GPUs of other jobs, and its priority."""

    job: JobId
    slope: float  # jobs that lose less per GPU give; infinite for a starved or guaranteed job
    guaranteed: bool = False  # best-effort jobs give regardless of their loss and of the gate
    starving: bool = False  # guaranteed jobs that pass the gate may be stopped for it

    @property
    def stops(self) -> bool:
        """Whether best-effort jobs may be stopped for this claim, not only shrunk."""
        return math.isinf(self.slope)


@dataclass
class DraftAllocation:
    """Free GPUs and the jobs' GPUs, changed step by step. Takes effect only when the round ends.

    Attributes:
        view: the round.
        curves: the jobs' sensitivity curves.
        held: what each job holds.
        movable: jobs that may be reconfigured, see `Rubick`; jobs placed in this round are added.
        kept: guaranteed jobs within their tenants' quotas; they are shrunk at most to their minimum.
        free: int64[num_nodes], free GPUs.
        version: identifies the state; it differs whenever any job's GPUs differ.
        refused: claims that did not fit, with the version of the draft at which they were refused.
    """

    view: ClusterView
    curves: SensitivityCurves
    held: dict[JobId, Held]
    movable: set[JobId]
    kept: set[JobId]
    free: IntArray
    version: int = 0
    refused: dict[Hashable, int] = field(default_factory=dict)
    _versions: Iterator[int] = field(default_factory=lambda: count(1))
    _since: dict[JobId, int] = field(default_factory=dict)  # order in which jobs got their present GPUs
    _here: dict[NodeId, set[JobId]] = field(default_factory=lambda: defaultdict(set))
    _changes: list[Change] = field(default_factory=list)

    def __post_init__(self) -> None:
        self.capacity: list[int] = self.view.capacity.tolist()  # GPUs of each node; 0 if it is down
        self.idle = int(self.free.sum())  # free GPUs of all nodes
        for place, (job, held) in enumerate(self.held.items()):
            self._since[job] = place - len(self.held)  # before all later changes
            for node in held.gpus:
                self._here[node].add(job)

    @classmethod
    def of(
        cls, view: ClusterView, curves: SensitivityCurves, held: Mapping[JobId, Held], movable: Iterable[JobId]
    ) -> "DraftAllocation":
        """The draft at the beginning of a round, with the running jobs."""
        return cls(view, curves, dict(held), set(movable), set(), view.free_gpus)

    def mark(self) -> int:
        """Return a mark for `undo`."""
        return len(self._changes)

    def undo(self, mark: int) -> None:
        """Revert all calls of `give` and `take` since a mark."""
        while len(self._changes) > mark:
            job, held, since, movable, version = self._changes.pop()
            self._put(job, held, since)
            (self.movable.add if movable else self.movable.discard)(job)
            self.version = version

    def give(self, job: JobId, held: Held) -> None:
        """Give a job these GPUs in place of what it held. From now on resizing it in this round is free."""
        self._change(job, held)
        self.movable.add(job)

    def take(self, job: JobId) -> None:
        """Take all GPUs from a job."""
        if job in self.held:
            self._change(job, None)

    def on(self, node: NodeId) -> list[JobId]:
        """Jobs that hold GPUs of a node, the oldest holder first."""
        return sorted(self._here[node], key=self._since.__getitem__)

    def in_order(self) -> dict[JobId, Held]:
        """Holdings of the jobs, the oldest holder first."""
        return {job: self.held[job] for job in sorted(self.held, key=self._since.__getitem__)}

    def _change(self, job: JobId, held: Held | None) -> None:
        """Change what a job holds and record its previous state."""
        before = self._since.get(job, 0)
        self._changes.append(Change(job, self.held.get(job), before, job in self.movable, self.version))
        self.version = next(self._versions)
        self._put(job, held, self.version)

    def _put(self, job: JobId, held: Held | None, since: int) -> None:
        """Replace what a job holds."""
        for node, share in self.held[job].gpus.items() if job in self.held else ():
            self.free[node] += share
            self.idle += share
            self._here[node].discard(job)
        self.held.pop(job, None)
        if held is not None:
            self.held[job] = held
            self._since[job] = since
            for node, share in held.gpus.items():
                self.free[node] -= share
                self.idle -= share
                self._here[node].add(job)

    def curve(self, job: JobId, gpu_type: int) -> SensitivityCurve:
        """A job's curve on a GPU type."""
        return self.curves.curve(self.view, job, gpu_type)

    def gpu_types(self, job: JobId) -> list[int]:
        """GPU types on which a job runs, ordered by the throughput of its minimum, highest first."""
        return self.curves.gpu_types(self.view, job)

    def nodes(self, gpu_type: int) -> list[NodeId]:
        """Nodes of a type that are up, those with the most free GPUs first."""
        free = self.free.tolist()
        of_type = np.flatnonzero(self.view.cluster.node_types == gpu_type).tolist()
        up = [node for node in of_type if self.capacity[node] > 0]
        return sorted(up, key=lambda node: (-free[node], node))

    def find(self, job: JobId, gpu_type: int, size: int, free: IntArray) -> Held | None:
        """Find GPUs for a job of a size: on the fewest nodes, best fit; else evenly on more nodes if fast enough.

        Fast enough means at least its service level and the throughput of its next smaller point.

        Args:
            job: the job.
            gpu_type: GPU type.
            size: number of GPUs.
            free: int64[num_nodes], the GPUs to choose from.
        """
        if size > free.sum():
            return None
        curve = self.curve(job, gpu_type)
        packed = consolidated(free, self.view.cluster, size, gpu_type)
        if packed:
            point = self.curves.exactly(self.view, job, gpu_type, size, len(packed))
            if point.num_gpus == size and point.throughput > 0 and meets(point.throughput, curve.level):
                return Held(packed, gpu_type, point)
        nodes = [node for node in self.nodes(gpu_type) if free[node] > 0]
        lowest = max(curve.level, curve.below(size).throughput)
        for wide in range(self.curves.fewest_nodes(gpu_type, size) + 1, min(len(nodes), size) + 1):
            point = self.curves.point(self.view, job, gpu_type, size, wide)
            whole = (point.num_gpus, point.num_nodes) == (size, wide)
            if not whole or not meets(point.throughput, lowest):
                continue
            if gpus := assign_shares(nodes, free, even_shares(size, wide)):
                return Held(gpus, gpu_type, point)
        return None

    def offer(self, job: JobId, node: NodeId, claim: Claim, lacks: float = math.inf) -> ShrinkOffer | None:
        """The next step by which a job shrinks on a node for a claim; None if it gives nothing.

        A job on one node shrinks to its next smaller point. A job on several nodes leaves this node if it runs on the
        others. Otherwise it stops, but only for a guaranteed or starved claimant. A guaranteed job within its quota
        stops only for a starved guaranteed claimant.

        Args:
            job: the job that might give.
            node: the node.
            claim: the claim.
            lacks: GPUs that the claimant still needs. GPUs given beyond them do not count, so a gang over five nodes
                does not stop cheaply for one GPU.
        """
        if job == claim.job:
            return None
        forced = claim.guaranteed and job not in self.kept
        if not forced and job not in self.movable:
            return None
        held = self.held[job]
        curve = self.curve(job, held.gpu_type)
        if not curve.points:
            return None
        keeps, point = self._less(job, node)
        may_stop = claim.starving or (claim.stops and job not in self.kept)
        if not keeps and not may_stop:
            return None
        given = min(held.num_gpus - sum(keeps.values()), lacks)
        slope = (held.point.throughput - point.throughput) / curve.original / given
        return ShrinkOffer(slope, job, keeps, point) if forced or less(slope, claim.slope) else None

    def reclaim(self, node: NodeId, need: int, claim: Claim, elsewhere: int = 0) -> bool:
        """Shrink jobs on a node, the least loss first, until `need` GPUs are free; if that fails, change nothing.

        The claimant needs `elsewhere` more GPUs on other nodes.
        """
        if self.capacity[node] < need:
            return False
        before = self.mark()
        while self.free[node] < need:
            lacks = elsewhere + need - int(self.free[node])
            offers = [offer for job in self._here[node] if (offer := self.offer(job, node, claim, lacks)) is not None]
            if not offers:
                self.undo(before)
                return False
            best = least_first(offers, lambda offer: offer.slope, lambda offer: offer.job)
            if best.keeps:
                self.give(best.job, Held(best.keeps, self.held[best.job].gpu_type, best.point))
            else:
                self.take(best.job)
        return True

    def make_room(self, gpu_type: int, size: int, claim: Claim) -> Held | None:
        """Take GPUs from others until the claimant has `size` on the fewest nodes; else change nothing, return None."""
        before = self.mark()
        node_size = self.curves.node_size[gpu_type]
        whole, rest = divmod(size, node_size)
        gpus: Gpus = {}
        for share in [node_size] * whole + [rest] * (rest > 0):
            for node in self.nodes(gpu_type):
                elsewhere = size - share - sum(gpus.values())
                if node not in gpus and self.reclaim(node, share, claim, elsewhere):
                    gpus[node] = share
                    break
            else:
                self.undo(before)
                return None
        point = self.curves.exactly(self.view, claim.job, gpu_type, size, len(gpus))
        level = self.curve(claim.job, gpu_type).level
        if point.num_gpus == size and point.throughput > 0 and meets(point.throughput, level):
            return Held(gpus, gpu_type, point)
        self.undo(before)
        return None

    def _less(self, job: JobId, node: NodeId) -> tuple[Gpus, CurvePoint]:
        """The holding of a job after it shrinks by one step on a node; empty if it cannot run on less."""
        held = self.held[job]
        curve = self.curve(job, held.gpu_type)
        if len(held.gpus) == 1:
            smaller = curve.below(held.num_gpus)
            return ({node: smaller.num_gpus}, smaller) if smaller.num_gpus else ({}, NOWHERE)
        keeps = {other: share for other, share in held.gpus.items() if other != node}
        left = sum(keeps.values())
        point = self.curves.point(self.view, job, held.gpu_type, left, len(keeps))
        fits = point.num_gpus == left >= curve.minimum.num_gpus and meets(point.throughput, curve.level)
        return (keeps, point) if fits else ({}, NOWHERE)


def assign_shares(nodes: Iterable[NodeId], free: IntArray, shares: Iterable[int]) -> Gpus:
    """Place each share on its own node by best fit, in the given order; empty if one does not fit."""
    left = {node: int(free[node]) for node in nodes}
    placed: Gpus = {}
    for share in shares:
        rooms = [(room, node) for node, room in left.items() if room >= share]
        if not rooms:
            return {}
        _, node = min(rooms)
        placed[node] = share
        del left[node]
    return placed
