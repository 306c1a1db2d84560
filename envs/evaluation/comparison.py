"""The results of schedulers on the same workloads, as tables of numbers."""

import dataclasses
import json
import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from functools import cached_property, reduce
from typing import Any

import numpy as np
import pandas as pd

from envs.evaluation.episode import MEANS_OF_JOBS, EpisodeFigures, Remark
from envs.evaluation.failure import Failure
from envs.evaluation.frames import event_frame, frame_of_runs, job_frame
from envs.evaluation.job_time import describe_job_time
from envs.evaluation.names import find_name
from envs.evaluation.plain_values import plain
from envs.evaluation.said_of_runs import cut_short, describe_counts, names_batches, say_training_seeds
from envs.evaluation.statistics import MIN_WORKLOADS, Estimate, MeanEstimator, median_half_width, method_for
from envs.metrics import Summary, merge_summaries
from envs.metrics.bounds import Relaxation
from envs.simulation import RunResult
from envs.types import FloatArray, IntArray, Seconds
from envs.types.units import HOUR

BOUND = "lower bound"  # row of the lower bound at the simulator's batch sizes
ANY_BATCH = "lower bound, any batch"  # row of the bound that also holds for schedulers that choose batch sizes
LEGEND = (  # of the columns, as the end of every caption
    "Wait: time without GPUs between submission and end. Time to start: submission to first start.",
    "Queue: share of rounds that leave a job waiting.",
    "By cores, by memory, by network: share of running job-time that these limit; GPUs limit the rest.",
    "GPUs: share in use. Frag.: share of the free GPUs that a typical job could not use because of where they are.",
    "Slowdown: JCT / run time alone on the requested GPUs. Bounded: the same with run times of at least 10 s.",
    "Rho: finish-time fairness, JCT / time on an equal share of the cluster.",
    "CPU: CPU time of the scheduler per round; with the simulator's own for schedulers that are compiled as a whole.",
)
ESTIMATED = (*MEANS_OF_JOBS, "makespan")  # metrics with intervals and ratios
MINIMISED = {"mean_jct": "mean JCT", "makespan": "makespan"}


@dataclass(frozen=True, repr=False)
class Comparison:
    """The results of every scheduler on the same workloads, over the jobs that all schedulers finished.

    Args:
        runs: by scheduler, one result per workload, in the same order of workloads for all: runs, or figures that were
            recorded earlier. A scheduler may have run only the first workloads, at least `MIN_WORKLOADS` of them;
            ratios are over the workloads that both ran.
        inapplicable: by scheduler that could not run here, the reason.
        reference: the scheduler that ratios are relative to; the first one if empty.
        settings: further settings that are needed to repeat the comparison, as plain values.
        seed: seed of the bootstrap.
        level: confidence level of the intervals.
        resamples: number of bootstrap resamples.
        relaxations: by the name of a lower bound, `BOUND` or `ANY_BATCH`, the relaxations of the workloads in order. If
            empty, there is no lower bound.
        failures: by scheduler that failed, where and why; it has no figures.

    Raises:
        ValueError: there is no run, runs have different workloads, a scheduler ran too few of them, or the reference is
            not among the schedulers.
    """

    runs: Mapping[str, Sequence[RunResult | EpisodeFigures]]
    inapplicable: Mapping[str, str] = field(default_factory=dict)
    reference: str = ""
    settings: Mapping[str, Any] = field(default_factory=dict)
    seed: int = 0
    level: float = 0.95
    resamples: int = 2000
    relaxations: Mapping[str, Sequence[Relaxation]] = field(default_factory=dict)
    failures: Mapping[str, Failure] = field(default_factory=dict)

    def __post_init__(self) -> None:
        if not self.runs:
            raise ValueError("comparison: no scheduler ran; there is nothing to compare")
        if not self.reference:
            object.__setattr__(self, "reference", next(iter(self.runs)))
        if self.reference not in self.runs:
            raise ValueError(f"comparison: reference {self.reference} is not among {', '.join(self.runs)}")
        played = [[id(run.workload) for run in results] for results in self.runs.values()]
        longest = max(played, key=len)
        if not all(played) or any(ids != longest[: len(ids)] for ids in played):
            raise ValueError("comparison: every scheduler must have run the same workloads, at least one")
        if min(map(len, played)) < min(len(longest), MIN_WORKLOADS):
            raise ValueError(f"comparison: a scheduler that runs fewer workloads must run at least {MIN_WORKLOADS}")
        for name, relaxations in self.relaxations.items():
            if len(relaxations) != self.num_workloads:
                raise ValueError(
                    f"comparison: {name}: {len(relaxations)} relaxations of {self.num_workloads} workloads"
                )

    def __repr__(self) -> str:
        """Return the schedulers with their `metric` in hours and its ratio, the best first, and what failed: short."""
        found = {name: (self.estimate(self.metric, name), self.ratio(self.metric, name)) for name in self.order}
        rows = [f"  {name}: {mean.value / HOUR:.2f} h, {ratio.value:.3f}" for name, (mean, ratio) in found.items()]
        failed = [f"  {name}: {failure}" for name, failure in self.failures.items()]
        return "\n".join([f"{self.metric_name}, ratio to {self.reference}:", *rows, *failed])

    def _repr_html_(self) -> str:
        """Return the same as a table for notebooks."""
        table = self.table().set_index("scheduler").loc[self.order]
        heads = {f"{self.metric_name} (h)": table[self.metric] / HOUR, "ratio": table[f"{self.metric}_ratio"]}
        return pd.DataFrame(heads).to_html(float_format="{:.3f}".format)

    @property
    def schedulers(self) -> list[str]:
        """Names of the schedulers that ran, in order."""
        return list(self.runs)

    @property
    def num_workloads(self) -> int:
        """Number of workloads that were run, by at least one scheduler."""
        return max(map(len, self.runs.values()))

    @property
    def partial(self) -> bool:
        """Whether some scheduler ran only the first workloads."""
        return min(map(len, self.runs.values())) < self.num_workloads

    @property
    def metric(self) -> str:
        """The metric to minimise: makespan if the task's objective counts nothing else, otherwise mean JCT."""
        return "makespan" if (self.settings.get("task") or {}).get("objective") == "makespan" else "mean_jct"

    @property
    def metric_name(self) -> str:
        """The metric to minimise in words."""
        return MINIMISED[self.metric]

    @property
    def order(self) -> list[str]:
        """The schedulers by ascending `metric`, or by its ratio if they ran different numbers of workloads.

        Schedulers without a figure come last.
        """
        figure = self.ratio if self.partial else self.estimate
        values = {name: figure(self.metric, name).value for name in self.runs}
        return sorted(self.runs, key=lambda name: math.inf if math.isnan(values[name]) else values[name])

    @property
    def best(self) -> str:
        """The first scheduler of `order` that ran all workloads: the first ones may be harder or easier than others."""
        return next(name for name in self.order if len(self.runs[name]) == self.num_workloads)

    @cached_property
    def episodes(self) -> dict[str, list[EpisodeFigures]]:
        """The figures of all runs, by scheduler and then by workload."""
        return {
            name: [run if isinstance(run, EpisodeFigures) else EpisodeFigures.of(run) for run in results]
            for name, results in self.runs.items()
        }

    @cached_property
    def compared(self) -> list[IntArray]:
        """For each workload int64[n]: ids of the measured jobs that every scheduler that ran it finished."""
        common: list[IntArray] = []
        for workload in range(self.num_workloads):
            played = [results[workload] for results in self.episodes.values() if workload < len(results)]
            finished = [episode.finished for episode in played]
            common.append(reduce(np.intersect1d, finished))
        return common

    @cached_property
    def summaries(self) -> dict[str, list[Summary]]:
        """All metrics, by scheduler and then by workload."""
        return {
            name: [episode.summary(jobs) for episode, jobs in zip(results, self.compared, strict=False)]
            for name, results in self.episodes.items()
        }

    @cached_property
    def estimators(self) -> dict[str, MeanEstimator]:
        """Estimators of intervals and ratios for the metrics of `ESTIMATED`."""
        return {
            name: MeanEstimator(
                self._values(name), np.random.default_rng(self.seed), self.level, self.resamples, self._means(name)
            )
            for name in ESTIMATED
        }

    def decision_ms(self, scheduler: str) -> float:
        """CPU time of a scheduler per round, in milliseconds; NaN without rounds.

        For schedulers that play whole episodes in compiled code it includes the simulator (`CompiledScheduler`).
        """
        self._place(scheduler)
        rounds = sum(episode.num_rounds for episode in self.episodes[scheduler])
        seconds = sum(episode.decision_seconds for episode in self.episodes[scheduler])
        return 1000 * seconds / rounds if rounds else math.nan

    @property
    def caption(self) -> str:
        """An explanation of the table: what was compared, how to read it, and what it assumes; a line for each."""
        return "\n".join(self.caption_lines)

    @property
    def caption_lines(self) -> list[str]:
        """The lines of the caption, each of a few short sentences."""
        compared = sum(map(len, self.compared))
        longest = max(self.summaries.values(), key=len)
        measured = sum(summary.num_measured for summary in longest)
        workloads = f"{self.num_workloads} workload{'s' if self.num_workloads > 1 else ''}"
        return [
            *self._task(),
            *self.settings.get("rules", ()),
            f"Means and percentiles are over the {compared} of {measured} measured jobs that every scheduler finished, "
            f"in {workloads}.",
            *self._about_the_window(),
            f"{self.level:.0%} intervals: {method_for(self.num_workloads)}, paired. Ratios are relative to "
            f"{self.reference}.{self.interval_widths and ' '}{self.interval_widths}",
            *self._how_to_read_counts(),
            *self._how_to_read_bounds(),
            *LEGEND,
            *self._not_arrived(),
            *describe_counts(self.runs),
            *(f"Cut short: {name}: {why}." for name, results in self.runs.items() for why in cut_short(results)),
            *describe_job_time(self.settings.get("job_time", {})),
            *(f"Note: {note}." for note in self.settings.get("notes", ())),
            *say_training_seeds(self.settings.get("training_seeds", {})),
            *self.remarks,
        ]

    @property
    def interval_widths(self) -> str:
        """How wide the intervals of ratios of mean JCT are, to the reference and to the best row; empty without any."""
        told: list[str] = []
        for to, role in {self.best: ", the best row", self.reference: ""}.items():
            ratios = [self.ratio(self.metric, name, to=to) for name in self.schedulers if name != to]
            if not math.isnan(width := median_half_width(ratios)):
                told.insert(0, f"+-{width:.1%} relative to {to}{role}")
        said = f"Intervals of {self.metric_name} are {' and '.join(told)} (medians over schedulers)."
        return said if told else ""

    @property
    def remarks(self) -> list[str]:
        """Explanations of the marks beside names of schedulers, one line each; see `remark`."""
        found = {remark for name in self.runs if (remark := self.remark(name))}
        return [f"Marked {mark}: {text}." for mark, text in sorted(found)]

    def remark(self, scheduler: str) -> Remark | None:
        """Return the remark on a scheduler's recorded figures; None if there is none."""
        first = self.runs[scheduler][0]
        return first.remark if isinstance(first, EpisodeFigures) else None

    def marked(self, scheduler: str) -> str:
        """Return a scheduler's name as tables show it: with the mark of its `remark`, and the seed of its training."""
        remark, seed = self.remark(scheduler), self.settings.get("training_seeds", {}).get(scheduler)
        name = scheduler if seed is None else f"{scheduler} (seed {seed})"
        return f"{name} {remark.mark}" if remark else name

    def estimate(self, metric: str, scheduler: str) -> Estimate:
        """Estimate the mean over workloads of a metric of `ESTIMATED` with its interval; errors as in `ratio`."""
        return self.estimators[find_name(metric, ESTIMATED, "has no estimate")].mean(self._place(scheduler))

    def ratio(self, metric: str, scheduler: str, to: str = "") -> Estimate:
        """Estimate the ratio of a metric of `ESTIMATED` to another scheduler's, with its paired interval.

        The other one is the reference if `to` is empty.

        Raises:
            MurmurationError: there is no such metric or scheduler.
        """
        estimator = self.estimators[find_name(metric, ESTIMATED, "has no estimate")]
        return estimator.ratio(self._place(scheduler), self._place(to or self.reference))

    def _place(self, scheduler: str) -> int:
        return self.schedulers.index(find_name(scheduler, self.schedulers, "has no figures here"))

    @cached_property
    def bounds(self) -> list[dict[str, Any]]:
        """The lower bounds as rows: mean JCT over the compared jobs, its ratio, and makespan.

        See `envs.metrics.bounds`. The list is empty without relaxations and without compared jobs.
        """
        if not any(map(len, self.compared)):
            return []
        return [self._bound(name) for name in self.relaxations]

    @cached_property
    def rows(self) -> list[dict[str, Any]]:
        """One row per scheduler: every metric over all workloads, with intervals and ratios; times in seconds.

        Schedulers that failed and inapplicable ones come last and have only the reason.
        """
        ran = [self._row(name) for name in self.schedulers]
        failed = [failure.row() for failure in self.failures.values()]
        left_out = [{"scheduler": name, "inapplicable": reason} for name, reason in self.inapplicable.items()]
        return [*ran, *failed, *left_out]

    def table(self) -> pd.DataFrame:
        """The `rows` and the `bounds` as a data frame; NaN where there is no figure."""
        return pd.DataFrame([*self.rows, *self.bounds])

    def by_workload(self) -> pd.DataFrame:
        """One row per scheduler and workload: every metric; times in seconds."""
        return pd.DataFrame(
            {"scheduler": name, "workload": episode.workload.name, **dataclasses.asdict(summary)}
            for name, results in self.episodes.items()
            for episode, summary in zip(results, self.summaries[name], strict=True)
        )

    def jobs(self, scheduler: str) -> pd.DataFrame:
        """Return a row for each job under a scheduler that was played here: `envs.evaluation.frames.job_frame`."""
        return frame_of_runs(job_frame, scheduler, self.runs[self.schedulers[self._place(scheduler)]])

    def events(self, scheduler: str) -> pd.DataFrame:
        """Return a row for each event likewise: `envs.evaluation.frames.event_frame`."""
        return frame_of_runs(event_frame, scheduler, self.runs[self.schedulers[self._place(scheduler)]])

    def to_json(self) -> str:
        """Return all results as JSON, in seconds at full precision; missing values are null.

        Everything except `cpu_time` is identical, to the bit, whenever the same comparison is run.
        """
        decision = {name: sum(run.decision_seconds for run in results) for name, results in self.runs.items()}
        per_round = {name: self.decision_ms(name) for name in self.schedulers}
        content = {
            "caption": self.caption,
            "settings": dict(self.settings),
            "reference": self.reference,
            "level": self.level,
            "schedulers": self.rows,
            "bounds": self.bounds,
            "by_workload": self.by_workload().to_dict("records"),
            "cpu_time": {"decision_seconds": decision, "decision_ms": per_round},
        }
        return json.dumps(plain(content), indent=2, allow_nan=False) + "\n"

    def _row(self, name: str) -> dict[str, Any]:
        row: dict[str, Any] = {"scheduler": name, **merge_summaries(self.summaries[name])}
        for metric in ESTIMATED:
            mean, ratio = self.estimate(metric, name), self.ratio(metric, name)
            row |= {metric: mean.value, f"{metric}_low": mean.low, f"{metric}_high": mean.high}
            row |= {
                f"{metric}_ratio": ratio.value,
                f"{metric}_ratio_low": ratio.low,
                f"{metric}_ratio_high": ratio.high,
            }
        row |= {"rounds": sum(run.num_rounds for run in self.runs[name]), "num_workloads": len(self.runs[name])}
        row["num_at_limit"] = sum(len(episode.at_limit) for episode in self.episodes[name])
        row["num_never_ran"] = sum(len(episode.never_ran) for episode in self.episodes[name])
        row["bound_ratio"] = self.bound_ratio(name)
        if remark := self.remark(name):
            row["remark"] = remark.text
        return row

    def bound_ratio(self, scheduler: str) -> float:
        """Geometric mean over its workloads of a scheduler's `metric` relative to its lower bound; NaN without one.

        It is the bound at any batch size for schedulers that choose batch sizes, and the other one for the rest.
        """
        name = self.bound_of(scheduler)
        least = self._bound_makespan.get(name, []) if self.metric == "makespan" else self.least_jct(scheduler)
        pairs = zip(self.summaries[scheduler], least, strict=False)
        logs = [math.log(getattr(summary, self.metric) / below) for summary, below in pairs if not math.isnan(below)]
        return math.exp(float(np.mean(logs))) if logs else math.nan

    def least_jct(self, scheduler: str) -> list[float]:
        """Return the lower bound that holds for a scheduler: for each workload, the least mean JCT in seconds.

        It is of the compared jobs; NaN for a workload without them. Empty without relaxations.
        """
        return self._bound_jct.get(self.bound_of(scheduler), [])

    def bound_of(self, scheduler: str) -> str:
        """Return the name of the lower bound that holds for a scheduler."""
        self._place(scheduler)
        return ANY_BATCH if ANY_BATCH in self.relaxations and scheduler in names_batches(self.runs) else BOUND

    @cached_property
    def _bound_jct(self) -> dict[str, list[float]]:
        """For each bound and workload the least mean JCT of the compared jobs; NaN without such jobs."""
        return {name: [relaxed.mean_jct() for relaxed in of_all] for name, of_all in self._relaxed.items()}

    @property
    def searched_bounds(self) -> dict[str, Seconds]:
        """The searched or known parts of the lower bounds of all compared jobs, see `Relaxation.searched`."""
        each = (relaxed.searched for of_all in self._relaxed.values() for relaxed in of_all if len(relaxed.alone))
        return {digest: total for searched in each for digest, total in searched.items()}

    @cached_property
    def _relaxed(self) -> dict[str, list[Relaxation]]:
        """For each bound and workload the relaxation of the compared jobs, which keeps the prices that it has found."""
        return {
            name: [relaxation.of_jobs(jobs) for relaxation, jobs in zip(relaxations, self.compared, strict=True)]
            for name, relaxations in self.relaxations.items()
        }

    @cached_property
    def _bound_makespan(self) -> dict[str, list[float]]:
        """For each bound and workload the least makespan of the measured jobs; NaN without compared jobs."""
        longest = max(self.episodes.values(), key=len)
        found: dict[str, list[float]] = {}
        for name, relaxations in self.relaxations.items():
            least = found.setdefault(name, [])
            for relaxation, relaxed, jobs, run in zip(
                relaxations, self._relaxed[name], self.compared, longest, strict=True
            ):
                measured = np.sort(run.jobs["job"])
                known = relaxed if np.array_equal(measured, jobs) else relaxation.of_jobs(measured)
                least.append(known.makespan() if len(jobs) else math.nan)
        return found

    def _bound(self, name: str) -> dict[str, Any]:
        least = {"mean_jct": self._bound_jct[name], "makespan": self._bound_makespan[name]}
        row: dict[str, Any] = {"scheduler": name, "num_workloads": self.num_workloads}
        for metric, values in least.items():
            reference = zip(values, self.summaries[self.reference], strict=False)
            logs = [np.log(below / getattr(own, metric)) for below, own in reference if not math.isnan(below)]
            row[metric] = float(np.nanmean(values))
            row[f"{metric}_ratio"] = float(np.exp(np.mean(logs))) if logs else math.nan
        return row

    def _about_the_window(self) -> list[str]:
        """Say which jobs are measured, and for which of them the cluster emptied; nothing if all jobs are measured."""
        episodes = self.episodes[self.reference]
        number = sum(len(episode.jobs) for episode in episodes)
        if all(episode.workload.measured.all() for episode in episodes) or not number:
            return []
        late, stay, beyond = (sum(getattr(each, name) for each in episodes) for name in ("num_late", "stay", "beyond"))
        return [
            "Measured jobs are those submitted in each workload's window. Figures of the cluster are over that window.",
            f"Under {self.reference}, {late / number:.1%} of measured jobs end after the last submission, and "
            f"{beyond / stay if stay else 0.0:.1%} of the measured jobs' time is after it, while the cluster empties.",
        ]

    def _task(self) -> list[str]:
        task = self.settings.get("task")
        return [f"Task {task['label']}, to minimise {task['objective']}."] if task else []

    def _not_arrived(self) -> list[str]:
        counts = {
            name: sum(run.num_not_arrived for run in results if isinstance(run, RunResult))
            for name, results in self.runs.items()
        }
        if not any(counts.values()):
            return []
        said = ", ".join(f"{count:,} under {name}" for name, count in counts.items() if count)
        return [
            f"Jobs that the end of a run, such as the horizon, kept from arriving, and that no figure counts: {said}."
        ]

    def _how_to_read_counts(self) -> list[str]:
        if not self.partial:
            return []
        return [
            "n is the number of workloads that a scheduler ran: slow ones run only the first.",
            "Its mean is over its own workloads, its ratio over those that the reference ran too; rows are ordered by "
            "the ratio.",
        ]

    def _how_to_read_bounds(self) -> list[str]:
        if not self.bounds:
            return []
        best, of_all = self.best, " of all workloads" if self.partial else ""
        above = self.bound_ratio(best)
        nearest = ""
        if not math.isnan(above):
            nearest = f" The best row{of_all}, {best}, is {above - 1:.0%} above its lower bound."
        below = f"No scheduler can be below the lower bound at the simulator's batch sizes.{nearest}"
        choosing = names_batches(self.runs)
        if ANY_BATCH not in self.relaxations or not choosing:
            return [below]
        verb, whom = ("choose", "them") if len(choosing) > 1 else ("chooses", "it")
        return [below, f"{', '.join(choosing)} {verb} batch sizes; only the second bound holds for {whom}."]

    def _values(self, metric: str) -> list[FloatArray]:
        if metric not in MEANS_OF_JOBS:  # a single figure for each workload
            return [np.array([[value] for value in row]) for row in self._means(metric)]

        def of_run(results: Sequence[EpisodeFigures], workload: int, jobs: IntArray) -> FloatArray:
            if workload >= len(results):
                return np.full(len(jobs), np.nan)
            return MEANS_OF_JOBS[metric](results[workload].rows(jobs))

        return [
            np.stack([of_run(results, workload, jobs) for results in self.episodes.values()])
            for workload, jobs in enumerate(self.compared)
        ]

    def _means(self, metric: str) -> FloatArray:
        """float64[num_workloads, num_schedulers]: exact means over the compared jobs; NaN where there is none."""
        means = np.full((self.num_workloads, len(self.runs)), np.nan)
        for column, summaries in enumerate(self.summaries.values()):
            means[: len(summaries), column] = [getattr(summary, metric) for summary in summaries]
        return means
