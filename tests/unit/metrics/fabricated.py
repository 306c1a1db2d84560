"""Fabricated runs, so that metrics can be tested without the engine."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace

import numpy as np

from envs.simulation import EVENT, RECORD, SHARE, EventKind, EventLog, RunResult
from envs.types import ClusterSpec, JobSpec, NodeSpec
from envs.workloads import Workload


@dataclass(frozen=True)
class Told:
    """The history of one job: acts are (time, GPUs by node), with None where the job was stopped."""

    submit: float
    num_gpus: int
    ideal: float
    acts: Sequence[tuple[float, Mapping[int, int] | None]] = ()
    finish: float | None = None


def fabricated(
    jobs: Sequence[Told],
    node_gpus: Sequence[int] = (4, 4),
    end: float | None = None,
    window: tuple[float, float] = (0.0, np.inf),
    scheduler: str = "told",
    workload: Workload | None = None,
) -> RunResult:
    """Fabricate a run with this history that ends at `end`, or with the last finish."""
    end = max(job.finish or 0.0 for job in jobs) if end is None else end
    specs = [JobSpec(i, job.submit, job.num_gpus, job.ideal * job.num_gpus, "any") for i, job in enumerate(jobs)]
    workload = workload or replace(Workload.of(specs, "fabricated"), window=window)
    records = np.zeros(len(jobs), RECORD)
    for row, job in zip(records, jobs, strict=True):
        starts = [time for time, gpus in job.acts if gpus]
        row["submit_time"], row["num_gpus"], row["ideal_duration"] = job.submit, job.num_gpus, job.ideal
        row["start_time"] = starts[0] if starts else np.nan
        row["finish_time"] = np.nan if job.finish is None else job.finish
        row["num_restarts"] = max(len(starts) - 1, 0)
        row["num_preemptions"] = sum(gpus is None for _, gpus in job.acts)
    records["job"] = np.arange(len(jobs))
    records["measured"] = workload.measured[: len(jobs)]
    cluster = ClusterSpec(tuple(NodeSpec("V100", gpus) for gpus in node_gpus))
    return RunResult(scheduler, workload, cluster, records, told_log(jobs), float(end), 1, 0.0)


def told_log(jobs: Sequence[Told]) -> EventLog:
    """The event log of the jobs' histories, in the order of (time, event kind, job)."""
    events: list[tuple[float, int, int, Mapping[int, int]]] = []
    for i, job in enumerate(jobs):
        events.append((job.submit, EventKind.ARRIVE, i, {}))
        runs = False
        for time, gpus in job.acts:
            change = EventKind.STOP if gpus is None else EventKind.RESIZE if runs else EventKind.START
            events.append((time, change, i, gpus or {}))
            runs = gpus is not None
        if job.finish is not None:
            events.append((job.finish, EventKind.FINISH, i, {}))
    events.sort(key=lambda event: event[:3])
    table = np.zeros(len(events), EVENT)
    table["beside"] = -1
    shares: list[tuple[int, int, float, float]] = []
    for row, (instant, event, number, gpus) in zip(table, events, strict=True):
        row["time"], row["kind"], row["job"] = instant, event, number
        row["first_share"], row["num_shares"], row["plan"] = len(shares), len(gpus), -1
        shares += [(node, count, 0.0, 0.0) for node, count in (gpus or {}).items()]
    return EventLog(table, np.array(shares, SHARE))


def three_jobs(**options) -> RunResult:
    """Two nodes of 4 GPUs. A (4 GPUs) has node 0 from 0 to 10. B (2 GPUs) arrives at 1 and has half of node 1 from 1 to
    3 and from 4 to 8. C (8 GPUs) arrives at 2 and has all GPUs from 10 to 13.
    """
    jobs = (
        Told(0.0, 4, 10.0, [(0.0, {0: 4})], 10.0),
        Told(1.0, 2, 5.0, [(1.0, {1: 2}), (3.0, None), (4.0, {1: 2})], 8.0),
        Told(2.0, 8, 3.0, [(10.0, {0: 4, 1: 4})], 13.0),
    )
    return fabricated(jobs, **options)
