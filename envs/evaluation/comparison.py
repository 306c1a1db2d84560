"""Schedulers on the same workloads, as tables of numbers."""

import dataclasses
import json
import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from functools import cached_property
from typing import Any

import numpy as np
import pandas as pd

from envs.evaluation.statistics import Estimate, MeanEstimator, method_for
from envs.metrics import Summary, finished_jobs, job_completion_times, queueing_delays, slowdowns, summarise
from envs.metrics.bounds import Relaxation
from envs.simulation import RunResult
from envs.types import FloatArray, IntArray

BOUND = "lower bound"  # the row of what no scheduler can beat at the world's batch sizes
ANY_BATCH = "lower bound, any batch"  # nor can one that chooses batch sizes
ESTIMATED = {"mean_jct": job_completion_times, "mean_queueing_delay": queueing_delays, "mean_slowdown": slowdowns}


@dataclass(frozen=True)
class Comparison:
    """What every scheduler made of the same workloads, on the jobs that all of them finished.

    Args:
        runs: by scheduler, one result per workload, in the same order of workloads for all.
        inapplicable: by scheduler that could not run here, why.
        reference: the scheduler that ratios are to; the first one if empty.
        settings: what else a reader must know to repeat it, as plain values.
        seed: of the bootstrap.
        level: of confidence.
        resamples: of the bootstrap.
        relaxations: by the name of a lower bound, `BOUND` or `ANY_BATCH`, of the workloads in their order; without them
            there is no lower bound.

    Raises:
        ValueError: there is no run, runs are of different workloads, or the reference is not among them.
    """

    runs: Mapping[str, Sequence[RunResult]]
    inapplicable: Mapping[str, str] = field(default_factory=dict)
    reference: str = ""
    settings: Mapping[str, Any] = field(default_factory=dict)
    seed: int = 0
    level: float = 0.95
    resamples: int = 2000
    relaxations: Mapping[str, Sequence[Relaxation]] = field(default_factory=dict)

    def __post_init__(self) -> None:
        if not self.runs:
            raise ValueError("comparison: no scheduler ran; there is nothing to compare")
        if not self.reference:
            object.__setattr__(self, "reference", next(iter(self.runs)))
        if self.reference not in self.runs:
            raise ValueError(f"comparison: reference {self.reference} is not among {', '.join(self.runs)}")
        played = {tuple(id(run.workload) for run in results) for results in self.runs.values()}
        if len(played) != 1 or not next(iter(played)):
            raise ValueError("comparison: every scheduler must have run the same workloads, at least one")
        for name, relaxations in self.relaxations.items():
            if len(relaxations) != self.num_workloads:
                raise ValueError(
                    f"comparison: {name}: {len(relaxations)} relaxations of {self.num_workloads} workloads"
                )

    @property
    def schedulers(self) -> list[str]:
        """Those that ran, in order."""
        return list(self.runs)

    @property
    def num_workloads(self) -> int:
        """Workloads that each of them ran."""
        return len(self.runs[self.reference])

    @cached_property
    def compared(self) -> list[IntArray]:
        """For each workload int64[n]: the measured jobs that every scheduler finished, by id."""
        common: list[IntArray] = []
        for workload in range(self.num_workloads):
            jobs = finished_jobs(self.runs[self.reference][workload])
            for results in self.runs.values():
                jobs = np.intersect1d(jobs, finished_jobs(results[workload]))
            common.append(jobs)
        return common

    @cached_property
    def summaries(self) -> dict[str, list[Summary]]:
        """By scheduler, every metric for each workload."""
        return {
            name: [summarise(run, jobs) for run, jobs in zip(results, self.compared, strict=True)]
            for name, results in self.runs.items()
        }

    @cached_property
    def estimators(self) -> dict[str, MeanEstimator]:
        """Intervals and ratios of the metrics that are means over jobs (`ESTIMATED`)."""
        return {
            name: MeanEstimator(self._values(name), np.random.default_rng(self.seed), self.level, self.resamples)
            for name in ESTIMATED
        }

    @property
    def caption(self) -> str:
        """What a table's reader must know of its means and intervals, in a few sentences."""
        compared = sum(map(len, self.compared))
        measured = sum(summary.num_measured for summary in self.summaries[self.reference])
        workloads = f"{self.num_workloads} workload{'s' if self.num_workloads > 1 else ''}"
        return (
            f"Means and percentiles over the {compared} of {measured} measured jobs that every scheduler finished, "
            f"in {workloads}. {self.level:.0%} intervals: {method_for(self.num_workloads)}, paired. "
            f"Ratios are to {self.reference}. {self._how_to_read_bounds()}"
            "Bounded is bounded slowdown (10 s, at least 1); rho is finish-time fairness: JCT over the time on an "
            "equal share."
        )

    def estimate(self, metric: str, scheduler: str) -> Estimate:
        """A mean of `ESTIMATED` with its interval."""
        return self.estimators[metric].mean(self.schedulers.index(scheduler))

    def ratio(self, metric: str, scheduler: str) -> Estimate:
        """A mean of `ESTIMATED` relative to the reference's, with its paired interval."""
        names = self.schedulers
        return self.estimators[metric].ratio(names.index(scheduler), names.index(self.reference))

    @cached_property
    def bounds(self) -> list[dict[str, Any]]:
        """What no scheduler can beat, as rows: mean JCT over the compared jobs, its ratio, makespan.

        See `envs.metrics.bounds`. None without relaxations, or where there is no job to compare.
        """
        if not any(map(len, self.compared)):
            return []
        return [self._bound(name, relaxations) for name, relaxations in self.relaxations.items()]

    @cached_property
    def rows(self) -> list[dict[str, Any]]:
        """For each scheduler every metric over all workloads, intervals and ratios by name; times in seconds.

        Inapplicable schedulers come last, with nothing but the reason.
        """
        ran = [self._row(name) for name in self.schedulers]
        return ran + [{"scheduler": name, "inapplicable": reason} for name, reason in self.inapplicable.items()]

    def table(self) -> pd.DataFrame:
        """The `rows` and the `bounds` as a data frame; NaN where there is no figure."""
        return pd.DataFrame([*self.rows, *self.bounds])

    def by_workload(self) -> pd.DataFrame:
        """One row per scheduler and workload: every metric; times in seconds."""
        return pd.DataFrame(
            {"scheduler": name, "workload": run.workload.name, **dataclasses.asdict(summary)}
            for name, results in self.runs.items()
            for run, summary in zip(results, self.summaries[name], strict=True)
        )

    def to_json(self) -> str:
        """Everything that the table shows and more, in seconds at full precision; what there is not is null.

        All but `wall_clock` is the same, to the bit, whenever the same comparison is run.
        """
        decision = {name: sum(run.decision_seconds for run in results) for name, results in self.runs.items()}
        content = {
            "caption": self.caption,
            "settings": dict(self.settings),
            "reference": self.reference,
            "level": self.level,
            "schedulers": self.rows,
            "bounds": self.bounds,
            "by_workload": self.by_workload().to_dict("records"),
            "wall_clock": {"decision_seconds": decision},
        }
        return json.dumps(plain(content), indent=2, allow_nan=False) + "\n"

    def _row(self, name: str) -> dict[str, Any]:
        row: dict[str, Any] = {"scheduler": name, **overall(self.summaries[name])}
        for metric in ESTIMATED:
            mean, ratio = self.estimate(metric, name), self.ratio(metric, name)
            row |= {metric: mean.value, f"{metric}_low": mean.low, f"{metric}_high": mean.high}
            row |= {
                f"{metric}_ratio": ratio.value,
                f"{metric}_ratio_low": ratio.low,
                f"{metric}_ratio_high": ratio.high,
            }
        row["rounds"] = sum(run.num_rounds for run in self.runs[name])
        return row

    def _bound(self, name: str, relaxations: Sequence[Relaxation]) -> dict[str, Any]:
        jct, ratios, makespan = [], [], []
        reference = zip(self.runs[self.reference], self.summaries[self.reference], strict=True)
        for relaxation, jobs, (run, summary) in zip(relaxations, self.compared, reference, strict=True):
            if len(jobs):
                jct.append(relaxation.of_jobs(jobs).mean_jct())
                ratios.append(np.log(jct[-1] / summary.mean_jct))
                measured = np.sort(run.records["job"][run.records["measured"]])
                makespan.append(relaxation.of_jobs(measured).makespan())
        return {
            "scheduler": name,
            "mean_jct": float(np.mean(jct)),
            "mean_jct_ratio": float(np.exp(np.mean(ratios))),
            "makespan": float(np.mean(makespan)),
        }

    def _how_to_read_bounds(self) -> str:
        if not self.bounds:
            return ""
        below = "No scheduler can be below the lower bound, at the world's batch sizes. "
        choosing = names_batches(self.runs)
        if ANY_BATCH not in self.relaxations or not choosing:
            return below
        verb, whom = ("choose", "them") if len(choosing) > 1 else ("chooses", "it")
        return f"{below}{', '.join(choosing)} {verb} batch sizes; only the second bound holds for {whom}. "

    def _values(self, metric: str) -> list[FloatArray]:
        matrices = []
        for workload, jobs in enumerate(self.compared):
            records = [results[workload].records for results in self.runs.values()]
            matrices.append(np.stack([ESTIMATED[metric](rows[np.isin(rows["job"], jobs)]) for rows in records]))
        return matrices


def names_batches(runs: Mapping[str, Sequence[RunResult]]) -> list[str]:
    """The schedulers that named a batch size in any of their runs, in order."""
    return [name for name, results in runs.items() if any((run.log.events["batch_size"] > 0).any() for run in results)]


def overall(summaries: Sequence[Summary]) -> dict[str, float]:
    """Several workloads' summaries as one: counts are added, of the worst the worst is taken, of the rest the mean.

    A workload in which a figure does not exist (NaN) is left out of its mean.
    """
    merged: dict[str, float] = {}
    for column in dataclasses.fields(Summary):
        values = np.array([getattr(summary, column.name) for summary in summaries])
        known = values[~np.isnan(values)]
        if not len(known):
            merged[column.name] = np.nan
            continue
        match column.metadata.get("over_workloads"):
            case "sum":
                merged[column.name] = known.sum().item()
            case "max":
                merged[column.name] = known.max().item()
            case _:
                merged[column.name] = known.mean().item()
    return merged


def plain(value: Any) -> Any:
    """Nested values as JSON has them: NumPy's as Python's, NaN and infinities as null."""
    if isinstance(value, Mapping):
        return {str(key): plain(item) for key, item in value.items()}
    if isinstance(value, list | tuple):
        return [plain(item) for item in value]
    if isinstance(value, np.generic):
        return plain(value.item())
    if isinstance(value, float) and not math.isfinite(value):
        return None
    return value
