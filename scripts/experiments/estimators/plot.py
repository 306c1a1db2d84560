"""A figure of the calibration of estimators."""

from collections.abc import Sequence
from pathlib import Path

import matplotlib
import pandas as pd

matplotlib.use("Agg")  # no display is needed

from matplotlib import pyplot as plt  # must follow the choice of a backend

from envs.evaluation.files import write_figure
from envs.pictures.texts import plot_text
from experiments.estimators.calibration import LEVELS


def plot_calibration(scores: pd.DataFrame, path: Path) -> Path:
    """Plot the coverage of central intervals, one panel for each number of measurements, and the score beside them.

    Args:
        scores: the result of `calibrate`.
        path: PNG to write.
    """
    numbers: Sequence[int] = sorted(scores["measured"].unique())
    figure, axes = plt.subplots(1, len(numbers) + 1, figsize=(3.0 * (len(numbers) + 1), 3.2), layout="constrained")
    means = scores.groupby(["estimator", "measured"], sort=False).mean()
    for place, number in enumerate(numbers):
        axes[place].plot([0, 1], [0, 1], linewidth=0.8, color="black")
        axes[place].set_title(plot_text(f"{number} measured" if number else "stated only"))
        axes[place].set(xlabel="interval", aspect="equal")
    for name in scores["estimator"].unique():
        own = means.loc[name]
        for place, number in enumerate(numbers):
            covered = [own.loc[number, f"inside {level:.0%}"] for level in LEVELS]
            axes[place].plot(LEVELS, covered, marker="o", markersize=3, linewidth=1)
        axes[-1].plot(
            numbers, own.loc[numbers, "crps"], marker="o", markersize=3, linewidth=1, label=plot_text(str(name))
        )
    axes[0].set_ylabel("share of cells inside")
    axes[-1].set(title="CRPS of log throughput", xlabel="measured", ylim=(0, None), xticks=numbers)
    figure.legend(*axes[-1].get_legend_handles_labels(), loc="outside lower center", ncols=7, fontsize=8)
    write_figure(path, figure, 110)
    plt.close(figure)
    return path
