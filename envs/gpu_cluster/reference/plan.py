"""The plan of a round in plain Python: the GPUs of every job, on which the reference environment decides."""

import math
from collections.abc import Mapping
from typing import NamedTuple

from envs.gpu_cluster.spec import DecisionRules
from envs.simulation.exact import whole_parts
from envs.simulation.reference import Job, JobStatus, ReferenceSimulator
from envs.types import Allocation, JobId, NodeId, Placement

Amounts = tuple[float, float]  # cores and GB; NaN where they are left open
OPEN: Amounts = (math.nan, math.nan)


class NamedSettings(NamedTuple):
    """What the placement of a changed job names besides its GPUs."""

    cpus: bool = False
    memory: bool = False
    batch_size: int | None = None


class JointPlan:
    """The engine's shares and the changes of one round, which take effect at its end.

    Attributes:
        changed: for each job that the round has changed so far, its GPUs by node; empty if it gets none.
        amounts: for each of these jobs, its cores and GB by node.
        settings: what these jobs name; all that they leave open may be absent.
        on_node: for each node, the GPUs of each job there.
        next_decision: the instant of the next round for which the proposal asks, in s.
    """

    def __init__(self, simulator: ReferenceSimulator, rules: DecisionRules) -> None:
        self.simulator, self.rules = simulator, rules
        self.throughputs: list[list[list[list[float]]]] = simulator.rules.table.throughputs.tolist()
        self.begin()

    def begin(self) -> None:
        """Discard all changes and copy the engine's shares."""
        self.changed: dict[JobId, dict[NodeId, int]] = {}
        self.amounts: dict[JobId, dict[NodeId, Amounts]] = {}
        self.settings: dict[JobId, NamedSettings] = {}
        self.next_decision = math.inf
        self.on_node = [{share.job.id: share.gpus for share in node.shares} for node in self.simulator.nodes]

    def propose(self, allocation: Allocation) -> None:
        """Change what an allocation changes, before the first decision of the round."""
        running = {job.id for job in self.simulator.running()}
        placed = {job: placement for job, placement in allocation.changes.items() if placement is not None}
        left_out = set() if allocation.keep_running else running - placed.keys()
        stopped = left_out | (allocation.changes.keys() - placed.keys())
        for job in (*sorted(stopped & running), *placed):
            self.clear(job)
        for job, placement in placed.items():
            self.take(job, placement)
        self.next_decision = allocation.next_decision

    def job(self, job: JobId) -> Job:
        """Return the engine's job."""
        return self.simulator.jobs[job]

    def names(self, job: JobId, resource: str) -> bool:
        """Whether a job names its "cpus" or "memory"."""
        if job in self.changed:
            return bool(getattr(self.settings.get(job, NamedSettings()), resource))
        return bool(getattr(self.job(job), f"names_{resource}"))

    def amounts_on(self, job: JobId, node: NodeId) -> Amounts:
        """Cores and GB of a job on one of its nodes: those that the plan names, or of an unchanged job what it has."""
        if job in self.changed:
            return self.amounts[job].get(node, OPEN)
        share = next(share for share in self.job(job).shares if share.node.id == node)
        return share.cpus, share.memory

    def held(self, job: JobId) -> Mapping[NodeId, int]:
        """Return the GPUs of a job by node."""
        if job in self.changed:
            return self.changed[job]
        return {share.node.id: share.gpus for share in self.job(job).shares}

    def gpus(self, job: JobId) -> int:
        """Return the number of GPUs of a job."""
        return sum(self.held(job).values())

    def free(self, node: NodeId) -> int:
        """Return the GPUs of a node that no job holds; 0 while it is down."""
        return self.simulator.nodes[node].capacity - sum(self.on_node[node].values())

    @property
    def num_free(self) -> int:
        """Free GPUs of all nodes together."""
        return sum(self.free(node) for node in range(len(self.on_node)))

    @property
    def idle(self) -> bool:
        """Whether no job holds a GPU."""
        return not any(self.on_node)

    def least(self, job: JobId) -> int:
        """Return the fewest GPUs on which the rules let a job run."""
        spec = self.job(job).spec
        return spec.min_gpus if self.rules.elastic else spec.num_gpus

    def most(self, job: JobId) -> int:
        """Return the most GPUs on which the rules let a job run."""
        spec = self.job(job).spec
        return spec.max_gpus if self.rules.elastic else spec.num_gpus

    def waits(self, job: JobId) -> bool:
        """Whether a job that does not run, or that the round has changed, still needs GPUs."""
        undecided = self.job(job).status is JobStatus.QUEUED or job in self.changed
        return undecided and self.gpus(job) < self.least(job)

    def waiting(self) -> list[JobId]:
        """Return all jobs that still need GPUs, ascending."""
        return [job.id for job in self.simulator.active if self.waits(job.id)]

    def runs_on(self, job: JobId, node: NodeId, total: int) -> bool:
        """Whether a job runs on this many GPUs when this node's type is among them."""
        by_gpus = self.throughputs[self.job(job).model][self.gpu_type(node)]
        return total < len(by_gpus) and any(throughput > 0 for throughput in by_gpus[total])

    def throughput(self, job: JobId, node: NodeId, gpus: int) -> float:
        """Return samples/s of a job on GPUs of one node; beyond the table, its last entry."""
        by_gpus = self.throughputs[self.job(job).model][self.gpu_type(node)]
        return by_gpus[min(gpus, len(by_gpus) - 1)][0]

    def gpu_type(self, node: NodeId) -> int:
        """Return the index of a node's GPU type."""
        return self.simulator.rules.node_types[node]

    def one_node_holds(self, job: JobId) -> bool:
        """Whether some single node of this cluster could run the job if the node were free."""
        for node in self.simulator.nodes:
            for gpus in range(self.least(job), min(self.most(job), node.spec.num_gpus) + 1):
                if self.runs_on(job, node.id, gpus):
                    return True
        return False

    def change_fits(self, job: JobId, node: NodeId, gpus: int) -> bool:
        """Whether a job that holds GPUs on a node may hold this many there instead."""
        here = self.on_node[node].get(job, 0)
        if here == 0 or gpus - here > self.free(node):
            return False
        if gpus == 0:
            return True
        total = self.gpus(job) - here + gpus
        if not self.job(job).spec.min_gpus <= total <= self.most(job):
            return False
        return all(self.runs_on(job, other, total) for other in self.held(job))

    def set(self, job: JobId, node: NodeId, gpus: int, amounts: Amounts = OPEN) -> None:
        """Set a job's GPUs on a node, with cores and GB, and leave its other nodes unchanged."""
        held, settings = {**self.held(job), node: gpus}, self.settings.get(job, NamedSettings())
        named = {**self.amounts.get(job, {}), node: amounts}
        self._hold(job, {at: count for at, count in held.items() if count > 0})
        self.amounts[job] = {at: named.get(at, OPEN) for at in self.changed[job]}
        self.settings[job] = settings

    def clear(self, job: JobId) -> None:
        """Take all GPUs from a job."""
        self._hold(job, {})

    def take(self, job: JobId, placement: Placement) -> None:
        """Give a job what a placement names."""
        self._hold(job, dict(placement.gpus))
        cpus, memory = (
            {node: math.nan if amounts is None else whole_parts(amounts[node]) for node in placement.gpus}
            for amounts in (placement.cpus, placement.memory)
        )
        self.amounts[job] = {node: (cpus[node], memory[node]) for node in placement.gpus}
        named = placement.cpus is not None, placement.memory is not None
        self.settings[job] = NamedSettings(*named, placement.batch_size)

    def leave_open(self, job: JobId) -> None:
        """Clear what a changed job's placement names besides its GPUs."""
        self.amounts[job], self.settings[job] = {}, NamedSettings()

    def name_amounts(self, job: JobId) -> None:
        """Let an amended job name its cores and memory if they are set on all its nodes."""
        open_somewhere = any(math.isnan(self.amounts_on(job, node)[0]) for node in self.changed[job])
        self.leave_open(job) if open_somewhere else self.settings.update({job: NamedSettings(True, True)})

    def _hold(self, job: JobId, gpus: dict[NodeId, int]) -> None:
        for node in self.held(job):
            del self.on_node[node][job]
        self.changed[job] = dict(sorted(gpus.items()))
        self.amounts[job], self.settings[job] = {}, NamedSettings()
        for node, count in gpus.items():
            self.on_node[node][job] = count

    def runs(self, job: JobId) -> bool:
        """Whether a job runs on the GPUs that it holds."""
        return self.simulator.rules.ample_throughput(self.job(job).model, Placement(self.held(job))) > 0

    def apply(self) -> None:
        """Apply the round's changes to the engine."""
        if not self.changed and self.next_decision == math.inf:
            return
        allocation = self.simulator.view.allocation(keep_running=True)
        allocation.next_decision = self.next_decision
        for job in sorted(self.changed):
            allocation.stop(job)
        for job in sorted(self.changed):
            if self.changed[job]:
                allocation.place(job, self.placement(job))
        self.simulator.apply(allocation)

    def placement(self, job: JobId) -> Placement:
        """Return the placement of a changed job that gets GPUs."""
        settings, amounts = self.settings[job], self.amounts[job]
        return Placement(
            self.changed[job],
            cpus={node: amounts[node][0] for node in self.changed[job]} if settings.cpus else None,
            memory={node: amounts[node][1] for node in self.changed[job]} if settings.memory else None,
            batch_size=settings.batch_size,
        )
