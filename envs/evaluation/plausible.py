"""Refuse schedulers whose mean JCT is below the lower bound that holds for them: such a result cannot be."""

import math
from collections.abc import Iterator
from dataclasses import replace

from envs.evaluation.comparison import Comparison
from envs.evaluation.failure import Failure
from envs.simulation import RunResult
from envs.types import ImpossibleResultError

BOUND_TOLERANCE = 1e-6  # relative: rounding of the bound and of the mean


def refuse_below_bound(comparison: Comparison) -> Comparison:
    """Return the comparison with schedulers that are below their lower bound as failures, without figures.

    Runs that name a plan are not checked, since the bounds hold at the plan that the simulator chooses; neither are
    figures that were recorded earlier, which were checked when they were played.

    Raises:
        ImpossibleResultError: no other scheduler is left; names the scheduler, its mean JCT and the bound.
    """
    failures = {name: failure for name in comparison.schedulers for failure in below_bound(comparison, name)}
    if not failures:
        return comparison
    left = {name: runs for name, runs in comparison.runs.items() if name not in failures}
    if not left:
        raise next(iter(failures.values())).error
    reference = comparison.reference if comparison.reference in left else ""
    return replace(comparison, runs=left, reference=reference, failures={**comparison.failures, **failures})


def below_bound(comparison: Comparison, scheduler: str) -> Iterator[Failure]:
    """Yield a failure for each workload on which a scheduler's mean JCT is below its lower bound."""
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
