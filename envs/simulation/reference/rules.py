"""The rules of `docs/world.md` for throughput, cores, memory and contention, in the reference engine."""

import math
from collections.abc import Iterable

from envs.simulation.exact import PARTS, ExactThroughputs
from envs.simulation.reference.objects import Job, Node, Share
from envs.simulation.setup import Setup
from envs.simulation.throughput import MOST_NODE_GPUS, ThroughputTable, node_level
from envs.types import FloatArray, Gigabytes, Placement
from envs.workloads import Workload


class ReferenceRules:
    """Rules for the throughput of placements and the resources of shares.

    Args:
        workload: the table has its models.
        setup: the cluster, the performance model, and the scenario, which selects the rules.

    Raises:
        PerformanceError: a model or GPU type has no figures.
    """

    def __init__(self, workload: Workload, setup: Setup) -> None:
        scenario = setup.scenario
        self.shared = scenario.cpu_memory == "shared"
        self.equal = scenario.worker_shares == "equal"
        self.contention = scenario.contention.mode
        self.node_types: list[int] = setup.cluster.node_types.tolist()
        most = int(workload.jobs["max_gpus"].max())
        self.table = ThroughputTable.build(setup, workload.models, most)
        self.exact = ExactThroughputs(setup)

    def hand_out(self, jobs: Iterable[Job]) -> None:
        """Assign the cores and memory that the placements of these jobs do not name, in order of the jobs."""
        for job in jobs if self.shared else ():
            for share in job.shares:
                enough = self.table.cpu_memory.saturating[job.model, min(share.gpus, MOST_NODE_GPUS)].tolist()
                if share.cpus is None:
                    held = [(other.gpus, other.cpus) for other in share.node.shares if other.cpus is not None]
                    share.cpus = _fair_amount(share, share.node.cpus, held, enough[0])
                if share.memory is None:
                    held = [(other.gpus, other.memory) for other in share.node.shares if other.memory is not None]
                    share.memory = _fair_amount(share, share.node.memory, held, enough[1])

    def set_throughput(self, job: Job) -> None:
        """Set a job's throughput and traffic without co-located jobs."""
        named = job.named()
        job.alone = self.ample_throughput(job.model, named)
        if self.shared and not (job.names_cpus and job.names_memory):
            job.alone = job.alone * self.cpu_memory_factor(job)
        job.traffic = 0.0
        nodes = len(job.shares)
        if self.contention != "off" and nodes > 1:
            job.traffic = self.sample_traffic(job.model, named) * job.alone * (nodes - 1) / nodes
        job.run_at(job.alone)

    def ample_throughput(self, model: int, placement: Placement) -> float:
        """Samples/s without co-located jobs; cores and memory that are not named are ample; 0 if it does not run.

        Args:
            model: index into the table.
            placement: nodes ascending.
        """
        if any(named is not None for named in (placement.plan, placement.batch_size, placement.cpus, placement.memory)):
            return self.exact.throughput(self.table.models[model], placement)
        num_gpus, level = placement.num_gpus, node_level(len(placement.gpus))
        throughputs = [
            (gpus, float(self.table.throughputs[model, self.node_types[node], num_gpus, level]))
            for node, gpus in placement.gpus.items()
        ]
        slowest, fastest = (
            min(throughput for _, throughput in throughputs),
            max(throughput for _, throughput in throughputs),
        )
        if slowest == 0.0 or slowest == fastest or self.equal:
            return slowest
        total = 0.0
        for gpus, throughput in throughputs:  # not `sum`, which compensates for rounding since Python 3.12
            total += gpus * throughput
        return total / num_gpus

    def cpu_memory_factor(self, job: Job) -> float:
        """Fraction of its throughput that a job keeps with its cores and memory; named amounts do not count."""
        cpu_memory = self.table.cpu_memory
        cpus, memory = math.inf, math.inf
        if not job.names_cpus:
            cpus = min((share.cpus or 0.0) / share.gpus for share in job.shares)
        if not job.names_memory:
            memory = min((share.memory or 0.0) / share.gpus for share in job.shares)
        width = min(max(share.gpus for share in job.shares), MOST_NODE_GPUS)
        i, t = _cell(cpu_memory.cpus, cpus)
        k, u = _cell(cpu_memory.memory, memory)
        (a, b), (c, d) = cpu_memory.factor[job.model, width, i : i + 2, k : k + 2].tolist()
        fewer: float = a * (1 - u) + b * u
        more: float = c * (1 - u) + d * u
        return fewer * (1 - t) + more * t

    def sample_traffic(self, model: int, placement: Placement) -> Gigabytes:
        """GB that one sample of a job sends around its all-reduce ring."""
        if placement.batch_size is not None:
            return self.exact.sample_traffic(self.table.models[model], placement)
        return float(self.table.traffic[model, placement.num_gpus])

    def requested_throughput(self, job: Job) -> float:
        """Samples/s on the requested GPUs, or all in the cluster, on the fewest nodes of the fastest type."""
        throughputs = self.table.consolidated()[job.model].max(axis=0)  # by GPUs
        return float(throughputs[min(job.spec.num_gpus, len(throughputs) - 1)])

    def share_node(self, node: Node) -> None:
        """Compute the contention factors of all shares on a node."""
        self._share_link(node)
        if self.contention == "worst_case":  # as measured, jobs that keep to their own cores do not slow each other
            self._share_cpu_stage(node)

    def _share_link(self, node: Node) -> None:
        link = node.spec.inter_node_bandwidth
        with_traffic = [(min(share.job.traffic, link), share) for share in node.shares if share.job.traffic > 0]
        if self.contention == "worst_case":
            for wanted, share in with_traffic:
                share.network = 1.0 / (1.0 + wanted / link * (len(with_traffic) - 1))
            return
        left = link
        waiting = len(with_traffic)
        for wanted, share in sorted(with_traffic, key=lambda entry: (entry[0], entry[1].job.id)):
            granted = min(wanted, left / waiting)
            share.network = granted / wanted
            left -= granted
            waiting -= 1

    def _share_cpu_stage(self, node: Node) -> None:
        demand = 0.0
        for share in node.shares:
            demand += float(self.table.cpu_stage_fraction[share.job.model])
        stretch = max(1.0, demand)
        for share in node.shares:
            stage = min(float(self.table.cpu_stage_fraction[share.job.model]), 1.0)
            share.cpu_stage = 1.0 / (1.0 + stage * (stretch - 1.0))


def _fair_amount(share: Share, total: float, held: list[tuple[int, float]], saturating: float) -> float:
    """Amount up to saturation, while every other GPU without any keeps its proportional amount.

    Args:
        share: the share without an amount.
        total: amount of the node.
        held: (GPUs, amount) of the node's shares with an amount.
        saturating: amount per GPU at which throughput saturates.
    """
    num_gpus, gpus = share.node.spec.num_gpus, share.gpus
    free = total - sum(amount for _, amount in held)
    bare = num_gpus - sum(count for count, _ in held)
    proportional = total / num_gpus
    spare = max(free - (bare - gpus) * proportional, free * gpus / bare)
    return min(math.ceil(saturating * gpus * PARTS), math.floor(spare * PARTS)) / PARTS


def _cell(grid: FloatArray, amount: float) -> tuple[int, float]:
    """Index of the last grid point that is at most the amount and has a successor, and the fraction of the cell."""
    points = grid.tolist()
    amount = min(amount, points[-1])
    i = max(place for place in range(len(points) - 1) if points[place] <= amount)
    return i, (amount - points[i]) / (points[i + 1] - points[i])
