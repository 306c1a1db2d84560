"""Metrics of the cluster: pure functions of a run's event log over the measured span (`timeline.measured_span`)."""

import numpy as np

from envs.metrics.timeline import counted_once, gpu_seconds, jobs_in_system, measured_span, segments, step_function
from envs.simulation.result import RunResult
from envs.types import FloatArray, IntArray, Seconds
from envs.types.units import HOUR


def utilisation(result: RunResult) -> float:
    """GPU-seconds held by jobs / GPU-seconds available, in the measured span; NaN for an empty span.

    GPUs on which a job restarts count as held, because no other job can use them (as in Gavel, OSDI'20). A GPU that two
    jobs share counts once.
    """
    start, end = measured_span(result)
    if end <= start:
        return float("nan")
    held = counted_once(segments(result.log, result.end_time))
    return gpu_seconds(held, start, end) / ((end - start) * result.cluster.num_gpus)


def gpu_hours(result: RunResult) -> float:
    """GPU-hours held by the measured jobs in the whole run, restarts included; GPUs that two share count for both."""
    held = segments(result.log, result.end_time)
    measured = result.records["job"][result.records["measured"]]
    return gpu_seconds(held[np.isin(held["job"], measured)], 0.0, result.end_time) / HOUR


def mean_jobs_in_system(result: RunResult) -> float:
    """Jobs submitted and not finished, averaged over the measured span; NaN for an empty span.

    By Little's law (Little, 1961) this is arrival rate times mean JCT in a system that begins and ends empty.
    """
    start, end = measured_span(result)
    if end <= start:
        return float("nan")
    return integral(*jobs_in_system(result), start, end) / (end - start)


def fragmentation(result: RunResult) -> float:
    """Share of free GPU-seconds that a typical job could not use because of their location, in the measured span.

    Weng et al., "Beware of fragmentation" (FGD, ATC'23), for whole GPUs: f free GPUs on a node are lost to a job that
    requests more than f, unless the whole node is free, because larger jobs use whole nodes. Typical jobs have the
    workload's distribution of requests, so that

        fragmentation = sum over nodes and time of f * P(request > f) [f < node's GPUs]  /  sum of f

    NaN if no GPU was ever free.
    """
    start, end = measured_span(result)
    requests = np.sort(result.records["num_gpus"])
    held = counted_once(segments(result.log, result.end_time))
    lost = free = 0.0
    for node, total in enumerate(result.cluster.node_gpus):
        here = held[held["node"] == node]
        edges = np.concatenate([[start], here["start"], here["end"]])
        jumps = np.concatenate([[0], here["gpus"], -here["gpus"]])
        times, taken = step_function(edges, jumps)
        idle = int(total) - taken
        too_large = 1.0 - np.searchsorted(requests, idle, side="right") / max(len(requests), 1)
        free += integral(times, idle, start, end)
        lost += integral(times, np.where(idle < total, idle * too_large, 0.0), start, end)
    return lost / free if free > 0 else float("nan")


def integral(times: FloatArray, values: FloatArray | IntArray, start: Seconds, end: Seconds) -> float:
    """Integrate a step function over an interval.

    Args:
        times: float64[m], ascending; `values[i]` holds from `times[i]` to `times[i + 1]`, the last one without end.
        values: [m]; before `times[0]` the function is 0.
        start: start of the interval, in seconds.
        end: end of the interval, in seconds.
    """
    clipped = np.clip(np.append(times, np.inf), start, end)
    return float((np.diff(clipped) * values).sum())
