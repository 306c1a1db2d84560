"""Plots of predicted against measured values."""

from pathlib import Path

import matplotlib
import numpy as np
import pandas as pd

matplotlib.use("Agg")  # no display is needed

from matplotlib import pyplot as plt  # must follow the choice of a backend

from envs.evaluation.files import write_figure
from envs.pictures.texts import plot_text

BAND = 0.10  # relative error of the shaded band


def plot_predictions(predictions: pd.DataFrame, path: Path, *, title: str = "", colour: str = "model") -> Path:
    """Plot predictions against measurements on log axes, with the diagonal and a band of 10 %.

    Args:
        predictions: columns `measured` and `predicted`, positive, and the one named by `colour`.
        path: PNG to write.
        title: title of the plot; the median error is appended.
        colour: column that decides the points' colours.
    """
    figure, axes = plt.subplots(figsize=(5.2, 5.0), layout="constrained")
    low = float(predictions[["measured", "predicted"]].min().min()) * 0.8
    high = float(predictions[["measured", "predicted"]].max().max()) * 1.25
    ends = np.array([low, high])
    axes.fill_between(ends, ends * (1 - BAND), ends * (1 + BAND), alpha=0.2)
    axes.plot(ends, ends, linewidth=0.8, color="black")
    for name, rows in predictions.groupby(colour):
        axes.scatter(rows["measured"], rows["predicted"], s=12, alpha=0.7, label=plot_text(str(name)))
    error = (predictions["predicted"] / predictions["measured"] - 1).abs().median()
    axes.set(xscale="log", yscale="log", xlim=(low, high), ylim=(low, high), xlabel="measured", ylabel="predicted")
    said = f"{title}: median error {error:.1%}, {len(predictions)} points".lstrip(": ")
    axes.set_title(plot_text(said), fontsize=9)
    axes.legend(fontsize=7)
    write_figure(path, figure, 140)
    plt.close(figure)
    return path


def plot_protocols(predictions: pd.DataFrame, folder: Path) -> list[Path]:
    """Plot each protocol and quantity of a frame of predictions in a file of their names."""
    written = []
    for (protocol, quantity), rows in predictions.groupby(["protocol", "quantity"], sort=False):
        name = "".join(c if c.isalnum() else "_" for c in f"{protocol} {quantity}").replace("__", "_")
        written.append(plot_predictions(rows, folder / f"{name}.png", title=f"{protocol}, {quantity}"))
    return written
