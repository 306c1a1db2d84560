"""The rules of `docs/world.md` on speed, cores, memory and neighbours, as the reference engine applies them."""

import math
from collections.abc import Iterable

from envs.performance import PerformanceModel
from envs.simulation.exact import PARTS, ExactSpeeds
from envs.simulation.reference_objects import Job, Node, Share
from envs.simulation.scenario import Scenario
from envs.simulation.speed import HOST_GPUS, SpeedTable, node_level
from envs.types import ClusterSpec, FloatArray, Gigabytes, Placement
from envs.workloads import Workload


class Rules:
    """How fast placements are, and what their shares get.

    Args:
        workload: its models are those of the table.
        cluster: the nodes.
        performance: how fast jobs run.
        scenario: which of the rules are in force.

    Raises:
        PerformanceError: a model or GPU type has no figures.
    """

    def __init__(
        self, workload: Workload, cluster: ClusterSpec, performance: PerformanceModel, scenario: Scenario
    ) -> None:
        self.shared = scenario.cpu_memory == "shared"
        self.equal = scenario.worker_shares == "equal"
        self.contention = scenario.contention.mode
        self.kinds: list[int] = cluster.node_types.tolist()
        most = int(workload.jobs["max_gpus"].max())
        self.table = SpeedTable.build(cluster, performance, workload.models, most, scenario)
        self.exact = ExactSpeeds(performance, cluster, scenario.worker_shares)

    def hand_out(self, jobs: Iterable[Job]) -> None:
        """Give the shares of these jobs, in their order, the cores and memory that the wish left open."""
        for job in jobs if self.shared else ():
            for share in job.shares:
                enough = self.table.host.saturating[job.model, min(share.gpus, HOST_GPUS)].tolist()
                if share.cpus is None:
                    held = [(other.gpus, other.cpus) for other in share.node.shares if other.cpus is not None]
                    share.cpus = _fair_amount(share, share.node.cpus, held, enough[0])
                if share.memory is None:
                    held = [(other.gpus, other.memory) for other in share.node.shares if other.memory is not None]
                    share.memory = _fair_amount(share, share.node.memory, held, enough[1])

    def set_speed(self, job: Job) -> None:
        """Let a job process samples at the speed of its placement without neighbours."""
        named = job.named()
        job.alone = self.ample_speed(job.model, named)
        if self.shared and not (job.names_cpus and job.names_memory):
            job.alone = job.alone * self.host_factor(job)
        job.traffic = 0.0
        nodes = len(job.shares)
        if self.contention != "off" and nodes > 1:
            job.traffic = self.sample_traffic(job.model, named) * job.alone * (nodes - 1) / nodes
        job.run_at(job.alone)

    def ample_speed(self, model: int, wish: Placement) -> float:
        """Samples/s without neighbours, with ample cores and memory where the wish names none; 0 if it does not run.

        Args:
            model: index into the table.
            wish: nodes ascending.
        """
        if any(named is not None for named in (wish.plan, wish.batch_size, wish.cpus, wish.memory)):
            return self.exact.speed(self.table.models[model], wish)
        num_gpus, level = wish.num_gpus, node_level(len(wish.gpus))
        rates = [
            (gpus, float(self.table.rates[model, self.kinds[node], num_gpus, level]))
            for node, gpus in wish.gpus.items()
        ]
        slowest, fastest = min(rate for _, rate in rates), max(rate for _, rate in rates)
        if slowest == 0.0 or slowest == fastest or self.equal:
            return slowest
        total = 0.0
        for gpus, rate in rates:  # not `sum`, which compensates for rounding from Python 3.12 on
            total += gpus * rate
        return total / num_gpus

    def host_factor(self, job: Job) -> float:
        """Share of its speed that a job keeps with the cores and memory that it has; what it named does not count."""
        host = self.table.host
        cpus, memory = math.inf, math.inf
        if not job.names_cpus:
            cpus = min((share.cpus or 0.0) / share.gpus for share in job.shares)
        if not job.names_memory:
            memory = min((share.memory or 0.0) / share.gpus for share in job.shares)
        width = min(max(share.gpus for share in job.shares), HOST_GPUS)
        i, t = _cell(host.cpus, cpus)
        k, u = _cell(host.memory, memory)
        (a, b), (c, d) = host.factor[job.model, width, i : i + 2, k : k + 2].tolist()
        fewer: float = a * (1 - u) + b * u
        more: float = c * (1 - u) + d * u
        return fewer * (1 - t) + more * t

    def sample_traffic(self, model: int, wish: Placement) -> Gigabytes:
        """GB that one sample of a job sends around its ring."""
        if wish.batch_size is not None:
            return self.exact.sample_traffic(self.table.models[model], wish)
        return float(self.table.traffic[model, wish.num_gpus])

    def requested_speed(self, job: Job) -> float:
        """Samples/s on the requested GPUs, or all that there are, on the fewest nodes of the fastest type."""
        speeds = self.table.consolidated()[job.model].max(axis=0)  # by GPUs
        return float(speeds[min(job.spec.num_gpus, len(speeds) - 1)])

    def share_node(self, node: Node) -> None:
        """Compute what neighbours leave of each other's speed on one node."""
        self._share_link(node)
        if self.contention == "worst_case":  # as measured, jobs that keep to their share do not slow each other
            self._share_host(node)

    def _share_link(self, node: Node) -> None:
        link = node.spec.inter_node_bandwidth
        talkers = [(min(share.job.traffic, link), share) for share in node.shares if share.job.traffic > 0]
        if self.contention == "worst_case":
            for wanted, share in talkers:
                share.network = 1.0 / (1.0 + wanted / link * (len(talkers) - 1))
            return
        left = link
        waiting = len(talkers)
        for wanted, share in sorted(talkers, key=lambda talker: (talker[0], talker[1].job.id)):
            granted = min(wanted, left / waiting)
            share.network = granted / wanted
            left -= granted
            waiting -= 1

    def _share_host(self, node: Node) -> None:
        demand = 0.0
        for share in node.shares:
            demand += float(self.table.host_stage[share.job.model])
        stretch = max(1.0, demand)
        for share in node.shares:
            stage = min(float(self.table.host_stage[share.job.model]), 1.0)
            share.host = 1.0 / (1.0 + stage * (stretch - 1.0))


def rate_among_neighbours(job: Job) -> float:
    """Samples/s of a job under what its neighbours leave of its speed."""
    network = min(share.network for share in job.shares)
    host = min(share.host for share in job.shares)
    return job.alone * network * host


def _fair_amount(share: Share, total: float, held: list[tuple[int, float]], saturating: float) -> float:
    """Up to where the job's speed saturates, but every GPU without any keeps its node's proportional share.

    Args:
        share: it waits for its amount.
        total: what the node has.
        held: (GPUs, amount) of the node's shares that have theirs.
        saturating: amount per GPU beyond which the job gains nothing.
    """
    num_gpus, gpus = share.node.spec.num_gpus, share.gpus
    free = total - sum(amount for _, amount in held)
    bare = num_gpus - sum(count for count, _ in held)
    proportional = total / num_gpus
    spare = max(free - (bare - gpus) * proportional, free * gpus / bare)
    return min(math.ceil(saturating * gpus * PARTS), math.floor(spare * PARTS)) / PARTS


def _cell(grid: FloatArray, amount: float) -> tuple[int, float]:
    """The last grid point that is at most the amount and has one behind it, and how far the amount is into the cell."""
    points = grid.tolist()
    amount = min(amount, points[-1])
    i = max(place for place in range(len(points) - 1) if points[place] <= amount)
    return i, (amount - points[i]) / (points[i + 1] - points[i])
