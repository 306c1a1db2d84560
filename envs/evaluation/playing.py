"""Play episodes: every workload under a scheduler, here or elsewhere, each result checked against its event log."""

import itertools
from collections.abc import Callable, Collection, Iterator, Mapping, Sequence
from dataclasses import replace
from functools import partial
from typing import Any

import numpy as np

from envs.evaluation.audit import Audit
from envs.evaluation.failure import Failure, portable
from envs.evaluation.spread import LostCallError, Spread
from envs.scheduling import ClusterView, Scheduler
from envs.simulation import RunResult, Setup, SimulatedEpisode, Simulator, plays_compiled, run_episode
from envs.types import (
    Allocation,
    AllocationError,
    ClusterSpec,
    ConservationError,
    ImpossibleResultError,
    MurmurationError,
    PreemptionError,
)
from envs.workloads import Workload

Played = list[RunResult] | Failure | str  # all runs, the failure that ended one, or the reason for running none
PlayedCallback = Callable[[str, Played], None]  # scheduler, what became of it
ProgressCallback = Callable[[str, int, float], None]  # scheduler, index of the workload, share of its jobs submitted
ROUNDS_PER_REPORT = 64


def worlds(workloads: Sequence[Workload], setup: Setup, seed: int) -> Callable[[int], Simulator]:
    """Return the function that makes the simulator of the workload at an index."""
    return partial(simulator_of, workloads, setup, seed)


def simulator_of(workloads: Sequence[Workload], setup: Setup, seed: int, index: int) -> Simulator:
    """Return the simulator of the workload at this index."""
    return Simulator(workloads[index], setup, workload_seed(seed, index))


def play_schedulers(
    schedulers: Mapping[str, Scheduler],
    workloads: Sequence[Workload],
    setup: Setup,
    seed: int,
    num_workloads: Mapping[str, int],
    optional: Collection[str],
    progress: ProgressCallback | None,
    listener: PlayedCallback | None,
    spread: Spread | None,
) -> Iterator[tuple[str, Played]]:
    """Yield (scheduler, what became of it), played here or, with `spread`, elsewhere; see `compare_schedulers`.

    Raises:
        ConservationError: see `play_all`.
    """
    counts = {name: min(num_workloads.get(name, len(workloads)), len(workloads)) for name in schedulers}
    refusable = {name for name in schedulers if name in optional}
    if spread:
        everything = play_spread(spread, schedulers, workloads, setup, seed, counts, refusable, progress)
    else:
        audit, simulator = Audit(setup), worlds(workloads, setup, seed)
        everything = (
            (name, play_all(name, scheduler, simulator, counts[name], progress, audit, refusable))
            for name, scheduler in schedulers.items()
        )
    for name, found in everything:
        if listener:
            listener(name, found)
        yield name, found


def play_all(
    name: str,
    scheduler: Scheduler,
    simulator: Callable[[int], Simulator],
    num_workloads: int,
    progress: ProgressCallback | None,
    audit: Audit,
    refusable: Collection[str] = (),
) -> Played:
    """Run every workload under one scheduler, and check every result against its event log.

    Returns:
        The results; the failure that ended one of the runs; or the reason for which a scheduler that may refuse to run
        does.

    Raises:
        ConservationError: the simulator lost jobs, so no figure can be trusted.
    """
    results: list[RunResult] = []
    for index in range(num_workloads):
        world = simulator(index)  # outside `try`: a workload that does not fit is not the scheduler's refusal
        watched = scheduler
        if progress is not None:
            form = ReportingCompiled if plays_compiled(scheduler) else ReportingScheduler
            watched = form(scheduler, name, index, len(world.workload), progress)
        found = play_one(name, watched, world, index, audit, refusable=name in refusable)
        if not isinstance(found, RunResult):
            return found
        results.append(found)
    return results


def play_one(
    name: str, scheduler: Scheduler, world: Simulator, index: int, audit: Audit, *, refusable: bool
) -> RunResult | Failure | str:
    """Run one workload under one scheduler; arguments, result and errors are those of `play_all`.

    Raises:
        KeyboardInterrupt: it was interrupted; Ctrl-C cannot be told from a scheduler that raises this error.
    """
    try:
        result = run_episode(scheduler, world, name)
        audit.check(result)
    except (ConservationError, KeyboardInterrupt):
        raise
    except BaseException as error:  # a scheduler may also call exit()
        faults = AllocationError, ImpossibleResultError
        is_fault = isinstance(error, faults) and not isinstance(error, PreemptionError)
        if refusable and isinstance(error, MurmurationError) and not is_fault:
            return f"not applicable: {error}"
        return Failure.of(error, name, index, world.workload.name, world.view.time)
    return result


def play_spread(
    spread: Spread,
    schedulers: Mapping[str, Scheduler],
    workloads: Sequence[Workload],
    setup: Setup,
    seed: int,
    counts: Mapping[str, int],
    refusable: Collection[str],
    progress: ProgressCallback | None,
) -> Iterator[tuple[str, Played]]:
    """Yield (scheduler, what became of it) like `play_all`, with each episode wherever there is room.

    A scheduler that fails in one episode plays the others too, and the first failure counts, as it does without.
    """
    calls = [(name, index, name in refusable) for name in schedulers for index in range(counts[name])]
    shared = (dict(schedulers), list(workloads), setup, seed)
    found = zip(calls, spread(play_elsewhere, shared, calls), strict=True)
    for name, group in itertools.groupby(found, key=lambda each: each[0][0]):
        results: list[RunResult] = []
        ended: Failure | str | None = None
        for (_, index, _), episode in group:
            if progress:
                progress(name, index, 1.0)
            if isinstance(episode, RunResult):
                results.append(replace(episode, workload=workloads[index]))  # the object of all other runs
            elif ended is None:
                if isinstance(episode, LostCallError):
                    episode = Failure.of(episode, name, index, workloads[index].name, 0.0)
                ended = episode
        yield name, results if ended is None else ended


def play_elsewhere(
    schedulers: Mapping[str, Scheduler],
    workloads: Sequence[Workload],
    setup: Setup,
    seed: int,
    name: str,
    index: int,
    refusable: bool,
) -> RunResult | Failure | str:
    """Run one episode on a worker; see `play_one`."""
    world = simulator_of(workloads, setup, seed, index)
    found = play_one(name, schedulers[name], world, index, Audit(setup), refusable=refusable)
    return replace(found, error=portable(found.error)) if isinstance(found, Failure) else found


def workload_seed(seed: int, index: int) -> int:
    """Return the seed of the workload at this index: the same for every scheduler, different for every workload."""
    return int(np.random.SeedSequence([seed, index]).generate_state(1)[0])


class ReportingScheduler:
    """A wrapper that reports a scheduler's progress through one workload."""

    def __init__(
        self, scheduler: Scheduler, name: str, workload: int, num_jobs: int, progress: ProgressCallback
    ) -> None:
        self._scheduler = scheduler
        self._progress = progress
        self._name, self._workload = name, workload
        self._num_jobs = num_jobs
        self._round = 0

    def reset(self, cluster: ClusterSpec, rng: np.random.Generator) -> None:
        """Begin an episode."""
        self._progress(self._name, self._workload, 0.0)
        self._round = 0
        self._scheduler.reset(cluster, rng)

    def schedule(self, view: ClusterView) -> Allocation:
        """Return the scheduler's allocation."""
        self._round += 1
        if self._round % ROUNDS_PER_REPORT == 0:
            self._progress(self._name, self._workload, len(view.submit_time) / self._num_jobs)
        return self._scheduler.schedule(view)

    def __getattr__(self, name: str) -> Any:
        return getattr(self._scheduler, name)  # the scheduler's declared assumptions and its counters


class ReportingCompiled(ReportingScheduler):
    """The same for a scheduler that plays whole episodes in compiled code, of which only the beginning is reported."""

    def play(self, simulator: SimulatedEpisode) -> bool:
        """Run an episode to its end as the scheduler does."""
        return bool(self._scheduler.play(simulator))  # type: ignore[attr-defined]
