"""Learning curves: what a policy gains in validation, over what its training has cost."""

from collections.abc import Mapping, Sequence
from typing import NamedTuple

import numpy as np
from matplotlib.axes import Axes
from matplotlib.figure import Figure

from agents.problems.gain import Gain
from envs.pictures.plots import COLOURS
from envs.pictures.texts import plot_text
from envs.types import FloatArray

MINUTE = 60.0  # seconds


class LearningCurve(NamedTuple):
    """The validations of a training run, and what it cost.

    Attributes:
        validation: the fields of `Gain` by iteration and task.
        num_episodes: training episodes of an iteration.
        cpu_time: of each iteration, in s, without validation.
    """

    validation: Mapping[str, Mapping[str, Mapping[str, float]]]
    num_episodes: int
    cpu_time: Sequence[float]

    @property
    def tasks(self) -> list[str]:
        """Names of the tasks."""
        return list(next(iter(self.validation.values()), {}))

    @property
    def iterations(self) -> list[int]:
        """Iterations after which the policy was validated, in order."""
        return sorted(map(int, self.validation))

    def episodes(self) -> FloatArray:
        """float64[validations]: training episodes before each."""
        return np.array([float(i * self.num_episodes) for i in self.iterations])

    def cpu_minutes(self) -> FloatArray:
        """float64[validations]: CPU-minutes of training before each."""
        return np.array([sum(self.cpu_time[:i]) / MINUTE for i in self.iterations])

    def gains(self, task: str) -> tuple[FloatArray, FloatArray]:
        """Return the gains in mean JCT over the market alone and their standard errors, in %: float64[validations]."""
        found = [Gain(**self.validation[str(i)][task]) for i in self.iterations]
        return np.array([100.0 * gain.jct for gain in found]), np.array([100.0 * gain.jct_error for gain in found])


def learning_curves(runs: Mapping[str, LearningCurve]) -> Figure:
    """Draw gains over training episodes and over CPU-minutes, a row of two charts for each task of the first run.

    Bars are standard errors. The mean of several runs with equally many validations is drawn as a thick line.

    Args:
        runs: by name, such as a training seed.
    """
    tasks = next(iter(runs.values())).tasks
    figure = Figure(figsize=(9.0, 2.6 * len(tasks) + 0.4), layout="constrained")
    rows = figure.subplots(len(tasks), 2, squeeze=False, sharey="row", sharex="col")
    for task, (by_episodes, by_time) in zip(tasks, rows, strict=True):
        gains = {name: run.gains(task) for name, run in runs.items()}
        _draw(by_episodes, {name: run.episodes() for name, run in runs.items()}, gains)
        _draw(by_time, {name: run.cpu_minutes() for name, run in runs.items()}, gains)
        by_episodes.set_ylabel("gain in mean JCT (%)")
        by_episodes.set_title(plot_text(task), fontsize=10, loc="left")
    rows[-1, 0].set_xlabel("training episodes")
    rows[-1, 1].set_xlabel("CPU-minutes of training")
    if len(runs) > 1:
        figure.legend(*rows[0, 0].get_legend_handles_labels(), frameon=False, fontsize=9, loc="outside right upper")
    return figure


def _draw(axes: Axes, costs: Mapping[str, FloatArray], gains: Mapping[str, tuple[FloatArray, FloatArray]]) -> None:
    """Draw the curves of all runs into one chart."""
    axes.axhline(0.0, color="0.6", linewidth=0.8)
    several = len(costs) > 1
    for i, name in enumerate(costs):
        gain, error = gains[name]
        colour, width = COLOURS[i % len(COLOURS)], 1.0 if several else 1.6
        axes.errorbar(
            costs[name], gain, error, label=plot_text(name), color=colour, lw=width, marker="o", ms=3, capsize=2
        )
    if several and len({len(cost) for cost in costs.values()}) == 1:
        mean = np.mean([gain for gain, _ in gains.values()], axis=0)
        axes.plot(np.mean(list(costs.values()), axis=0), mean, color="0.2", linewidth=2.4, label="mean")
    axes.grid(color="0.9")
    axes.spines[["top", "right"]].set_visible(False)
