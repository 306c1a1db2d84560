"""Reference implementation of `envs.gpu_cluster.amend` in plain Python."""

import math
from collections.abc import Callable
from typing import Literal

from envs.gpu_cluster.levels import LevelTable
from envs.gpu_cluster.reference.plan import OPEN, Amounts, JointPlan
from envs.simulation.exact import PARTS
from envs.simulation.reference import JobStatus
from envs.types import JobId, NodeId

Resource = Literal["cpus", "memory"]


class Amendments:
    """Amendments of a round's plan.

    Args:
        plan: the GPUs of every job in the round.
        key: the sort key of a job in queue order.
        levels: of cores and memory.
    """

    def __init__(self, plan: JointPlan, key: Callable[[JobId], float], levels: LevelTable) -> None:
        self.plan, self._key, self.levels = plan, key, levels
        self.num_levels = levels.cpus.shape[3]
        self._amended = dict[JobId, int]()  # the last decision that amended each job

    def candidates(self) -> list[JobId]:
        """Return all jobs in the system: those of the proposal, waiting ones, running ones, each in queue order."""
        there = (JobStatus.QUEUED, JobStatus.RUNNING)
        active = [job.id for job in self.plan.simulator.active if job.status in there]
        ranks = {job: -1 if job in self.plan.changed else there.index(self.plan.job(job).status) for job in active}
        return sorted(active, key=lambda job: (ranks[job], self._key(job), job))

    def may_lose(self, job: JobId) -> bool:
        """Whether GPUs may be taken from a job."""
        return self.plan.rules.preemptive or self.plan.job(job).status is JobStatus.QUEUED

    def room(self, job: JobId, node: NodeId) -> int:
        """GPUs that a node can give to a job."""
        given = [gpus for other, gpus in self.plan.on_node[node].items() if other == job or self.may_lose(other)]
        return self.plan.free(node) + sum(given)

    def options(self, job: JobId, node: NodeId) -> list[tuple[int, int]]:
        """Numbers of GPUs to which a node may set a job, each with a level."""
        here, plan = self.plan.on_node[node].get(job, 0), self.plan
        runs = [total for total in range(plan.least(job), plan.most(job) + 1) if plan.runs_on(job, node, total)]
        most = min(self.room(job, node), max(runs, default=0))
        found = [(0, 0)] if here and self.may_lose(job) else []
        for gpus in range(1, most + 1):
            if gpus != here or self.num_levels > 1:
                found.append((gpus, 0))
            named = [level for level in range(1, self.num_levels) if self._level(job, node, gpus, level) is not OPEN]
            found += [(gpus, level) for level in named]
        return found

    def _level(self, job: JobId, node: NodeId, gpus: int, level: int) -> Amounts:
        """Cores and GB of a level, in the engine's unit; `OPEN` where the model has no such level."""
        place = self.plan.job(job).model, self.plan.gpu_type(node), gpus, level
        cpus, memory = float(self.levels.cpus[place]), float(self.levels.memory[place])
        if math.isnan(cpus):
            return OPEN
        return math.floor(gpus * cpus * PARTS) / PARTS, math.floor(gpus * memory * PARTS) / PARTS

    def amend(self, job: JobId, node: NodeId, gpus: int, level: int, decision: int) -> bool:
        """Set the GPUs of a job on a node, and make room for it; return False if the node cannot give so many."""
        if gpus > self.room(job, node):
            return False
        while (missing := gpus - self.plan.on_node[node].get(job, 0) - self.plan.free(node)) > 0:
            others = [other for other in self.plan.on_node[node] if other != job and self.may_lose(other)]
            self._displace(max(others, key=lambda other: (self._key(other), other)), node, missing, decision)
        self._set(job, node, gpus, decision, self._level(job, node, gpus, level) if gpus else OPEN)
        return True

    def _set(self, job: JobId, node: NodeId, gpus: int, decision: int, amounts: Amounts = OPEN) -> None:
        if job not in self._amended:
            self.plan.leave_open(job)
        self._amended[job] = decision
        self.plan.set(job, node, gpus, amounts)

    def _displace(self, job: JobId, node: NodeId, missing: int, decision: int) -> None:
        """Take GPUs on a node from a job; all it has, if it could not run on the rest."""
        plan, here = self.plan, self.plan.on_node[node][job]
        left = max(here - missing, 0)
        total = plan.gpus(job) - here + left
        nodes = [other for other in plan.held(job) if other != node or left]
        enough = plan.rules.elastic and total >= plan.job(job).spec.min_gpus
        if enough and all(plan.runs_on(job, other, total) for other in nodes):
            self._set(job, node, left, decision)
        else:
            self._amended[job] = decision
            plan.clear(job)

    def close(self) -> int:
        """End the round; return how many amended jobs did not run, and got back what they held or nothing."""
        plan = self.plan
        amended = [job for job in plan.changed if job in self._amended]  # in the order of their first changes
        broken = [job for job in amended if plan.gpus(job) and not self._complete(job)]
        for job in broken:
            plan.clear(job)
            del self._amended[job]
        for job in self._amended:
            plan.name_amounts(job)
        for job in broken:
            held = {share.node.id: share.gpus for share in plan.job(job).shares}
            if held and all(gpus <= plan.free(node) for node, gpus in held.items()):
                plan.take(job, plan.job(job).placement())
        if self.num_levels > 1:
            for node in range(len(plan.on_node)):
                self._cut(node, "cpus")
                self._cut(node, "memory")
        self._amended.clear()
        return len(broken)

    def _complete(self, job: JobId) -> bool:
        return self.plan.least(job) <= self.plan.gpus(job) <= self.plan.most(job) and self.plan.runs(job)

    def _cut(self, node: NodeId, resource: Resource) -> None:
        """On a node with too little for all named amounts, cut those of amended jobs, the last amended first."""
        plan = self.plan
        while (missing := self._missing(node, resource)) > 0:
            jobs = [job for job in plan.on_node[node] if job in self._amended and plan.names(job, resource)]
            able = [job for job in jobs if self._amount(job, node, resource) > plan.on_node[node][job] / PARTS]
            if not able:
                return
            job = max(able, key=lambda one: (self._amended[one], one))
            gpus = plan.on_node[node][job]
            parts = max(math.floor((self._amount(job, node, resource) - missing) / gpus * PARTS), 1)
            cpus, memory = plan.amounts_on(job, node)
            cut = gpus * parts / PARTS
            plan.amounts[job][node] = (cut, memory) if resource == "cpus" else (cpus, cut)

    def _amount(self, job: JobId, node: NodeId, resource: Resource) -> float:
        return self.plan.amounts_on(job, node)[resource == "memory"]

    def _missing(self, node: NodeId, resource: Resource) -> float:
        """Cores (or GB) of which a node has too little for all named amounts, and a 64th for each other GPU."""
        plan = self.plan
        left: float = getattr(plan.simulator.nodes[node], resource) - plan.free(node) / PARTS
        for job, gpus in sorted(plan.on_node[node].items()):
            left -= self._amount(job, node, resource) if plan.names(job, resource) else gpus / PARTS
        return -left
