"""The rules of `docs/world.md` for throughput, cores, memory and contention, in the reference engine."""

import math
from collections.abc import Iterable, Mapping
from copy import copy
from fractions import Fraction

from envs.performance import ALIASES, BatchSizes, counts_links, find_throughput, model_profile, plain_model, zoo
from envs.simulation.reference.beliefs import BelievedCell
from envs.simulation.reference.cores import WIDEST
from envs.simulation.reference.objects import PARTS, UNLIMITED, Job, Node, Share, down_to_parts
from envs.simulation.reference.throughputs import ReferenceTable, carried, counted_as, least_link, links_limit
from envs.simulation.setup import Setup
from envs.types import Configuration, FloatArray, Gigabytes, PerformanceError, Placement
from envs.workloads import Workload

HIDDEN = "throughputs are hidden; name neither plan nor batch size, cores or memory"


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
        self.table = ReferenceTable.ask(setup, workload.models, int(workload.jobs["max_gpus"].max()))
        self.hidden = scenario.information.hides_throughput  # then placements may name no more than GPUs
        self.node_names = [node.gpu_type for node in setup.cluster.nodes]
        self.every_sample = scenario.statistical_efficiency == "every_sample"
        self.batches = BatchSizes(
            setup.performance, scenario.statistical_efficiency, fixed=scenario.batch_sizes == "usual"
        )

    def showing(self, table: ReferenceTable) -> "ReferenceRules":
        """Return the same rules with other throughputs."""
        rules = copy(self)
        rules.table = table
        return rules

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
        gpu_type, width = self.node_types[share.node.id], min(share.gpus, WIDEST)
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
            return self._exact_throughput(name, placement) * factor
        by_type = self.table.throughputs[model, :, placement.num_gpus, counted_as(len(placement.gpus))].tolist()
        return self._together(placement, {name: by_type[i] for i, name in enumerate(self.table.types)})

    def _together(self, placement: Placement, by_type: Mapping[str, float]) -> float:
        """Samples/s on GPUs of one or several types, by what all of them would do if they were of one type."""
        throughputs = [(gpus, by_type[self.node_names[node]]) for node, gpus in placement.gpus.items()]
        slowest = min(throughput for _, throughput in throughputs)
        if slowest == 0.0 or self.equal or slowest == max(throughput for _, throughput in throughputs):
            return slowest
        total = 0.0
        for gpus, throughput in throughputs:  # not `sum`, which compensates for rounding since Python 3.12
            total += gpus * throughput
        return total / placement.num_gpus

    def _exact_throughput(self, model: str, placement: Placement) -> float:
        """Samples/s of the performance model, with all that a placement names; links are ample.

        Raises:
            PerformanceError: the plan cannot be laid out, the batch size is out of range, or throughputs are hidden.
        """
        if self.hidden:
            raise PerformanceError(HIDDEN)
        cpus, memory = (
            None if named is None else min(down_to_parts(named[node]) / gpus for node, gpus in placement.gpus.items())
            for named in (placement.cpus, placement.memory)
        )
        by_type: dict[str, float] = {}
        for name in dict.fromkeys(self.node_names[node] for node in placement.gpus):
            asked = Configuration(
                name,
                placement.num_gpus,
                len(placement.gpus),
                batch_size=placement.batch_size,
                plan=placement.plan,
                cpus_per_gpu=cpus,
                memory_per_gpu=memory,
            )
            by_type[name] = find_throughput(self.setup.performance, model, asked)
        return self._together(placement, by_type)

    def configured_throughput(self, model: int, configuration: Configuration) -> float:
        """Samples/s that views show of a configuration, on GPUs of one type whose links nobody else uses.

        Raises:
            PerformanceError: the performance model refuses it, or throughputs are hidden and it names more than GPUs.
        """
        name, gpus, nodes = self.table.models[model], configuration.num_gpus, configuration.num_nodes
        if self.hidden:
            throughput = float(self.table.throughputs[(model, *self.cell(configuration))])
        else:
            throughput = find_throughput(self.setup.performance, name, configuration)
        limited = nodes > 1 and configuration.gpu_type in self.table.types and links_limit(self.setup)
        if not limited or (configuration.plan is not None and model_profile(name).plans == "sharded"):
            return throughput
        link = least_link(self.setup, configuration.gpu_type)
        return min(throughput, carried(self.setup, name, gpus, nodes, link, configuration.batch_size))

    def cell(self, configuration: Configuration) -> BelievedCell:
        """Place of a configuration in a model's believed throughputs.

        Raises:
            PerformanceError: it names more than GPUs, or the cluster has no GPUs of the type.
        """
        if configuration != Configuration(configuration.gpu_type, configuration.num_gpus, configuration.num_nodes):
            raise PerformanceError(HIDDEN)
        if configuration.gpu_type not in self.table.types:
            raise PerformanceError(
                f"GPU type {configuration.gpu_type!r} is unknown; known: {', '.join(self.table.types)}"
            )
        gpus = min(configuration.num_gpus, self.table.size)
        return self.table.types.index(configuration.gpu_type), gpus, counted_as(min(configuration.num_nodes, gpus))

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
        return plain_model(model) in zoo() or plain_model(model) in ALIASES

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
        width = min(max(share.gpus for share in job.shares), WIDEST)
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
        """Samples/s on the requested GPUs of the fastest type, on the fewest nodes, without co-located jobs.

        Where no type has so many GPUs, the job is spread over the GPUs of the fastest types, as many as it runs on.
        """
        throughput = self.requested_throughput(job)
        cluster_gpus = self.setup.cluster.num_gpus
        for size in range(min(job.spec.num_gpus, cluster_gpus), 0, -1):
            throughput = throughput or self._spread_throughput(self.table.models[job.model], size)
        return throughput

    def _spread_throughput(self, model: str, num_gpus: int) -> float:
        """Samples/s on so many GPUs of the types that are fastest by one node alone; 0 if it does not run on them."""
        ranked: list[tuple[float, int, int]] = []
        for node, spec in enumerate(self.setup.cluster.nodes):
            width = min(num_gpus, spec.num_gpus)
            alone = find_throughput(self.setup.performance, model, Configuration(spec.gpu_type, width)) / width
            if alone > 0:
                ranked.append((-alone, -spec.num_gpus, node))
        gpus = [node for _, count, node in sorted(ranked) for _ in range(-count)][:num_gpus]
        if len(gpus) < num_gpus:
            return 0.0
        placement = Placement({node: gpus.count(node) for node in dict.fromkeys(gpus)})
        size, nodes = (num_gpus, len(placement.gpus)), [self.setup.cluster.nodes[node] for node in placement.gpus]
        by_type = {
            node.gpu_type: find_throughput(self.setup.performance, model, Configuration(node.gpu_type, *size))
            for node in nodes
        }
        together = self._together(Placement(dict(sorted(placement.gpus.items()))), by_type)
        links = [carried(self.setup, model, *size, node.inter_node_bandwidth) for node in nodes]
        return min(together, *links)

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
