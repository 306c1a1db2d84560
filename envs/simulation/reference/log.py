"""The reference engine's event log, row by row as plain tuples."""

import numpy as np

from envs.simulation.log import EVENT, SHARE, EventKind, EventLog
from envs.simulation.reference.objects import Job, Node
from envs.types import ExecutionPlan, Seconds


class EventLogWriter:
    """Collects events.

    Attributes:
        events: rows of `EVENT`.
        shares: rows of `SHARE`.
        plans: the plans that placements have named so far, in order of first use.
    """

    def __init__(self) -> None:
        self.events: list[tuple[float, int, int, int, int, int, int, int]] = []
        self.shares: list[tuple[int, int, float, float]] = []
        self.plans: list[ExecutionPlan] = []

    def job(self, time: Seconds, kind: EventKind, job: Job) -> None:
        """Add an event of a job; START and RESIZE with its placement."""
        first = len(self.shares)
        if kind not in (EventKind.START, EventKind.RESIZE):
            self.events.append((time, kind, job.id, first, 0, -1, 0, -1))
            return
        for share in job.shares:
            self.shares.append((share.node.id, share.gpus, share.cpus, share.memory))
        plan = -1 if job.plan is None else self.plans.index(job.plan)
        owner = -1 if job.owner is None else job.owner
        self.events.append((time, kind, job.id, first, len(job.shares), plan, job.batch_size or 0, owner))

    def node(self, time: Seconds, kind: EventKind, node: Node) -> None:
        """Add DOWN or UP of a node."""
        self.events.append((time, kind, -1, len(self.shares), 1, -1, 0, -1))
        self.shares.append((node.id, node.spec.num_gpus, 0.0, 0.0))

    def add_plan(self, plan: ExecutionPlan) -> None:
        """Add a plan that a placement names, unless it is known."""
        if plan not in self.plans:
            self.plans.append(plan)

    def log(self) -> EventLog:
        """The events so far as tables."""
        return EventLog(np.array(self.events, EVENT), np.array(self.shares, SHARE), tuple(self.plans))
