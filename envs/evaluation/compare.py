"""Run schedulers on the same workloads and the same cluster with the same random seeds."""

from collections.abc import Callable, Collection, Mapping, Sequence
from functools import partial
from typing import Any, NoReturn

import numpy as np

from envs.evaluation.comparison import ANY_BATCH, BOUND, Comparison, names_batches, plain
from envs.evaluation.episode import EpisodeFigures
from envs.evaluation.failure import Failure
from envs.metrics.bounds import Relaxation
from envs.performance import efficiency_notes, throughput_sources
from envs.scheduling import ClusterView, Scheduler
from envs.simulation import RunResult, Setup, Simulator, run_episode
from envs.types import Allocation, AllocationError, ClusterSpec, ConservationError, MurmurationError
from envs.workloads import Workload

Played = list[RunResult] | Failure | str  # all runs, the failure that ended one, or the reason for running none
PlayedCallback = Callable[[str, Played], None]  # scheduler, what became of it
ProgressCallback = Callable[[str, int, float], None]  # scheduler, index of the workload, share of its jobs submitted
ROUNDS_PER_REPORT = 64


def compare_schedulers(
    schedulers: Mapping[str, Scheduler],
    workloads: Sequence[Workload],
    setup: Setup,
    seed: int = 0,
    *,
    reference: str = "",
    optional: Collection[str] = (),
    num_workloads: Mapping[str, int] | None = None,
    left_out: Mapping[str, str] | None = None,
    about: Mapping[str, Any] | None = None,
    recorded: Mapping[str, Sequence[EpisodeFigures]] | None = None,
    progress: ProgressCallback | None = None,
    listener: PlayedCallback | None = None,
    level: float = 0.95,
    resamples: int = 2000,
) -> Comparison:
    """Run every workload under every scheduler.

    A scheduler that raises an error, or whose allocation is refused, has no figures; `Comparison.failures` says why,
    and the comparison continues with the next scheduler.

    Args:
        schedulers: schedulers by the name shown in results.
        workloads: the workloads of every scheduler; workload i has the same random seed under each scheduler.
        setup: the cluster, the performance model and the scenario.
        seed: seed of everything random.
        reference: the scheduler that ratios are relative to; if it is empty or did not run, `fifo` if that ran, else
            the first one that ran.
        optional: schedulers that may refuse the scenario by a `MurmurationError`: left out with the reason, not failed.
        num_workloads: number of workloads that a scheduler runs, the first ones; all if it is not named.
        left_out: further schedulers, which are not run, with the reason.
        about: further settings that results show, as plain values, such as the task.
        recorded: figures of further schedulers on the first workloads, recorded earlier with the same seed.
        progress: is called with the progress of the comparison.
        listener: is called when a scheduler has run all its workloads, has failed, or has refused to run.
        level: confidence level of the intervals.
        resamples: number of bootstrap resamples.

    Raises:
        MurmurationError: there is nothing to compare, the reference is unknown, a job cannot run, or no scheduler ran.
        Exception: the only scheduler failed; its own error.
    """
    check_comparable([*schedulers, *(recorded or {})], workloads, reference)
    worlds = partial(simulator_of, workloads, setup, seed)
    played: dict[str, Played] = {}
    for name, scheduler in schedulers.items():
        count = min((num_workloads or {}).get(name, len(workloads)), len(workloads))
        played[name] = play_all(name, scheduler, worlds, count, progress, refusable=name in optional)
        if listener:
            listener(name, played[name])
    runs, inapplicable, failures = sort_played({**(left_out or {}), **played, **(recorded or {})})
    if not runs:
        raise_nothing_ran(inapplicable, failures)
    chosen = reference if reference in runs else "fifo" if "fifo" in runs else ""
    settings = {**describe_settings(workloads, setup, seed), **(about or {})}
    if reference and reference not in runs:
        settings["notes"] = [*settings["notes"], f"the requested reference, {reference}, did not run"]
    relaxations = relax(workloads, setup, (BOUND, ANY_BATCH) if names_batches(runs) else (BOUND,))
    return Comparison(runs, inapplicable, chosen, settings, seed, level, resamples, relaxations, failures)


def simulator_of(workloads: Sequence[Workload], setup: Setup, seed: int, index: int) -> Simulator:
    """Return the simulator of the workload at this index."""
    return Simulator(workloads[index], setup, workload_seed(seed, index))


def sort_played(
    played: Mapping[str, Played | Sequence[EpisodeFigures]],
) -> tuple[dict[str, Sequence[RunResult | EpisodeFigures]], dict[str, str], dict[str, Failure]]:
    """Return the runs, the reasons of schedulers that cannot run, and the failures, each by scheduler."""
    runs: dict[str, Sequence[RunResult | EpisodeFigures]] = {}
    inapplicable: dict[str, str] = {}
    failures: dict[str, Failure] = {}
    for name, found in played.items():
        match found:
            case str():
                inapplicable[name] = found
            case Failure():
                failures[name] = found
            case _:
                runs[name] = found
    return runs, inapplicable, failures


def relax(workloads: Sequence[Workload], setup: Setup, bounds: Sequence[str]) -> dict[str, list[Relaxation]]:
    """Return the relaxations of all workloads, by the name of the bound."""
    return {
        name: [Relaxation.of(workload, setup, any_batch=name == ANY_BATCH) for workload in workloads] for name in bounds
    }


def raise_nothing_ran(inapplicable: Mapping[str, str], failures: Mapping[str, Failure]) -> NoReturn:
    """Raise the error of a comparison without any run.

    Raises:
        MurmurationError: with the reason of every scheduler.
        Exception: the only scheduler failed; its own error.
    """
    if len(failures) == 1 and not inapplicable:
        raise next(iter(failures.values())).error
    reasons = "; ".join(f"{name}: {why}" for name, why in {**inapplicable, **failures}.items())
    raise MurmurationError(f"comparison: no scheduler can run here ({reasons}); choose another scheduler")


def play_all(
    name: str,
    scheduler: Scheduler,
    simulator: Callable[[int], Simulator],
    num_workloads: int,
    progress: ProgressCallback | None,
    *,
    refusable: bool,
) -> Played:
    """Run every workload under one scheduler.

    Returns:
        The results; the failure that ended one of the runs; or the reason for which a scheduler that may refuse to run
        does.

    Raises:
        ConservationError: the simulator lost jobs, so no figure can be trusted.
    """
    results: list[RunResult] = []
    for index in range(num_workloads):
        world = simulator(index)  # outside `try`: a workload that does not fit is not the scheduler's refusal
        watched = (
            scheduler if progress is None else ReportingScheduler(scheduler, name, index, len(world.workload), progress)
        )
        try:
            results.append(run_episode(watched, world, name))
        except ConservationError:
            raise
        except Exception as error:
            if refusable and isinstance(error, MurmurationError) and not isinstance(error, AllocationError):
                return f"not applicable: {error}"
            return Failure.of(error, name, index, world.workload.name, world.view.time)
    return results


def check_comparable(schedulers: Collection[str], workloads: Sequence[Workload], reference: str) -> None:
    """Assert that there is something to compare.

    Raises:
        MurmurationError: there is no scheduler or no workload, or the reference is not among the schedulers.
    """
    if not schedulers:
        raise MurmurationError("comparison: no scheduler is chosen; name at least one, for example scheduler=fifo")
    if not workloads:
        raise MurmurationError("comparison: no workload to run; widen the split of the workload source")
    if reference and reference not in schedulers:
        raise MurmurationError(f"reference {reference!r} is not compared; choose one of {', '.join(schedulers)}")


def workload_seed(seed: int, index: int) -> int:
    """Return the seed of the workload at this index: the same for every scheduler, different for every workload."""
    return int(np.random.SeedSequence([seed, index]).generate_state(1)[0])


def describe_settings(workloads: Sequence[Workload], setup: Setup, seed: int) -> dict[str, Any]:
    """Return the settings that are needed to repeat a comparison, as plain values."""
    cluster, performance = setup.cluster, setup.performance
    models = sorted({model for workload in workloads for model in workload.models})
    settings: dict[str, Any] = plain(
        {
            "cluster": {"name": cluster.name, "nodes": cluster.num_nodes, "gpus": cluster.gpus_by_type},
            "performance": type(performance).__name__,
            "throughputs": throughput_sources(performance, models, cluster.gpu_types),
            "notes": efficiency_notes(models, setup.scenario.statistical_efficiency),
            "scenario": setup.scenario,
            "seed": seed,
            "workloads": [
                {
                    "name": workload.name,
                    "jobs": len(workload),
                    "measured": int(workload.measured.sum()),
                    "window": list(workload.window),
                    "offered_load": workload.offered_load(cluster, performance),
                    "efficient_load": workload.efficient_load(cluster, performance),
                    "notes": list(workload.notes),
                }
                for workload in workloads
            ],
        }
    )
    return settings


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
