"""Splits of a trace in time that share no jobs, and windows with a warm-up to report on."""

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace

import numpy as np

from envs.types import FloatArray, Seconds, TraceError
from envs.types.units import DAY
from envs.workloads.workload import Workload


def cut_by_shares(name: str, submit: FloatArray, shares: Mapping[str, float]) -> dict[str, tuple[int, int, Seconds]]:
    """Cut a trace into consecutive shares of its jobs; jobs submitted at the same instant stay together.

    Args:
        name: name of the workload, for messages.
        submit: float64[num_jobs], ascending.
        shares: split -> share of the jobs; together at most 1.

    Returns:
        split -> (first job, end of jobs (exclusive), start time in seconds).

    Raises:
        TraceError: a share is not positive, the shares add up to more than 1, or a split gets no job.
    """
    sound = all(0 < share <= 1 for share in shares.values()) and sum(shares.values()) <= 1 + 1e-9
    if not shares or not sound:
        raise TraceError(f"workload {name}: splits are {dict(shares)}; shares must be positive and add up to at most 1")
    edges, done = [0], 0.0
    for share in shares.values():
        done += share
        at = min(round(done * len(submit)), len(submit))
        # Move the edge to the first job of its instant, so that no burst is divided.
        edges.append(int(np.searchsorted(submit, submit[at], side="left")) if at < len(submit) else at)
    cuts: dict[str, tuple[int, int, Seconds]] = {}
    for split, first, last in zip(shares, edges, edges[1:], strict=False):
        if first >= last:
            raise TraceError(
                f"workload {name}: split {split!r} has no job among {len(submit)}; use a longer slice or other shares"
            )
        cuts[split] = (first, last, float(submit[first]))
    return cuts


def cut_by_days(
    name: str, submit: FloatArray, days: Mapping[str, Sequence[float]]
) -> dict[str, tuple[int, int, Seconds]]:
    """Cut a trace into splits of given days; see `cut_by_shares` for the return value.

    Raises:
        TraceError: a pair is not (first, last), two splits overlap, or a split gets no job.
    """
    cuts: dict[str, tuple[int, int, Seconds]] = {}
    for split, pair in days.items():
        if len(pair) != 2 or not 0 <= pair[0] < pair[1]:
            raise TraceError(
                f"workload {name}: split {split!r} has days {list(pair)}; give [first, last] with 0 <= first < last"
            )
        for other in cuts:
            if pair[0] < days[other][1] and days[other][0] < pair[1]:
                raise TraceError(f"workload {name}: splits {other!r} and {split!r} share days; they must not overlap")
        first, last = (int(at) for at in np.searchsorted(submit, [pair[0] * DAY, pair[1] * DAY], side="left"))
        if first == last:
            raise TraceError(
                f"workload {name}: split {split!r}, days {list(pair)}, has no job; its jobs end on "
                f"day {submit[-1] / DAY:.1f}"
            )
        cuts[split] = (first, last, pair[0] * DAY)
    return cuts


def window_of_jobs(submit: FloatArray, warm_up: int, measured: int | None) -> tuple[Seconds, Seconds]:
    """Return the window of submissions after the first `warm_up` jobs that holds `measured` jobs.

    Jobs submitted at the same instant stay together, so the window can hold more or fewer jobs by a burst, but always
    holds one.

    Args:
        submit: float64[num_jobs], ascending.
        warm_up: jobs before the window.
        measured: jobs in the window; None: all further jobs.

    Returns:
        Start (included) and end (excluded), in seconds; (0, inf) if all jobs are in it.
    """
    start = float(submit[warm_up]) if warm_up else 0.0
    last = len(submit) if measured is None else warm_up + measured
    if last < len(submit) and submit[last] <= start:  # one burst fills the window
        last = int(np.searchsorted(submit, start, side="right"))
    return start, float(submit[last]) if last < len(submit) else np.inf


MOST_WINDOWS, LONGEST_WINDOW = 10_000, 1_000_000


@dataclass(frozen=True)
class Windows:
    """Evenly spaced windows of a split: a warm-up, a measured span, and a span of further load, all in days.

    They fill the split, or begin `every` days apart, at most `count` of them.

    Windows with fewer than `min_jobs` measured jobs are left out, and, with `load`, those whose `demand_within` is
    below its first or above its second number: without queues schedulers do not differ, and a cluster that is asked for
    far more than it has falls behind whatever they do. The demand is known before anything is played.
    """

    count: int = 0  # before any is left out; 0: no windows, the whole split is one workload
    warmup: float = 0.5
    measure: float = 1.0
    after: float = 0.5  # keeps the cluster under load while the measured jobs finish
    every: float | None = None  # days between the starts of two windows; None: as many as let `count` fill the split
    min_jobs: int = 1
    load: Sequence[float] | None = None  # (least, most); None: any

    def __post_init__(self) -> None:
        lengths = self.warmup, self.measure, self.after
        bounded = all(0 <= length < LONGEST_WINDOW for length in lengths) and self.measure > 0
        if not (bounded and 0 <= self.count <= MOST_WINDOWS):
            raise TraceError(
                f"windows: count {self.count}, warmup {self.warmup}, measure {self.measure}, after {self.after} days; "
                f"count must be from 0 to {MOST_WINDOWS:,}, measure positive, and days from 0 to {LONGEST_WINDOW:,}"
            )
        if self.every is not None and not 0 < self.every < LONGEST_WINDOW:
            raise TraceError(
                f"windows.every is {self.every} days; it must be above 0 and below {LONGEST_WINDOW:,}, or null"
            )
        if self.min_jobs < 1:
            raise TraceError(f"windows.min_jobs is {self.min_jobs}; it must be at least 1")
        if self.load is not None and (len(self.load) != 2 or not 0 <= self.load[0] < self.load[1]):
            raise TraceError(f"windows.load is {self.load}; it must be [least, most] with 0 <= least < most, or null")

    def cut(
        self, workload: Workload, first: int, last: int, name: str, num_gpus: int, *, by_tenant: bool = False
    ) -> tuple[Workload, ...]:
        """Cut the windows out of jobs `first` to `last` (exclusive), each with t = 0 at its start, in order of time.

        Args:
            workload: the jobs.
            first: the first job of the split.
            last: the end of its jobs.
            name: name of the split, which begins the names of its windows.
            num_gpus: GPUs of the cluster.
            by_tenant: cut `count` windows of each tenant instead, with its jobs alone; all tenants' begin together.

        Returns:
            The windows that are kept; if some are left out, each has a note that says how many, and why.

        Raises:
            TraceError: the split is shorter than a window, no window is kept, or `load` is set and a job has no run
                time.
        """
        starts = self._starts(workload.jobs["submit_time"][first:last], name)
        tenants = len(np.unique(workload.jobs["tenant"][first:last])) if by_tenant else 1
        found: list[Workload] = []
        outside = 0
        for part in self._parts(workload, first, last, name, starts, by_tenant):
            if part.measured.sum() < self.min_jobs:
                continue
            if self.load and not self.load[0] <= demand_within(part, self._length, num_gpus) <= self.load[1]:
                outside += 1
            else:
                found.append(part)
        few = len(starts) * tenants - len(found) - outside
        if not few and not outside:
            return tuple(found)
        why = [f"{few} with fewer than {self.min_jobs} measured jobs"] if few else []
        why += [f"{outside} with a load outside {list(self.load)}"] if self.load and outside else []
        total, reasons = len(starts) * tenants, ", ".join(why)
        if not found:
            raise TraceError(
                f"workload {name}: all {total} windows are left out: {reasons}; change windows.measure, "
                "windows.min_jobs or windows.load"
            )
        note = f"{few + outside} of {total} windows of {name} are left out: {reasons}"
        return tuple(replace(part, notes=(*part.notes, note)) for part in found)

    @property
    def _length(self) -> Seconds:
        return (self.warmup + self.measure + self.after) * DAY

    def _starts(self, submit: FloatArray, name: str) -> FloatArray:
        """float64[num_windows]: when the windows of a split begin, in seconds."""
        room = float(submit[-1] - submit[0]) - self._length
        if room < 0:
            raise TraceError(
                f"workload {name}: spans {(room + self._length) / DAY:.2f} days, but a window takes "
                f"{self._length / DAY:.2f}; shorten windows.measure"
            )
        begin: FloatArray = np.linspace(0.0, room, self.count)
        if self.every is not None:
            fitting = min(self.count, int(room / (self.every * DAY)) + 1)
            begin = np.arange(fitting, dtype=np.float64) * (self.every * DAY)
        return float(submit[0]) + begin

    def _parts(
        self, workload: Workload, first: int, last: int, name: str, starts: FloatArray, by_tenant: bool
    ) -> Iterator[Workload]:
        """Yield the windows that have jobs, each tenant's by itself if asked for."""
        submit = workload.jobs["submit_time"][first:last]
        measured = (self.warmup * DAY, (self.warmup + self.measure) * DAY)
        for index, start in enumerate(starts.tolist()):
            low, high = (first + int(at) for at in np.searchsorted(submit, [start, start + self._length], side="left"))
            if low == high:
                continue
            part = workload.slice(low, high, start=start, name=f"{name}-{index}", window=measured)
            yield from map(part.of_tenant, np.unique(part.jobs["tenant"]).tolist()) if by_tenant else (part,)


def demand_within(window: Workload, length: Seconds, num_gpus: int) -> float:
    """Return the GPU-seconds that jobs would hold in a window if none waited, per GPU-second of the cluster.

    Each job would begin at its submission, on the GPUs that it requests, of the trace's own type. It counts until it
    ends or the window does: a job of a month in a window of two days asks for two days.

    Args:
        window: the jobs, submitted from 0 to `length`.
        length: seconds from the start of the window to its end.
        num_gpus: GPUs of the cluster.

    Raises:
        TraceError: a job has no run time, as its trace states work instead.
    """
    jobs = window.jobs
    lacking = np.isnan(jobs["duration"])
    if lacking.any():
        raise TraceError(
            f"workload {window.name}: {window.label(int(np.argmax(lacking)))} has no run time, by which windows.load "
            "chooses; set windows.load=null"
        )
    held = np.minimum(jobs["duration"], length - jobs["submit_time"])
    return float(held @ jobs["num_gpus"]) / (num_gpus * length)
