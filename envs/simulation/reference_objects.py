"""What the reference engine is made of: nodes, jobs and the shares between them, as plain objects."""

import math
from collections.abc import Sequence
from dataclasses import dataclass, field
from enum import StrEnum

from envs.simulation.exact import whole_parts
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
)


class Life(StrEnum):
    """Where a job is in its life."""

    PENDING = "pending"  # not submitted yet
    QUEUED = "queued"
    RUNNING = "running"
    DONE = "done"


@dataclass(slots=True, eq=False)
class Node:
    """One server and the shares that jobs have of it."""

    id: NodeId
    spec: NodeSpec
    cpus: float  # whole 64ths, as all amounts
    memory: Gigabytes
    up: bool = True
    next_change: Seconds = math.inf  # when it goes down, or comes back
    outages: int = 0  # so far
    shares: "list[Share]" = field(default_factory=list)  # by ascending job

    @classmethod
    def of(cls, node: NodeId, spec: NodeSpec) -> "Node":
        """An idle node."""
        return cls(node, spec, whole_parts(spec.cpu_cores), whole_parts(spec.memory))

    @property
    def capacity(self) -> int:
        """GPUs that there are at present."""
        return self.spec.num_gpus if self.up else 0

    @property
    def free_gpus(self) -> int:
        """GPUs that no job holds."""
        return self.capacity - sum(share.gpus for share in self.shares)


@dataclass(slots=True, eq=False)
class Share:
    """GPUs of one job on one node, with their cores and memory; 0 where the scenario hands out none."""

    job: "Job"
    node: Node
    gpus: int
    cpus: float | None = 0.0  # None until they are handed out
    memory: Gigabytes | None = 0.0
    network: float = 1.0  # what the neighbours on the node's link leave of the job's speed
    host: float = 1.0  # the same on its host


@dataclass(slots=True, eq=False)
class Job:
    """One job: what it asked for, what it holds and how far it is."""

    spec: JobSpec
    model: int  # index into the speed table
    start_delay: Seconds
    restart_delay: Seconds
    estimate: float  # factor by which schedulers misjudge the remaining work; 1 if exact
    remaining: Samples  # at `synced`
    life: Life = Life.PENDING
    shares: list[Share] = field(default_factory=list)  # by ascending node
    plan: ExecutionPlan | None = None  # as the wish named it
    batch_size: int | None = None
    names_cpus: bool = False  # whether the wish named its cores
    names_memory: bool = False
    alone: float = 0.0  # samples/s without neighbours
    traffic: float = 0.0  # GB/s across the link of each of its nodes, when alone
    rate: float = 0.0  # samples/s from `synced` on
    synced: Seconds = 0.0  # in the future while the job starts
    finish: Seconds = math.inf  # predicted; final once done
    service: GpuSeconds = 0.0  # until `served`
    served: Seconds = 0.0
    segment: Seconds = 0.0  # when it last began to process samples after a start or change
    saved: Samples = math.nan  # samples left at the last checkpoint
    start: Seconds = math.nan  # first start
    num_restarts: int = 0
    num_preemptions: int = 0
    num_interruptions: int = 0

    @property
    def id(self) -> JobId:
        """Its row in the workload."""
        return self.spec.id

    @property
    def gpus(self) -> int:
        """GPUs that it holds."""
        return sum(share.gpus for share in self.shares)

    def remaining_at(self, time: Seconds) -> Samples:
        """Samples that it has still to process."""
        if self.life is Life.RUNNING and time > self.synced:
            return max(self.remaining - self.rate * (time - self.synced), 0.0)
        return self.remaining

    def service_at(self, time: Seconds) -> GpuSeconds:
        """GPU-seconds that it has held."""
        return self.service + self.gpus * (time - self.served) if self.life is Life.RUNNING else self.service

    def bring_up_to_date(self, time: Seconds, checkpoint_interval: Seconds) -> None:
        """Account what a running job has done until `time`."""
        if time > self.synced:
            self._checkpoint(time, checkpoint_interval)
        self.remaining = self.remaining_at(time)
        self.service = self.service_at(time)
        self.served = time
        self.synced = max(self.synced, time)

    def _checkpoint(self, time: Seconds, interval: Seconds) -> None:
        """Remember what was left at the last checkpoint before `time`."""
        if interval == math.inf:
            return
        last = time
        if interval > 0:
            last = self.segment + math.floor((time - self.segment) / interval) * interval
        if last > self.synced:
            self.saved = max(self.remaining - self.rate * (last - self.synced), 0.0)

    def run_at(self, rate: float) -> None:
        """Process samples at another rate from `synced` on; at 0 for want of memory, it will never end."""
        self.rate = rate
        self.finish = self.synced + self.remaining / rate if rate > 0 else math.inf

    def wait(self) -> None:
        """Go back to the queue; the shares have been given back."""
        self.life = Life.QUEUED
        self.rate = 0.0
        self.finish = math.inf

    def give_back(self) -> None:
        """Leave all nodes."""
        for share in self.shares:
            share.node.shares.remove(share)
        self.shares = []

    def take(self, wish: Placement, nodes: Sequence[Node], *, hand_out: bool) -> None:
        """Get shares of what a wish names; cores and memory that it leaves open wait to be handed out.

        Args:
            wish: GPUs by node, and what else it names.
            nodes: all nodes.
            hand_out: whether the scenario hands out cores and memory.
        """
        self.plan, self.batch_size = wish.plan, wish.batch_size
        self.names_cpus, self.names_memory = hand_out and wish.cpus is not None, hand_out and wish.memory is not None
        for node in sorted(wish.gpus):
            share = Share(self, nodes[node], wish.gpus[node])
            if hand_out:
                share.cpus = whole_parts(wish.cpus[node]) if wish.cpus is not None else None
                share.memory = whole_parts(wish.memory[node]) if wish.memory is not None else None
            self.shares.append(share)
            share.node.shares.append(share)
            share.node.shares.sort(key=lambda one: one.job.id)

    def works_as(self, wish: Placement) -> bool:
        """Whether it has the GPUs, the plan and the batch size of a wish."""
        gpus = {share.node.id: share.gpus for share in self.shares}
        return gpus == dict(wish.gpus) and (self.plan, self.batch_size) == (wish.plan, wish.batch_size)

    def satisfies(self, wish: Placement | None) -> bool:
        """Whether a wish asks for nothing that it does not have, down to the cores and memory that the wish names."""
        if wish is None or self.life is not Life.RUNNING:
            return wish is None and self.life is not Life.RUNNING
        return self.works_as(wish) and all(
            (wish.cpus is None or share.cpus == whole_parts(wish.cpus[share.node.id]))
            and (wish.memory is None or share.memory == whole_parts(wish.memory[share.node.id]))
            for share in self.shares
        )

    def named(self) -> Placement:
        """What it runs on, cores and memory only where the wish named them; nodes ascending."""
        return self._placement(self.names_cpus, self.names_memory)

    def placement(self, *, with_amounts: bool) -> Placement:
        """What it runs on, with all of its cores and memory or without."""
        return self._placement(with_amounts, with_amounts)

    def _placement(self, cpus: bool, memory: bool) -> Placement:
        return Placement(
            {share.node.id: share.gpus for share in self.shares},
            cpus={share.node.id: share.cpus or 0.0 for share in self.shares} if cpus else None,
            memory={share.node.id: share.memory or 0.0 for share in self.shares} if memory else None,
            plan=self.plan,
            batch_size=self.batch_size,
        )
