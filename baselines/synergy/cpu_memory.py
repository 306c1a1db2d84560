"""CPU cores and memory of nodes: amounts held by jobs, amounts that jobs can use, and proportional shares."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property

import numpy as np

from envs.scheduling import ClusterView
from envs.types import ClusterSpec, Configuration, FloatArray, Gigabytes, JobId, NodeId, Placement

CPUS = (1.0, 2.0, 3.0, 4.0, 5.0, 6.0, 9.0, 12.0, 24.0)  # cores per GPU on Synergy's grid of measured throughputs
MEMORY = (20.83, 62.5, 125.0, 187.5, 250.0)  # GB per GPU; Synergy's grid
_SAME = 1e-9  # throughputs that differ by less, relatively, count as equal
AMOUNT_ROUNDING = 1e-6  # cores or GB
PART = 1 / 64  # of a core or a GB: unit of amounts; each GPU without a named amount keeps one


@dataclass(frozen=True, slots=True)
class Amount:
    """Cores and memory for each GPU of a job."""

    cpus: float
    memory: Gigabytes

    def within(self, other: "Amount") -> "Amount":
        """The smaller of both amounts, separately for cores and memory."""
        return Amount(min(self.cpus, other.cpus), min(self.memory, other.memory))

    def exceeds(self, other: "Amount") -> bool:
        """Whether the cores or the memory are larger."""
        return self.cpus > other.cpus + AMOUNT_ROUNDING or self.memory > other.memory + AMOUNT_ROUNDING


@dataclass(frozen=True)
class JobSensitivity:
    """Throughput of a job on its GPUs by cores and memory per GPU.

    Attributes:
        cpus: float64[c], cores per GPU, ascending; the last is the most that its nodes can give it.
        memory: float64[m], GB per GPU, likewise.
        throughput: float64[c, m], samples/s.
        share: the share proportional to its GPUs; one of the grid's amounts.
    """

    cpus: FloatArray
    memory: FloatArray
    throughput: FloatArray
    share: Amount

    @cached_property
    def demand(self) -> Amount:
        """The fewest cores that reach the top throughput, and the least memory that reaches it with these cores."""
        top = self.throughput.max() * (1 - _SAME)
        row = int(np.argmax((self.throughput >= top).any(axis=1)))
        return Amount(float(self.cpus[row]), float(self.memory[int(np.argmax(self.throughput[row] >= top))]))

    @cached_property
    def fair_throughput(self) -> float:
        """Throughput on the proportional share."""
        row = int(np.searchsorted(self.cpus, self.share.cpus - AMOUNT_ROUNDING))
        column = int(np.searchsorted(self.memory, self.share.memory - AMOUNT_ROUNDING))
        return float(self.throughput[row, column])

    @cached_property
    def worthwhile(self) -> Sequence[tuple[Amount, float]]:
        """Undominated amounts at least as fast as the proportional share, with their throughputs; never empty."""
        found: list[tuple[Amount, float]] = []
        for row, cpus in enumerate(self.cpus.tolist()):
            for column, memory in enumerate(self.memory.tolist()):
                throughput = float(self.throughput[row, column])
                less = max(
                    float(self.throughput[:row, : column + 1].max(initial=0.0)),
                    float(self.throughput[row, :column].max(initial=0.0)),
                )
                if throughput >= self.fair_throughput * (1 - _SAME) and throughput > less * (1 + _SAME):
                    found.append((Amount(cpus, memory), throughput))
        return found


class NodeResources:
    """Free cores and memory while a round is planned.

    Args:
        cluster: the nodes.
    """

    def __init__(self, cluster: ClusterSpec) -> None:
        self.cpus = np.array([node.cpu_cores for node in cluster.nodes])
        self.memory = np.array([node.memory for node in cluster.nodes])
        self._gpus = cluster.node_gpus
        # Plain numbers: gangs are on few nodes, where arrays would take longer.
        self._totals = list(zip(self.cpus.tolist(), self.memory.tolist(), self._gpus.tolist(), strict=True))
        # Available beyond the part that every GPU always keeps.
        self.free_cpus, self.free_memory = self.cpus - PART * self._gpus, self.memory - PART * self._gpus
        self._held: dict[JobId, tuple[Mapping[NodeId, int], Amount]] = {}

    def share(self, gpus: Mapping[NodeId, int]) -> Amount:
        """The proportional share of a GPU; over several nodes, the smallest of their shares."""
        totals = [self._totals[node] for node in gpus]
        return Amount(min(cpus / held for cpus, _, held in totals), min(memory / held for _, memory, held in totals))

    def most(self, gpus: Mapping[NodeId, int]) -> Amount:
        """The most that the nodes have for each of the job's GPUs, in whole parts."""
        cpus = memory = np.inf
        for node, count in gpus.items():
            all_cpus, all_memory, held = self._totals[node]
            others = PART * (held - count)
            cpus, memory = min(cpus, (all_cpus - others) / count), min(memory, (all_memory - others) / count)
        return Amount(PART * int(cpus / PART), PART * int(memory / PART))

    def lacking(self, gpus: Mapping[NodeId, int], amount: Amount) -> list[NodeId]:
        """The nodes whose free cores or memory are too small; the parts that GPUs keep are not counted as missing."""
        return [
            node
            for node, count in gpus.items()
            if self.free_cpus[node] < count * (amount.cpus - PART) - PART * self._gpus[node] - AMOUNT_ROUNDING
            or self.free_memory[node] < count * (amount.memory - PART) - PART * self._gpus[node] - AMOUNT_ROUNDING
        ]

    def take(self, job: JobId, gpus: Mapping[NodeId, int], amount: Amount) -> None:
        """Give a job this amount, or what is free if that is less, in place of what it held."""
        self.release(job)
        cpus = min(float(self.free_cpus[node]) / count for node, count in gpus.items())
        memory = min(float(self.free_memory[node]) / count for node, count in gpus.items())
        amount = amount.within(Amount(*(PART * (1 + int(max(left, 0.0) / PART)) for left in (cpus, memory))))
        self._held[job] = gpus, amount
        self._add(gpus, amount, -1)

    def release(self, job: JobId) -> None:
        """Take back what a job holds, if anything."""
        if job in self._held:
            self._add(*self._held.pop(job), 1)

    def held(self, job: JobId) -> Amount | None:
        """The amount that a job holds; None if it holds nothing."""
        return self._held[job][1] if job in self._held else None

    def above_share(self, node: NodeId) -> list[JobId]:
        """Jobs on a node above their proportional share, ordered by fewest nodes, most cores, most memory."""
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
        """Return the resources of a job as a placement for the allocation."""
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


class JobSensitivities:
    """Sensitivities of one episode, looked up once for each model and shape of placement."""

    def __init__(self) -> None:
        self._known: dict[tuple[object, ...], JobSensitivity] = {}
        self._here: dict[tuple[object, ...], JobSensitivity] = {}  # the same by model and nodes

    def of(self, view: ClusterView, resources: NodeResources, job: JobId, gpus: Mapping[NodeId, int]) -> JobSensitivity:
        """The sensitivity of a job on these nodes, which have one GPU type."""
        here = (int(view.model[job]), *gpus.items())
        if here not in self._here:
            self._here[here] = self._of_shape(view, resources, job, gpus)
        return self._here[here]

    def _of_shape(
        self, view: ClusterView, resources: NodeResources, job: JobId, gpus: Mapping[NodeId, int]
    ) -> JobSensitivity:
        """Look up the sensitivity by the shape of a placement: the GPUs, and what their nodes have."""
        gpu_type, count = view.cluster.nodes[min(gpus)].gpu_type, sum(gpus.values())
        share, most = resources.share(gpus), resources.most(gpus)
        key = (int(view.model[job]), gpu_type, count, len(gpus), share, most)
        if key not in self._known:
            cpus, memory = grid(CPUS, share.cpus, most.cpus), grid(MEMORY, share.memory, most.memory)
            throughput = [
                [
                    view.throughput(
                        job,
                        Configuration(gpu_type, count, len(gpus), cpus_per_gpu=cores, memory_per_gpu=gigabytes),
                    )
                    for gigabytes in memory.tolist()
                ]
                for cores in cpus.tolist()
            ]
            self._known[key] = JobSensitivity(cpus, memory, np.array(throughput), share)
        return self._known[key]


def grid(points: tuple[float, ...], share: float, most: float) -> FloatArray:
    """float64[n], ascending: the points below `most`, the proportional share, and `most`."""
    return np.unique(np.array([*(point for point in points if point < most), min(share, most), most]))
