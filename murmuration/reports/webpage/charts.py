"""Charts of a comparison as figures of plotly.js: mean JCT and decisions, distributions, jobs by size and by model.

A chart is a mapping with the keys `data` and `layout`, as https://plotly.com/javascript/reference defines them. Every
trace names its scheduler under `meta`, so that the page can show and hide schedulers in all charts at once.
"""

import math
from collections.abc import Callable, Mapping, Sequence
from functools import cached_property
from html import escape
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
AXIS = {
    "gridcolor": "#e6e6e6",
    "zeroline": False,
    "automargin": True,
    "linecolor": "#999",
    "ticks": "outside",
    "autotickangles": [0, -90],  # of labels that would overlap; at 30 degrees the last one reaches over the edge
}


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
        turn = place // len(COLOURS)
        return {
            "colour": COLOURS[place % len(COLOURS)],
            "dash": DASHES[turn % len(DASHES)],
            "symbol": SYMBOLS[turn % len(SYMBOLS)],
        }

    def trace(self, scheduler: str, **fields: Any) -> dict[str, Any]:
        """Return a trace in the scheduler's style."""
        style = self.style(scheduler)
        return {
            "type": "scatter",
            "name": scheduler,
            "meta": scheduler,
            "showlegend": False,
            "visible": scheduler in self.shown,
            "line": {"color": style["colour"], "dash": style["dash"], "width": 2},
            "marker": {"color": style["colour"], "symbol": style["symbol"], "size": 9},
            **fields,
        }

    def thin_line(self, scheduler: str) -> dict[str, Any]:
        """Return a line in a scheduler's style, thinner than that of `trace`."""
        style = self.style(scheduler)
        return {"color": style["colour"], "dash": style["dash"], "width": 1.5}

    def jct_and_cpu_time(self) -> Chart:
        """The figure to minimise, with its interval, against the CPU time of a decision."""
        metric, figure = self.comparison.metric, self.comparison.metric_name
        estimates = {name: self.comparison.estimate(metric, name) for name in self.comparison.schedulers}
        unit, word = unit_for(max((each.value for each in estimates.values()), default=0.0))
        cost = {name: max(self.comparison.decision_ms(name), LEAST_MS) for name in estimates}
        middle = math.sqrt(min(cost.values()) * max(cost.values()))
        traces = [
            self.trace(
                name,
                x=[cost[name]],
                y=[estimate.value / unit],
                error_y=error_bar(estimate, unit),
                mode="markers+text",
                text=[escape(name)],
                textposition="top right" if cost[name] <= middle else "top left",
                cliponaxis=False,
                hovertemplate=f"{escape(name)}<br>{figure} %{{y:.3g}} {word}<br>%{{x:.3g}} ms per decision"
                "<extra></extra>",
            )
            for name, estimate in estimates.items()
        ]
        horizontal = log_axis("CPU time per decision (ms)", [trace["x"] for trace in traces])
        return chart(traces, horizontal, log_axis(f"{figure} ({word})", [trace["y"] for trace in traces]))

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
                hovertemplate=f"{escape(name)}: %{{y:.0%}} of jobs within %{{x:.3g}} {word}<extra></extra>",
            )
            for name, values in jct.items()
            if len(values)
        ]
        horizontal = log_axis(f"job completion time ({word})", [trace["x"] for trace in traces])
        return chart(traces, horizontal, axis("share of jobs", tickformat=".0%"))

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
                mode="lines+markers",
                cliponaxis=False,
                hovertemplate=f"{escape(name)}<br>%{{x}} GPUs: mean {figure} %{{y:.3g}} {word}<extra></extra>",
            )
            for name, means in known.items()
        ]
        names = axis("GPUs requested (lower end of class)", type="category")
        return chart(traces, names, log_or_linear(f"mean {figure} ({word})", figure))

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
                y=[escape(models[row]) for row in order],
                mode="markers",
                cliponaxis=False,
                hovertemplate=f"{escape(name)}<br>%{{y}}: mean {figure} %{{x:.3g}} {word}<extra></extra>",
            )
            for name, means in known.items()
        ]
        made = chart(traces, log_or_linear(f"mean {figure} ({word})", figure), axis("", type="category"))
        made["layout"]["height"] = 130 + 20 * len(order)
        return made

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
            names = [escape(episode.workload.name) for episode in self.comparison.episodes[name][:both]]
            mine, others = f"{escape(name)} %{{y:.3g}} {word}", f"{escape(self.rival)} %{{x:.3g}} {word}"
            traces.append(
                self.trace(
                    name,
                    x=short(base[:both] / unit),
                    y=short(own[:both] / unit),
                    text=names,
                    mode="markers",
                    hovertemplate=f"%{{text}}<br>{mine}<br>{others}<extra></extra>",
                )
            )
        known = base[base > 0] / unit
        if len(known):
            ends = short([known.min() * 0.9, known.max() * 1.1])
            line = {"color": "#777", "dash": "dot", "width": 1}
            traces.append({"type": "scatter", "x": ends, "y": ends, "mode": "lines", "line": line} | UNNAMED)
        horizontal = log_axis(f"{figure} of {self.rival} ({word})", [each for trace in traces for each in trace["x"]])
        seen = [each for trace in traces for each in trace["y"]]
        return chart(traces, horizontal, log_axis(f"{figure} ({word})", seen))

    def performance_profiles(self, aggregates: Sequence[Aggregate]) -> Chart:
        """Share of scores (workloads x training seeds) that are at most as large as the horizontal position."""
        thresholds = profile_thresholds(aggregates)
        traces = [
            self.trace(
                name if name in self.comparison.runs else self.subject,
                x=short(thresholds),
                y=short(performance_profile(each.scores, thresholds)),
                mode="lines",
                line={**self.thin_line(name if name in self.comparison.runs else self.subject), "shape": "hv"},
                hovertemplate=f"{escape(name)}: %{{y:.0%}} of scores are at most %{{x:.3g}}<extra></extra>",
            )
            for name, each in ((each.name, each) for each in aggregates)
        ]
        figure = self.comparison.metric_name
        horizontal = log_axis(f"{figure} / {figure} of {self.comparison.reference}")
        return chart(traces, horizontal, axis("share of scores", tickformat=".0%"))

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


UNNAMED = {"showlegend": False, "hoverinfo": "skip"}


def unit_of(known: Mapping[str, FloatArray]) -> tuple[float, str]:
    """Choose the unit for means of times."""
    values = np.concatenate([np.zeros(1), *known.values()])
    return unit_for(float(np.nanmedian(values[values > 0])) if (values > 0).any() else 0.0)


def error_bar(estimate: Estimate, unit: float) -> dict[str, Any]:
    """Return the bar of an interval; hidden without one."""
    above, below = (estimate.high - estimate.value) / unit, (estimate.value - estimate.low) / unit
    known = not (math.isnan(above) or math.isnan(below))
    return {"type": "data", "symmetric": False, "array": [above], "arrayminus": [below], "visible": known, "width": 4}


def short(values: npt.ArrayLike) -> list[float | None]:
    """Return numbers with five significant digits; None for NaN."""
    return [None if math.isnan(each) else float(f"{each:.5g}") for each in np.asarray(values, np.float64).tolist()]


def axis(title: str, **fields: Any) -> dict[str, Any]:
    """Return an axis with a title, which ends with the unit in brackets."""
    return {**AXIS, "title": {"text": title, "standoff": 8}, **fields}


def log_axis(title: str, values: npt.ArrayLike = ()) -> dict[str, Any]:
    """Return a logarithmic axis.

    Args:
        title: see `axis`.
        values: what it shows. Over more than two decades their beginnings have labels, over less than half a decade
            a few numbers, and else, or without values, 1, 2 and 5 of each decade.
    """
    shown = np.asarray(values, np.float64)
    shown = shown[shown > 0]  # without unknown ones
    decades = float(np.log10(shown.max() / shown.min())) if shown.size else 1.0
    labels = {"dtick": 1} if decades > 2 else {"dtick": "D2"} if decades > 0.5 else {"nticks": 5}
    return axis(title, type="log", exponentformat="none", tickformat=",.3~g", **labels)


def log_or_linear(title: str, figure: str) -> dict[str, Any]:
    """Return a logarithmic axis; a linear one for times without GPUs, which may be 0."""
    return log_axis(title) if figure == "JCT" else axis(title, rangemode="tozero")


def chart(traces: Sequence[Mapping[str, Any]], x: Mapping[str, Any], y: Mapping[str, Any]) -> Chart:
    """Return a chart with the page's layout."""
    layout = {
        "xaxis": dict(x),
        "yaxis": dict(y),
        "height": 380,
        "margin": {"l": 60, "r": 24, "t": 16, "b": 54},
        "paper_bgcolor": "#fff",
        "plot_bgcolor": "#fff",
        "font": {"family": "system-ui, sans-serif", "size": 13, "color": "#222"},
        "hovermode": "closest",
        "dragmode": False,
    }
    return {"data": [dict(trace) for trace in traces], "layout": layout}
