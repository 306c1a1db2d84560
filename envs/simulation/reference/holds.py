"""Jobs of the reference engine that are held: submitted, but waiting for a time or for the ends of other jobs."""

import math
from collections.abc import Iterator, Sequence

from envs.simulation.reference.objects import Job, JobStatus
from envs.types import Seconds
from envs.types.dependency import NOT_OK, OK
from envs.workloads import Workload


def note_what_they_wait_for(jobs: Sequence[Job], workload: Workload) -> None:
    """Note for each job of a workload the time and the jobs for which it waits."""
    for job in jobs:
        job.begins = job.spec.begin_time <= job.spec.submit_time
    for dependent, on, met_by in workload.dependencies:
        jobs[dependent].unmet.add(jobs[on])
        jobs[on].dependents.append((jobs[dependent], met_by))


def tell_end(job: Job, *, finished: bool) -> None:
    """Tell the jobs that depend on one that it has ended."""
    for dependent, met_by in job.dependents:
        if met_by & (OK if finished else NOT_OK):
            dependent.unmet.discard(job)
        else:
            dependent.unmeetable = True


def must_wait(job: Job) -> bool:
    """Return whether a job waits for a time or for another job; one that can never run does not."""
    return not job.unmeetable and (bool(job.unmet) or not job.begins)


def earliest_begin(jobs: Sequence[Job]) -> Seconds:
    """The next begin time for which a job waits; infinite without one."""
    pending = [job.spec.begin_time for job in jobs if job.status is JobStatus.PENDING and not job.begins]
    return min(pending, default=math.inf)


def released(jobs: Sequence[Job], time: Seconds) -> Iterator[Job]:
    """Yield the held jobs that wait for nothing more, ascending: what happens to one decides about later ones."""
    for job in jobs:
        if job.status is JobStatus.PENDING:
            job.begins = job.begins or job.spec.begin_time <= time
            if not must_wait(job):
                yield job
