"""Running schedulers against each other: the same workloads, the same cluster, the same luck."""

import dataclasses
from collections.abc import Callable, Collection, Mapping, Sequence
from typing import Any

import numpy as np

from envs.evaluation.comparison import ANY_BATCH, BOUND, Comparison, names_batches, plain
from envs.metrics.bounds import Relaxation
from envs.performance import PerformanceModel, speed_sources
from envs.scheduling import ClusterView, Scheduler
from envs.simulation import RunResult, Scenario, Simulator, run_episode
from envs.types import Allocation, AllocationError, ClusterSpec, MurmurationError
from envs.workloads import Workload

Progress = Callable[[str, int, float], None]  # scheduler, index of the workload, share of its jobs submitted so far
ROUNDS_PER_REPORT = 64


def compare(
    schedulers: Mapping[str, Scheduler],
    workloads: Sequence[Workload],
    cluster: ClusterSpec,
    performance: PerformanceModel,
    scenario: Scenario | None = None,
    seed: int = 0,
    *,
    reference: str = "",
    optional: Collection[str] = (),
    progress: Progress | None = None,
    level: float = 0.95,
    resamples: int = 2000,
) -> Comparison:
    """Play every workload under every scheduler.

    Args:
        schedulers: by the name they are shown under.
        workloads: the same for all of them; where schedulers or estimates are random, workload i has the same
            seed under each.
        cluster: the nodes.
        performance: how fast jobs run.
        scenario: the rules; the default ones if None.
        seed: of everything random.
        reference: ratios are to this one; `fifo` if it is there, else the first.
        optional: schedulers that may refuse the scenario: one that raises a `MurmurationError` is left out and the
            comparison says why. Any other's error is raised.
        progress: is told how far the comparison has come.
        level: of confidence of the intervals.
        resamples: of the bootstrap.

    Raises:
        MurmurationError: nothing to compare, an unknown reference, a job that cannot run on the cluster, or a
            scheduler's own refusal.
    """
    check_comparable(schedulers, workloads, reference)
    scenario = scenario or Scenario()
    runs: dict[str, list[RunResult]] = {}
    inapplicable: dict[str, str] = {}

    def simulator(index: int) -> Simulator:
        return Simulator(workloads[index], cluster, performance, scenario, workload_seed(seed, index))

    for name, scheduler in schedulers.items():
        played = play_all(name, scheduler, simulator, len(workloads), progress, refusable=name in optional)
        if isinstance(played, str):
            inapplicable[name] = played
        else:
            runs[name] = played
    chosen = reference or ("fifo" if "fifo" in runs else "")
    if not runs or (chosen and chosen not in runs):
        reasons = "; ".join(f"{name}: {why}" for name, why in inapplicable.items())
        raise MurmurationError(f"comparison: {chosen or 'every scheduler'} cannot run here ({reasons}); choose another")
    settings = described(workloads, cluster, performance, scenario, seed)
    relaxations = {
        name: [Relaxation.of(workload, cluster, performance, any_batch=name == ANY_BATCH) for workload in workloads]
        for name in ((BOUND, ANY_BATCH) if names_batches(runs) else (BOUND,))
    }
    return Comparison(runs, inapplicable, chosen, settings, seed, level, resamples, relaxations)


def play_all(
    name: str,
    scheduler: Scheduler,
    simulator: Callable[[int], Simulator],
    num_workloads: int,
    progress: Progress | None,
    *,
    refusable: bool,
) -> list[RunResult] | str:
    """Every workload under one scheduler; if it may refuse and does, why."""
    results: list[RunResult] = []
    for index in range(num_workloads):
        world = simulator(index)  # not within `try`: a workload that does not fit is not for the scheduler to refuse
        watched = scheduler if progress is None else Watched(scheduler, name, index, len(world.workload), progress)
        try:
            results.append(run_episode(watched, world, name))
        except AllocationError as fault:
            if not refusable:
                raise
            return f"failed: {fault}"
        except MurmurationError as refusal:
            if not refusable:
                raise
            return f"not applicable: {refusal}"
    return results


def check_comparable(schedulers: Mapping[str, Scheduler], workloads: Sequence[Workload], reference: str) -> None:
    """Assert that there is something to compare.

    Raises:
        MurmurationError: no scheduler, no workload, or a reference that is not among the schedulers.
    """
    if not schedulers:
        raise MurmurationError("comparison: no scheduler is chosen; name at least one, for example scheduler=fifo")
    if not workloads:
        raise MurmurationError("comparison: no workload to run; widen the split of the workload source")
    if reference and reference not in schedulers:
        raise MurmurationError(f"reference {reference!r} is not compared; choose one of {', '.join(schedulers)}")


def workload_seed(seed: int, index: int) -> int:
    """The seed of the workload at this index: the same for every scheduler, unlike its neighbours'."""
    return int(np.random.SeedSequence([seed, index]).generate_state(1)[0])


def described(
    workloads: Sequence[Workload], cluster: ClusterSpec, performance: PerformanceModel, scenario: Scenario, seed: int
) -> dict[str, Any]:
    """What a reader must know to repeat a comparison, as plain values."""
    settings: dict[str, Any] = plain(
        {
            "cluster": {"name": cluster.name, "nodes": cluster.num_nodes, "gpus": cluster.gpus_by_type},
            "performance": type(performance).__name__,
            "speeds": speed_sources(
                performance, sorted({model for workload in workloads for model in workload.models}), cluster.gpu_types
            ),
            "scenario": dataclasses.asdict(scenario),
            "seed": seed,
            "workloads": [
                {
                    "name": workload.name,
                    "jobs": len(workload),
                    "measured": int(workload.measured.sum()),
                    "window": list(workload.window),
                    "offered_load": workload.offered_load(cluster, performance),
                    "notes": list(workload.notes),
                }
                for workload in workloads
            ],
        }
    )
    return settings


class Watched:
    """A scheduler whose progress through one workload is told to somebody; otherwise itself."""

    def __init__(self, scheduler: Scheduler, name: str, workload: int, num_jobs: int, progress: Progress) -> None:
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
        """What the scheduler wishes."""
        self._round += 1
        if self._round % ROUNDS_PER_REPORT == 0:
            self._progress(self._name, self._workload, len(view.submit_time) / self._num_jobs)
        return self._scheduler.schedule(view)

    def __getattr__(self, name: str) -> Any:
        return getattr(self._scheduler, name)  # what it declares and counts
