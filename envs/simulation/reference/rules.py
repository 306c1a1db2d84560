"""The rules of `docs/world.md` for throughput, cores, memory and contention, in the reference engine."""

import math
from collections.abc import Iterable
from copy import copy
from fractions import Fraction

import numpy as np

from envs.performance import ALIASES, counts_links, model_profile, zoo
from envs.simulation.known.beliefs import Beliefs
from envs.simulation.known.predictions import Predictions
from envs.simulation.reference.objects import UNLIMITED, Job, Node, Share
from envs.simulation.setup import Setup
from envs.simulation.world.exact import PARTS, ExactThroughputs
from envs.simulation.world.ideal import ideal_throughput
from envs.simulation.world.throughput import MOST_NODE_GPUS, ThroughputTable, node_level
from envs.types import FloatArray, Gigabytes, PerformanceError, Placement
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
        self.setup = setup
        self.shared = scenario.cpu_memory == "shared"
        self.equal = scenario.worker_shares == "equal"
        self.contention = scenario.contention.mode
        self.counts_links = counts_links(setup.performance)
        self.node_types: list[int] = setup.cluster.node_types.tolist()
        most = int(workload.jobs["max_gpus"].max())
        self.table = ThroughputTable.build(setup, workload.models, most)
        self.exact = ExactThroughputs(setup)
        self.node_names = [node.gpu_type for node in setup.cluster.nodes]
        self.every_sample = scenario.statistical_efficiency == "every_sample"
        self.batches = scenario.offered_batches(setup.performance)

    def showing(self, table: ThroughputTable, exact: ExactThroughputs) -> "ReferenceRules":
        """Return the same rules with other throughputs."""
        rules = copy(self)
        rules.table, rules.exact = table, exact
        return rules

    def hide(
        self, workload: Workload, setup: Setup, seed: np.random.SeedSequence
    ) -> "tuple[Beliefs | None, ReferenceRules]":
        """Return the beliefs of an episode if its scenario hides throughputs, and the world's rules under them.

        Placements may then name no more than GPUs.
        """
        if not setup.scenario.information.hides_throughput:
            return None, self
        beliefs = Beliefs(setup, workload, self.table, seed)
        return beliefs, self.showing(self.table, beliefs.exact)

    def predict(self, workload: Workload, setup: Setup) -> Predictions | None:
        """Return the predictions of an episode if its scenario lets work be predicted."""
        predicts = setup.scenario.information.work == "predicted"
        return Predictions(setup, workload, self.table) if predicts else None

    def kept_beside(self, job: Job, other: Job) -> float:
        """Fraction of its throughput that a job keeps beside another: the least over the types of its GPUs."""
        types = [self.node_types[share.node.id] for share in job.shares]
        return min(float(self.table.pair_factors[gpu_type, job.model, other.model]) for gpu_type in types)

    def divide(self, node: Node) -> set[Job]:
        """Divide a node's cores and memory among the shares that name none; return the jobs whose amounts change."""
        changed: set[Job] = set()
        for place, resource in enumerate(("cpus", "memory")):
            left = int(getattr(node, resource) * PARTS)
            waiting: list[tuple[Fraction, int, int, Share]] = []
            for share in node.shares:
                if getattr(share.job, f"names_{resource}"):
                    left -= int(getattr(share, resource) * PARTS)
                else:
                    most = self._saturating_parts(share, place)
                    waiting.append((Fraction(most, share.gpus), share.job.id, most, share))
            gpus = sum(share.gpus for *_, share in waiting)
            for _, _, most, share in sorted(waiting, key=lambda entry: entry[:2]):
                parts = min(most, left * share.gpus // gpus)
                if getattr(share, resource) != parts / PARTS:
                    setattr(share, resource, parts / PARTS)
                    changed.add(share.job)
                left -= parts
                gpus -= share.gpus
        return changed

    def _saturating_parts(self, share: Share, place: int) -> int:
        """64ths of cores (place 0) or memory (1) that saturate a share, at least one for each GPU."""
        gpu_type, width = self.node_types[share.node.id], min(share.gpus, MOST_NODE_GPUS)
        saturating = float(self.table.cpu_memory.saturating[share.job.model, gpu_type, width, place])
        return max(math.ceil(saturating * share.gpus * PARTS), share.gpus)

    def set_throughput(self, job: Job) -> None:
        """Set a changed job's throughput and traffic without co-located jobs."""
        job.ample = self.ample_throughput(job.model, job.placement())
        self.feed(job)
        job.run_at(job.alone)

    def feed(self, job: Job) -> None:
        """Set a job's throughput without co-located jobs by its present cores and memory, and its traffic."""
        job.alone, job.cpu_factor, job.memory_factor = job.ample, 1.0, 1.0
        if self.shared:
            unnamed = not job.names_cpus, not job.names_memory
            if any(unnamed):
                job.alone = job.ample * self.cpu_memory_factor(job, *unnamed)
            if not all(unnamed) or self.cpu_memory_factor(job, True, True) < UNLIMITED:
                job.cpu_factor = self.cpu_memory_factor(job, True, False)
                job.memory_factor = self.cpu_memory_factor(job, False, True)
        job.traffic, job.link_factor = 0.0, 1.0
        nodes = len(job.shares)
        if self.contention != "off" and nodes > 1:
            per_sample = self.sample_traffic(job.model, job.placement())
            if per_sample > 0 and not self._counts_transfers(job):
                link = min(share.node.spec.inter_node_bandwidth for share in job.shares)
                most = link / (per_sample * (nodes - 1) / nodes)
                if most < job.alone:
                    job.alone, job.link_factor = most, most / job.alone
            job.traffic = per_sample * job.alone * (nodes - 1) / nodes

    def _counts_transfers(self, job: Job) -> bool:
        """Whether the performance model's throughput of a job includes transfers between nodes at their own cost."""
        return self.counts_links or (
            job.plan is not None and model_profile(self.table.models[job.model]).plans == "sharded"
        )

    def ample_throughput(self, model: int, placement: Placement) -> float:
        """Samples/s without co-located jobs; cores and memory that are not named are ample; 0 if it does not run.

        Args:
            model: index into the table.
            placement: nodes ascending.
        """
        if any(named is not None for named in (placement.plan, placement.batch_size, placement.cpus, placement.memory)):
            name = self.table.models[model]
            self.check_batch(
                name, [self.node_names[node] for node in placement.gpus], placement.num_gpus, placement.batch_size
            )
            factor = self.efficiency(name, placement.num_gpus, placement.batch_size)
            return self.exact.throughput(name, placement) * factor
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

    def efficiency(self, model: str, num_gpus: int, batch_size: int | None) -> float:
        """Progress per sample at a named batch size m: (phi + usual) / (phi + m), with the noise scale phi."""
        phi = None if batch_size is None or self.every_sample else self.batches.noise_scale(model)
        if phi is None or batch_size is None:
            return 1.0
        return (phi + model_profile(model).usual_batch(num_gpus)) / (phi + batch_size)

    def check_batch(self, model: str, gpu_types: Iterable[str], num_gpus: int, batch_size: int | None) -> None:
        """Assert that a named batch size is offered on all of these GPU types.

        Raises:
            PerformanceError: it is neither the usual one nor in the range that is offered.
        """
        if batch_size is None or (self.every_sample and not self.batches.fixed):
            return
        if self._in_zoo(model) and batch_size == model_profile(model).usual_batch(num_gpus):
            return
        for gpu_type in gpu_types:
            low, high = self.batches.offered(model, gpu_type, num_gpus) or (1, 0)
            if not low <= batch_size <= high:
                raise PerformanceError(f"{model}: batch size {batch_size} is not offered on {num_gpus} {gpu_type}")

    @staticmethod
    def _in_zoo(model: str) -> bool:
        return model in zoo() or model in ALIASES

    def cpu_memory_factor(self, job: Job, count_cpus: bool, count_memory: bool) -> float:
        """Fraction of its throughput that a job keeps with its cores, its memory or both; what is not counted is ample.

        The least cores and memory for each GPU decide, and of several GPU types the one with the smallest fraction.
        """
        cpu_memory = self.table.cpu_memory
        types = [self.node_types[share.node.id] for share in job.shares]
        cpus, memory = math.inf, math.inf
        if count_cpus:
            cpus = min(
                share.cpus / share.gpus / float(cpu_memory.scale[job.model, gpu_type])
                for share, gpu_type in zip(job.shares, types, strict=True)
            )
        if count_memory:
            memory = min(share.memory / share.gpus for share in job.shares)
        width = min(max(share.gpus for share in job.shares), MOST_NODE_GPUS)
        i, t = _cell(cpu_memory.cpus, cpus)
        k, u = _cell(cpu_memory.memory, memory)
        factors: list[float] = []
        for gpu_type in types:
            (a, b), (c, d) = cpu_memory.factor[job.model, gpu_type, width, i : i + 2, k : k + 2].tolist()
            fewer: float = a * (1 - u) + b * u
            more: float = c * (1 - u) + d * u
            factors.append(fewer * (1 - t) + more * t)
        return min(factors)

    def sample_traffic(self, model: int, placement: Placement) -> Gigabytes:
        """GB that a job sends around its all-reduce ring for one useful sample."""
        if placement.batch_size is not None:
            profile = model_profile(self.table.models[model])
            per_sample = 2.0 * profile.gradient_gb / placement.batch_size
            return per_sample / self.efficiency(self.table.models[model], placement.num_gpus, placement.batch_size)
        return float(self.table.traffic[model, placement.num_gpus])

    def requested_throughput(self, job: Job) -> float:
        """Samples/s on the requested GPUs, or all in the cluster, on the fewest nodes of the fastest type."""
        throughputs = self.table.consolidated()[job.model].max(axis=0)  # by GPUs
        return float(throughputs[min(job.spec.num_gpus, len(throughputs) - 1)])

    def ideal_throughput(self, job: Job) -> float:
        """Samples/s on the requested GPUs, also where no type has so many; see `envs.simulation.world.ideal`."""
        models, sizes = np.array([job.model]), np.array([job.spec.num_gpus])
        return float(ideal_throughput(self.setup, self.table, models, sizes)[0])

    def share_node(self, node: Node) -> None:
        """Compute the contention factors of all shares on a node."""
        self._share_link(node)
        if self.contention == "worst_case":  # as measured, jobs that keep to their own cores do not slow each other
            self._share_cpu_stage(node)

    def _share_link(self, node: Node) -> None:
        link = node.spec.inter_node_bandwidth
        with_traffic = [(min(share.job.traffic, link), share) for share in node.shares if share.job.traffic > 0]
        total = 0.0
        for wanted, _ in with_traffic:
            total += wanted / link
        for wanted, share in with_traffic:
            load = wanted / link
            others = {"worst_case": len(with_traffic) - 1, "measured": total - load, "max_min": 0.0}[self.contention]
            share.network = 1.0 / (1.0 + load * others)
        if total <= 1.0 or self.contention == "worst_case":
            return
        left = link
        waiting = len(with_traffic)
        for wanted, share in sorted(with_traffic, key=lambda entry: (entry[0], entry[1].job.id)):
            granted = min(wanted, left / waiting)
            share.network = min(share.network, granted / wanted)
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


def _cell(grid: FloatArray, amount: float) -> tuple[int, float]:
    """Index of the last grid point that is at most the amount and has a successor, and the fraction of the cell."""
    points = grid.tolist()
    amount = min(amount, points[-1])
    i = max(place for place in range(len(points) - 1) if points[place] <= amount)
    return i, (amount - points[i]) / (points[i + 1] - points[i])
