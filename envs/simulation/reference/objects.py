"""Objects of the reference engine: nodes, jobs, and shares of jobs on nodes."""

import math
from collections.abc import Sequence
from dataclasses import dataclass, field
from enum import StrEnum

import numpy as np

from envs.simulation.scenario import Scenario
from envs.types import (
    ExecutionPlan,
    Gigabytes,
    GpuSeconds,
    JobId,
    JobSpec,
    NodeId,
    NodeSpec,
    Placement,
    Samples,
    Seconds,
    without_constraints,
)
from envs.workloads import Workload

UNLIMITED = 0.99  # a factor on throughput of at least this limits no job
PARTS = 64  # cores and GB are counted in 64ths


def down_to_parts(amount: float) -> float:
    """Round an amount of cores or GB down to 64ths."""
    return math.floor(amount * PARTS) / PARTS


class JobStatus(StrEnum):
    """Status of a job, from submission to completion."""

    PENDING = "pending"  # not submitted yet, or held
    QUEUED = "queued"
    RUNNING = "running"
    DONE = "done"


@dataclass(slots=True, eq=False)
class Node:
    """One node and the shares that jobs hold on it."""

    id: NodeId
    spec: NodeSpec
    cpus: float  # whole 64ths, as all amounts
    memory: Gigabytes
    up: bool = True
    next_change: Seconds = math.inf  # time at which it goes down or comes back
    outages: int = 0  # so far
    shares: "list[Share]" = field(default_factory=list)  # by ascending job

    @classmethod
    def of(cls, node: NodeId, spec: NodeSpec) -> "Node":
        """An idle node."""
        return cls(node, spec, down_to_parts(spec.cpu_cores), down_to_parts(spec.memory))

    @property
    def capacity(self) -> int:
        """GPUs that are up."""
        return self.spec.num_gpus if self.up else 0

    @property
    def free_gpus(self) -> int:
        """GPUs that jobs may take: none beside an exclusive job."""
        return 0 if any(share.job.spec.constraints.exclusive for share in self.shares) else self.idle_gpus

    @property
    def idle_gpus(self) -> int:
        """GPUs that no job holds."""
        return self.capacity - sum(share.gpus for share in self.shares if not share.job.guest)


@dataclass(slots=True, eq=False)
class Share:
    """GPUs of one job on one node, with their cores and memory; 0 where the scenario does not divide them."""

    job: "Job"
    node: Node
    gpus: int
    cpus: float = 0.0
    memory: Gigabytes = 0.0
    network: float = 1.0  # factor on throughput by contention for the node's link
    cpu_stage: float = 1.0  # the same for its CPUs


@dataclass(slots=True, eq=False)
class Job:
    """One job: its specification, placement and progress."""

    spec: JobSpec
    model: int  # index into the throughput table
    start_delay: Seconds
    restart_delay: Seconds
    estimate: float  # factor on the remaining work that schedulers see; 1 if exact
    remaining: Samples  # at `synced`
    status: JobStatus = JobStatus.PENDING
    shares: list[Share] = field(default_factory=list)  # by ascending node
    plan: ExecutionPlan | None = None  # as the placement named it
    batch_size: int | None = None
    names_cpus: bool = False  # whether the placement named its cores
    names_memory: bool = False
    alone: float = 0.0  # samples/s without co-located jobs
    ample: float = 0.0  # the same with ample cores and memory where the placement names none
    cpu_factor: float = 1.0  # fraction of its throughput that its cores alone would leave it
    memory_factor: float = 1.0
    link_factor: float = 1.0  # fraction of its throughput that the links of its nodes leave it without co-located jobs
    traffic: float = 0.0  # GB/s over the link of each of its nodes, without co-located jobs
    throughput: float = 0.0  # samples/s from `synced` on
    synced: Seconds = 0.0  # in the future while the job starts
    finish: Seconds = math.inf  # predicted; final once done
    deadline: Seconds = math.inf  # when it will reach its time limit; kept once it has ended there
    service: GpuSeconds = 0.0  # until `served`
    served: Seconds = 0.0
    segment: Seconds = 0.0  # time at which it last began to process samples after a start or change
    saved: Samples = math.nan  # samples left at the last checkpoint
    least: Samples = math.inf  # fewest samples left when net progress was checked; the engine sets its work
    start: Seconds = math.nan  # first start
    begins: bool = True  # whether its begin time has come
    unmet: "set[Job]" = field(default_factory=set)  # earlier jobs for whose ends it waits
    unmeetable: bool = False  # whether one of these ended in another way
    dependents: "list[tuple[Job, int]]" = field(default_factory=list)  # jobs that wait for it, and for which ends
    partner: "Job | None" = None  # the job that holds the same GPUs
    guest: bool = False  # whether its partner held them first
    together: float = 1.0  # fraction of its throughput that it keeps beside its partner
    num_restarts: int = 0
    num_preemptions: int = 0
    num_interruptions: int = 0

    @property
    def id(self) -> JobId:
        """Row of the job in the workload."""
        return self.spec.id

    @property
    def gpus(self) -> int:
        """GPUs that the job holds."""
        return sum(share.gpus for share in self.shares)

    @property
    def never_ran(self) -> bool:
        """Whether the job left without having run."""
        return self.status is JobStatus.DONE and math.isnan(self.start)

    def remaining_at(self, time: Seconds) -> Samples:
        """Samples that the job has left at `time`."""
        if self.status is JobStatus.RUNNING and time > self.synced:
            return max(self.remaining - self.throughput * (time - self.synced), 0.0)
        return self.remaining

    def service_at(self, time: Seconds) -> GpuSeconds:
        """GPU-seconds that the job has held until `time`."""
        return self.service + self.gpus * (time - self.served) if self.status is JobStatus.RUNNING else self.service

    def bring_up_to_date(self, time: Seconds, checkpoint_interval: Seconds) -> None:
        """Update the progress and service of a running job to `time`."""
        if time > self.synced:
            self._checkpoint(time, checkpoint_interval)
        self.remaining = self.remaining_at(time)
        self.service = self.service_at(time)
        self.served = time
        self.synced = max(self.synced, time)

    def _checkpoint(self, time: Seconds, interval: Seconds) -> None:
        """Store the samples left at the last checkpoint before `time`."""
        if interval == math.inf:
            return
        last = time
        if interval > 0:
            last = self.segment + math.floor((time - self.segment) / interval) * interval
        if last > self.synced:
            self.saved = max(self.remaining - self.throughput * (last - self.synced), 0.0)

    def throughput_under_contention(self) -> float:
        """Samples/s while co-located jobs use the same links, CPUs and GPUs."""
        network = min(share.network for share in self.shares)
        cpu_stage = min(share.cpu_stage for share in self.shares)
        return self.alone * network * cpu_stage * self.together

    def limit(self) -> str:
        """What limits the running job: "cpus", "memory", "network", or "" for its GPUs."""
        cpus = self.cpu_factor * min(share.cpu_stage for share in self.shares)
        network = min(share.network for share in self.shares) * self.link_factor
        factors = ((cpus, "cpus"), (self.memory_factor, "memory"), (network, "network"))
        least, limit = min(factors, key=lambda factor: factor[0])  # the first in a tie
        return limit if least < UNLIMITED else ""

    def run_at(self, throughput: float) -> None:
        """Set the throughput from `synced` on; a job at 0, for lack of memory, never ends."""
        self.throughput = throughput
        self.finish = min(self.all_done(), self.deadline)

    def all_done(self) -> Seconds:
        """Time at which the last sample will have been processed at the present throughput."""
        return self.synced + self.remaining / self.throughput if self.throughput > 0 else math.inf

    def complete(self, time: Seconds) -> bool:
        """End at `time`, done or at the time limit; return whether at the limit."""
        if self.all_done() <= self.deadline:
            self.deadline = math.inf
        self.service, self.status = self.service_at(time), JobStatus.DONE
        self.remaining = self.throughput = 0.0
        return self.deadline < math.inf

    def leave(self, time: Seconds) -> None:
        """Leave at `time` without having run; as at a time limit, it has not finished."""
        self.status = JobStatus.DONE
        self.remaining = 0.0
        self.finish = self.deadline = time

    def wait(self) -> None:
        """Return to the queue; the caller has given back the shares."""
        self.status = JobStatus.QUEUED
        self.throughput = 0.0
        self.finish = self.deadline = math.inf

    def give_back(self) -> None:
        """Give up the shares on all nodes."""
        for share in self.shares:
            share.node.shares.remove(share)
        self.shares = []

    def take(self, placement: Placement, nodes: Sequence[Node]) -> None:
        """Take the shares of a placement; cores and memory that it does not name stay 0 until they are divided.

        Args:
            placement: GPUs by node, and other named settings.
            nodes: all nodes.
        """
        self.plan, self.batch_size = placement.plan, placement.batch_size
        self.names_cpus, self.names_memory = placement.cpus is not None, placement.memory is not None
        for node in sorted(placement.gpus):
            share = Share(self, nodes[node], placement.gpus[node])
            share.cpus = down_to_parts(placement.cpus[node]) if placement.cpus is not None else 0.0
            share.memory = down_to_parts(placement.memory[node]) if placement.memory is not None else 0.0
            self.shares.append(share)
            share.node.shares.append(share)
            share.node.shares.sort(key=lambda one: one.job.id)

    def works_as(self, placement: Placement) -> bool:
        """Return whether the job has the GPUs, plan and batch size of a placement."""
        gpus = {share.node.id: share.gpus for share in self.shares}
        return gpus == dict(placement.gpus) and (self.plan, self.batch_size) == (placement.plan, placement.batch_size)

    @property
    def owner(self) -> JobId | None:
        """The job whose GPUs it shares as a guest."""
        return self.partner.id if self.partner is not None and self.guest else None

    def satisfies(self, placement: Placement | None) -> bool:
        """Return whether the job already has a placement: its GPUs, and exactly what it names of cores and memory."""
        if placement is None or self.status is not JobStatus.RUNNING:
            return placement is None and self.status is not JobStatus.RUNNING
        named = (placement.cpus is not None, placement.memory is not None)
        if not self.works_as(placement) or named != (self.names_cpus, self.names_memory):
            return False
        return all(
            (placement.cpus is None or share.cpus == down_to_parts(placement.cpus[share.node.id]))
            and (placement.memory is None or share.memory == down_to_parts(placement.memory[share.node.id]))
            for share in self.shares
        )

    def placement(self) -> Placement:
        """Current placement, with cores and memory only if it named them; nodes ascending."""
        return Placement(
            {share.node.id: share.gpus for share in self.shares},
            cpus={share.node.id: share.cpus for share in self.shares} if self.names_cpus else None,
            memory={share.node.id: share.memory for share in self.shares} if self.names_memory else None,
            plan=self.plan,
            batch_size=self.batch_size,
            beside=self.owner,
        )


def jobs_of(workload: Workload, scenario: Scenario, rng: np.random.Generator) -> list[Job]:
    """Make all jobs of a workload, not yet submitted; each has a time limit where nothing else is known of its work."""
    if scenario.information.work == "limit":
        workload.check_limits()
    errors = [1.0] * len(workload)
    if scenario.information.work == "estimate":
        errors = np.exp(scenario.information.error * rng.standard_normal(len(workload))).tolist()
    delays = [delays_of(model, scenario) for model in workload.models]
    models = workload.jobs["model"].tolist()
    return [
        Job(spec, model, delays[model][0], delays[model][1], error, spec.work, least=spec.work)
        for spec, model, error in zip(workload, models, errors, strict=True)
    ]


def delays_of(model: str, scenario: Scenario) -> tuple[Seconds, Seconds]:
    """Seconds to the first sample of a model's jobs, after a first start and after later ones."""
    cost = scenario.reconfiguration
    if cost is None:
        return scenario.start_delay, scenario.restart_delay
    plain = without_constraints(model)
    return float(cost.seconds(plain, first=True)), float(cost.seconds(plain))
