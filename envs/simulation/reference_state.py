"""The reference engine begun in the middle: at the instant in which a compiled episode stands.

A cluster of thousands of servers takes the compiled engine a moment to fill and the reference engine hours. So both
are compared, and timed beside each other, from one loaded instant on.
"""

from collections.abc import Mapping, Sequence
from dataclasses import replace
from typing import Any

from envs.performance import PerformanceModel
from envs.simulation.reference import ReferenceSimulator
from envs.simulation.reference_objects import Job, Life, Share
from envs.simulation.scenario import Scenario
from envs.simulation.shares import NAMED_CPUS, NAMED_MEMORY
from envs.simulation.state import State
from envs.types import ClusterSpec, ExecutionPlan, MurmurationError
from envs.workloads import Workload

LIVES = (Life.PENDING, Life.QUEUED, Life.RUNNING, Life.DONE)  # by Status
COPIED = ("alone", "traffic", "rate", "synced", "finish", "service", "served", "segment", "saved", "start", "remaining")
COUNTED = ("num_restarts", "num_preemptions", "num_interruptions")
Row = Mapping[str, Any]


def reference_at(
    state: State,
    b: int,
    workload: Workload,
    cluster: ClusterSpec,
    performance: PerformanceModel,
    scenario: Scenario,
    plans: Sequence[ExecutionPlan] = (),
) -> ReferenceSimulator:
    """A reference engine that stands where episode `b` stands, with its draws of estimates and outages.

    Its log begins there. Horizon and delays are the episode's own.

    Args:
        state: between `advance` and the first change of a round, or before its first `advance`.
        b: the episode.
        workload, cluster, performance, scenario: what it was loaded with.
        plans: those that jobs name by index.

    Raises:
        MurmurationError: the round that the episode stands in has already changed something.
    """
    episode = state.episode[b, 0]
    if episode.num_touched:
        raise MurmurationError(f"episode {b}: {episode.num_touched} jobs are changed already; copy it between rounds")
    engine = ReferenceSimulator(workload, cluster, performance, replace(scenario, horizon=float(episode.horizon)))
    engine.time = float(episode.time)
    engine.num_submitted, engine.num_rounds = int(episode.next_job), int(episode.num_rounds)
    engine.next_tick, engine.stalls, engine.ended = float(episode.next_round), int(episode.stalls), bool(episode.ended)
    engine.outages = state.outages[b].tolist()
    for node, record in zip(engine.nodes, _rows(state.nodes[b]), strict=True):
        node.up, node.outages, node.next_change = not record["down"], record["outages"], record["finish"]
    shares = _rows(state.shares[b])
    for job, row in zip(engine.jobs, _rows(state.jobs[b][: len(workload)]), strict=True):
        _set_job(job, row, plans)
        if job.life is Life.RUNNING:
            _set_shares(engine, job, row["first_share"], shares)
    engine.active = [job for job in engine.jobs if job.life in (Life.QUEUED, Life.RUNNING)]
    return engine


def _rows(records: Any) -> list[dict[str, Any]]:
    """Records as plain Python values by name."""
    return [dict(zip(records.dtype.names, row, strict=True)) for row in records.tolist()]


def _set_job(job: Job, row: Row, plans: Sequence[ExecutionPlan]) -> None:
    """Everything of a job but its shares."""
    job.life = LIVES[row["status"]]
    job.estimate, job.start_delay, job.restart_delay = row["estimate"], row["start_delay"], row["restart_delay"]
    for name in (*COPIED, *COUNTED):
        setattr(job, name, row[name])
    job.plan = plans[row["plan"]] if row["plan"] >= 0 else None
    job.batch_size = row["batch_size"] or None
    job.names_cpus, job.names_memory = bool(row["named"] & NAMED_CPUS), bool(row["named"] & NAMED_MEMORY)


def _set_shares(engine: ReferenceSimulator, job: Job, first: int, rows: Sequence[Row]) -> None:
    """What a running job holds. Jobs come by ascending id, so the nodes' lists end up in order."""
    at = first
    while at >= 0:
        row = rows[at]
        share = Share(job, engine.nodes[row["node"]], row["gpus"], network=row["network"], host=row["host"])
        if engine.rules.shared:
            share.cpus, share.memory = row["cpus"], row["memory"]
        job.shares.append(share)
        share.node.shares.append(share)
        at = row["next_of_job"]
