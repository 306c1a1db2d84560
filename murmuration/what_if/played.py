"""What became of the jobs of a trace, recorded or played, as arrays with one value for each job."""

import signal
from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import FIRST_COMPLETED, Future, ProcessPoolExecutor, wait
from concurrent.futures.process import BrokenProcessPool
from contextlib import contextmanager
from dataclasses import dataclass
from multiprocessing import active_children, get_context
from typing import Any

import numpy as np

from envs.evaluation.audit import Audit
from envs.evaluation.playing import play_one
from envs.metrics import waits
from envs.metrics.timeline import find_waits, segments
from envs.scheduling import Scheduler
from envs.simulation import EventKind, RunResult, Setup, Simulator
from envs.types import BoolArray, FloatArray, IntArray, MurmurationError
from envs.workloads import Workload


@dataclass(frozen=True)
class Fates:
    """What became of jobs: when they entered the queue, started and ended, in seconds of the trace.

    Attributes:
        label: what was played, or "recorded".
        enter: float64[num_jobs], when jobs entered the queue: at submission, at their begin times, or when the jobs on
            which they depend had ended. NaN for those that never did.
        start: float64[num_jobs], when they got GPUs first; NaN for those that never did.
        end: float64[num_jobs], when they left; NaN for those that never did.
        wait: float64[num_jobs], time without GPUs between entry and end; NaN where start or entry is unknown.
        gpus: int64[num_jobs].
        held: float64[k, 3], begin, end and GPUs of each stay, where running jobs were stopped; None where each job has
            one stay, from its start to its end.
        queued: float64[k, 3], the same of the times without GPUs.
        stops: number of times that running jobs were stopped.
        notes: what else is to be said.
    """

    label: str
    enter: FloatArray
    start: FloatArray
    end: FloatArray
    wait: FloatArray
    gpus: IntArray
    held: FloatArray | None = None
    queued: FloatArray | None = None
    stops: int = 0
    notes: tuple[str, ...] = ()

    @property
    def known(self) -> BoolArray:
        """bool[num_jobs]: the jobs that have waited a known time."""
        return ~np.isnan(self.wait)


def fates_of(label: str, result: RunResult) -> Fates:
    """Return what became of the jobs of a run."""
    count = len(result.workload)
    enter, start, end, waited = (np.full(count, np.nan) for _ in range(4))
    jobs = result.records["job"]
    events = result.log.events
    entered = events[events["kind"] == EventKind.ARRIVE]
    enter[entered["job"]] = entered["time"]
    start[jobs], end[jobs] = result.records["start_time"], result.left_times
    waited[jobs] = waits(result)
    waited[np.isnan(start)] = np.nan
    stops = int(result.records["num_preemptions"].sum())
    notes = (result.why_cut_short,) if result.why_cut_short else ()
    gpus = result.workload.jobs["num_gpus"].copy()
    held = queued = None
    if stops:
        stays, pauses = segments(result.log, result.end_time), find_waits(result.log, result.end_time)
        held = np.stack([stays["start"], stays["end"], stays["gpus"].astype(np.float64)], axis=1)
        queued = np.stack([pauses["start"], pauses["end"], gpus[pauses["job"]].astype(np.float64)], axis=1)
    return Fates(label, enter, start, end, waited, gpus, held, queued, stops, notes)


@dataclass(frozen=True)
class Play:
    """What is played: jobs on a cluster, under a scheduler.

    Attributes:
        label: what tables call it.
        workload: the jobs, as many as in all other plays, in the same order.
        setup: cluster, run times and rules.
        scheduler: which decides.
        stretch: by how much times of the trace are longer than those that are played, such as 1.2 with a load that is
            1.2 times as high.
    """

    label: str
    workload: Workload
    setup: Setup
    scheduler: Scheduler
    stretch: float = 1.0


def play_alternative(task: Play) -> Fates | str:
    """Play one; return what became of the jobs, or why the scheduler cannot play them."""
    world = Simulator(task.workload, task.setup, 0)
    found = play_one(task.label, task.scheduler, world, 0, Audit(task.setup), refusable=True)
    if isinstance(found, RunResult):
        return fates_of(task.label, found)
    return str(found)


@contextmanager
def without_interrupts() -> Iterator[None]:
    """Block interrupts for the time of the block, and in the processes that are started in it."""
    before = signal.pthread_sigmask(signal.SIG_BLOCK, {signal.SIGINT})
    try:
        yield
    finally:
        signal.pthread_sigmask(signal.SIG_SETMASK, before)


def play_everything(
    tasks: Sequence[Play], processes: int, done: Callable[[str], None]
) -> Iterator[tuple[str, Fates | str]]:
    """Play each, in several processes; yield (label, what became of the jobs) in order.

    Args:
        tasks: what is played.
        processes: at most so many at once; with 1, in this process.
        done: called with the label of each that has ended.

    Raises:
        MurmurationError: a process ended before it had played, as for lack of memory.
    """
    if processes == 1 or len(tasks) == 1:
        for task in tasks:
            found = play_alternative(task)
            done(task.label)
            yield task.label, found
        return
    pool = ProcessPoolExecutor(min(processes, len(tasks)), mp_context=get_context("spawn"))
    try:
        with without_interrupts():  # an interrupt is for this process, which ends the others
            futures: list[Future[Any]] = [pool.submit(play_alternative, task) for task in tasks]
        labels = dict(zip(futures, [task.label for task in tasks], strict=True))
        left = set(futures)
        while left:
            ended, left = wait(left, return_when=FIRST_COMPLETED)
            for each in ended:
                done(labels[each])
        for each in futures:
            try:
                yield labels[each], each.result()
            except BrokenProcessPool as error:
                raise MurmurationError(f"{labels[each]}: its process was lost ({error}); set --processes 1") from error
    except KeyboardInterrupt:
        for process in active_children():
            process.terminate()
        raise
    finally:
        pool.shutdown(wait=False, cancel_futures=True)
