"""Metrics by queue: what the jobs of each tenant got, waited for, took from others and lost to them."""

from collections import defaultdict
from collections.abc import Iterator
from itertools import groupby
from typing import Any

import numpy as np
import numpy.typing as npt

from envs.metrics.jobs import job_completion_times, waits
from envs.metrics.timeline import gpu_seconds, measured_span, segments, step_function
from envs.simulation.log import EventKind
from envs.simulation.result import RunResult
from envs.simulation.scenario import Scenario
from envs.types import FloatArray, IntArray, JobId, NodeId
from envs.types.units import HOUR

QUEUE_FIGURES = np.dtype(
    [
        ("jobs", np.int64),  # measured ones
        ("unfinished", np.int64),
        ("never_started", np.int64),
        ("mean_wait", np.float64),  # seconds without GPUs, of those that finished; NaN for none
        ("mean_jct", np.float64),
        ("gpu_share", np.float64),  # part of the cluster's GPU-seconds in the measured span
        ("suffered", np.float64),  # preemptions of its jobs, of all and not only the measured ones
        ("caused", np.float64),  # preemptions for its jobs, its own among them
        ("lost_gpu_hours", np.float64),  # held without progress after preemptions
    ]
)


def figures_of_queues(result: RunResult, scenario: Scenario) -> npt.NDArray[np.void]:
    """Return one row (dtype `QUEUE_FIGURES`) for each tenant of the workload, in its order.

    A preemption is a STOP. It is caused by the queues of the jobs that take GPUs of the same nodes at the same instant,
    in proportion to these GPUs; by none if nobody takes them. After it, a job holds GPUs for the restart delay of its
    model without progress, or until it leaves them again.

    Args:
        result: the run, with its log.
        scenario: its rules, which say how long restarts take.
    """
    records, workload = result.records, result.workload
    found = np.zeros(len(workload.tenants), QUEUE_FIGURES)
    tenant = workload.jobs["tenant"][records["job"]]
    jct, wait, measured = job_completion_times(records), waits(result), records["measured"]
    never = np.isnan(records["start_time"])
    start, end = measured_span(result)
    held = segments(result.log, result.end_time)
    of = workload.jobs["tenant"][held["job"]]
    _, delays = scenario.delays(workload.models)
    suffered, caused, lost = _preemptions(result, delays[workload.jobs["model"]])
    for number, row in enumerate(found):
        mine = (tenant == number) & measured
        done = mine & result.finished
        row["jobs"], row["unfinished"] = mine.sum(), (mine & np.isnan(result.left_times)).sum()
        row["never_started"] = (mine & never).sum()
        row["mean_wait"] = wait[done].mean() if done.any() else np.nan
        row["mean_jct"] = jct[done].mean() if done.any() else np.nan
        whole = (end - start) * result.cluster.num_gpus
        row["gpu_share"] = gpu_seconds(held[of == number], start, end) / whole if whole > 0 else np.nan
    found["suffered"], found["caused"], found["lost_gpu_hours"] = suffered, caused, lost / HOUR
    return found


def shares_of_queues(result: RunResult) -> tuple[FloatArray, FloatArray]:
    """Return the part of the cluster's GPUs that each tenant's jobs hold over time, as step functions.

    Returns:
        float64[m], times in seconds, ascending; float64[m, num_tenants], the parts from each time on.
    """
    held = segments(result.log, result.end_time)
    of = result.workload.jobs["tenant"][held["job"]]
    times = np.unique(np.concatenate([held["start"], held["end"]]))
    parts = np.zeros((len(times), len(result.workload.tenants)))
    for number in range(parts.shape[1]):
        mine = held[of == number]
        jumps = np.concatenate([mine["gpus"], -mine["gpus"]])
        own, value = step_function(np.concatenate([mine["start"], mine["end"]]), jumps)
        if len(own):
            place = np.searchsorted(own, times, side="right") - 1
            parts[:, number] = np.where(place >= 0, value[np.maximum(place, 0)], 0)
    return times, parts / result.cluster.num_gpus


def _preemptions(result: RunResult, delays: FloatArray) -> tuple[FloatArray, FloatArray, FloatArray]:
    """Return float64[num_tenants] each: preemptions suffered and caused, and GPU-seconds lost to them.

    Args:
        result: the run.
        delays: float64[num_jobs], seconds from a restart to the first sample.
    """
    tenant: IntArray = result.workload.jobs["tenant"]
    suffered, caused, lost = (np.zeros(len(result.workload.tenants)) for _ in range(3))
    held: dict[JobId, dict[NodeId, int]] = {}
    stopped: set[JobId] = set()  # since its last start
    began: dict[JobId, float] = {}  # restarts after a preemption
    for time, events in groupby(_rows(result), key=lambda row: row[0]):
        victims: list[dict[NodeId, int]] = []
        taken: dict[NodeId, dict[int, int]] = defaultdict(lambda: defaultdict(int))
        for _, event, job, gpus in events:
            before = held.pop(job, {})
            if job in began:
                lost[tenant[job]] += min(time - began.pop(job), delays[job]) * sum(before.values())
            if event == EventKind.STOP:
                suffered[tenant[job]] += 1
                stopped.add(job)
                victims.append(before)
            elif event in (EventKind.START, EventKind.RESIZE):
                held[job] = gpus
                for node, count in gpus.items():
                    taken[node][int(tenant[job])] += max(count - before.get(node, 0), 0)
                if event == EventKind.START and job in stopped:
                    stopped.discard(job)
                    began[job] = time
        for victim in victims:
            _attribute(victim, taken, caused)
    for job, since in began.items():
        lost[tenant[job]] += min(result.end_time - since, delays[job]) * sum(held[job].values())
    return suffered, caused, lost


def _rows(result: RunResult) -> Iterator[tuple[float, int, JobId, dict[NodeId, int]]]:
    """Yield time, event, job and GPUs by node of the events of jobs."""
    log = result.log
    nodes, counts = log.shares["node"].tolist(), log.shares["gpus"].tolist()
    columns: list[Any] = [log.events[name].tolist() for name in ("time", "kind", "job", "first_share", "num_shares")]
    for time, event, job, first, count in zip(*columns, strict=True):
        if job >= 0:
            span = slice(first, first + count)
            yield time, event, job, dict(zip(nodes[span], counts[span], strict=True))


def _attribute(victim: dict[NodeId, int], taken: dict[NodeId, dict[int, int]], caused: FloatArray) -> None:
    """Add one preemption to the queues that take GPUs of its nodes, in proportion."""
    takers: dict[int, int] = defaultdict(int)
    for node in victim:
        for queue, gpus in taken.get(node, {}).items():
            takers[queue] += gpus
    total = sum(takers.values())
    for queue, gpus in takers.items() if total else ():
        caused[queue] += gpus / total
