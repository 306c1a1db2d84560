"""What jobs on one node do to each other, as features, in plain Python; see `envs.episodes.coupling`."""

from collections.abc import Mapping

from envs.episodes.candidates import SCALING_POINTS
from envs.simulation.reference import Job, Node, ReferenceSimulator
from envs.simulation.world.throughput import MOST_NODE_GPUS, node_level
from envs.types import NodeId

RESOURCES = ("cpus", "memory")


def lacking(wanted: float, amount: float) -> float:
    """Fraction of a wanted amount that is lacking."""
    return max(0.0, 1.0 - amount / wanted) if wanted > 0 else 0.0


class Coupling:
    """Throughputs, demands and losses of the jobs of a reference engine.

    A derived class whose jobs hold other shares than the engine's overrides `held`, `jobs_on`, `traffic` and `sends`.

    Args:
        engine: in its round.
    """

    def __init__(self, engine: ReferenceSimulator) -> None:
        self.rules = engine.rules
        self.mode = self.rules.contention
        self.node_types = self.rules.node_types
        self.table = self.rules.table
        self.reference: list[list[float]] = self.table.reference().tolist()
        self._throughputs: list[list[list[float]]] = self.table.consolidated().tolist()

    def held(self, job: Job) -> Mapping[NodeId, int]:
        """GPUs of a job by node."""
        return {share.node.id: share.gpus for share in job.shares}

    def jobs_on(self, node: Node) -> list[tuple[Job, int]]:
        """Return the jobs on a node, ascending, and their GPUs there."""
        return [(share.job, share.gpus) for share in node.shares]

    def size(self, job: Job) -> int:
        """GPUs that a job holds, or requests."""
        return min(sum(self.held(job).values()) or job.spec.num_gpus, len(self.reference[0]) - 1)

    def best(self, job: Job) -> float:
        """Throughput on its size of the fastest type."""
        return self.reference[job.model][self.size(job)]

    def throughput(self, job: Job, gpu_type: int) -> float:
        """Consolidated throughput on its size of a type."""
        return self._throughputs[job.model][gpu_type][self.size(job)]

    def relative(self, job: Job, gpu_type: int) -> float:
        """Throughput on its size of a type, as a fraction of the best."""
        return self.throughput(job, gpu_type) / self.best(job) if self.best(job) > 0 else 0.0

    def fastest_type(self, job: Job) -> int:
        """The last type on which the job has its best throughput on its size."""
        types = range(len(self._throughputs[job.model]))
        return max((t for t in types if self.throughput(job, t) == self.best(job)), default=0)

    def per_gpu(self, job: Job, gpu_type: int) -> list[float]:
        """Throughput per GPU of a type at each of `SCALING_POINTS`; on one node where the cluster has too few GPUs."""
        largest = len(self.reference[job.model]) - 1
        sizes = [min(points, largest) for points in SCALING_POINTS]
        here, alone = self._throughputs[job.model][gpu_type], self.table.throughputs[job.model, gpu_type, :, 0]
        enough = self.table.levels[gpu_type] >= 0
        return [float(here[size] if enough[size] else alone[size]) / size for size in sizes]

    def runs_on(self, job: Job, gpu_type: int) -> bool:
        """Whether the job runs on its size with this type among its GPUs."""
        if self.table.levels[gpu_type, self.size(job)] >= 0:
            return self.throughput(job, gpu_type) > 0
        spread = self.table.throughputs[job.model, gpu_type, self.size(job), node_level(self.size(job))]
        return bool(spread > 0)

    def wanted(self, job: Job, gpu_type: int, gpus: int, resource: str) -> float:
        """Cores or GB that the job can use with so many GPUs on a node."""
        if not self.rules.shared:
            return 0.0
        per_gpu = self.table.cpu_memory.saturating[job.model, gpu_type, min(gpus, MOST_NODE_GPUS)]
        return float(per_gpu[RESOURCES.index(resource)] * gpus)

    def demand(self, node: Node, resource: str) -> float:
        """Cores or GB that the jobs on a node can use."""
        own_type = self.node_types[node.id]
        return sum((self.wanted(job, own_type, gpus, resource) for job, gpus in self.jobs_on(node)), 0.0)

    def stage(self, job: Job) -> float:
        """CPU stage of the job's model."""
        return float(self.table.cpu_stage_fraction[job.model])

    def stages(self, node: Node) -> float:
        """CPU stages of the jobs on a node."""
        return sum((self.stage(job) for job, _ in self.jobs_on(node)), 0.0)

    def traffic(self, job: Job, nodes: int) -> float:
        """GB/s between nodes: at present, or on so many nodes."""
        return job.traffic if job.traffic > 0 else self.spread_traffic(job, nodes)

    def spread_traffic(self, job: Job, nodes: int) -> float:
        """GB/s between so many nodes, with the job's size."""
        if nodes < 2 or self.mode == "off":
            return 0.0
        return float(self.table.traffic[job.model, self.size(job)] * self.best(job) * (nodes - 1) / nodes)

    def sends(self, job: Job) -> float:
        """GB/s of a job that count towards the load of its nodes."""
        return job.traffic

    def load(self, node: Node) -> float:
        """Traffic of the jobs on a node, each at most the link, as fractions of the link."""
        link = node.spec.inter_node_bandwidth
        sent = [self.sends(job) for job, _ in self.jobs_on(node)]
        return sum((min(traffic, link) / link for traffic in sent if traffic > 0), 0.0)

    def nodes_with(self, job: Job, node: Node) -> int:
        """Nodes of the job if it is on a node: those that it has, or as many like this one as it needs."""
        held = self.held(job)
        return len(held) if node.id in held else -(-self.size(job) // node.spec.num_gpus)

    def effects(self, job: Job, node: Node, gpus: int) -> dict[str, float]:
        """What the job with so many GPUs on a node suffers from the others there, and what they suffer from it."""
        return {
            **self._shortages(job, node, gpus),
            **self._stage_effects(job, node),
            **self._link_effects(job, node),
        }

    def _shortages(self, job: Job, node: Node, gpus: int) -> dict[str, float]:
        effects: dict[str, float] = {}
        for resource in RESOURCES:
            own, amount = self.wanted(job, self.node_types[node.id], gpus, resource), getattr(node, resource)
            others = self.demand(node, resource) - (own if node.id in self.held(job) else 0.0)
            name = resource.removesuffix("s")
            effects[f"{name}_shortage"] = lacking(others + own, amount)
            effects[f"{name}_harm"] = lacking(others + own, amount) - lacking(others, amount)
        return effects

    def _stage_effects(self, job: Job, node: Node) -> dict[str, float]:
        own, alone = self.stage(job), all(other is job for other, _ in self.jobs_on(node))
        others = 0.0
        if not alone:
            others = max(self.stages(node) - own, 0.0) if node.id in self.held(job) else self.stages(node)
        if self.mode != "worst_case":
            return {"stage_suffered": 0.0, "stage_harm": 0.0}
        suffered = 1.0 - 1.0 / (1.0 + min(own, 1.0) * (max(1.0, own + others) - 1.0))
        harm = 1.0 - max(1.0, others) / max(1.0, others + own) if others else 0.0
        return {"stage_suffered": suffered, "stage_harm": harm}

    def _link_effects(self, job: Job, node: Node) -> dict[str, float]:
        link = node.spec.inter_node_bandwidth
        own = min(self.traffic(job, self.nodes_with(job, node)), link) / link
        counts_here = node.id in self.held(job) and self.sends(job) > 0
        count = sum(self.sends(other) > 0 for other, _ in self.jobs_on(node)) - counts_here
        others = self.load(node)
        if counts_here:
            others = max(others - own, 0.0) if count else 0.0
        if own == 0.0 or count == 0:
            return {"link_suffered": 0.0, "link_harm": 0.0}
        if self.mode == "worst_case":
            return {
                "link_suffered": 1.0 - 1.0 / (1.0 + own * count),
                "link_harm": 1.0 - 1.0 / (1.0 + others / count),
            }
        factor = 1.0 / (1.0 + own * others) if self.mode == "measured" else 1.0
        loss = 1.0 - (min(factor, 1.0 / (own + others)) if own + others > 1.0 else factor)
        return {"link_suffered": loss, "link_harm": loss}
