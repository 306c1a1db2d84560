"""Learning curves of runs from nothing: mean JCT in validation over the CPU time of training, with the baselines."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

import numpy as np
from matplotlib.axes import Axes
from matplotlib.figure import Figure
from matplotlib.ticker import NullFormatter, StrMethodFormatter

from envs.evaluation.aggregate import interquartile_mean
from envs.evaluation.plots import COLOURS
from envs.types import FloatArray
from envs.types.units import HOUR

FIRST_SECOND = 1.0  # where the axis begins, and where the untrained policy is drawn
MOST_RESAMPLES = 2_000


@dataclass(frozen=True)
class JctCurve:
    """The validations of one training run on its first task.

    Attributes:
        seconds: float64[validations], CPU time of training before each, without validation.
        jct: float64[validations], mean JCT of the better of greedy and sampled choices, in s.
        baselines: mean JCT of schedulers on the same workloads, in s.
    """

    seconds: FloatArray
    jct: FloatArray
    baselines: Mapping[str, float]

    @classmethod
    def of(
        cls,
        validation: Mapping[str, Mapping[str, Mapping[str, float]]],
        cpu_time: Sequence[float],
        baselines: Mapping[str, Mapping[str, float]],
    ) -> "JctCurve":
        """Return the curve of a run's progress; the arguments are fields of `agents.training.TrainingState`."""
        iterations = sorted(map(int, validation))
        first = [next(iter(validation[str(i)].values())) for i in iterations]
        return cls(
            np.array([sum(cpu_time[:i]) for i in iterations]),
            np.array([figures["compared_jct"] for figures in first]),
            {name: figures["mean_jct"] for name, figures in baselines.items()},
        )


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


def jct_curves(runs: Sequence[JctCurve], title: str = "") -> Figure:
    """Draw the mean JCT over CPU time; over several seeds, their interquartile mean with a 95 % band.

    Args:
        runs: of all training seeds, validated after the same iterations.
        title: of the chart.
    """
    figure = Figure(figsize=(7.6, 4.2), layout="constrained")
    axes = figure.subplots()
    seconds = np.maximum(np.mean([run.seconds for run in runs], axis=0), FIRST_SECOND)
    jct = np.stack([run.jct for run in runs]) / HOUR
    middle, low, high = mean_with_band(jct)
    if len(runs) > 1:
        axes.fill_between(seconds, low, high, color=COLOURS[0], alpha=0.25, lw=0)
    axes.plot(seconds, middle, color=COLOURS[0], lw=2.2, marker="o", ms=3)
    axes.annotate("policy", (seconds[-1], middle[-1]), (4, -2), textcoords="offset points", color=COLOURS[0], va="top")
    draw_levels(axes, {name: value / HOUR for name, value in runs[0].baselines.items()})
    axes.set_xscale("log")
    axes.set_yscale("log")
    for axis in (axes.xaxis, axes.yaxis):
        axis.set_major_formatter(StrMethodFormatter("{x:g}"))
        axis.set_minor_formatter(NullFormatter())
    ticks = [each for each in (1.5, 2, 2.5, 3, 4, 5, 6, 8, 10, 15, 20) if low.min() * 0.8 <= each <= high.max() * 1.3]
    axes.set_yticks(ticks)
    axes.set_xlabel("CPU-seconds of training, from random weights")
    axes.set_ylabel("mean JCT in validation (h)")
    axes.set_title(title, fontsize=10, loc="left")
    axes.spines[["top", "right"]].set_visible(False)
    return figure


def draw_levels(axes: Axes, levels: Mapping[str, float]) -> None:
    """Draw baselines as horizontal lines with their names at the left."""
    for name, value in levels.items():
        axes.axhline(value, color="0.6", lw=0.9, zorder=0)
        axes.annotate(
            name, (0.0, value), (3, 2), xycoords=("axes fraction", "data"), textcoords="offset points", fontsize=8
        )
