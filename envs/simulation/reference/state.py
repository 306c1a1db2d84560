"""Start the reference engine from the present state of a compiled episode.

The compiled engine fills a cluster of thousands of nodes in a moment; the reference engine needs hours. So tests and
benchmarks compare both from a loaded state on.
"""

import math
from collections.abc import Mapping, Sequence
from dataclasses import replace
from typing import Any

from envs.simulation.reference.engine import ReferenceSimulator
from envs.simulation.reference.holds import tell_end
from envs.simulation.reference.objects import Job, JobStatus, Share
from envs.simulation.result import EndReason
from envs.simulation.setup import Setup
from envs.simulation.world.state import State
from envs.types import ExecutionPlan, MurmurationError
from envs.workloads import Workload

STATUSES = (JobStatus.PENDING, JobStatus.QUEUED, JobStatus.RUNNING, JobStatus.DONE)  # by Status
COPIED = (
    "alone",
    "ample",
    "traffic",
    "throughput",
    "synced",
    "finish",
    "deadline",
    "service",
    "served",
    "segment",
    "saved",
    "least",
    "start",
)
PROGRESS = (
    "next_check",
    "checked_events",
    "checked_time",
    "progress_time",
    "progress_restarts",
    "longest_delay",
)
COUNTED = ("num_restarts", "num_preemptions", "num_interruptions")
_Row = Mapping[str, Any]


def reference_at(
    state: State,
    b: int,
    workload: Workload,
    setup: Setup,
    plans: Sequence[ExecutionPlan] = (),
) -> ReferenceSimulator:
    """Make a reference engine with the state of episode `b`, including its draws of estimates and outages.

    Its log starts empty. Horizon and delays are those of the episode.

    Args:
        state: between `advance` and the first change of a round, or before its first `advance`.
        b: the episode.
        workload, setup: those of the episode.
        plans: the plans that jobs index into.

    Raises:
        MurmurationError: the current round has already changed jobs.
    """
    episode = state.episode[b, 0]
    if episode.num_touched:
        raise MurmurationError(f"episode {b}: {episode.num_touched} jobs are changed already; copy it between rounds")
    scenario = replace(setup.scenario, horizon=float(episode.horizon))
    engine = ReferenceSimulator(workload, replace(setup, scenario=scenario))
    engine.time = float(episode.time)
    engine.num_submitted, engine.num_rounds = int(episode.next_job), int(episode.num_rounds)
    engine.next_tick, engine.stalls, engine.ended = float(episode.next_round), int(episode.stalls), bool(episode.ended)
    engine.end_reason = EndReason(episode.ended)
    for name in PROGRESS:
        setattr(engine.progress, name, episode[name].item())
    engine.next_decision = float(episode.next_decision)
    engine.outages = state.outages[b].tolist()
    engine.in_round = bool(episode.in_round)
    engine.window_rounds, engine.queue_rounds = int(episode.window_rounds), int(episode.queue_rounds)
    engine.seconds = {what: float(episode[f"{what}_seconds"]) for what in engine.seconds}
    for node, record in zip(engine.nodes, _rows(state.nodes[b]), strict=True):
        node.up, node.outages, node.next_change = not record["down"], record["outages"], record["finish"]
        if record["uneven"]:
            engine.uneven.add(node)
        if record["dirty"]:
            engine.dirty.add(node)
    shares = _rows(state.shares[b])
    for job, row in zip(engine.jobs, _rows(state.jobs[b][: len(workload)]), strict=True):
        _set_job(job, row, plans)
        if row["served"] <= engine.progress.checked_time:  # the compiled engine notes this when the job changes
            job.least = min(job.least, job.remaining_at(engine.progress.checked_time))
        if job.status is JobStatus.RUNNING:
            _set_shares(engine, job, row["first_share"], shares)
    for job, row in zip(engine.jobs, _rows(state.jobs[b][: len(workload)]), strict=True):
        if row["partner"] >= 0:
            job.partner, job.guest = engine.jobs[row["partner"]], bool(row["guest"])
            job.together = engine.rules.kept_beside(job, job.partner)
    for job in engine.jobs:
        job.begins = job.begins or job.spec.begin_time <= engine.time
        if job.status is JobStatus.DONE:
            tell_end(job, finished=job.deadline == math.inf)
    engine.active = [job for job in engine.jobs if job.status in (JobStatus.QUEUED, JobStatus.RUNNING)]
    return engine


def _rows(records: Any) -> list[dict[str, Any]]:
    """Convert records to dicts of plain Python values."""
    return [dict(zip(records.dtype.names, row, strict=True)) for row in records.tolist()]


def _set_job(job: Job, row: _Row, plans: Sequence[ExecutionPlan]) -> None:
    """Set all fields of a job except its shares."""
    job.status = STATUSES[row["status"]]
    job.estimate, job.start_delay, job.restart_delay = row["estimate"], row["start_delay"], row["restart_delay"]
    for name in ("remaining", *COPIED, *COUNTED):
        setattr(job, name, row[name])
    job.cpu_factor, job.memory_factor = row["fed_by_cpus"], row["fed_by_memory"]
    job.plan = plans[row["plan"]] if row["plan"] >= 0 else None
    job.batch_size = row["batch_size"] or None
    job.names_cpus, job.names_memory = bool(row["named"] & 1), bool(row["named"] & 2)


def _set_shares(engine: ReferenceSimulator, job: Job, first: int, rows: Sequence[_Row]) -> None:
    """Set the shares of a running job. Callers pass jobs by ascending id, so the nodes' lists end up in order."""
    at = first
    while at >= 0:
        row = rows[at]
        share = Share(job, engine.nodes[row["node"]], row["gpus"], network=row["network"], cpu_stage=row["cpu_stage"])
        if engine.rules.shared:
            share.cpus, share.memory = row["cpus"], row["memory"]
        job.shares.append(share)
        share.node.shares.append(share)
        at = row["next_of_job"]
