"""Waits: their figures over all jobs and by group, and paired changes between two fates of the same jobs."""

import itertools
from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np
import pandas as pd

from envs.evaluation.statistics import Estimate, block_bootstrap_means
from envs.types import BoolArray, FloatArray, constraints_of
from envs.types.units import HOUR
from envs.workloads import Workload
from murmuration.what_if.played import Fates

MINUTE = 60.0
LEAST_RUN = 10.0  # seconds of run time below which the bounded slowdown counts jobs as this long
RESAMPLES = 1000
SIZES = (1, 2, 4, 8, 16, 32, 64)  # the least GPUs of each class of sizes


def figures_of(fates: Fates, jobs: BoolArray) -> dict[str, float]:
    """Return figures of waits in seconds, shares and GPU-hours.

    Args:
        fates: of all jobs.
        jobs: bool[num_jobs]: those that count.
    """
    jobs = jobs & fates.known
    wait = fates.wait[jobs]
    if not len(wait):
        return {}
    median, high, highest = np.quantile(wait, [0.5, 0.9, 0.99]).tolist()
    run = np.maximum(fates.end[jobs] - fates.enter[jobs] - wait, LEAST_RUN)
    return {
        "jobs": float(len(wait)),
        "mean": float(wait.mean()),
        "median": median,
        "p90": high,
        "p99": highest,
        "over a minute": float((wait > MINUTE).mean()),
        "over an hour": float((wait > HOUR).mean()),
        "GPU-hours": float((wait * fates.gpus[jobs]).sum() / HOUR),
        "slowdown": float(np.nanmean(np.maximum((wait + run) / run, 1.0))),
    }


def paired_change(new: Fates, old: Fates, jobs: BoolArray, seed: int = 0) -> Estimate:
    """Return the ratio of mean waits, new over old, on the same jobs, with a 95 % interval (moving blocks of jobs).

    Args:
        new: the numerator.
        old: the denominator.
        jobs: bool[num_jobs]: those that count; of these, the ones that have waited a known time in both.
        seed: of the bootstrap.
    """
    both = jobs & new.known & old.known
    waits = np.stack([new.wait[both], old.wait[both]])
    if not both.any() or waits[1].mean() == 0:
        return Estimate(np.nan, np.nan, np.nan)
    means = block_bootstrap_means(waits, np.random.default_rng(seed), RESAMPLES)
    with np.errstate(divide="ignore", invalid="ignore"):
        ratios = means[:, 0] / means[:, 1]
    low, high = np.nanquantile(ratios, [0.025, 0.975])
    return Estimate(float(waits[0].mean() / waits[1].mean()), float(low), float(high))


def size_classes(gpus: Sequence[int] | Any) -> list[str]:
    """Return the class of size of each job, such as "8 to 15 GPUs"."""
    places = np.searchsorted(SIZES, np.asarray(gpus), side="right") - 1
    between = [f"{low} to {high - 1} GPUs" for low, high in itertools.pairwise(SIZES[1:])]
    names = ["1 GPU", *between, f"{SIZES[-1]} GPUs and more"]
    return [names[max(place, 0)] for place in places.tolist()]


def by_group(fates: Mapping[str, Fates], groups: Sequence[str], jobs: BoolArray, most: int = 200) -> pd.DataFrame:
    """Return mean waits by group, with a column for each of several fates, in seconds.

    Args:
        fates: by label.
        groups: the group of each job.
        jobs: bool[num_jobs]: those that count.
        most: groups that are named, those with most jobs; "others" has the rest.
    """
    codes, names = pd.factorize(np.asarray(groups, dtype=object))
    counts = np.bincount(codes[jobs], minlength=len(names))
    order = np.argsort(-counts, kind="stable")
    place = np.empty(len(names), np.int64)
    place[order] = np.minimum(np.arange(len(names)), most)
    codes = place[codes]
    shown = [str(names[each]) or "(none)" for each in order[:most]] + (["others"] if len(names) > most else [])
    gpus = next(iter(fates.values())).gpus

    def summed(values: FloatArray, counted: BoolArray) -> FloatArray:
        return np.bincount(codes[counted], values[counted], minlength=len(shown)).astype(np.float64)

    ones = np.ones(len(codes))
    frame = pd.DataFrame({"group": shown, "jobs": summed(ones, jobs).astype(int), "GPUs": summed(gpus * ones, jobs)})
    for label, each in fates.items():
        counted = jobs & each.known
        with np.errstate(invalid="ignore"):
            frame[label] = summed(each.wait, counted) / summed(ones, counted)
    return frame[frame["jobs"] > 0]


def groups_of(workload: Workload) -> list[str]:
    """Return for each job the partition, or else the GPU type, to which it is tied; "" for none."""
    names = []
    for model in workload.models:
        asked = constraints_of(model)
        names.append("+".join(asked.pools or asked.gpu_types))
    return [names[model] for model in workload.jobs["model"].tolist()]
