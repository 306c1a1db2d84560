"""Statistical efficiency compared with measured progress per sample, at batch sizes that were held out.

Each application of Pollux's artifact trained at 6 to 8 batch sizes to the same progress, counted in steps at its
smallest batch size m0. Progress per sample at batch size m, relative to that at m0, is the measured efficiency. One
noise scale per application, constant over training, predicts it: (phi + m0) / (phi + m).
"""

from collections.abc import Sequence
from pathlib import Path

import numpy as np
import pandas as pd
import scipy.optimize

from envs.performance.statistical_efficiency import StatisticalEfficiency
from envs.performance.zoo import zoo_name
from envs.types import FloatArray, IntArray, PerformanceError

PROGRESS_COLUMNS = ("application", "batch_size", "progress", "iteration")
LARGEST_LOG = 25.0  # of a noise scale, in samples: beyond it all batch sizes are equally efficient


def read_progress(path: Path | str) -> pd.DataFrame:
    """Read progress per sample from the training runs of Pollux's artifact.

    Args:
        path: `pollux_noise/validation.csv`, with the columns of `PROGRESS_COLUMNS`; other columns are left out.

    Returns:
        application, batch_size (global), and efficiency: progress per sample at the end of the run, relative to that at
        the application's smallest batch size; by application and ascending batch size.

    Raises:
        PerformanceError: the file or a column is missing, or a value is not positive and finite.
    """
    if not Path(path).exists():
        raise PerformanceError(f"profile {path}: no such file; give the public table, or the folder that holds it")
    table = pd.read_csv(path)
    absent = [column for column in PROGRESS_COLUMNS if column not in table]
    if absent:
        raise PerformanceError(
            f"profile {path}: lacks column {absent[0]!r}, has {', '.join(table.columns)}; use the original table"
        )
    for column in PROGRESS_COLUMNS[1:]:
        bad = ~(np.isfinite(table[column]) & (table[column] > 0))
        if bad.any():
            row = int(bad.to_numpy().argmax())
            raise PerformanceError(
                f"profile {path}: row {row + 2}: {column} is {table[column].iloc[row]}; it must be positive and "
                "finite, correct or remove the row"
            )
    last = table.loc[table.groupby(["application", "batch_size"])["iteration"].idxmax()]
    last = last.sort_values(["application", "batch_size"]).reset_index(drop=True)
    per_sample = last["progress"] / (last["iteration"] * last["batch_size"])
    efficiency = per_sample / per_sample.groupby(last["application"]).transform("first")
    return last[["application", "batch_size"]].assign(efficiency=efficiency)


def fit_noise_scale(batch_sizes: Sequence[int] | IntArray, efficiency: FloatArray, initial_batch: int) -> float:
    """Fit one noise scale, in samples, by least squares of the logarithm of the efficiency.

    Args:
        batch_sizes: int[n], global.
        efficiency: float64[n], relative to the initial batch size.
        initial_batch: m0, at which the efficiency is 1.
    """
    sizes = np.asarray(batch_sizes, np.float64)

    def loss(log_scale: float) -> float:
        scale = np.exp(log_scale)
        predicted = (scale + initial_batch) / (scale + sizes)
        return float((np.log(predicted / efficiency) ** 2).sum())

    found = scipy.optimize.minimize_scalar(loss, bounds=(0.0, LARGEST_LOG), method="bounded", options={"xatol": 1e-10})
    return float(np.exp(found.x))


def fitted_noise_scales(path: Path | str) -> dict[str, float]:
    """Fit the noise scale of each application to all its batch sizes: the figures of `tables/noise.csv`."""
    return {
        str(application): fit_noise_scale(
            rows["batch_size"].to_numpy(), rows["efficiency"].to_numpy(np.float64), int(rows["batch_size"].min())
        )
        for application, rows in read_progress(path).groupby("application")
    }


def efficiency_errors(path: Path | str) -> pd.DataFrame:
    """Predict the efficiency at each batch size from the other batch sizes of the application, and as 1.

    The smallest batch size is not predicted: efficiencies are relative to it.

    Args:
        path: `pollux_noise/validation.csv`.

    Returns:
        protocol ("pollux, batch size held out" and, beside it, "pollux, every sample counts"), quantity, model (its zoo
        name), batch_size, measured, predicted and error = predicted / measured - 1.
    """
    found = []
    for application, rows in read_progress(path).groupby("application"):
        model = zoo_name(str(application), "pollux")
        sizes, measured = rows["batch_size"].to_numpy(), rows["efficiency"].to_numpy(np.float64)
        for held_out in range(1, len(sizes)):
            seen = np.arange(len(sizes)) != held_out
            scale = fit_noise_scale(sizes[seen], measured[seen], int(sizes[0]))
            predicted = StatisticalEfficiency(scale, int(sizes[0])).at(float(sizes[held_out]))
            for protocol, value in (("pollux, batch size held out", predicted), ("pollux, every sample counts", 1.0)):
                found.append((protocol, model, sizes[held_out], measured[held_out], value))
    columns = ["protocol", "model", "batch_size", "measured", "predicted"]
    frame = pd.DataFrame(found, columns=columns).sort_values("protocol", kind="stable").reset_index(drop=True)
    return frame.assign(quantity="progress per sample", error=frame["predicted"] / frame["measured"] - 1.0)
