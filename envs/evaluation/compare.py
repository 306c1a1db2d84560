"""Run schedulers on the same workloads and the same cluster with the same random seeds."""

from collections.abc import Collection, Mapping, Sequence
from typing import Any

from envs.evaluation.comparison import ANY_BATCH, BOUND, Comparison
from envs.evaluation.episode import EpisodeFigures
from envs.evaluation.failure import Failure
from envs.evaluation.job_time import share_job_time
from envs.evaluation.plain_values import name_object, plain
from envs.evaluation.plausible import refuse_below_bound
from envs.evaluation.playing import Played, PlayedCallback, ProgressCallback, play_schedulers
from envs.evaluation.said_of_rules import describe_rules
from envs.evaluation.said_of_runs import find_training_seeds, names_batches
from envs.evaluation.spread import Spread
from envs.metrics.bounds import Relaxation
from envs.performance import efficiency_notes, throughput_sources
from envs.scheduling import Scheduler
from envs.simulation import RunResult, Setup
from envs.types import MurmurationError, Seconds
from envs.workloads import Workload


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
    known_bounds: Mapping[str, Seconds] | None = None,
    progress: ProgressCallback | None = None,
    listener: PlayedCallback | None = None,
    spread: Spread | None = None,
    level: float = 0.95,
    resamples: int = 2000,
) -> Comparison:
    """Run every workload under every scheduler.

    A scheduler that raises an error, or whose allocation is refused, has no figures, and `Comparison.failures` says
    why. The same holds for one whose results cannot be: every run is recomputed from its event log (`Audit`), and no
    mean JCT may be below its lower bound.

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
        known_bounds: see `Relaxation.known`.
        progress: is called with the progress of the comparison.
        listener: is called when a scheduler has run all its workloads, has failed, or has refused to run.
        spread: plays the episodes elsewhere, with the same results; None plays them in this process.
        level: confidence level of the intervals.
        resamples: number of bootstrap resamples.

    Raises:
        MurmurationError: there is nothing to compare, the reference is unknown, a job cannot run, or no scheduler ran.
        Exception: the only scheduler failed; its own error.
    """
    check_comparable([*schedulers, *(recorded or {})], workloads, reference)
    counts = num_workloads or {}
    played = play_schedulers(schedulers, workloads, setup, seed, counts, optional, progress, listener, spread)
    runs, inapplicable, failures = sort_played({**(left_out or {}), **dict(played), **(recorded or {})})
    raise_if_nothing_ran(runs, inapplicable, failures)
    chosen = next((name for name in (reference, "fifo") if name in runs), "")
    ran = workloads[: max(map(len, runs.values()))]  # fewer than all if all schedulers are slow ones
    settings = describe_settings(ran, setup, seed) | dict(about or {}) | describe_runs(schedulers, runs, setup)
    if reference and reference not in runs:
        settings["notes"] = [*settings["notes"], f"the requested reference, {reference}, did not run"]
    least = relax(ran, setup, (BOUND, ANY_BATCH) if names_batches(runs) else (BOUND,), known_bounds)
    return refuse_below_bound(Comparison(runs, inapplicable, chosen, settings, seed, level, resamples, least, failures))


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


def relax(
    workloads: Sequence[Workload], setup: Setup, bounds: Sequence[str], known: Mapping[str, Seconds] | None = None
) -> dict[str, list[Relaxation]]:
    """Return the relaxations of all workloads, by the name of the bound."""
    return {
        name: [Relaxation.of(workload, setup, any_batch=name == ANY_BATCH, known=known) for workload in workloads]
        for name in bounds
    }


def raise_if_nothing_ran(
    runs: Mapping[str, object], inapplicable: Mapping[str, str], failures: Mapping[str, Failure]
) -> None:
    """Raise an error if no scheduler ran.

    Raises:
        MurmurationError: with the reason of every scheduler.
        Exception: the only scheduler failed; its own error.
    """
    if runs:
        return
    if len(failures) == 1 and not inapplicable:
        (failure,) = failures.values()
        raise failure.error if isinstance(failure.error, Exception) else MurmurationError(str(failure))
    reasons = "; ".join(f"{name}: {why}" for name, why in {**inapplicable, **failures}.items())
    raise MurmurationError(f"comparison: no scheduler can run here ({reasons}); choose another scheduler")


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


def describe_runs(schedulers: Mapping[str, Any], runs: Mapping[str, Any], setup: Setup) -> dict[str, Any]:
    """Return settings that say where job times come from, and with what seeds learned schedulers were trained."""
    return {"job_time": share_job_time(runs, setup), **find_training_seeds(schedulers, runs)}


def describe_settings(workloads: Sequence[Workload], setup: Setup, seed: int) -> dict[str, Any]:
    """Return the settings that are needed to repeat a comparison, as plain values."""
    cluster, performance = setup.cluster, setup.performance
    models = sorted({model for workload in workloads for model in workload.known_models})
    settings: dict[str, Any] = plain(
        {
            "cluster": {"name": cluster.name, "nodes": cluster.num_nodes, "gpus": cluster.gpus_by_type},
            "performance": type(performance).__name__,
            "throughputs": throughput_sources(performance, models, cluster.gpu_types),
            "notes": efficiency_notes(models, setup.scenario.statistical_efficiency),
            "rules": describe_rules(workloads, setup),
            "scenario": setup.scenario,
            **({"estimator": name_object(setup.estimator)} if setup.scenario.information.hides_throughput else {}),
            **({"predictor": name_object(setup.predictor)} if setup.scenario.information.work == "predicted" else {}),
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
