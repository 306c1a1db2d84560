"""Two jobs on one GPU: measured pairs, and the model of pairs that were not measured.

A factor is the fraction of its throughput alone that a job keeps beside the other job.

Measured: `tables/colocation.csv` has the factors of Gavel (OSDI'20) for all pairs of seven models, at their usual batch
sizes, on K80, P100 and V100. A 0 means that the pair does not fit the memory.

Modelled: every other pair. On a GPU type with measured pairs the logarithm of a factor is the type's mean, plus what
the job's model adds, plus what the model beside it adds (`fit_effects`). On another type the same is fitted to the
pairs of all types, and half of what models add is used. `experiments.performance.sharing` compares the form with others
on pairs that were held out, and prints its errors. A model without measured pairs adds nothing: it is taken for a
typical one.

Guessed: for jobs that use the GPU for shares a and b of their steps (`ModelProfile.gpu_share`), the logarithm is
multiplied by a * b, so that jobs which rarely use the GPU hardly meet on it; all measured models have a share of 1.
Also guessed: whether a pair without measurement fits the memory, see `fits_beside`. Neither the batch size of a job
nor its cores change its factor.
"""

import csv
import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import cache
from importlib.resources import files

import numpy as np

from envs.performance.gpus import find_gpu_type, find_parts
from envs.performance.zoo import model_profile
from envs.types import FloatArray

SHRINKAGE = 2.0
"""Pairs of average factor that are added to the measured ones of each model; chosen on held-out pairs."""

CARRIED_OVER = 0.5
"""Part of what models add that is used on a GPU type without pairs; chosen on held-out GPU types."""

DIGITS = 3  # of a modelled factor, as many as measured ones have: the last bits of a fit differ between machines


@dataclass(frozen=True, slots=True)
class PairEffects:
    """Terms that models add to the logarithm of a factor; a model without an entry adds nothing."""

    mean: float  # the logarithm of the typical factor
    own: Mapping[str, float]  # by the model of the job itself
    other: Mapping[str, float]  # by the model of the job beside it

    def factor(self, model: str, other: str, *, overlap: float = 1.0) -> float:
        """Return the factor of a job of `model` beside a job of `other`, above 0 and at most 1.

        Args:
            model: of the job.
            other: of the job beside it.
            overlap: product of the shares of their steps in which both use the GPU, from 0 to 1.
        """
        added = self.own.get(model, 0.0) + self.other.get(other, 0.0)
        return min(1.0, math.exp((self.mean + added) * overlap))

    def carry_over(self) -> "PairEffects":
        """Return the effects to use on a GPU type to which they were not fitted."""
        own, other = (
            {name: CARRIED_OVER * added for name, added in effects.items()} for effects in (self.own, self.other)
        )
        return PairEffects(self.mean, own, other)


def fit_effects(models: Sequence[str], others: Sequence[str], factors: FloatArray) -> PairEffects:
    """Fit the effects of models to measured factors by ridge regression, in closed form.

    Args:
        models: of the jobs.
        others: of the jobs beside them.
        factors: float64[num_jobs], above 0.
    """
    names = sorted({*models, *others})
    column = {name: place for place, name in enumerate(names)}
    rows = np.arange(len(factors))
    design = np.zeros((len(rows), 2 * len(names)))
    design[rows, [column[name] for name in models]] = 1.0
    design[rows, [len(names) + column[name] for name in others]] = 1.0
    logarithms = np.log(factors)
    mean = logarithms.mean()
    gram = design.T @ design + SHRINKAGE * np.eye(2 * len(names))
    effects = np.linalg.solve(gram, design.T @ (logarithms - mean)).tolist()
    own, other = effects[: len(names)], effects[len(names) :]
    return PairEffects(float(mean), dict(zip(names, own, strict=True)), dict(zip(names, other, strict=True)))


@cache
def colocation() -> dict[tuple[str, str, str], float]:
    """Read the measured factors by (model, co-located model, GPU type); 0 if the two do not fit together."""
    found: dict[tuple[str, str, str], float] = {}
    text = (files("envs.performance") / "tables" / "colocation.csv").read_text(encoding="utf-8")
    for row in csv.DictReader(text.splitlines()):
        found[row["model_1"], row["model_2"], row["gpu_type"]] = float(row["throughput_1"])
        found[row["model_2"], row["model_1"], row["gpu_type"]] = float(row["throughput_2"])
    return found


def fits_beside(model: str, other: str, gpu_type: str) -> bool:
    """Return whether two jobs fit one GPU's memory: by measurement for a measured pair, else by their parameters.

    Slices take one job each.

    Args:
        model: zoo name.
        other: zoo name.
        gpu_type: of the zoo's types.
    """
    if find_parts(gpu_type).number > 1:
        return False
    measured = colocation().get((model, other, gpu_type))
    if measured is not None:
        return measured > 0
    needs = math.fsum(each.state_gb + each.working_gb for each in map(model_profile, (model, other)))
    return needs <= find_gpu_type(gpu_type).usable_gb


@cache
def colocated_factor(model: str, other: str, gpu_type: str) -> float:
    """Return the factor of a job of `model` beside a job of `other`, measured or modelled; 0 if they do not fit.

    Args:
        model: zoo name.
        other: zoo name.
        gpu_type: of the zoo's types.
    """
    if not fits_beside(model, other, gpu_type):
        return 0.0
    measured = colocation().get((model, other, gpu_type))
    if measured is not None:
        return measured
    return _modelled_factor(model, other, gpu_type)


@cache
def equal_jobs_factor(model: str, gpu_type: str) -> float:
    """Return the factor of each of two jobs of one model, also where the two do not fit the memory together.

    Args:
        model: zoo name.
        gpu_type: of the zoo's types.
    """
    return colocation().get((model, model, gpu_type), 0.0) or _modelled_factor(model, model, gpu_type)


def _modelled_factor(model: str, other: str, gpu_type: str) -> float:
    overlap = model_profile(model).gpu_share * model_profile(other).gpu_share
    return round(_effects(gpu_type).factor(model, other, overlap=overlap), DIGITS)


@cache
def _effects(gpu_type: str) -> PairEffects:
    """Return the effects fitted to the pairs of a GPU type, or carried over from all types if it has none."""
    known = {key: factor for key, factor in colocation().items() if factor > 0}
    of_type = {key: factor for key, factor in known.items() if key[2] == gpu_type}
    models, others, _ = zip(*(of_type or known), strict=True)
    effects = fit_effects(models, others, np.array(list((of_type or known).values())))
    return effects if of_type else effects.carry_over()
