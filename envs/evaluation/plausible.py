"""Refuse schedulers whose JCTs are below the lower bounds that hold for them: such a result cannot be."""

import math
from collections.abc import Iterator
from dataclasses import replace

import numpy as np

from envs.evaluation.comparison import Comparison
from envs.evaluation.episode import EpisodeFigures
from envs.evaluation.failure import Failure
from envs.evaluation.record_checks import half_units
from envs.simulation import RunResult
from envs.types import ImpossibleResultError, MurmurationError

BOUND_TOLERANCE = 1e-6  # relative: rounding of the bound and of the mean


def refuse_below_bound(comparison: Comparison) -> Comparison:
    """Return the comparison without the figures of schedulers that are below their lower bound.

    Those that were played are failures. Those that were recorded earlier are left out: their record is wrong. Runs that
    name a plan are not checked, since the bounds hold at the plan that the simulator chooses.

    Raises:
        ImpossibleResultError: no other scheduler is left; names the scheduler, its mean JCT and the bound.
        MurmurationError: no other scheduler is left, and all were recorded.
    """
    failures = {name: failure for name in comparison.schedulers for failure in below_bound(comparison, name)}
    wrong = {
        name: f"its record is not used: {why}; delete it and record the scheduler again"
        for name in comparison.schedulers
        for why in recorded_below_bound(comparison, name)
    }
    if not failures and not wrong:
        return comparison
    left = {name: runs for name, runs in comparison.runs.items() if name not in failures and name not in wrong}
    if not left and failures:
        raise next(iter(failures.values())).error
    if not left:
        raise MurmurationError(f"comparison: no scheduler is left; {next(iter(wrong))}: {next(iter(wrong.values()))}")
    reference = comparison.reference if comparison.reference in left else ""
    return replace(
        comparison,
        runs=left,
        reference=reference,
        failures={**comparison.failures, **failures},
        inapplicable={**comparison.inapplicable, **wrong},
    )


def recorded_below_bound(comparison: Comparison, scheduler: str) -> Iterator[str]:
    """Yield why recorded figures of a scheduler cannot be: the first JCT or mean JCT that is below its bound."""
    bounds = comparison.relaxations.get(comparison.bound_of(scheduler), ())
    columns = comparison.runs[scheduler], comparison.summaries[scheduler], comparison.least_jct(scheduler), bounds
    for run, summary, least, relaxation in zip(*columns, strict=False):
        if not isinstance(run, EpisodeFigures) or run.named_plans:
            continue
        jct, least_each = run.jobs["finish_time"] - run.jobs["submit_time"], relaxation.alone + relaxation.delay
        alone = least_each[run.jobs["job"]]
        below = np.flatnonzero(jct + half_units(jct) < alone * (1 - BOUND_TOLERANCE))
        if below.size:
            job = below[0]
            yield (
                f"its JCT of {jct[job]:g} s for job {run.jobs['job'][job]} of {run.workload.name} is below the "
                f"{alone[job]:g} s that the job takes alone"
            )
            return
        rounding = 0.0 if summary.mean_jct == run.own.mean_jct else float(np.nanmean(half_units(jct)))
        if summary.mean_jct + rounding < least * (1 - BOUND_TOLERANCE):
            yield (
                f"its mean JCT of {summary.mean_jct:g} s on {run.workload.name} is below the lower bound, {least:g} s"
            )
            return


def below_bound(comparison: Comparison, scheduler: str) -> Iterator[Failure]:
    """Yield a failure for each workload on which the mean JCT of a scheduler that was played is below its bound."""
    columns = comparison.runs[scheduler], comparison.summaries[scheduler], comparison.least_jct(scheduler)
    for index, (run, summary, least) in enumerate(zip(*columns, strict=False)):
        if not isinstance(run, RunResult) or (run.log.events["plan"] >= 0).any() or math.isnan(least):
            continue
        if summary.mean_jct < least * (1 - BOUND_TOLERANCE):
            name = run.workload.name
            error = ImpossibleResultError(
                f"{scheduler} on {name}: the result cannot be: its mean JCT of {summary.mean_jct:g} s is below the "
                f"lower bound for these jobs, {least:g} s; this is a bug of the simulator, of the bound, or the "
                "scheduler has changed the simulator's state"
            )
            yield Failure.of(error, scheduler, index, name, run.end_time)
