"""Splits of a trace in time that share no jobs, and windows with a warm-up to report on."""

from collections.abc import Mapping, Sequence
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
    """Evenly spaced windows of a split: a warm-up, a measured span, and a span of further load, all in days."""

    count: int = 0  # 0: no windows; the whole split is one workload
    warmup: float = 0.5
    measure: float = 1.0
    after: float = 0.5  # keeps the cluster under load while the measured jobs finish

    def __post_init__(self) -> None:
        lengths = self.warmup, self.measure, self.after
        bounded = all(0 <= length < LONGEST_WINDOW for length in lengths) and self.measure > 0
        if not (bounded and 0 <= self.count <= MOST_WINDOWS):
            raise TraceError(
                f"windows: count {self.count}, warmup {self.warmup}, measure {self.measure}, after {self.after} days; "
                f"count must be from 0 to {MOST_WINDOWS:,}, measure positive, and days from 0 to {LONGEST_WINDOW:,}"
            )

    def cut(self, workload: Workload, first: int, last: int, name: str) -> tuple[Workload, ...]:
        """Cut the windows out of jobs `first` to `last` (exclusive), each with t = 0 at its start.

        Windows in whose measured span no job is submitted are left out, with a note.

        Raises:
            TraceError: the split is shorter than a window, or no window has a measured job.
        """
        submit = workload.jobs["submit_time"][first:last]
        length = (self.warmup + self.measure + self.after) * DAY
        room = float(submit[-1] - submit[0]) - length
        if room < 0:
            raise TraceError(
                f"workload {name}: spans {(room + length) / DAY:.2f} days, but a window takes "
                f"{length / DAY:.2f}; shorten windows.measure"
            )
        found: list[Workload] = []
        for index, start in enumerate(float(submit[0]) + np.linspace(0.0, room, self.count)):
            edges = np.searchsorted(submit, [start, start + length], side="left")
            if edges[0] == edges[1]:
                continue
            window = (self.warmup * DAY, (self.warmup + self.measure) * DAY)
            part = workload.slice(
                first + int(edges[0]), first + int(edges[1]), start=float(start), name=f"{name}-{index}", window=window
            )
            if part.measured.any():
                found.append(part)
        if not found:
            raise TraceError(
                f"workload {name}: no job is submitted in the measured span of any window; lengthen windows.measure"
            )
        if len(found) < self.count:
            idle = f"{self.count - len(found)} of {self.count} windows of {name} have no measured job and are left out"
            found = [replace(part, notes=(*part.notes, idle)) for part in found]
        return tuple(found)
