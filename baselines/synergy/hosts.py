"""Cores and memory of servers: who holds how much, what a job could use, what is its share."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property

import numpy as np

from envs.scheduling import ClusterView
from envs.types import ClusterSpec, FloatArray, Gigabytes, JobId, NodeId, Placement

CPUS = (1.0, 2.0, 3.0, 4.0, 5.0, 6.0, 9.0, 12.0, 24.0)  # cores per GPU at which speeds are looked up: Synergy's grid
MEMORY = (20.83, 62.5, 125.0, 187.5, 250.0)  # GB per GPU; Synergy's grid
SAME = 1e-9  # relative difference of speeds that counts as none
ROUNDING = 1e-6  # cores or GB
PART = 1 / 64  # of a core or a GB: amounts are counted in it, and every GPU that names nothing keeps one


@dataclass(frozen=True, slots=True)
class Amount:
    """Cores and memory for each GPU of a job."""

    cpus: float
    memory: Gigabytes

    def within(self, other: "Amount") -> "Amount":
        """At most the other's, each by itself."""
        return Amount(min(self.cpus, other.cpus), min(self.memory, other.memory))

    def exceeds(self, other: "Amount") -> bool:
        """Whether there is more of one or the other."""
        return self.cpus > other.cpus + ROUNDING or self.memory > other.memory + ROUNDING


@dataclass(frozen=True)
class Sensitivity:
    """Speeds of a job on its GPUs, by cores and memory for each of them.

    Attributes:
        cpus: float64[c], cores per GPU, ascending; the last is all that its nodes have for it.
        memory: float64[m], GB per GPU, likewise.
        speed: float64[c, m], samples/s.
        share: what is proportional to its GPUs; among the amounts of the grid.
    """

    cpus: FloatArray
    memory: FloatArray
    speed: FloatArray
    share: Amount

    @cached_property
    def demand(self) -> Amount:
        """The fewest cores with which the top speed is reached, and the least memory that goes with them."""
        top = self.speed.max() * (1 - SAME)
        row = int(np.argmax((self.speed >= top).any(axis=1)))
        return Amount(float(self.cpus[row]), float(self.memory[int(np.argmax(self.speed[row] >= top))]))

    @cached_property
    def fair_speed(self) -> float:
        """Speed on the proportional share."""
        row = int(np.searchsorted(self.cpus, self.share.cpus - ROUNDING))
        column = int(np.searchsorted(self.memory, self.share.memory - ROUNDING))
        return float(self.speed[row, column])

    @cached_property
    def worthwhile(self) -> Sequence[tuple[Amount, float]]:
        """Amounts no slower than the proportional share and not beaten by less, with their speeds; never empty."""
        found: list[tuple[Amount, float]] = []
        for row, cpus in enumerate(self.cpus.tolist()):
            for column, memory in enumerate(self.memory.tolist()):
                speed = float(self.speed[row, column])
                less = max(
                    float(self.speed[:row, : column + 1].max(initial=0.0)),
                    float(self.speed[row, :column].max(initial=0.0)),
                )
                if speed >= self.fair_speed * (1 - SAME) and speed > less * (1 + SAME):
                    found.append((Amount(cpus, memory), speed))
        return found


class Hosts:
    """Free cores and memory while a round is planned.

    Args:
        cluster: the nodes.
    """

    def __init__(self, cluster: ClusterSpec) -> None:
        self.cpus = np.array([node.cpu_cores for node in cluster.nodes])
        self.memory = np.array([node.memory for node in cluster.nodes])
        self._gpus = cluster.node_gpus
        # What can be taken beyond the part that every GPU has anyway.
        self.free_cpus, self.free_memory = self.cpus - PART * self._gpus, self.memory - PART * self._gpus
        self._held: dict[JobId, tuple[Mapping[NodeId, int], Amount]] = {}

    def share(self, gpus: Mapping[NodeId, int]) -> Amount:
        """The proportional share of a GPU; over several nodes, of the poorest."""
        nodes = list(gpus)
        counts = self._gpus[nodes]
        return Amount(float((self.cpus[nodes] / counts).min()), float((self.memory[nodes] / counts).min()))

    def most(self, gpus: Mapping[NodeId, int]) -> Amount:
        """All that the nodes have for each of the job's GPUs, in whole parts."""
        nodes, counts = list(gpus), np.array(list(gpus.values()))
        others = PART * (self._gpus[nodes] - counts)
        cpus, memory = (self.cpus[nodes] - others) / counts, (self.memory[nodes] - others) / counts
        return Amount(PART * int(cpus.min() / PART), PART * int(memory.min() / PART))

    def lacking(self, gpus: Mapping[NodeId, int], amount: Amount) -> list[NodeId]:
        """The nodes whose free cores or memory do not suffice; the parts that GPUs keep do not count as missing."""
        return [
            node
            for node, count in gpus.items()
            if self.free_cpus[node] < count * (amount.cpus - PART) - PART * self._gpus[node] - ROUNDING
            or self.free_memory[node] < count * (amount.memory - PART) - PART * self._gpus[node] - ROUNDING
        ]

    def take(self, job: JobId, gpus: Mapping[NodeId, int], amount: Amount) -> None:
        """Let a job hold so much, or what there is if that is less, instead of what it held."""
        self.release(job)
        counts = np.array(list(gpus.values()))
        cpus, memory = (self.free_cpus[list(gpus)] / counts).min(), (self.free_memory[list(gpus)] / counts).min()
        amount = amount.within(Amount(*(PART * (1 + int(max(left, 0.0) / PART)) for left in (cpus, memory))))
        self._held[job] = gpus, amount
        self._add(gpus, amount, -1)

    def reserve(self, place: Placement) -> None:
        """Leave a running job, which is not planned for, what it has."""
        for node, count in place.gpus.items():
            self.free_cpus[node] -= place.cpus[node] - PART * count if place.cpus else 0.0
            self.free_memory[node] -= place.memory[node] - PART * count if place.memory else 0.0

    def release(self, job: JobId) -> None:
        """Take back what a job holds, if anything."""
        if job in self._held:
            self._add(*self._held.pop(job), 1)

    def held(self, job: JobId) -> Amount | None:
        """What a job holds; None if nothing."""
        return self._held[job][1] if job in self._held else None

    def above_share(self, node: NodeId) -> list[JobId]:
        """Jobs on a node that hold more than their proportional share: fewest nodes first, then most cores, memory."""
        rich = [
            (len(gpus), -amount.cpus, -amount.memory, job)
            for job, (gpus, amount) in self._held.items()
            if node in gpus and amount.exceeds(self.share(gpus))
        ]
        return [job for *_, job in sorted(rich)]

    def cut(self, job: JobId) -> None:
        """Cut what a job holds to its proportional share."""
        gpus, amount = self._held[job]
        self.take(job, gpus, amount.within(self.share(gpus)))

    def placement(self, job: JobId) -> Placement:
        """What a job holds, as a wish."""
        gpus, amount = self._held[job]
        return Placement(
            dict(gpus),
            cpus={node: count * amount.cpus for node, count in gpus.items()},
            memory={node: count * amount.memory for node, count in gpus.items()},
        )

    def _add(self, gpus: Mapping[NodeId, int], amount: Amount, sign: int) -> None:
        for node, count in gpus.items():
            self.free_cpus[node] += sign * count * (amount.cpus - PART)
            self.free_memory[node] += sign * count * (amount.memory - PART)


class Sensitivities:
    """Sensitivities looked up once for each model and shape of placement; belongs to one episode."""

    def __init__(self) -> None:
        self._known: dict[tuple[object, ...], Sensitivity] = {}

    def of(self, view: ClusterView, hosts: Hosts, job: JobId, gpus: Mapping[NodeId, int]) -> Sensitivity:
        """The sensitivity of a job on these nodes; they are of one GPU type."""
        kind, count = int(view.cluster.node_types[min(gpus)]), sum(gpus.values())
        share, most = hosts.share(gpus), hosts.most(gpus)
        key = (view.job(job).model, kind, count, len(gpus), share, most)
        if key not in self._known:
            cpus, memory = grid(CPUS, share.cpus, most.cpus), grid(MEMORY, share.memory, most.memory)
            speed = [
                [
                    view.throughput(job, kind, count, len(gpus), cpus_per_gpu=cores, memory_per_gpu=gigabytes)
                    for gigabytes in memory.tolist()
                ]
                for cores in cpus.tolist()
            ]
            self._known[key] = Sensitivity(cpus, memory, np.array(speed), share)
        return self._known[key]


def grid(points: tuple[float, ...], share: float, most: float) -> FloatArray:
    """float64[n]: the points below all that there is, the proportional share, and all that there is; ascending."""
    return np.unique(np.array([*(point for point in points if point < most), min(share, most), most]))
