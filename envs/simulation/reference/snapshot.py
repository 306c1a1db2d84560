"""Parts of private copies of the reference engine, see `ReferenceSimulator.snapshot`."""

import math
from collections.abc import Sequence
from dataclasses import fields, replace
from typing import Protocol

import numpy as np

from envs.simulation.reference.objects import Job, JobStatus, Node, Share
from envs.simulation.reference.rules import ReferenceRules
from envs.simulation.scenario import Information
from envs.types import JobSpec, Seconds
from envs.workloads import Workload


class CopiedEngine(Protocol):
    """The parts of a reference engine that `go_on_as_believed` needs."""

    rules: ReferenceRules
    time: Seconds

    def running(self) -> list[Job]:
        """Jobs that hold GPUs, ascending."""
        ...

    def mark(self, job: Job) -> None:
        """Mark the nodes of a job that affects the others there."""
        ...


def known_to_copies(information: Information) -> Information:
    """Return what a copy knows: what it was told counts as exact, and it learns nothing."""
    work = "exact" if information.work in ("predicted", "limit") else information.work
    return replace(information, throughput="exact", work=work)


def submitted_jobs(workload: Workload, submitted: Sequence[Job], knows_work: bool) -> Workload:
    """Return the submitted jobs of a workload; work that the scenario hides is 1 sample."""
    count = len(submitted)
    jobs = workload.jobs[:count].copy()
    for job in submitted:
        if not knows_work or job.estimate != 1.0:
            jobs["work"][job.id] = 1.0
    jobs["duration"] = math.nan
    jobs["begin_time"] = 0.0  # held jobs stay so in a copy
    return replace(workload.slice(0, count, start=0.0), jobs=jobs, notes=(), dependencies=())


def with_arrivals(workload: Workload, arrivals: Sequence[JobSpec]) -> Workload:
    """Return a workload with further jobs at its end."""
    if not arrivals:
        return workload
    jobs = [*workload, *(replace(job, begin_time=0.0, dependency="") for job in arrivals)]
    longer = Workload.of(jobs, workload.name)  # it sorts, but arrivals are later than all jobs before them
    models = np.array([workload.models.index(job.model) for job in jobs])
    tenants = np.array([workload.tenants.index(job.tenant) for job in jobs])
    longer.jobs["model"], longer.jobs["tenant"] = models, tenants
    return replace(longer, models=workload.models, tenants=workload.tenants)


def copy_fields(job: Job, original: Job, nodes: Sequence[Node]) -> None:
    """Copy the fields and shares of a job. Callers pass jobs by ascending id, so the nodes' lists are in order."""
    for one in fields(Job):
        if one.name not in ("spec", "shares", "unmet", "dependents"):
            setattr(job, one.name, getattr(original, one.name))
    for share in original.shares:
        node = nodes[share.node.id]
        own = Share(job, node, share.gpus, share.cpus, share.memory, share.network, share.cpu_stage)
        job.shares.append(own)
        node.shares.append(own)


def assume_work(job: Job, time: Seconds, known: bool, assumed: float) -> None:
    """Replace work that the scenario hides: by what the caller assumes, the estimate, or endless work."""
    left = math.nan
    if not known or job.estimate != 1.0:
        left = job.remaining_at(time) * job.estimate if known else math.inf
        job.spec = replace(job.spec, work=math.nan)
        job.estimate = 1.0
    if job.status is JobStatus.DONE:
        job.saved = 0.0
        return
    left = left if math.isnan(assumed) else assumed
    if math.isnan(left):
        return
    job.remaining = job.saved = job.least = left
    if job.status is JobStatus.RUNNING:
        job.synced = max(job.synced, time)
        job.run_at(job.throughput)


def go_on_as_believed(copy: CopiedEngine) -> None:
    """Give the running jobs of a copy the throughputs of its own rules in place of the engine's."""
    for job in copy.running():
        job.bring_up_to_date(copy.time, math.inf)
        job.ample = copy.rules.ample_throughput(job.model, job.placement())
        copy.rules.feed(job)
        copy.mark(job)
        if job.partner is not None:
            job.together = copy.rules.kept_beside(job, job.partner)
        job.run_at(job.throughput_under_contention())
