"""Intervals in which jobs held GPUs, or waited for them, computed from the event log; metrics use them."""

import numpy as np
import numpy.typing as npt

from envs.simulation.log import EventKind, EventLog
from envs.simulation.result import RunResult
from envs.types import FloatArray, IntArray, Seconds

SEGMENT = np.dtype(
    [
        ("job", np.int64),
        ("node", np.int64),
        ("gpus", np.int64),  # GPUs that the job held on the node
        ("start", np.float64),  # seconds
        ("end", np.float64),
        ("beside", np.int64),  # the job whose GPUs it shares, so that they are counted as that one's; -1 for none
    ]
)
WAIT = np.dtype(
    [
        ("job", np.int64),
        ("start", np.float64),  # seconds
        ("end", np.float64),
        ("event", np.int64),  # row of the event that made the job wait: ARRIVE, STOP or INTERRUPT
    ]
)


def segments(log: EventLog, end_time: Seconds) -> npt.NDArray[np.void]:
    """Return the intervals in which jobs held GPUs: one row (dtype `SEGMENT`) per job, node and interval.

    The GPUs of a START or RESIZE are held until the job's next event of any kind, or until `end_time`. GPUs count as
    held while a job restarts on them, because no other job can use them. Of two jobs that share GPUs, the one that held
    them first holds them for itself, until it leaves: a stay of the other one is cut there.
    """
    events, next_time = log.events, next_times(log, end_time)
    holds = np.flatnonzero(np.isin(events["kind"], (EventKind.START, EventKind.RESIZE)))
    counts = events["num_shares"][holds]
    event = np.repeat(holds, counts)
    within = np.arange(len(event)) - np.repeat(np.cumsum(counts) - counts, counts)
    shares = log.shares[events["first_share"][event] + within]
    found = np.zeros(len(event), SEGMENT)
    found["job"], found["start"], found["end"] = events["job"][event], events["time"][event], next_time[event]
    found["node"], found["gpus"], found["beside"] = shares["node"], shares["gpus"], events["beside"][event]
    if (found["beside"] >= 0).any():
        found = _cut_where_owners_leave(log, found, event)
    return found[found["end"] > found["start"]]


def find_waits(log: EventLog, end_time: Seconds) -> npt.NDArray[np.void]:
    """Return the intervals in which jobs had no GPUs (dtype `WAIT`), by start; those of no length are left out.

    A job waits from its submission, a preemption or a failure of its node until a decision gives it GPUs, or until
    `end_time`. It does not wait while it starts or restarts on GPUs that it holds.
    """
    events = log.events
    rows = np.flatnonzero(np.isin(events["kind"], (EventKind.ARRIVE, EventKind.STOP, EventKind.INTERRUPT)))
    found = np.zeros(len(rows), WAIT)
    found["job"], found["event"] = events["job"][rows], rows
    found["start"], found["end"] = events["time"][rows], next_times(log, end_time)[rows]
    found = found[found["end"] > found["start"]]
    return found[np.argsort(found["start"], kind="stable")]


def next_times(log: EventLog, end_time: Seconds) -> FloatArray:
    """Return float64[num_events]: time of the next event of the same job, or `end_time`, in seconds."""
    events = log.events
    by_job = np.lexsort((np.arange(len(events)), events["job"]))
    next_time = np.full(len(events), end_time)
    same_job = events["job"][by_job[1:]] == events["job"][by_job[:-1]]
    next_time[by_job[:-1][same_job]] = events["time"][by_job[1:][same_job]]
    return next_time


def _cut_where_owners_leave(log: EventLog, held: npt.NDArray[np.void], event: IntArray) -> npt.NDArray[np.void]:
    """Cut the segments of guests in two where their owners leave; `event` has the row of the log of each segment."""
    cut, rest = held.copy(), [np.zeros(0, SEGMENT)]
    for row in np.unique(event[held["beside"] >= 0]).tolist():
        left = owner_leaves(log, row)
        mine = (event == row) & (held["end"] > left)
        cut["end"][mine] = left
        later = held[mine].copy()
        later["start"], later["beside"] = left, -1
        rest.append(later)
    return np.concatenate([cut, *rest])


def owner_leaves(log: EventLog, row: int) -> Seconds:
    """Time at which the job leaves that an event names beside its own; infinite if it does not leave.

    Args:
        log: the events.
        row: a START or RESIZE of a job that shares another one's GPUs from then on.
    """
    events, gpus = log.events, log.placement(row).gpus
    for later in np.flatnonzero(events["job"] == events["beside"][row]).tolist():
        stays = events["kind"][later] in (EventKind.START, EventKind.RESIZE) and events["beside"][later] < 0
        if later > row and not (stays and log.placement(later).gpus == gpus):
            return float(events["time"][later])
    return float("inf")


def counted_once(held: npt.NDArray[np.void]) -> npt.NDArray[np.void]:
    """Return the segments (dtype `SEGMENT`) in which every GPU counts once, also where two jobs share it."""
    return held[held["beside"] < 0]


def measured_span(result: RunResult) -> tuple[Seconds, Seconds]:
    """Return (start, end) of the time span in which the cluster is measured, in seconds.

    It starts at the later of the window's start and the first submission, and ends at the earlier of the window's end
    and the end of the run. Without a window it is the whole run, including the time in which the cluster empties.
    """
    start, end = result.workload.window
    first = float(result.records["submit_time"][0]) if len(result.records) else 0.0
    begin = max(start, first)
    return begin, max(begin, min(end, result.end_time))


def gpu_seconds(held: npt.NDArray[np.void], start: Seconds, end: Seconds) -> float:
    """GPU-seconds of these segments between two times."""
    overlap = np.minimum(held["end"], end) - np.maximum(held["start"], start)
    return float((np.clip(overlap, 0.0, None) * held["gpus"]).sum())


def step_function(times: FloatArray, changes: IntArray) -> tuple[FloatArray, IntArray]:
    """Add up jumps to a right-continuous step function.

    Args:
        times: float64[n], the times of the jumps, in any order.
        changes: int64[n], the sizes of the jumps.

    Returns:
        float64[m], distinct times, ascending; and int64[m], the value from each time on.
    """
    distinct, index = np.unique(times, return_inverse=True)
    jumps = np.zeros(len(distinct), dtype=np.int64)
    np.add.at(jumps, index, changes)
    return distinct, np.cumsum(jumps)


def gpus_held(result: RunResult, node: int | None = None) -> tuple[FloatArray, IntArray]:
    """GPUs held over time, on one node or on all, as a step function (see `step_function`)."""
    held = counted_once(segments(result.log, result.end_time))
    if node is not None:
        held = held[held["node"] == node]
    return step_function(np.concatenate([held["start"], held["end"]]), np.concatenate([held["gpus"], -held["gpus"]]))


def jobs_in_system(result: RunResult) -> tuple[FloatArray, IntArray]:
    """Jobs in the system (submitted and not finished) over time, as a step function."""
    leave = departures(result)
    come = result.records["submit_time"]
    ones = np.ones(len(come), dtype=np.int64)
    return step_function(np.concatenate([come, leave]), np.concatenate([ones, -ones]))


def jobs_waiting(result: RunResult) -> tuple[FloatArray, IntArray]:
    """Jobs in the system without GPUs over time, as a step function, computed from the log alone."""
    step = np.zeros(len(EventKind), dtype=np.int64)
    step[[EventKind.ARRIVE, EventKind.STOP, EventKind.INTERRUPT]] = 1
    step[EventKind.START] = -1
    return step_function(result.log.events["time"], step[result.log.events["kind"]])


def departures(result: RunResult) -> FloatArray:
    """float64[num_records]: ends of jobs, in seconds, also at their time limits; of the run for unfinished jobs."""
    left = result.left_times
    return np.where(np.isnan(left), result.end_time, left)
