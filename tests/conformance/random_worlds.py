"""Small random worlds, and a random scheduler that uses everything that an allocation can express."""

import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from typing import Any

import numpy as np

from envs.performance import EFFICIENCY_SETTINGS, Contention, CostBySize, model_profile
from envs.performance.contention import Mode
from envs.scheduling import ClusterView, Scheduler
from envs.simulation import Information, Rounds, Scenario, Setup
from envs.simulation.scenario import Failures
from envs.types import (
    Allocation,
    ClusterSpec,
    Configuration,
    ExecutionPlan,
    JobId,
    JobSpec,
    NodeId,
    NodeSpec,
    PerformanceError,
    Placement,
)
from envs.workloads import Workload

MODELS = ("resnet50", "vgg16", "resnet18", "gpt2")  # names of the zoo, for gradients and CPU stages
PER_GPU = {"swift": 96.0, "plain": 40.0, "small": 24.0}  # samples/s
APPETITE = {"resnet50": (3.0, 30.0), "vgg16": (1.0, 62.5), "resnet18": (7.5, 140.0), "gpt2": (1.5, 20.0)}  # cores, GB
NODES = {
    "swift": ((4, 8), (16.0, 48.5), (256.0, 500.0)),
    "plain": ((2, 4), (12.0, 31.3), (64.0, 187.77)),
    "small": ((1, 3), (2.0, 9.0), (20.0, 64.0)),
}  # GPUs, cores and memory of nodes, some not in whole 64ths

LINKS = (0.02, 0.2, 1.25, 3.125, 12.5)  # GB/s between nodes: two slow ones, then 10, 25 and 100 Gbit/s
CONTENTION: tuple[Mode, ...] = ("off", "measured", "measured", "worst_case", "max_min")


@dataclass(frozen=True)
class Workshop:
    """A performance model that depends on everything: GPUs, nodes, types, batch size, plan, cores and memory.

    gpt2 runs on no small GPU, on at least two plain ones, and never with less than 25 GB of memory for each GPU.
    `curve` is the exponent of scaling; 1 makes round numbers.
    """

    curve: float = 0.8
    models: tuple[str, ...] = MODELS

    def measured_batches(self, model: str, gpu_type: str) -> tuple[float, float] | None:
        """Samples per GPU: a narrow range on plain GPUs, and one batch size for vgg16 on small ones."""
        if gpu_type == "small" and model == "vgg16":
            return None
        return (24.5, 160.25) if gpu_type == "plain" else (1.0, 2048.0)

    def pair_factor(self, model: str, other: str, gpu_type: str) -> float:
        """What a model keeps beside another; vgg16 and gpt2 do not fit together, and resnet18 hinders nobody."""
        if {model, other} == {"vgg16", "gpt2"}:
            return 0.0
        kept = 0.5 + MODELS.index(model) / 16 + (0.25 if gpu_type == "swift" else 0.0)
        return 1.0 if other == "resnet18" else kept

    def throughput(self, model: str, configuration: Configuration) -> float:
        """Samples per second."""
        if model == "gpt2" and (
            configuration.gpu_type == "small" or (configuration.gpu_type == "plain" and configuration.num_gpus < 2)
        ):
            return 0.0
        if model == "gpt2" and configuration.memory_per_gpu is not None and configuration.memory_per_gpu < 25.0:
            return 0.0
        if configuration.plan is not None and configuration.plan.num_gpus != configuration.num_gpus:
            raise PerformanceError(f"model {model}: {configuration.plan} does not fit {configuration.num_gpus} GPUs")
        if configuration.batch_size is not None and not 16 <= configuration.batch_size <= 2048:
            raise PerformanceError(f"model {model}: batch size {configuration.batch_size}; give 16 to 2048")
        throughput: float = (
            PER_GPU[configuration.gpu_type] * (1 + MODELS.index(model)) / 2 * configuration.num_gpus**self.curve
        )
        if configuration.num_nodes > 1:
            throughput *= 0.75 - min(configuration.num_nodes - 2, 16) / 32  # every node count has its own
        if configuration.batch_size is not None:
            throughput *= 2 * configuration.batch_size / (configuration.batch_size + 128)
        if configuration.plan is not None:
            throughput *= 1.0 if configuration.plan.tensor == 1 else 0.875
        for amount, enough in zip(
            (configuration.cpus_per_gpu, configuration.memory_per_gpu), APPETITE[model], strict=True
        ):
            if amount is not None:
                throughput *= min(amount / enough, 1.0)
        return throughput


@dataclass
class Whims:
    """A scheduler that stops, starts, resizes, migrates and names at random; some of its allocations are refused.

    Args:
        shared: whether the scenario divides cores and memory, so that placements may name them.
        names: probability that a placement names more than its GPUs.
        disturb: probability that a running job changes in a round.
        from_scratch: probability that an allocation is complete instead of a change.
        early: probability that an allocation names the instant of the next decision.
    """

    shared: bool = False
    names: float = 0.5
    disturb: float = 0.25
    from_scratch: float = 0.2
    early: float = 0.2

    def reset(self, cluster: ClusterSpec, rng: np.random.Generator) -> None:
        """Draw from `rng` from now on."""
        self.rng = rng

    def schedule(self, view: ClusterView) -> Allocation:
        """Return a random allocation, which mostly fits."""
        allocation = view.allocation(keep_running=bool(self.rng.random() >= self.from_scratch))
        for job in sorted(view.running.tolist(), key=lambda job: view.placement(job).beside is not None):
            self._reconsider(view, allocation, job)
        for job in self.rng.permutation(np.concatenate([view.queued, view.running])).tolist():
            if allocation.placement(job) is None and self.rng.random() < 0.8:
                gpus = self._scatter(view, allocation, job)
                if view.shares_gpus and self.rng.random() < 0.5:
                    self._join(view, allocation, job)
                elif gpus:
                    allocation.place(job, self._named(view, job, gpus))
        if self.rng.random() < self.early:
            allocation.next_decision = view.time + float(self.rng.exponential(20.0)) + 0.1
        return allocation

    def _reconsider(self, view: ClusterView, allocation: Allocation, job: JobId) -> None:
        """Keep a running job, stop it, or name other settings on its old GPUs."""
        running = view.placement(job)
        if running.beside is not None:
            self._reconsider_guest(view, allocation, job, running)
        elif self.rng.random() < self.disturb:
            if self.rng.random() < 0.5:
                allocation.stop(job)
            else:
                names = self._named(view, job, running.gpus)
                if self.rng.random() < 0.5:
                    names = replace(names, plan=running.plan, batch_size=running.batch_size)
                allocation.place(job, names)
        elif not allocation.keep_running:
            allocation.keep(job)
        elif self.rng.random() < 0.1:
            backwards = dict(reversed(list(running.gpus.items())))
            allocation.place(job, Placement(backwards, plan=running.plan, batch_size=running.batch_size))

    def _reconsider_guest(self, view: ClusterView, allocation: Allocation, job: JobId, running: Placement) -> None:
        """The same for a job that shares another one's GPUs, which may have been taken from that one."""
        here = allocation.placement(job)
        owner = None if here is not None and here.beside is None else running.beside
        if owner is not None and (there := allocation.placement(owner)) is not None and there.gpus != running.gpus:
            owner = None
        if self.rng.random() < self.disturb / 2:
            allocation.stop(job)
        elif owner is None or allocation.placement(owner) is None:
            pass  # it keeps the GPUs for itself, or in an allocation from scratch waits for others
        elif here is None or self.rng.random() < self.disturb:
            names = self._named(view, job, running.gpus) if self.rng.random() < 0.5 else running
            allocation.place(job, replace(names, beside=owner))

    def _join(self, view: ClusterView, allocation: Allocation, job: JobId) -> None:
        """Place a job beside another, mostly one beside which it fits."""
        low, high = int(view.min_gpus[job]), int(view.max_gpus[job])
        for owner in self.rng.permutation(sorted(allocation.jobs())).tolist():
            placement = allocation.placement(owner)
            if placement is None or placement.beside is not None or allocation.guest(owner) is not None:
                continue
            types = view.cluster.node_types[list(placement.gpus)]
            fits = (view.pair_factors[types, view.model[job], view.model[owner]] > 0).all()
            if low <= placement.num_gpus <= high and (fits or self.rng.random() < 0.02):
                allocation.place(job, replace(self._named(view, job, placement.gpus), beside=owner))
                return

    def _scatter(self, view: ClusterView, allocation: Allocation, job: JobId) -> dict[NodeId, int]:
        """Free GPUs of types on which the job runs, a random number in its range; none if there are too few."""
        able = np.flatnonzero(view.throughputs(job).max(axis=1) > 0)
        nodes = np.flatnonzero((allocation.free_gpus > 0) & np.isin(allocation.cluster.node_types, able))
        least = int(view.min_gpus[job])
        most = min(int(view.max_gpus[job]), int(allocation.free_gpus[nodes].sum()))
        if least > most:
            return {}
        left = int(self.rng.integers(least, most + 1))
        placed: dict[NodeId, int] = {}
        for node in self.rng.permutation(nodes).tolist():
            placed[node] = int(self.rng.integers(1, min(left, int(allocation.free_gpus[node])) + 1))
            left -= placed[node]
            if left == 0:
                break
        return placed if sum(placed.values()) >= least else {}

    def _named(self, view: ClusterView, job: JobId, gpus: Any) -> Placement:
        """A placement on GPUs by node with some other settings named."""
        count = sum(gpus.values())
        plan, batch_size = None, None
        if self.rng.random() < self.names / 2:
            plan = ExecutionPlan(data=count // 2, tensor=2) if count % 2 == 0 else ExecutionPlan(data=count)
        if self.rng.random() < self.names / 2:
            batch_size = self._batch_size(view, job, gpus)
        amounts: dict[str, dict[NodeId, float]] = {}
        for resource in ("cpus", "memory") if self.shared else ():
            if self.rng.random() < self.names / 2:
                each = float(self.rng.choice([0.1, 0.5, 1.0, 1.0, 1.3, 2.5]))
                amounts[resource] = {
                    node: each * here * _proportional(view.cluster.nodes[node], resource) for node, here in gpus.items()
                }
        return Placement(gpus, amounts.get("cpus"), amounts.get("memory"), plan, batch_size)

    def _batch_size(self, view: ClusterView, job: JobId, gpus: Any) -> int:
        """A batch size: mostly one that is offered on one of the types, sometimes the usual or any other one."""
        count, model = sum(gpus.values()), view.job(job).model
        node = view.cluster.nodes[int(self.rng.choice(sorted(gpus)))]
        offered, draw = view.batch_range(job, node.gpu_type, count), self.rng.random()
        if offered is not None and draw < 0.7:
            return int(self.rng.integers(offered[0], offered[1] + 1))
        if draw < 0.9:
            return model_profile(model).usual_batch(count)
        return int(self.rng.choice([32, 128, 512]))


def _proportional(node: NodeSpec, resource: str) -> float:
    return (node.cpu_cores if resource == "cpus" else node.memory) / node.num_gpus


@dataclass(frozen=True)
class RandomWorld:
    """All inputs of one run."""

    name: str
    workload: Workload
    setup: Setup
    seed: int
    scheduler: Callable[[], Scheduler]  # makes a new one with the same parameters


def random_world(seed: int, *, plain: bool = False, pairs: bool = False) -> RandomWorld:
    """A world of 1 to 6 nodes and 3 to 25 jobs.

    Args:
        seed: determines the world completely.
        plain: only GPUs count: no contention, no failures, no cores and memory, no named settings.
        pairs: two jobs may share GPUs.
    """
    rng = np.random.default_rng(seed)
    cluster = random_cluster(rng)
    performance = Workshop(curve=float(rng.choice([0.8, 1.0])))
    scenario = plain_scenario(rng) if plain else random_scenario(rng)
    if pairs:
        scenario = replace(scenario, sharing="pairs")
    if seed % 4 == 1:  # soon gives up jobs that make no net progress
        scenario = replace(scenario, rounds=replace(scenario.rounds, max_futile_rounds=3))
    shared = scenario.cpu_memory == "shared"
    names, disturb = 0.0 if plain else float(rng.choice([0.0, 0.5, 0.9])), float(rng.choice([0.05, 0.25, 0.6]))
    from_scratch = float(rng.choice([0.0, 0.3]))
    return RandomWorld(
        f"world {seed}",
        random_workload(rng, cluster),
        Setup(cluster, performance, scenario),
        seed,
        lambda: Whims(shared, names, disturb, from_scratch),
    )


def random_cluster(rng: np.random.Generator) -> ClusterSpec:
    """One to six nodes of one to three types, at least one of them able to run everything."""
    gpu_types = rng.permutation(list(NODES))[: rng.integers(1, 4)].tolist()
    chosen = ["swift", *rng.choice(gpu_types, rng.integers(0, 6)).tolist()]
    return ClusterSpec(tuple(_node(rng, gpu_type) for gpu_type in rng.permutation(chosen).tolist()), "random")


def _node(rng: np.random.Generator, gpu_type: str) -> NodeSpec:
    gpus, cores, memory = (_one_of(rng, choices) for choices in NODES[gpu_type])
    return NodeSpec(gpu_type, int(gpus), cores, memory, inter_node_bandwidth=_one_of(rng, LINKS))


def random_workload(rng: np.random.Generator, cluster: ClusterSpec) -> Workload:
    """Three to 25 jobs that all fit on the swift nodes, some at equal instants, some elastic, for three tenants.

    In every third workload all jobs have one model and duration, so that many end at one instant.
    """
    largest = sum(node.num_gpus for node in cluster.nodes if node.gpu_type == "swift")
    specs: list[JobSpec] = []
    alike = int(rng.integers(len(MODELS))) if rng.random() < 1 / 3 else -1
    for i in range(int(rng.integers(3, 26))):
        gpus = int(rng.integers(1, min(largest, 10) + 1))
        elastic = bool(rng.random() < 0.6)
        seconds = _one_of(rng, [64.0, 64.0 if alike >= 0 else float(rng.exponential(200.0)) + 1.0])
        specs.append(
            JobSpec(
                id=i,
                submit_time=_one_of(rng, [0.0, 32.0, 200.0, float(rng.uniform(0.0, 600.0))]),
                num_gpus=gpus,
                work=48.0 * gpus * seconds,
                model=MODELS[int(rng.integers(len(MODELS))) if alike < 0 else alike],
                min_gpus=int(rng.integers(1, gpus + 1)) if elastic else 0,
                max_gpus=int(rng.integers(gpus, largest + 1)) if elastic else 0,
                tenant=("a", "b", "")[int(rng.integers(3))],
                guaranteed=bool(rng.random() < 0.5),
                min_batch=(batches := _batch_range(rng))[0],
                max_batch=batches[1],
            )
        )
    return Workload.of(specs, "random")


def _batch_range(rng: np.random.Generator) -> tuple[int, int]:
    """A range of batch sizes of the job's own, or (0, 0)."""
    if rng.random() < 0.7:
        return 0, 0
    low = int(rng.integers(16, 300))
    return low, int(rng.integers(low, 2049))


def plain_scenario(rng: np.random.Generator) -> Scenario:
    """Random delays, rounds, shares and horizon; only GPUs count."""
    return Scenario(
        start_delay=_one_of(rng, [0.0, 4.0]),
        restart_delay=_one_of(rng, [0.0, 8.0, 31.7]),
        worker_shares="equal" if rng.random() < 0.5 else "proportional",
        horizon=_one_of(rng, [math.inf, math.inf, 256.0]),
        rounds=random_rounds(rng),
        information=Information(("exact", "estimate", "none")[int(rng.integers(3))]),
    )


def random_rounds(rng: np.random.Generator) -> Rounds:
    """Rounds at events, at intervals, or at both."""
    stall_interval, max_stalls = _one_of(rng, [5.0, 60.0]), int(rng.integers(0, 12))
    if rng.random() < 0.5:
        return Rounds(stall_interval=stall_interval, max_stalls=max_stalls)
    on_events = bool(rng.random() < 0.5)
    return Rounds(on_events, _one_of(rng, [16.0, 45.0]), stall_interval, max_stalls)


def random_scenario(rng: np.random.Generator) -> Scenario:
    """A random mix of all rules."""
    failures = Failures(
        mtbf=_one_of(rng, [90.0, 1000.0]),
        repair_time=_one_of(rng, [4.0, 120.0]),
        checkpoint_interval=_one_of(rng, [0.0, 10.0, 50.0, math.inf]),
    )
    failing, plain = bool(rng.random() < 0.6), plain_scenario(rng)
    return replace(
        plain,
        horizon=min(plain.horizon, 1500.0) if failing else plain.horizon,  # a job without checkpoints may never end
        reconfiguration=CostBySize(restart=3.0) if rng.random() < 0.3 else None,
        cpu_memory="shared" if rng.random() < 0.6 else "unlimited",
        contention=Contention(CONTENTION[int(rng.integers(len(CONTENTION)))]),
        failures=failures if failing else None,
        quotas={"a": 4} if rng.random() < 0.5 else {},
        statistical_efficiency=EFFICIENCY_SETTINGS[int(rng.integers(len(EFFICIENCY_SETTINGS)))],
        batch_sizes="usual" if rng.random() < 0.15 else "chosen",
    )


def _one_of(rng: np.random.Generator, choices: Sequence[float]) -> float:
    return choices[int(rng.integers(len(choices)))]
