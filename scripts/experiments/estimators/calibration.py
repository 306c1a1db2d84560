"""How well beliefs about held-out jobs agree with the truth: coverage, continuous ranked probability score, errors."""

import time
from collections.abc import Mapping, Sequence
from dataclasses import replace

import numpy as np
import pandas as pd
from scipy.special import ndtr, ndtri

from envs.scheduling import ThroughputEstimator
from envs.simulation import Setup
from envs.simulation.known.beliefs import Prior
from envs.types import BoolArray, EstimatedCurve, FloatArray
from experiments.estimators.held_out import HeldOutJob

LEVELS = (0.1, 0.25, 0.5, 0.75, 0.9, 0.95)  # of the central intervals of the figure


def calibrate(
    estimators: Mapping[str, ThroughputEstimator], jobs: Sequence[HeldOutJob], setup: Setup, measured: Sequence[int]
) -> pd.DataFrame:
    """Form beliefs about each job after some numbers of measurements, and score them in the cells not measured.

    Args:
        estimators: by name.
        jobs: with at least as many measurements as the largest of `measured`.
        setup: whose performance model has the curves of the other models.
        measured: numbers of measurements.

    Returns:
        One row for each estimator, number and job: `rmse` and `crps` of the logarithm of the throughput, `ms` for the
        estimate, and the share of cells in each central interval, such as `inside 50 %`. Cells count alike in a job.
    """
    rows = []
    for name, estimator in estimators.items():
        prior = Prior.of(kept := replace(setup, estimator=estimator), jobs[0].throughputs.shape[1] - 1)
        assert kept is not None  # a prior lives as long as its setup
        for number in measured:
            for job in jobs:
                fit, samples = prior.fit(job.model), job.after(number)
                start = time.process_time()
                found = fit.estimate(samples)
                milliseconds = 1e3 * (time.process_time() - start)
                cells = job.unseen(number)
                rows.append({"estimator": name, "measured": number, "ms": milliseconds} | score(found, job, cells))
    return pd.DataFrame(rows)


def score(found: EstimatedCurve, job: HeldOutJob, cells: BoolArray) -> dict[str, float]:
    """Score a belief in some cells, bool[num_gpu_types, sizes, levels]; see `calibrate`."""
    spread = found.spread[cells]
    error = np.log(job.throughputs[cells] / found.throughput[cells])
    scores = {"rmse": float(np.sqrt((error**2).mean())), "crps": float(normal_crps(error, spread).mean())}
    for level in LEVELS:
        scores[f"inside {level:.0%}"] = float((np.abs(error) <= ndtri(0.5 + level / 2) * spread).mean())
    return scores


def normal_crps(error: FloatArray, spread: FloatArray) -> FloatArray:
    """Return the continuous ranked probability score of normal predictions (Gneiting and Raftery, JASA 2007, eq. 21).

    Args:
        error: float64[n], truth less mean.
        spread: float64[n], standard deviations, positive.
    """
    z = error / spread
    density = np.exp(-(z**2) / 2) / np.sqrt(2 * np.pi)
    return np.asarray(spread * (z * (2 * ndtr(z) - 1) + 2 * density - 1 / np.sqrt(np.pi)))


def summarise_calibration(scores: pd.DataFrame) -> pd.DataFrame:
    """Return a row for each estimator and number of measurements: means over jobs, the median of `ms`."""
    grouped = scores.groupby(["estimator", "measured"], sort=False)
    table = grouped[["inside 50%", "inside 90%", "crps", "rmse"]].mean()
    return table.assign(ms=grouped["ms"].median()).reset_index()
