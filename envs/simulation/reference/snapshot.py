"""Private copies of the reference engine, which continue without arrivals and failures."""

import math
from collections.abc import Sequence
from dataclasses import fields, replace

import numpy as np

from envs.simulation.reference.engine import ReferenceSimulator
from envs.simulation.reference.objects import Job, JobStatus, Share
from envs.types import FloatArray, JobSpec, MurmurationError
from envs.workloads import Workload


def snapshot_of(
    engine: ReferenceSimulator, remaining: FloatArray | None = None, arrivals: Sequence[JobSpec] = ()
) -> ReferenceSimulator:
    """Copy an engine in a round for a scheduler; see `envs.scheduling.ClusterView.snapshot`.

    Args:
        engine: the engine, before the allocation of its round.
        remaining: float64[num_submitted], samples left that the copy assumes; NaN takes what the scenario reveals.
        arrivals: jobs that might be submitted later; see `envs.simulation.Snapshot.add_arrivals`.

    Raises:
        MurmurationError: `remaining` is negative or has another shape.
    """
    count = engine.num_submitted
    assumed = np.full(count, math.nan) if remaining is None else np.asarray(remaining, np.float64)
    if assumed.shape != (count,) or (assumed < 0).any():
        raise MurmurationError(f"snapshot: remaining must be {count} numbers, each 0 or more, or NaN; it is {assumed}")
    scenario = replace(engine.scenario, failures=None)
    copy = ReferenceSimulator(_with_arrivals(_submitted(engine), arrivals), replace(engine.setup, scenario=scenario))
    copy.rules = engine.rules  # they have no state, and their table covers jobs of all sizes
    for name in ("time", "num_submitted", "num_rounds", "next_tick", "next_decision", "stalls", "ended", "in_round"):
        setattr(copy, name, getattr(engine, name))
    for name in ("window_rounds", "queue_rounds"):
        setattr(copy, name, getattr(engine, name))
    copy.end_reason = engine.end_reason
    copy.progress.copy_from(engine.progress)
    copy.seconds = dict(engine.seconds)
    for node, its_node in zip(copy.nodes, engine.nodes, strict=True):
        node.up = its_node.up
    for job, original in zip(copy.jobs[:count], engine.jobs[:count], strict=True):
        _copy_job(copy, job, original)
        _hide_work(copy, job, engine.scenario.information.work != "none", float(assumed[job.id]))
    for job in copy.jobs[count:]:
        job.estimate = 1.0
    copy.active = [copy.jobs[job.id] for job in engine.active]
    copy.uneven = {copy.nodes[node.id] for node in engine.uneven}
    copy.dirty = {copy.nodes[node.id] for node in engine.dirty}
    copy.refed = {copy.jobs[job.id] for job in engine.refed}
    return copy


def _submitted(engine: ReferenceSimulator) -> Workload:
    """Return the submitted jobs of a workload; work that the scenario hides is 1 sample."""
    workload, count = engine.workload, engine.num_submitted
    jobs = workload.jobs[:count].copy()
    for job in engine.jobs[:count]:
        if engine.scenario.information.work == "none" or job.estimate != 1.0:
            jobs["work"][job.id] = 1.0
    jobs["duration"] = math.nan
    return Workload(
        workload.name, jobs, workload.models, workload.tenants, workload.names[:count], plans=workload.plans[:count]
    )


def _with_arrivals(workload: Workload, arrivals: Sequence[JobSpec]) -> Workload:
    """Return a workload with further jobs at its end."""
    if not arrivals:
        return workload
    jobs = [*workload, *arrivals]
    longer = Workload.of(jobs, workload.name)  # it sorts, but arrivals are later than all jobs before them
    models = np.array([workload.models.index(job.model) for job in jobs])
    tenants = np.array([workload.tenants.index(job.tenant) for job in jobs])
    longer.jobs["model"], longer.jobs["tenant"] = models, tenants
    return replace(longer, models=workload.models, tenants=workload.tenants)


def _copy_job(copy: ReferenceSimulator, job: Job, original: Job) -> None:
    """Copy the fields and shares of a job. Callers pass jobs by ascending id, so the nodes' lists are in order."""
    for one in fields(Job):
        if one.name not in ("spec", "shares"):
            setattr(job, one.name, getattr(original, one.name))
    for share in original.shares:
        node = copy.nodes[share.node.id]
        own = Share(job, node, share.gpus, share.cpus, share.memory, share.network, share.cpu_stage)
        job.shares.append(own)
        node.shares.append(own)


def _hide_work(copy: ReferenceSimulator, job: Job, known: bool, assumed: float) -> None:
    """Replace work that the scenario hides: by what the caller assumes, the estimate, or endless work."""
    left = math.nan
    if not known or job.estimate != 1.0:
        left = job.remaining_at(copy.time) * job.estimate if known else math.inf
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
        job.synced = max(job.synced, copy.time)
        job.run_at(job.throughput)
