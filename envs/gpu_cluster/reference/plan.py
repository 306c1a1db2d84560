"""The plan of a round in plain Python: the GPUs of every job, on which the reference environment decides."""

import math
from collections.abc import Mapping

from envs.gpu_cluster.spec import DecisionRules
from envs.simulation.reference import Job, JobStatus, ReferenceSimulator
from envs.types import JobId, NodeId, Placement

Amounts = tuple[float, float]  # cores and GB; NaN where they are left open
OPEN: Amounts = (math.nan, math.nan)


class JointPlan:
    """The engine's shares and the changes of one round, which take effect at its end.

    Attributes:
        changed: for each job that the round has changed so far, its GPUs by node; empty if it gets none.
        on_node: for each node, the GPUs of each job there.
    """

    def __init__(self, simulator: ReferenceSimulator, rules: DecisionRules) -> None:
        self.simulator, self.rules = simulator, rules
        self.throughputs: list[list[list[list[float]]]] = simulator.rules.table.throughputs.tolist()
        self.begin()

    def begin(self) -> None:
        """Discard all changes and copy the engine's shares."""
        self.changed: dict[JobId, dict[NodeId, int]] = {}
        self.on_node = [{share.job.id: share.gpus for share in node.shares} for node in self.simulator.nodes]

    def job(self, job: JobId) -> Job:
        """Return the engine's job."""
        return self.simulator.jobs[job]

    def amounts_on(self, job: JobId, node: NodeId) -> Amounts:
        """Cores and GB of a job on one of its nodes; a job that the plan has changed leaves them open."""
        if job in self.changed:
            return OPEN
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

    def set(self, job: JobId, node: NodeId, gpus: int) -> None:
        """Set a job's GPUs on a node, and leave its other nodes unchanged."""
        held = {**self.held(job), node: gpus}
        self._hold(job, {at: count for at, count in held.items() if count > 0})

    def clear(self, job: JobId) -> None:
        """Take all GPUs from a job."""
        self._hold(job, {})

    def _hold(self, job: JobId, gpus: dict[NodeId, int]) -> None:
        for node in self.held(job):
            del self.on_node[node][job]
        self.changed[job] = dict(sorted(gpus.items()))
        for node, count in gpus.items():
            self.on_node[node][job] = count

    def runs(self, job: JobId) -> bool:
        """Whether a job runs on the GPUs that it holds."""
        return self.simulator.rules.ample_throughput(self.job(job).model, Placement(self.held(job))) > 0

    def apply(self) -> None:
        """Apply the round's changes to the engine."""
        if not self.changed:
            return
        allocation = self.simulator.view.allocation(keep_running=True)
        for job in sorted(self.changed):
            allocation.stop(job)
        for job in sorted(self.changed):
            if self.changed[job]:
                allocation.place(job, Placement(self.changed[job]))
        self.simulator.apply(allocation)
