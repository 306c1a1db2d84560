"""Learning curves of runs from nothing: the cost in validation over the CPU time of training, with the baselines."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field

import numpy as np
from matplotlib.axes import Axes
from matplotlib.figure import Figure
from matplotlib.ticker import LogLocator, NullFormatter, StrMethodFormatter

from agents.goal import Goal
from agents.training import TrainingState
from agents.validation import ratio_to_best
from envs.evaluation.aggregate import interquartile_mean
from envs.pictures.plots import COLOURS
from envs.pictures.texts import plot_text
from envs.types import FloatArray

FIRST_SECOND = 1.0  # where the axis begins, and where the untrained policy is drawn
MOST_RESAMPLES = 2_000
TICKS = (0.25, 0.5, 0.75, 1, 1.5, 2, 2.5, 3, 4, 5, 6, 8, 10, 15, 20, 30, 40, 60, 80)  # hours
LOWEST_LEVEL = -0.25  # of progress that is drawn
CLOSE = 0.02  # share of its height within which a line is named beside another one


@dataclass(frozen=True)
class CostCurve:
    """The validations of one training run on its first task, or over all worlds if they are drawn.

    Attributes:
        task: its name, or "20 worlds".
        seed: of the training run.
        iterations: after which the policy was validated, in order.
        seconds: float64[validations], CPU time of training before each, without validation.
        cost: float64[validations], mean JCT, or another goal, of the better of greedy and sampled choices, in s, or a
            ratio.
        baselines: the same of schedulers on the same workloads.
        goal: what the cost is.
    """

    task: str
    seed: int
    iterations: tuple[int, ...]
    seconds: FloatArray
    cost: FloatArray
    baselines: Mapping[str, float]
    goal: Goal = field(default_factory=Goal)

    @classmethod
    def of(cls, state: TrainingState) -> "CostCurve":
        """Return the curve of a run's progress.

        Raises:
            KeyError, TypeError, ValueError: the run has no validations of this form.
        """
        iterations = sorted(map(int, state.validation))
        tasks = {task for figures in state.validation.values() for task in [*figures][:1]}
        if len(tasks) != 1:
            raise ValueError(f"validations begin with {len(tasks)} tasks; it must be one")
        (task,), goal = tasks, Goal(float(state.makespan_share), bool(state.relative))
        costs = [
            {key: float(own["compared_cost"]) for key, own in state.validation[str(i)].items()} for i in iterations
        ]
        found = cls(
            f"{len(costs[0])} worlds" if goal.relative else task,
            state.seed,
            tuple(iterations),
            np.array([float(sum(state.cpu_time[:i])) for i in iterations]),
            np.array([ratio_to_best(each, state.baselines) if goal.relative else each[task] for each in costs]),
            {name: float(goal.cost(figures)) for name, figures in state.baselines.items()},
            goal,
        )
        if not all(np.isfinite(each).all() for each in (found.seconds, found.cost, list(found.baselines.values()))):
            raise ValueError("a figure is not finite")
        return found

    def progress(self, zero: str, one: str) -> FloatArray:
        """Return float64[validations]: how far the cost has come from one baseline (0) to another (1).

        Raises:
            KeyError: there is no such baseline.
        """
        start = self.baselines[zero]
        return (start - self.cost) / (start - self.baselines[one])

    def first_below(self, name: str) -> float:
        """Return the CPU time at the first validation below a baseline, in s; infinite without one.

        Raises:
            KeyError: there is no such baseline.
        """
        below = np.flatnonzero(self.cost < self.baselines[name])
        return float(self.seconds[below[0]]) if len(below) else np.inf


def mean_with_band(values: FloatArray) -> tuple[FloatArray, FloatArray, FloatArray]:
    """Return the interquartile mean over seeds and a 95 % percentile bootstrap interval, float64[points] each.

    See Agarwal et al. 2021, "Deep Reinforcement Learning at the Edge of the Statistical Precipice", section 4.3.

    Args:
        values: float64[seeds, points].
    """
    rng = np.random.default_rng(0)
    drawn = rng.integers(0, len(values), (MOST_RESAMPLES, len(values)))
    middle = np.array([interquartile_mean(column) for column in values.T])
    means = np.array([[interquartile_mean(column[each]) for column in values.T] for each in drawn])
    low, high = np.quantile(means, [0.025, 0.975], axis=0)
    return middle, low, high


def cost_curves(runs: Sequence[CostCurve], title: str = "") -> Figure:
    """Draw the cost over CPU time; over several seeds, their interquartile mean with a 95 % band.

    Args:
        runs: of all training seeds, validated after the same iterations.
        title: of the chart.
    """
    figure = Figure(figsize=(7.6, 4.2), layout="constrained")
    axes = figure.subplots()
    seconds = np.maximum(np.mean([run.seconds for run in runs], axis=0), FIRST_SECOND)
    goal = runs[0].goal
    middle, low, high = mean_with_band(np.stack([run.cost for run in runs]) / goal.unit)
    if len(runs) > 1:
        axes.fill_between(seconds, low, high, color=COLOURS[0], alpha=0.25, lw=0)
    axes.plot(seconds, middle, color=COLOURS[0], lw=2.2, marker="o", ms=3)
    axes.annotate("policy", (seconds[-1], middle[-1]), (4, -2), textcoords="offset points", color=COLOURS[0], va="top")
    draw_levels(axes, {name: value / goal.unit for name, value in runs[0].baselines.items()})
    over_cpu_time(axes)
    axes.set_yscale("log")
    axes.yaxis.set_major_formatter(StrMethodFormatter("{x:g}"))
    axes.yaxis.set_minor_formatter(NullFormatter())
    least, most = axes.get_ylim()
    axes.set_yticks([each for each in TICKS if least <= each <= most])
    axes.set_ylim(least, most)
    axes.set_ylabel(plot_text(f"{goal.axis} in validation"))
    axes.set_title(plot_text(title), fontsize=10, loc="left")
    return figure


def compare_progress(methods: Mapping[str, Sequence[CostCurve]], zero: str, one: str) -> Figure:
    """Draw how far several methods come from one baseline (0) to another (1), over CPU time; a chart for each task.

    A line is the interquartile mean over training seeds, with a 95 % band. Further baselines are horizontal lines.

    Args:
        methods: by name, the curves of all training seeds, validated after the same iterations on each task.
        zero: the baseline at 0, such as random.
        one: the baseline at 1.
    """
    tasks = list(dict.fromkeys(curve.task for curves in methods.values() for curve in curves))
    figure = Figure(figsize=(7.6, 4.0 * len(tasks)), layout="constrained")
    for task, axes in zip(tasks, figure.subplots(len(tasks), squeeze=False)[:, 0], strict=True):
        levels: dict[str, float] = {}
        for i, (name, curves) in enumerate(methods.items()):
            own = [curve for curve in curves if curve.task == task]
            if not own:
                continue
            seconds = np.maximum(np.mean([curve.seconds for curve in own], axis=0), FIRST_SECOND)
            middle, low, high = mean_with_band(np.stack([curve.progress(zero, one) for curve in own]))
            colour = COLOURS[i % len(COLOURS)]
            axes.fill_between(seconds, low, high, color=colour, alpha=0.2, lw=0)
            axes.plot(seconds, middle, color=colour, lw=1.8, marker="o", ms=3, label=plot_text(name))
            start, end = own[0].baselines[zero], own[0].baselines[one]
            levels = {each: (start - value) / (start - end) for each, value in own[0].baselines.items()}
        draw_levels(axes, {name: level for name, level in levels.items() if level >= LOWEST_LEVEL})
        axes.set_ylim(LOWEST_LEVEL, 1.1)
        over_cpu_time(axes)
        axes.set_ylabel(plot_text(f"progress from {zero} to {one}"))
        axes.set_title(plot_text(task), fontsize=10, loc="left")
        axes.legend(frameon=False, fontsize=9, loc="lower right")
    return figure


def over_cpu_time(axes: Axes) -> None:
    """Put CPU time on a logarithmic horizontal axis."""
    axes.set_xscale("log")
    axes.xaxis.set_major_locator(LogLocator(subs=(1.0, 2.0, 5.0)))
    axes.xaxis.set_major_formatter(StrMethodFormatter("{x:g}"))
    axes.xaxis.set_minor_formatter(NullFormatter())
    axes.set_xlabel("CPU-seconds of training, from random weights")
    axes.spines[["top", "right"]].set_visible(False)


def draw_levels(axes: Axes, levels: Mapping[str, float]) -> None:
    """Draw baselines as horizontal lines with their names at the left, those of lines that nearly coincide together."""
    named: dict[float, list[str]] = {}
    for name, value in sorted(levels.items(), key=lambda item: item[1]):
        axes.axhline(value, color="0.6", lw=0.9, zorder=0)
        near = [each for each in named if abs(value - each) < CLOSE * abs(each)]
        named.setdefault(near[0] if near else value, []).append(name)
    for value, names in named.items():
        axes.annotate(
            plot_text(", ".join(names)),
            (0.0, value),
            (3, 2),
            xycoords=("axes fraction", "data"),
            textcoords="offset points",
            fontsize=8,
        )
