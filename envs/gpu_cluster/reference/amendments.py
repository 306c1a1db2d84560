"""Reference implementation of `envs.gpu_cluster.amend` in plain Python."""

from collections.abc import Callable

from envs.gpu_cluster.reference.plan import JointPlan
from envs.simulation.reference import JobStatus
from envs.types import JobId, NodeId


class Amendments:
    """Amendments of a round's plan.

    Args:
        plan: the GPUs of every job in the round.
        key: the sort key of a job in queue order.
    """

    def __init__(self, plan: JointPlan, key: Callable[[JobId], float]) -> None:
        self.plan, self._key = plan, key
        self._amended = set[JobId]()

    def candidates(self) -> list[JobId]:
        """Return all jobs in the system: waiting ones, then running ones, each in queue order."""
        there = (JobStatus.QUEUED, JobStatus.RUNNING)
        active = [job.id for job in self.plan.simulator.active if job.status in there]
        return sorted(active, key=lambda job: (there.index(self.plan.job(job).status), self._key(job), job))

    def may_lose(self, job: JobId) -> bool:
        """Whether GPUs may be taken from a job."""
        return self.plan.rules.preemptive or self.plan.job(job).status is JobStatus.QUEUED

    def room(self, job: JobId, node: NodeId) -> int:
        """GPUs that a node can give to a job."""
        given = [gpus for other, gpus in self.plan.on_node[node].items() if other == job or self.may_lose(other)]
        return self.plan.free(node) + sum(given)

    def amounts(self, job: JobId, node: NodeId) -> list[int]:
        """Numbers of GPUs to which a node may set a job."""
        here, plan = self.plan.on_node[node].get(job, 0), self.plan
        runs = [total for total in range(plan.least(job), plan.most(job) + 1) if plan.runs_on(job, node, total)]
        most = min(self.room(job, node), max(runs, default=0))
        nothing = [0] if here and self.may_lose(job) else []
        return nothing + [gpus for gpus in range(1, most + 1) if gpus != here]

    def amend(self, job: JobId, node: NodeId, gpus: int) -> bool:
        """Set the GPUs of a job on a node, and make room for it; return False if the node cannot give so many."""
        if gpus > self.room(job, node):
            return False
        while (missing := gpus - self.plan.on_node[node].get(job, 0) - self.plan.free(node)) > 0:
            others = [other for other in self.plan.on_node[node] if other != job and self.may_lose(other)]
            self._displace(max(others, key=lambda other: (self._key(other), other)), node, missing)
        self._set(job, node, gpus)
        return True

    def _set(self, job: JobId, node: NodeId, gpus: int) -> None:
        self._amended.add(job)
        self.plan.set(job, node, gpus)

    def _displace(self, job: JobId, node: NodeId, missing: int) -> None:
        """Take GPUs on a node from a job; all it has, if it could not run on the rest."""
        plan, here = self.plan, self.plan.on_node[node][job]
        left = max(here - missing, 0)
        total = plan.gpus(job) - here + left
        nodes = [other for other in plan.held(job) if other != node or left]
        enough = plan.rules.elastic and total >= plan.job(job).spec.min_gpus
        if enough and all(plan.runs_on(job, other, total) for other in nodes):
            self._set(job, node, left)
        else:
            self._amended.add(job)
            plan.clear(job)

    def close(self) -> int:
        """End the round; return how many amended jobs did not run, and got back what they held or nothing."""
        plan = self.plan
        broken = [job for job in self._amended if plan.gpus(job) and not self._complete(job)]
        for job in broken:
            plan.clear(job)
        for job in broken:
            held = {share.node.id: share.gpus for share in plan.job(job).shares}
            if all(gpus <= plan.free(node) for node, gpus in held.items()):
                for node, gpus in held.items():
                    plan.set(job, node, gpus)
        self._amended.clear()
        return len(broken)

    def _complete(self, job: JobId) -> bool:
        return self.plan.least(job) <= self.plan.gpus(job) <= self.plan.most(job) and self.plan.runs(job)
