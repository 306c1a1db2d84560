"""A round of Rubick under construction: what every job holds so far, what it may give away, where others find room."""

import math
from collections import defaultdict
from collections.abc import Hashable, Iterable, Iterator, Mapping
from dataclasses import dataclass, field
from itertools import count
from typing import NamedTuple

import numpy as np

from baselines.parts.placing import Gpus
from baselines.rubick.curves import NOWHERE, Choice, Curve, Curves, meets
from envs.performance.rubick import even_shares
from envs.scheduling import ClusterView
from envs.types import IntArray, JobId, NodeId
from envs.types.allocation import consolidated


@dataclass(frozen=True, slots=True)
class Held:
    """What a job holds in the draft."""

    gpus: Mapping[NodeId, int]
    kind: int  # index of the GPU type
    choice: Choice

    @property
    def num_gpus(self) -> int:
        """GPUs on all nodes together."""
        return sum(self.gpus.values())


class Offer(NamedTuple):
    """What a job would give up next on a node. Offers compare by slope, then job."""

    slope: float  # speed lost for each GPU given that the claimant needs, as a share of the original
    job: JobId
    keeps: Gpus  # empty if it stops
    choice: Choice


class Change(NamedTuple):
    """What a job was before one step, to come back to."""

    job: JobId
    held: Held | None
    since: int
    movable: bool
    version: int  # of the draft


class Claim(NamedTuple):
    """Who asks for GPUs that others hold, and with what right."""

    job: JobId
    slope: float  # who loses less per GPU gives; infinite for a job that starves or is guaranteed
    guaranteed: bool = False  # whether best-effort jobs give whatever they lose and whether or not they can afford it
    starving: bool = False  # whether guaranteed jobs that can afford it may be stopped for it

    @property
    def stops(self) -> bool:
        """Whether best-effort jobs may be stopped for it, not only shrunk."""
        return math.isinf(self.slope)


@dataclass
class Draft:
    """Free GPUs and the jobs' shares, changed step by step. Nothing of it is real until the round ends.

    Attributes:
        view: the round.
        curves: what jobs make of GPUs.
        held: what each job holds.
        movable: jobs whose reconfiguration pays, see `Rubick`; those that were placed in this round join them.
        kept: guaranteed jobs within their tenants' quotas: they are shrunk to their minimum at most.
        free: int64[num_nodes], GPUs that nobody holds.
        version: differs whenever what is held differs.
        refused: claims that found no room, by kind of claim, and the version at which they found none.
    """

    view: ClusterView
    curves: Curves
    held: dict[JobId, Held]
    movable: set[JobId]
    kept: set[JobId]
    free: IntArray
    version: int = 0
    refused: dict[Hashable, int] = field(default_factory=dict)
    _versions: Iterator[int] = field(default_factory=lambda: count(1))
    _since: dict[JobId, int] = field(default_factory=dict)  # in which order jobs came to what they hold
    _here: dict[NodeId, set[JobId]] = field(default_factory=lambda: defaultdict(set))
    _changes: list[Change] = field(default_factory=list)

    def __post_init__(self) -> None:
        self.capacity: list[int] = self.view.capacity.tolist()  # GPUs of each node that is up
        self.idle = int(self.free.sum())  # of all nodes together
        for place, (job, held) in enumerate(self.held.items()):
            self._since[job] = place - len(self.held)  # before all that come
            for node in held.gpus:
                self._here[node].add(job)

    @classmethod
    def of(cls, view: ClusterView, curves: Curves, held: Mapping[JobId, Held], movable: Iterable[JobId]) -> "Draft":
        """The draft at the beginning of a round: everything as it runs."""
        return cls(view, curves, dict(held), set(movable), set(), view.free_gpus)

    def mark(self) -> int:
        """A point to come back to with `undo`."""
        return len(self._changes)

    def undo(self, mark: int) -> None:
        """Take back all that `give` and `take` did since a mark."""
        while len(self._changes) > mark:
            job, held, since, movable, version = self._changes.pop()
            self._put(job, held, since)
            (self.movable.add if movable else self.movable.discard)(job)
            self.version = version

    def give(self, job: JobId, held: Held) -> None:
        """Let a job hold these GPUs instead of what it held. From now on it may be resized free of charge."""
        self._change(job, held)
        self.movable.add(job)

    def take(self, job: JobId) -> None:
        """Leave a job without GPUs."""
        if job in self.held:
            self._change(job, None)

    def on(self, node: NodeId) -> list[JobId]:
        """Jobs that hold GPUs of a node, who has them longest first."""
        return sorted(self._here[node], key=self._since.__getitem__)

    def in_order(self) -> dict[JobId, Held]:
        """What each job holds, who has it longest first."""
        return {job: self.held[job] for job in sorted(self.held, key=self._since.__getitem__)}

    def _change(self, job: JobId, held: Held | None) -> None:
        """Let a job hold something else, or nothing, and remember what it was."""
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

    def curve(self, job: JobId, kind: int) -> Curve:
        """A job's curve on a GPU type."""
        return self.curves.curve(self.view, job, kind)

    def kinds(self, job: JobId) -> list[int]:
        """GPU types on which a job runs, the one where its least choice is fastest first."""
        return self.curves.kinds(self.view, job)

    def nodes(self, kind: int) -> list[NodeId]:
        """Nodes of a type that are up, those with most free GPUs first."""
        free = self.free.tolist()
        up = [node for node in np.flatnonzero(self.view.cluster.node_types == kind).tolist() if self.capacity[node] > 0]
        return sorted(up, key=lambda node: (-free[node], node))

    def find(self, job: JobId, kind: int, size: int, free: IntArray) -> Held | None:
        """Room for a job of a size: on the fewest nodes, best fit; else evenly on more, if it is fast enough there.

        Fast enough is its service level, and faster than its next smaller choice.

        Args:
            job: the job.
            kind: GPU type.
            size: GPUs.
            free: int64[num_nodes], the GPUs to choose from.
        """
        if size > free.sum():
            return None
        curve = self.curve(job, kind)
        packed = consolidated(free, self.view.cluster, size, kind)
        if packed:
            choice = self.curves.exactly(self.view, job, kind, size, len(packed))
            if choice.num_gpus == size and choice.speed > 0 and meets(choice.speed, curve.level):
                return Held(packed, kind, choice)
        nodes = [node for node in self.nodes(kind) if free[node] > 0]
        floor = max(curve.level, curve.below(size).speed)
        for wide in range(self.curves.fewest_nodes(kind, size) + 1, min(len(nodes), size) + 1):
            choice = self.curves.choice(self.view, job, kind, size, wide)
            whole = (choice.num_gpus, choice.num_nodes) == (size, wide)
            if whole and meets(choice.speed, floor) and (gpus := spread(nodes, free, even_shares(size, wide))):
                return Held(gpus, kind, choice)
        return None

    def offer(self, job: JobId, node: NodeId, claim: Claim, lacks: float = math.inf) -> Offer | None:
        """What a job gives up next on a node for a claim; None if nothing.

        A job on one node shrinks to its next smaller choice. One on several leaves the node, if it runs on the others.
        Otherwise it stops, but only for a claimant that is guaranteed or starves, and not if it is guaranteed itself.

        Args:
            job: who might give.
            node: where.
            claim: who asks.
            lacks: GPUs that the claimant still needs. What a job gives beyond them is no gain: a gang over five nodes
                does not stop cheaply for one GPU.
        """
        if job == claim.job:
            return None
        forced = claim.guaranteed and job not in self.kept
        if not forced and job not in self.movable:
            return None
        held = self.held[job]
        curve = self.curve(job, held.kind)
        if not curve.choices:
            return None
        keeps, choice = self._less(job, node)
        may_stop = claim.starving or (claim.stops and job not in self.kept)
        if not keeps and not may_stop:
            return None
        given = min(held.num_gpus - sum(keeps.values()), lacks)
        slope = (held.choice.speed - choice.speed) / curve.original / given
        return Offer(slope, job, keeps, choice) if forced or slope < claim.slope else None

    def reclaim(self, node: NodeId, need: int, claim: Claim, elsewhere: int = 0) -> bool:
        """Shrink jobs on a node, whoever loses least first, until `need` GPUs are free; if that fails, none is.

        The claimant needs `elsewhere` GPUs more, on other nodes.
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
            best = min(offers, key=lambda offer: offer[:2])
            if best.keeps:
                self.give(best.job, Held(best.keeps, self.held[best.job].kind, best.choice))
            else:
                self.take(best.job)
        return True

    def make_room(self, kind: int, size: int, claim: Claim) -> Held | None:
        """Take GPUs from others until the claimant has `size` on the fewest nodes; None, and nothing taken, if not."""
        before = self.mark()
        node_size = self.curves.node_size[kind]
        whole, rest = divmod(size, node_size)
        gpus: Gpus = {}
        for share in [node_size] * whole + [rest] * (rest > 0):
            for node in self.nodes(kind):
                elsewhere = size - share - sum(gpus.values())
                if node not in gpus and self.reclaim(node, share, claim, elsewhere):
                    gpus[node] = share
                    break
            else:
                self.undo(before)
                return None
        choice = self.curves.exactly(self.view, claim.job, kind, size, len(gpus))
        if choice.num_gpus == size and choice.speed > 0 and meets(choice.speed, self.curve(claim.job, kind).level):
            return Held(gpus, kind, choice)
        self.undo(before)
        return None

    def _less(self, job: JobId, node: NodeId) -> tuple[Gpus, Choice]:
        """What a job keeps if it gives up one step on a node; nothing if it cannot run on less."""
        held = self.held[job]
        curve = self.curve(job, held.kind)
        if len(held.gpus) == 1:
            smaller = curve.below(held.num_gpus)
            return ({node: smaller.num_gpus}, smaller) if smaller.num_gpus else ({}, NOWHERE)
        keeps = {other: share for other, share in held.gpus.items() if other != node}
        left = sum(keeps.values())
        choice = self.curves.choice(self.view, job, held.kind, left, len(keeps))
        fits = choice.num_gpus == left >= curve.least.num_gpus and meets(choice.speed, curve.level)
        return (keeps, choice) if fits else ({}, NOWHERE)


def spread(nodes: Iterable[NodeId], free: IntArray, shares: Iterable[int]) -> Gpus:
    """Each share on a node of its own, best fit, larger shares first; empty if there is no room."""
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
