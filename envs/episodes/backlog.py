"""What is left to do in episodes, at any time: how long the jobs present will stay, and what a value of that may see.

It reads the engine's arrays, hidden work included, so it serves training and measurements and never a scheduler.
"""

from enum import IntEnum, auto
from typing import NamedTuple

import numpy as np
import numpy.typing as npt

from envs.episodes.candidates import Features
from envs.simulation import State, ThroughputTable
from envs.simulation.state import Status
from envs.types import FloatArray, IntArray, Seconds

MOST_ROWS = 128  # jobs that get rows of their own


class BacklogColumn(IntEnum):
    """Columns of `Backlog.jobs`. "Log time" is log(1 + minutes) / 10."""

    ALONE = 0  # time to run alone on the requested GPUs of the fastest type; log time
    PRESENT = auto()  # time to the end on the GPUs that it holds, or as above if it waits; log time
    QUEUE = auto()  # when all GPUs have done its work and that of the jobs with less; log time
    END = auto()  # the estimate of its end, from now; log time
    WAITING = auto()  # 1 if it holds no GPUs
    HELD = auto()  # GPUs that it holds / requested ones / 4
    REQUESTED = auto()  # log2(1 + requested GPUs) / 8
    STARTING = auto()  # time until it begins to make progress; log time
    AGE = auto()  # since submission; log time
    SERVED = auto()  # 1 if it has received service


class BacklogContext(IntEnum):
    """Columns of `Backlog.context`."""

    JOBS = 0  # log(1 + jobs in the system) / 5
    WAITING = auto()  # waiting jobs / jobs
    FREE = auto()  # fraction of the GPUs that no job holds
    DOWN = auto()  # fraction of the GPUs on nodes that are down
    QUEUE = auto()  # when all GPUs have done all work; log time


class Backlog(NamedTuple):
    """The jobs in the system of some episodes, those that should end first in front.

    Attributes:
        jobs: float32[n, rows, len(BacklogColumn)], 0 in rows without a job.
        context: float32[n, len(BacklogContext)].
        ends: float32[n, rows], estimates of the time to the end of each job, in s; 0 in rows without a job.
        counts: float32[n, rows], jobs that a row stands for: 1; more in the last row where there are too many jobs, of
            which it has the mean; 0 for none.
    """

    jobs: Features
    context: Features
    ends: Features
    counts: Features


def log_time(seconds: FloatArray) -> FloatArray:
    """Scale times to about 0 ... 1: log(1 + minutes) / 10."""
    scaled: FloatArray = np.log1p(seconds / 60.0) / 10.0
    return scaled


def observe_backlog(state: State, table: ThroughputTable, places: IntArray) -> Backlog:
    """Return what is left to do in episodes of a state.

    The end of a job is estimated as if all jobs ran on the requested GPUs of the fastest type, one after another on all
    GPUs in ascending order of their GPU-time: a job ends when the work up to its own is done, and not before it could
    end alone. On identical machines that divide any job without loss this would be shortest-remaining-processing-time
    scheduling, which minimises the sum (Schrage, Operations Research 1968).

    Args:
        state: the engine's arrays.
        table: its throughputs.
        places: int64[n], the episodes.
    """
    jobs, episode = state.jobs[places], state.episode[places, 0]
    time = episode["time"][:, None]
    runs, waits = jobs["status"] == Status.RUNNING, jobs["status"] == Status.QUEUED
    present = runs | waits
    progress = np.where(runs, np.maximum(time - jobs["synced"], 0.0) * jobs["throughput"], 0.0)
    left = np.where(present, np.maximum(jobs["remaining"] - progress, 0.0), 0.0)
    requested = np.maximum(jobs["num_gpus"], 1)
    alone = left / np.maximum(table.requested_throughput(jobs["model"], jobs["num_gpus"]), 1e-9)
    delay = np.where(runs, np.maximum(jobs["synced"] - time, 0.0), 0.0)
    demand = np.where(present, alone * requested, np.inf)
    order = np.argsort(demand, axis=1, kind="stable")
    capacity = np.maximum(episode["num_up"], 1)[:, None]
    sorted_demand = np.take_along_axis(demand, order, axis=1)
    in_turn = np.cumsum(np.where(np.isfinite(sorted_demand), sorted_demand, 0.0), axis=1) / capacity
    now = np.where(runs & (jobs["throughput"] > 0), left / np.maximum(jobs["throughput"], 1e-9), alone)

    def sort(values: npt.NDArray[np.generic]) -> FloatArray:
        found: FloatArray = np.take_along_axis(values, order, axis=1).astype(np.float64)
        return found

    ends = sort(delay) + np.maximum(sort(alone), in_turn)
    columns = np.zeros((*present.shape, len(BacklogColumn)))
    for column, values in (
        (BacklogColumn.ALONE, log_time(sort(alone))),
        (BacklogColumn.PRESENT, log_time(sort(now))),
        (BacklogColumn.QUEUE, log_time(in_turn)),
        (BacklogColumn.END, log_time(ends)),
        (BacklogColumn.WAITING, sort(waits)),
        (BacklogColumn.HELD, sort(jobs["gpus"] / requested) / 4.0),
        (BacklogColumn.REQUESTED, np.log2(1.0 + sort(requested)) / 8.0),
        (BacklogColumn.STARTING, log_time(sort(delay))),
        (BacklogColumn.AGE, log_time(sort(np.where(present, time - jobs["submit"], 0.0)))),
        (BacklogColumn.SERVED, sort((jobs["service"] > 0) | runs)),
    ):
        columns[..., column] = values
    there = sort(present)
    return _shorten(columns * there[..., None], _context(state, places, in_turn[:, -1]), ends * there, there)


def _context(state: State, places: IntArray, all_done: FloatArray) -> FloatArray:
    """Return the columns of `BacklogContext`; `all_done` float64[n] is when all GPUs have done all work, in s."""
    episode = state.episode[places, 0]
    found = np.zeros((len(places), len(BacklogContext)))
    count, gpus = episode["num_active"], np.maximum(episode["num_gpus"], 1)
    found[:, BacklogContext.JOBS] = np.log1p(count) / 5.0
    found[:, BacklogContext.WAITING] = (count - episode["num_running"]) / np.maximum(count, 1)
    found[:, BacklogContext.FREE] = episode["num_free"] / gpus
    found[:, BacklogContext.DOWN] = 1.0 - episode["num_up"] / gpus
    found[:, BacklogContext.QUEUE] = log_time(all_done)
    return found


def _shorten(jobs: FloatArray, context: FloatArray, ends: FloatArray, there: FloatArray) -> Backlog:
    """Let the last row stand for all jobs from it on, where there are more than `MOST_ROWS`."""
    if jobs.shape[1] > MOST_ROWS:
        last = MOST_ROWS - 1
        count = there[:, last:].sum(axis=1, keepdims=True)
        share = there[:, last:] / np.maximum(count, 1.0)
        jobs = np.concatenate([jobs[:, :last], (jobs[:, last:] * share[..., None]).sum(axis=1, keepdims=True)], axis=1)
        ends = np.concatenate([ends[:, :last], (ends[:, last:] * share).sum(axis=1, keepdims=True)], axis=1)
        there = np.concatenate([there[:, :last], count], axis=1)
    return Backlog(*(part.astype(np.float32) for part in (jobs, context, ends, there)))


def num_backlog_rows(num_jobs: int) -> int:
    """Rows of a `Backlog` of episodes with so many jobs."""
    return min(num_jobs, MOST_ROWS)


def backlog_seconds(backlog: Backlog, time_constant: Seconds = np.inf) -> FloatArray:
    """float64[n]: the estimated job-seconds that the jobs present still spend in the system.

    Args:
        backlog: of n episodes.
        time_constant: the seconds after which a job-second counts 1/e; infinite for no discount.
    """
    ends = backlog.ends.astype(np.float64)
    stays = ends if np.isinf(time_constant) else -time_constant * np.expm1(-ends / time_constant)
    found: FloatArray = (stays * backlog.counts).sum(axis=1)
    return found
