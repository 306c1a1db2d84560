"""Jobs that wait, shrink, move or lose their GPUs: how much was free and who got it, from the event log alone."""

from functools import cache

import numpy as np
import numpy.typing as npt

from envs.metrics import segments
from envs.metrics.timeline import counted_once, step_function
from envs.simulation import EventKind, RunResult
from envs.types import BoolArray, FloatArray, IntArray, JobId, Seconds
from murmuration.reports.table import duration, share

MOST_NAMED = 4


def gpus_in_words(number: int) -> str:
    """Return "1 GPU", "2 GPUs" and so on."""
    return f"{number} GPU{'s' if number > 1 else ''}"


class Blocking:
    """Free GPUs over time, and the jobs that got GPUs while another one waited or lost its own.

    Args:
        result: a run.
    """

    def __init__(self, result: RunResult) -> None:
        self._result = result
        self._times, self._most_free = most_free_gpus(result)
        events = result.log.events
        self._starts = np.flatnonzero(events["kind"] == EventKind.START)
        self._seconds_without = cache(self._count_seconds)

    def why_waited(self, wait: npt.NDArray[np.void]) -> str:
        """Say for how much of a wait no GPU type had enough free GPUs, and which jobs started meanwhile."""
        job = int(wait["job"])
        needed = int(self._result.workload.jobs["min_gpus"][job])
        start, end = float(wait["start"]), float(wait["end"])
        blocked = self._seconds(needed, end) - self._seconds(needed, start)
        said = f"waited {duration(end - start)} for {gpus_in_words(needed)}"
        said += f"; for {share(blocked / (end - start))} of it no GPU type had as many free"
        others = self._started_within(start, end, job)
        if not len(others):
            return f"{said}; no other job started meanwhile"
        submitted = self._result.workload.jobs["submit_time"]
        later = others[submitted[others] > submitted[job]]
        return f"{said}; {len(others)} other{'s' * (len(others) > 1)} started meanwhile{overtaken_by(later)}"

    def takers(self, before: int, after: int) -> list[JobId]:
        """Return the jobs that got GPUs, at the instant of an event, on nodes where the job of the event lost some.

        Args:
            before: row of the job's earlier START or RESIZE.
            after: row of its STOP or RESIZE.
        """
        log = self._result.log
        events = log.events
        held, kept = log.placement(before).gpus, log.placement(after).gpus
        lost = {node for node, count in held.items() if kept.get(node, 0) < count}
        time = events["time"][after]
        first, last = np.searchsorted(events["time"], [time, np.nextafter(time, np.inf)])
        found = []
        for row in range(int(first), int(last)):
            job = int(events["job"][row])
            if job == events["job"][after] or events["kind"][row] not in (EventKind.START, EventKind.RESIZE):
                continue
            earlier = self._held_before(row)
            if any(log.placement(row).gpus.get(node, 0) > earlier.get(node, 0) for node in lost):
                found.append(job)
        return found

    def _held_before(self, row: int) -> dict[int, int]:
        """Return the GPUs by node that a resized job held; none for one that starts."""
        events = self._result.log.events
        if events["kind"][row] != EventKind.RESIZE:
            return {}
        own = np.flatnonzero(events["job"][:row] == events["job"][row])
        return dict(self._result.log.placement(int(own[-1])).gpus)

    def _started_within(self, start: Seconds, end: Seconds, job: JobId) -> IntArray:
        """Return the other jobs that started from `start` on and before `end`, each once, in order of start."""
        events = self._result.log.events
        times = events["time"][self._starts]
        first, last = np.searchsorted(times, [start, end])
        jobs = events["job"][self._starts[first:last]]
        _, places = np.unique(jobs, return_index=True)
        found: IntArray = jobs[np.sort(places)]
        others: IntArray = found[found != job]
        return others

    def _seconds(self, needed: int, time: Seconds) -> Seconds:
        """Return the seconds before a time in which no GPU type had so many free GPUs."""
        before, without = self._seconds_without(needed)
        k = int(np.searchsorted(self._times, time, side="right")) - 1
        return 0.0 if k < 0 else float(before[k] + without[k] * (time - self._times[k]))

    def _count_seconds(self, needed: int) -> tuple[FloatArray, BoolArray]:
        without = self._most_free < needed
        return np.concatenate([[0.0], np.cumsum(np.diff(self._times) * without[:-1])]), without


def overtaken_by(later: IntArray) -> str:
    """Say which of the jobs that started in a wait had been submitted later."""
    if not len(later):
        return ""
    names = ", ".join(str(job) for job in later[:MOST_NAMED].tolist())
    more = f" and {len(later) - MOST_NAMED} more" if len(later) > MOST_NAMED else ""
    return f", submitted later: job{'s' * (len(later) > 1)} {names}{more}"


def most_free_gpus(result: RunResult) -> tuple[FloatArray, IntArray]:
    """Return the times, float64[n], from which the largest number of free GPUs of one type is int64[n].

    GPUs of failed nodes are not free.
    """
    log, cluster = result.log, result.cluster
    events = log.events
    held = counted_once(segments(log, result.end_time))
    taken = [(held["start"], held["node"], held["gpus"]), (held["end"], held["node"], -held["gpus"])]
    for change_of_node, sign in ((EventKind.DOWN, 1), (EventKind.UP, -1)):
        rows = events[events["kind"] == change_of_node]
        shares = log.shares[rows["first_share"]]
        taken.append((rows["time"], shares["node"], sign * shares["gpus"]))
    time, node, change = (np.concatenate(parts) for parts in zip(*taken, strict=True))
    times = np.unique(np.append(time, 0.0))
    types = np.array([each.gpu_type for each in cluster.nodes])
    most = np.zeros(len(times), np.int64)
    for gpu_type in np.unique(types):
        own = types[node] == gpu_type
        changed, used = step_function(np.append(time[own], -1.0), np.append(change[own], 0))
        free = int(cluster.node_gpus[types == gpu_type].sum()) - used
        most = np.maximum(most, free[np.searchsorted(changed, times, side="right") - 1])
    return times, most
