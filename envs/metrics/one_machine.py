"""Lower bounds on the sum of JCTs from one machine that is as fast as the whole cluster, in compiled code."""

from dataclasses import dataclass
from functools import cached_property
from typing import NamedTuple

import numpy as np

from envs.simulation.compiled.jit import Records, kernel, part
from envs.simulation.world.heap import ENTRY, Places, comes_first, heap_push, heap_remove
from envs.types import FloatArray, Seconds


class Workspace(NamedTuple):
    """Arrays that `sum_of_periods` writes, one element for each job."""

    seconds: FloatArray  # for which a job needs the whole machine
    left: FloatArray  # seconds of it that remain
    moment: FloatArray  # integral of time over the seconds that are done
    heap: Records  # ENTRY, the waiting jobs
    places: Places  # of the jobs in the heap

    @classmethod
    def of(cls, num_jobs: int) -> "Workspace":
        """Allocate the arrays for a number of jobs."""
        seconds, left, moment = np.zeros((3, num_jobs))
        return cls(seconds, left, moment, np.zeros(num_jobs, ENTRY), np.full(num_jobs, -1, np.int32))


@dataclass(frozen=True)
class OneMachine:
    """The machine and its jobs, in order of submission.

    Attributes:
        submit: float64[num_jobs], seconds, ascending.
        alone: float64[num_jobs], least durations in seconds.
        demand: float64[num_jobs, num_gpu_types], GPU-seconds of a job on each type.
    """

    submit: FloatArray
    alone: FloatArray
    demand: FloatArray

    @classmethod
    def of(cls, submit_time: FloatArray, alone: FloatArray, demand: FloatArray) -> "OneMachine":
        """Order the jobs by submission."""
        order = np.argsort(submit_time, kind="stable")
        return cls(submit_time[order], alone[order], demand[order])

    def every(self, step: int) -> "OneMachine":
        """Return the machine with one of every `step` jobs, each with `step` times the demand: the load is the same."""
        return OneMachine(self.submit[::step].copy(), self.alone[::step].copy(), step * self.demand[::step])

    def total_jct(self, prices: FloatArray) -> Seconds:
        """Return a lower bound on the sum of JCTs, in seconds, at prices of the GPU types; see `sum_of_periods`."""
        return float(sum_of_periods(self.submit, self.alone, self.demand, prices, self._workspace))

    @cached_property
    def _workspace(self) -> Workspace:
        return Workspace.of(len(self.submit))


@kernel
def sum_of_periods(
    submit: FloatArray, alone: FloatArray, demand: FloatArray, prices: FloatArray, workspace: Workspace
) -> float:
    """Return a lower bound on the sum of JCTs, in seconds: the sum over busy periods of the largest of three bounds.

    They are the sum of least durations, shortest remaining time first on the machine, and busy dates.

    Args:
        submit: float64[num_jobs], seconds, ascending.
        alone: float64[num_jobs], least durations in seconds.
        demand: float64[num_jobs, num_gpu_types], GPU-seconds of a job on each type.
        prices: float64[num_gpu_types], of a GPU of each type; the whole cluster costs 1.
        workspace: of as many jobs; `seconds` has each job's least cost afterwards.
    """
    seconds, count = workspace.seconds, len(submit)
    for job in range(count):
        seconds[job] = np.inf
        for gpu_type in range(len(prices)):
            seconds[job] = min(seconds[job], demand[job, gpu_type] * prices[gpu_type])
    total, first = 0.0, 0
    done, latest = 0.0, -np.inf
    for job in range(count):
        # The machine would be free at `latest + done` if it worked without a pause from now on.
        done += seconds[job]
        latest = max(latest, submit[job] - (done - seconds[job]))
        if job + 1 == count or submit[job + 1] >= latest + done:
            total += period_bound(submit, alone, first, job + 1, workspace)
            first = job + 1
    return total


@part
def period_bound(submit: FloatArray, alone: FloatArray, first: int, stop: int, workspace: Workspace) -> float:
    """Return the largest of the three bounds of the jobs from `first` to `stop`, which are a busy period."""
    least = 0.0
    for job in range(first, stop):
        least += alone[job]
    ends = work_on_shortest(submit, alone, first, stop, False, workspace)
    return max(least, ends, work_on_shortest(submit, alone, first, stop, True, workspace))


@part
def work_on_shortest(
    submit: FloatArray, alone: FloatArray, first: int, stop: int, static: bool, workspace: Workspace
) -> float:
    """Schedule a busy period on a machine that always works on the shortest job; ties go to the earlier one.

    Jobs are compared by remaining length; the result is the sum of end - submission. If `static`, they are compared by
    total length, and the result is the sum of mean time of work + alone / 2 - submission.
    """
    seconds, left, moment, heap, places = workspace
    total, now, coming, waiting, job = 0.0, submit[first], first, 0, -1
    while job >= 0 or waiting > 0 or coming < stop:
        while coming < stop and submit[coming] <= now:
            left[coming], moment[coming] = seconds[coming], 0.0
            heap_push(heap, places, waiting, seconds[coming], coming)
            waiting += 1
            coming += 1
        if job >= 0 and waiting > 0:
            key = seconds[job] if static else left[job]
            if not comes_first(key, job, heap[0]):
                heap_push(heap, places, waiting, key, job)
                waiting += 1
                job = -1
        if job < 0:
            if waiting == 0:
                now = submit[coming]
                continue
            job = heap[0].member
            heap_remove(heap, places, waiting, job)
            waiting -= 1
        step = min(left[job], submit[coming] - now) if coming < stop else left[job]
        moment[job] += step * (now + step / 2)
        now += step
        left[job] -= step
        if left[job] <= 0:
            if not static:
                total += now - submit[job]
            elif seconds[job] > 0:
                total += moment[job] / seconds[job] + alone[job] / 2 - submit[job]
            else:
                total += now + alone[job] / 2 - submit[job]
            job = -1
    return total
