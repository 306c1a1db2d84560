"""Small worlds for Rubick: throughputs given by model, GPUs and plan, and a planner that knows them."""

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field

import numpy as np

from envs.performance.rubick.plans import BestPlan
from envs.scheduling import ClusterView, Scheduler
from envs.simulation import Rounds, RunResult, Scenario, Setup, Simulator, run_episode
from envs.types import (
    ClusterSpec,
    Configuration,
    ExecutionPlan,
    JobSpec,
    NodeSpec,
    PerformanceError,
    Placement,
)
from envs.workloads import Workload

LINEAR = {size: float(size) for size in range(1, 9)}
FLAT = {1: 2.0, 2: 2.5, 3: 2.75, 4: 2.875}  # samples/s; the first GPU gains most
GANG = {2: 1.0, 4: 2.0}  # runs on two GPUs or four
WHOLE = {8: 8.0}  # runs on eight GPUs
MODELS: Mapping[str, Mapping[int, float]] = {"linear": LINEAR, "flat": FLAT, "gang": GANG, "whole": WHOLE}


@dataclass(frozen=True)
class Told:
    """Given throughputs; more GPUs are never slower. A named plan runs at the share `planned` of that throughput.

    On several nodes throughput is multiplied by `apart`.
    """

    throughputs: Mapping[str, Mapping[int, float]] = field(default_factory=lambda: dict(MODELS))
    planned: float = 0.5
    apart: float = 1.0

    @property
    def models(self) -> tuple[str, ...]:
        """Names of the models."""
        return tuple(self.throughputs)

    def throughput(self, model: str, configuration: Configuration) -> float:
        """Samples per second."""
        plan, num_gpus = configuration.plan, configuration.num_gpus
        if plan is not None and plan.num_gpus != num_gpus:
            raise PerformanceError(f"plan for {plan.num_gpus} GPUs on {num_gpus}")
        best = max(
            (throughput for size, throughput in self.throughputs[model].items() if size <= num_gpus), default=0.0
        )
        factor = 1.0 if plan is None or plan.checkpointing else self.planned
        return best * factor * (self.apart if configuration.num_nodes > 1 else 1.0)


@dataclass(frozen=True)
class Names:
    """A planner for some models of `Told`: plain replicas with checkpointing, on useful GPUs only.

    `optimism` is the factor by which it overestimates throughput.
    """

    models: tuple[str, ...] = ("linear", "flat")
    world: Told = field(default_factory=Told)
    optimism: float = 1.0

    def best_plan(self, model: str, num_gpus: int, num_nodes: int = 1) -> BestPlan:
        """The plan on the fewest GPUs that are as fast as `num_gpus`."""
        sizes = [size for size in self.world.throughputs[model] if size <= num_gpus]
        if not sizes:
            return BestPlan(0.0)
        size = max(sizes, key=lambda size: (self.world.throughputs[model][size], -size))
        throughput = self.world.throughput(model, Configuration("plain", size, min(num_nodes, size)))
        plan = ExecutionPlan(data=size, checkpointing=True)
        return BestPlan(self.optimism * throughput, plan, size, min(num_nodes, size))


def nodes(*sizes: int) -> ClusterSpec:
    """Nodes of one GPU type."""
    return ClusterSpec(tuple(NodeSpec("plain", size) for size in sizes), "nodes")


def job(
    submit: float,
    model: str,
    num_gpus: int,
    work: float,
    *,
    least: int = 1,
    most: int = 8,
    plan: ExecutionPlan | None = None,
    guaranteed: bool = False,
    tenant: str = "",
) -> JobSpec:
    """A job that may have `least` to `most` GPUs."""
    return JobSpec(
        0, submit, num_gpus, work, model, least, max(most, num_gpus), plan=plan, guaranteed=guaranteed, tenant=tenant
    )


def play(
    scheduler: Scheduler,
    jobs: Iterable[JobSpec],
    cluster: ClusterSpec,
    *,
    restart: float = 0.0,
    interval: float | None = None,
    quotas: Mapping[str, int] | None = None,
    world: Told | None = None,
) -> RunResult:
    """One run: decisions at events, and every `interval` seconds."""
    scenario = Scenario(restart_delay=restart, rounds=Rounds(interval=interval), quotas=quotas or {})
    return run_episode(scheduler, Simulator(Workload.of(list(jobs)), Setup(cluster, world or Told(), scenario)))


def first_view(
    jobs: Iterable[JobSpec], cluster: ClusterSpec, *, world: Told | None = None, quotas: Mapping[str, int] | None = None
) -> tuple[ClusterView, Simulator]:
    """The view of the first round, and its simulator."""
    scenario = Scenario(restart_delay=0.0, quotas=quotas or {})
    simulator = Simulator(Workload.of(list(jobs)), Setup(cluster, world or Told(), scenario))
    return next(simulator.rounds()), simulator


def running(
    jobs: Iterable[JobSpec],
    places: Mapping[int, Mapping[int, int]],
    cluster: ClusterSpec,
    *,
    world: Told | None = None,
    quotas: Mapping[str, int] | None = None,
) -> ClusterView:
    """The view of the second round, with the jobs of `places` running there; one more job arrives at 1."""
    later = JobSpec(0, 1.0, 1, 1.0, "linear")
    specs = [*jobs, later]
    view, simulator = first_view(specs, cluster, world=world, quotas=quotas)
    allocation = view.allocation()
    for number, gpus in places.items():
        allocation.place(number, Placement(dict(gpus)))
    simulator.apply(allocation)
    assert simulator.advance()
    return simulator.view


def rng() -> np.random.Generator:
    """A random generator, which Rubick does not use."""
    return np.random.default_rng(0)
