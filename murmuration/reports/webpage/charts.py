"""Charts of a comparison as `static/chart.js` draws them: mean JCT and decisions, distributions, jobs by size.

A chart has `data`, a list of traces, and `layout`, with the axes `x` and `y`, see `axis`, and `height` in pixels. A
trace has points `x` and `y`; `mode`, which is lines, marks or both; `colour`, `dash`, `width` and `symbol`; `step`, if
a line has steps; `bar`, the ends of the interval of its point; `label`, beside its point; `texts` of its points;
`hover`, what is said of a point, with {x}, {y} and {text} in it; and `of`, its scheduler, so that the page can show and
hide schedulers in all charts at once. Traces of boxes are made by `schedule_chart`.
"""

import math
from collections.abc import Callable, Mapping, Sequence
from functools import cached_property
from typing import Any

import numpy as np
import numpy.typing as npt

from envs.evaluation.aggregate import Aggregate, performance_profile, profile_thresholds
from envs.evaluation.comparison import Comparison
from envs.evaluation.episode import MEANS_OF_JOBS
from envs.evaluation.statistics import Estimate
from envs.metrics import job_completion_times
from envs.performance import plain_model
from envs.pictures.plots import COLOURS
from envs.types import FloatArray
from murmuration.reports.table import unit_for
from murmuration.reports.tradeoff import LEAST_MS

Chart = dict[str, Any]
DASHES = ("solid", "dash", "dot", "dashdot")  # of lines, with COLOURS: 28 distinct lines
SYMBOLS = ("circle", "square", "diamond", "triangle-up")
NUM_QUANTILES = 160  # points of a distribution
SIZES = (1, 2, 4, 8, 16, 32, 64)  # GPUs requested: the lower ends of the classes
FIGURES = {"JCT": "mean_jct", "wait": "mean_wait", "time to start": "mean_time_to_start"}  # by the words of titles


class ComparisonCharts:
    """The charts of one comparison.

    Args:
        comparison: the comparison.
        policies: names of trained policies among its schedulers.
    """

    def __init__(self, comparison: Comparison, policies: Sequence[str] = ()) -> None:
        self.comparison, self.policies = comparison, [name for name in policies if name in comparison.runs]

    @property
    def subject(self) -> str:
        """The scheduler that the page is about: the first policy, or the best."""
        return self.policies[0] if self.policies else self.comparison.order[0]

    @property
    def rival(self) -> str:
        """The best of the other schedulers that are no policies; the subject itself if there is none."""
        others = [name for name in self.comparison.order if name != self.subject and name not in self.policies]
        return others[0] if others else self.subject

    @cached_property
    def shown(self) -> list[str]:
        """The schedulers that charts show at first: policies, the best three others, planner and reference."""
        best = [name for name in self.comparison.order if name not in self.policies][:3]
        wanted = {*self.policies, *best, self.comparison.reference, "planner"}
        return [name for name in self.comparison.schedulers if name in wanted]

    def style(self, scheduler: str) -> dict[str, str]:
        """Return colour, dash of lines and symbol of marks of a scheduler; those shown at first differ most."""
        others = [name for name in self.comparison.schedulers if name not in self.shown]
        place = [*self.shown, *others].index(scheduler)
        return line_style(place)

    def trace(self, scheduler: str, **fields: Any) -> dict[str, Any]:
        """Return a trace in the scheduler's style."""
        return {"of": scheduler, "visible": scheduler in self.shown, **self.style(scheduler), **fields}

    def jct_and_cpu_time(self) -> Chart:
        """The figure to minimise, with its interval, against the CPU time of a decision."""
        metric, figure = self.comparison.metric, self.comparison.metric_name
        estimates = {name: self.comparison.estimate(metric, name) for name in self.comparison.schedulers}
        unit, word = unit_for(max((each.value for each in estimates.values()), default=0.0))
        cost = {name: max(self.comparison.decision_ms(name), LEAST_MS) for name in estimates}
        traces = [
            self.trace(
                name,
                x=[cost[name]],
                y=[estimate.value / unit],
                bar=interval_of(estimate, unit),
                mode="marks",
                label=name,
                hover=f"{name}\n{figure} {{y}} {word}\n{{x}} ms per decision",
            )
            for name, estimate in estimates.items()
        ]
        return chart(traces, axis("CPU time per decision (ms)", log=True), axis(f"{figure} ({word})", log=True))

    def jct_distribution(self) -> Chart:
        """Share of jobs with at most a JCT, over the jobs that all schedulers finished."""
        jct = {name: self.values(name, job_completion_times) for name in self.comparison.schedulers}
        unit, word = unit_for(max((float(each.mean()) for each in jct.values() if len(each)), default=0.0))
        shares = np.linspace(0, 1, NUM_QUANTILES)
        traces = [
            self.trace(
                name,
                x=short(np.maximum(np.quantile(values, shares), 1e-3) / unit),
                y=short(shares),
                mode="lines",
                hover=f"{name}: {{y}} of jobs within {{x}} {word}",
            )
            for name, values in jct.items()
            if len(values)
        ]
        return chart(traces, axis(f"job completion time ({word})", log=True), axis("share of jobs", percent=True))

    def by_size(self, figure: str) -> Chart:
        """A mean of `FIGURES` of jobs by the GPUs that they request."""
        known = self.means_by(figure, self.size_classes)
        unit, word = unit_of(known)
        labels = [f"{size}+" if size == SIZES[-1] else str(size) for size in SIZES]
        present = [row for row in range(len(SIZES)) if any(not math.isnan(means[row]) for means in known.values())]
        traces = [
            self.trace(
                name,
                x=[labels[row] for row in present],
                y=short(means[present] / unit),
                mode="both",
                hover=f"{name}\n{{x}} GPUs: mean {figure} {{y}} {word}",
            )
            for name, means in known.items()
        ]
        names = axis("GPUs requested (lower end of class)", names=[labels[row] for row in present])
        return chart(traces, names, time_from_zero(f"mean {figure} ({word})", figure))

    def by_model(self, figure: str) -> Chart:
        """A mean of `FIGURES` of jobs by model."""
        models = sorted(
            {
                model
                for results in self.comparison.episodes.values()
                for result in results
                for model in result.workload.known_models
            }
        )
        known = self.means_by(
            figure,
            lambda workload: np.array([models.index(plain_model(each)) for each in workload.models])[
                workload.jobs["model"]
            ],
            len(models),
        )
        unit, word = unit_of(known)
        first = next((name for name in (*self.shown, *known) if name in known), None)
        reference = known[first] if first is not None else np.full(len(models), np.nan)
        order = [row for row in np.argsort(np.nan_to_num(reference)) if not math.isnan(reference[row])]
        traces = [
            self.trace(
                name,
                x=short(means[order] / unit),
                y=[models[row] for row in order],
                mode="marks",
                hover=f"{name}\n{{y}}: mean {figure} {{x}} {word}",
            )
            for name, means in known.items()
        ]
        names = axis("", names=[models[row] for row in order])
        return chart(traces, time_from_zero(f"mean {figure} ({word})", figure), names, 130 + 20 * len(order))

    def by_workload(self) -> Chart:
        """The figure to minimise of every scheduler against the best baseline's, a mark for each workload."""
        metric, figure = self.comparison.metric, self.comparison.metric_name
        values = {
            name: np.array([getattr(summary, metric) for summary in rows])
            for name, rows in self.comparison.summaries.items()
        }
        base = values[self.rival]
        everything = np.concatenate(list(values.values())).tolist()
        finite = [value for value in everything if value == value and value > 0]
        unit, word = unit_for(float(np.mean(finite)) if finite else 0.0)
        traces: list[dict[str, Any]] = []
        for name in (each for each in self.comparison.schedulers if each != self.rival):
            own = values[name]
            both = min(len(own), len(base))
            names = [episode.workload.name for episode in self.comparison.episodes[name][:both]]
            traces.append(
                self.trace(
                    name,
                    x=short(base[:both] / unit),
                    y=short(own[:both] / unit),
                    texts=names,
                    mode="marks",
                    hover=f"{{text}}\n{name} {{y}} {word}\n{self.rival} {{x}} {word}",
                )
            )
        known = base[base > 0] / unit
        if len(known):
            ends = short([known.min() * 0.9, known.max() * 1.1])
            traces.append({"x": ends, "y": ends, "mode": "lines", "colour": "#777", "dash": "dot", "width": 1})
        horizontal = axis(f"{figure} of {self.rival} ({word})", log=True)
        return chart(traces, horizontal, axis(f"{figure} ({word})", log=True))

    def performance_profiles(self, aggregates: Sequence[Aggregate]) -> Chart:
        """Share of scores (workloads x training seeds) that are at most as large as the horizontal position."""
        thresholds = profile_thresholds(aggregates)
        traces = [
            self.trace(
                name if name in self.comparison.runs else self.subject,
                x=short(thresholds),
                y=short(performance_profile(each.scores, thresholds)),
                mode="lines",
                width=1.5,
                step=True,
                hover=f"{name}: {{y}} of scores are at most {{x}}",
            )
            for name, each in ((each.name, each) for each in aggregates)
        ]
        figure = self.comparison.metric_name
        horizontal = axis(f"{figure} / {figure} of {self.comparison.reference}", log=True)
        return chart(traces, horizontal, axis("share of scores", percent=True))

    def values(self, scheduler: str, metric: Callable[[npt.NDArray[np.void]], FloatArray]) -> FloatArray:
        """Return float64[n]: a metric of all compared jobs under one scheduler."""
        pairs = zip(self.comparison.episodes[scheduler], self.comparison.compared, strict=False)
        return np.concatenate([metric(episode.rows(jobs)) for episode, jobs in pairs])

    def size_classes(self, workload: Any) -> npt.NDArray[np.int64]:
        """Return int64[num_jobs]: the class of `SIZES` of every job of a workload."""
        found: npt.NDArray[np.int64] = np.searchsorted(SIZES, workload.jobs["num_gpus"], side="right") - 1
        return found

    def means_by(
        self, figure: str, classify: Callable[[Any], npt.NDArray[np.int64]], num_classes: int = len(SIZES)
    ) -> Mapping[str, FloatArray]:
        """Return means over the compared jobs by scheduler: float64[num_classes]; nothing for one without figures."""
        found = {}
        for name, results in self.comparison.episodes.items():
            sums, counts = np.zeros(num_classes), np.zeros(num_classes)
            for episode, jobs in zip(results, self.comparison.compared, strict=False):
                rows = episode.rows(jobs)
                place = classify(episode.workload)[rows["job"]]
                sums += np.bincount(place, MEANS_OF_JOBS[FIGURES[figure]](rows), num_classes)
                counts += np.bincount(place, minlength=num_classes)
            with np.errstate(invalid="ignore"):
                means = sums / counts
            if not np.isnan(means).all():
                found[name] = means
        return found


def line_style(place: int) -> dict[str, str]:
    """Return colour, dash of lines and symbol of marks; the first ones differ most."""
    turn = place // len(COLOURS)
    return {
        "colour": COLOURS[place % len(COLOURS)].replace("#000000", "var(--ink)"),  # black, and white on a dark page
        "dash": DASHES[turn % len(DASHES)],
        "symbol": SYMBOLS[turn % len(SYMBOLS)],
    }


def unit_of(known: Mapping[str, FloatArray]) -> tuple[float, str]:
    """Choose the unit for means of times."""
    values = np.concatenate([np.zeros(1), *known.values()])
    return unit_for(float(np.nanmedian(values[values > 0])) if (values > 0).any() else 0.0)


def interval_of(estimate: Estimate, unit: float) -> list[float] | None:
    """Return the ends of an interval; None without one."""
    ends = [estimate.low / unit, estimate.high / unit]
    return None if any(map(math.isnan, ends)) else ends


def short(values: npt.ArrayLike) -> list[float | None]:
    """Return numbers with five significant digits; None for NaN."""
    return [None if math.isnan(each) else float(f"{each:.5g}") for each in np.asarray(values, np.float64).tolist()]


def axis(title: str, **fields: Any) -> dict[str, Any]:
    """Return an axis.

    Args:
        title: ends with the unit in brackets.
        fields: `log`, if it is logarithmic; `tozero`, if it begins at 0; `percent`, if its values are shares; `names`
            in their order; `range`, its ends; `ticks`, pairs of value and text; and of an axis of time, `time` and its
            `unit` in seconds, and `zero`, the date of 0 in ISO 8601, if the trace has dates.
    """
    return {"title": title, **fields}


def time_from_zero(title: str, figure: str) -> dict[str, Any]:
    """Return a logarithmic axis; one from 0 on for times without GPUs, which may be 0."""
    return axis(title, log=True) if figure == "JCT" else axis(title, tozero=True)


def chart(traces: Sequence[Mapping[str, Any]], x: Mapping[str, Any], y: Mapping[str, Any], height: int = 380) -> Chart:
    """Return a chart."""
    return {"data": [dict(trace) for trace in traces], "layout": {"x": dict(x), "y": dict(y), "height": height}}
