"""The draft of a round in plain Python: the GPUs of every job, as options change them."""

from collections.abc import Iterable, Mapping
from dataclasses import replace
from typing import NamedTuple

from envs.options.columns import EVICT, MOVE, SHARE, TUNE
from envs.options.tuning import TuningTable
from envs.simulation.reference import Job, JobStatus, Node, ReferenceSimulator
from envs.simulation.world.exact import PARTS
from envs.simulation.world.throughput import node_level
from envs.types import JobId, NodeId, PerformanceError, Placement

NOTHING = -1  # no job, or no node


class Option(NamedTuple):
    """One change of the draft, or waiting.

    Attributes:
        change: see `envs.options.columns.ACTION_NAMES`.
        job: -1 for waiting.
        node: -1 for waiting.
        gpus: of the job on this node after it; for tuning the number of the tuning, for sharing the other job.
    """

    change: int
    job: JobId
    node: NodeId
    gpus: int


class RoundChanges:
    """The engine's shares and the changes of one round, which take effect at its end.

    Attributes:
        changed: for each job that the round has changed, its GPUs by node; empty if it gets none.
        tuned: for each job that the round has tuned, its placement.
        owners: for each job that shares another one's GPUs, that one.
    """

    def __init__(self, simulator: ReferenceSimulator, tunings: TuningTable) -> None:
        self.simulator, self.tunings = simulator, tunings
        self.nodes: list[Node] = simulator.nodes
        self._throughputs: list[list[list[list[float]]]] = simulator.rules.table.throughputs.tolist()
        self.changed: dict[JobId, dict[NodeId, int]] = {}
        self.tuned: dict[JobId, Placement] = {}
        self.owners: dict[JobId, JobId] = {}

    def begin(self) -> None:
        """Discard all changes."""
        self.changed, self.tuned = {}, {}
        self.owners = {job.id: job.owner for job in self.simulator.active if job.owner is not None}

    def partner(self, job: JobId) -> JobId | None:
        """Return the job that holds the same GPUs."""
        guests = [guest for guest, owner in self.owners.items() if owner == job]
        return self.owners.get(job, guests[0] if guests else None)

    def kept(self, job: JobId, other: JobId, nodes: Iterable[NodeId]) -> float:
        """Return the fraction of its throughput that a job keeps beside another on GPUs of these nodes."""
        factors, types = self.simulator.rules.table.pair_factors, self.simulator.rules.node_types
        return min(float(factors[types[node], self.job(job).model, self.job(other).model]) for node in nodes)

    def job(self, job: JobId) -> Job:
        """Return the engine's job."""
        return self.simulator.jobs[job]

    def held(self, job: JobId) -> Mapping[NodeId, int]:
        """Return the GPUs of a job by node, ascending."""
        if job in self.changed:
            return self.changed[job]
        return {share.node.id: share.gpus for share in self.job(job).shares}

    def gpus(self, job: JobId) -> int:
        """Return the number of GPUs of a job."""
        return sum(self.held(job).values())

    def jobs_on(self, node: NodeId) -> dict[JobId, int]:
        """Return the GPUs of each job on a node, by ascending job."""
        active = [job.id for job in self.simulator.active]
        return {job: self.held(job)[node] for job in active if node in self.held(job)}

    def free(self, node: NodeId) -> int:
        """Return the GPUs of a node that jobs may take; 0 while it is down or held by an exclusive job."""
        return 0 if any(self.job(job).spec.constraints.exclusive for job in self.jobs_on(node)) else self.idle(node)

    def room(self, job: JobId, node: NodeId) -> int:
        """Return the GPUs that a job could have on a node, with those that it holds there and shares with no other."""
        own = self.held(job).get(node, 0) if self.partner(job) is None else 0
        if not self.job(job).spec.constraints.exclusive:
            return self.free(node) + own
        return self.nodes[node].capacity if own or self.free(node) == self.nodes[node].capacity else 0

    def keeps(self, job: JobId, node: NodeId, gpus: int) -> int:
        """Return the GPUs that a job with so many on a node keeps from others."""
        return self.nodes[node].spec.num_gpus if gpus and self.job(job).spec.constraints.exclusive else gpus

    def idle(self, node: NodeId) -> int:
        """Return the GPUs of a node that no job holds; 0 while it is down."""
        return self.nodes[node].capacity - sum(
            gpus for job, gpus in self.jobs_on(node).items() if job not in self.owners
        )

    @property
    def num_free(self) -> int:
        """Free GPUs of all nodes together."""
        return sum(self.idle(node.id) for node in self.nodes)

    def idle_but_for(self, gang: JobId = NOTHING) -> bool:
        """Whether no job holds a GPU, except perhaps a gang that is put together."""
        return not any(self.held(job.id) for job in self.simulator.active if job.id != gang)

    def needs_gpus(self, job: JobId) -> bool:
        """Whether a job has fewer GPUs than it needs."""
        return self.gpus(job) < self.job(job).spec.min_gpus

    def waiting(self) -> list[JobId]:
        """Return the jobs that wait, ascending."""
        return [job.id for job in self.simulator.active if self.needs_gpus(job.id)]

    def throughput(self, job: JobId, node: NodeId, total: int, count: int) -> float:
        """Samples/s on `total` GPUs of a node's type, over `count` nodes; 0 if the table has no such number of GPUs."""
        by_gpus = self._throughputs[self.job(job).model][self.simulator.rules.node_types[node]]
        if not total < len(by_gpus):
            return 0.0
        return by_gpus[total][min(node_level(count), len(by_gpus[total]) - 1)]

    def could_run(self, job: JobId, node: NodeId, total: int) -> bool:
        """Whether a job runs on so many GPUs if this node's type is among them, over some number of nodes."""
        by_gpus = self._throughputs[self.job(job).model][self.simulator.rules.node_types[node]]
        return total < len(by_gpus) and max(by_gpus[total]) > 0

    def runs(self, job: JobId, gpus: Mapping[NodeId, int]) -> bool:
        """Whether a job runs on such a placement."""
        total = sum(gpus.values())
        asked = self.job(job).spec.constraints
        return 0 < len(gpus) <= (asked.max_nodes or len(gpus)) and all(
            self.throughput(job, node, total, len(gpus)) > 0 for node in gpus
        )

    def after(self, option: Option) -> dict[NodeId, int]:
        """Return the GPUs of an option's job by node after it."""
        if option.change == EVICT:
            return {}
        if option.change == TUNE:
            return dict(self.held(option.job))
        if option.change == SHARE:
            return dict(self.held(option.gpus))
        others = {} if option.change == MOVE else dict(self.held(option.job))
        others[option.node] = option.gpus
        return {node: gpus for node, gpus in sorted(others.items()) if gpus}

    def take(self, option: Option) -> None:
        """Carry out an option other than waiting."""
        tuned = self.with_tuning(option.job, option.gpus) if option.change == TUNE else None
        after, partner = self.after(option), self.partner(option.job)
        if option.change in (MOVE, EVICT) and partner is not None:
            self.owners.pop(option.job, None)
            self.owners.pop(partner, None)
        self.changed[option.job] = after
        if option.change == SHARE:
            self.owners[option.job] = option.gpus
        self.tuned.pop(option.job, None)
        if tuned is not None and tuned != Placement(tuned.gpus):
            self.tuned[option.job] = tuned

    def placement(self, job: JobId) -> Placement:
        """Return what a job that holds GPUs has, with what its placement names."""
        if job in self.changed:
            return self.tuned.get(job) or Placement(self.changed[job])
        return self.job(job).placement()

    def with_tuning(self, job: JobId, tuning: int) -> Placement:
        """Return what a job would have with a tuning on its GPUs."""
        held, model = dict(self.held(job)), self.job(job).model
        size = int(self.tunings.batch_size[tuning, model, sum(held.values())])
        cpus, memory = self.tunings.parts[tuning, model].tolist()
        return Placement(
            held,
            cpus={node: cpus * gpus / PARTS for node, gpus in held.items()} if cpus else None,
            memory={node: memory * gpus / PARTS for node, gpus in held.items()} if memory else None,
            batch_size=size or None,
        )

    def can_have(self, job: JobId, placement: Placement) -> bool:
        """Whether a job runs on its GPUs with what a placement names, and the nodes have that."""
        spec, size = self.job(job).spec, placement.batch_size
        if size is not None and not spec.min_batch <= size <= (spec.max_batch or size):
            return False
        try:
            throughput = self.simulator.rules.ample_throughput(self.job(job).model, placement)
        except PerformanceError:
            return False
        return throughput > 0 and all(
            self._amount_left(node, resource, job) >= amounts[node]
            for resource, amounts in (("cpus", placement.cpus), ("memory", placement.memory))
            if amounts is not None
            for node in amounts
        )

    def _amount_left(self, node: NodeId, resource: str, job: JobId) -> float:
        """Cores or GB of a node besides what the other jobs name there, and 1/64 for each other GPU."""
        left: float = getattr(self.nodes[node], resource) - self.idle(node) / PARTS
        for other, gpus in self.jobs_on(node).items():
            amounts: Mapping[NodeId, float] | None = getattr(self.placement(other), resource)
            if other != job:
                left -= gpus / PARTS if amounts is None else amounts[node]
        return left

    def drop(self, job: JobId) -> None:
        """Take all GPUs from a job."""
        self.changed[job] = {}
        self.tuned.pop(job, None)

    def is_running(self, job: JobId) -> bool:
        """Whether a job ran when the round began."""
        return self.job(job).status is JobStatus.RUNNING

    def apply(self) -> None:
        """Apply the round's changes to the engine."""
        if not self.changed:
            return
        allocation = self.simulator.view.allocation(keep_running=True)
        for job in sorted(self.changed):
            allocation.stop(job)
        for job, gpus in sorted(self.changed.items(), key=lambda change: (change[0] in self.owners, change[0])):
            if gpus:
                allocation.place(job, replace(self.placement(job), beside=self.owners.get(job)))
        self.simulator.apply(allocation)
