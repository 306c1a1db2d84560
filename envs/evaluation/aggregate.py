"""Aggregate figures for a paper, over workloads and training seeds: IQM, probability of improvement, profiles.

Agarwal et al., "Deep reinforcement learning at the edge of the statistical precipice" (NeurIPS'21), whose library
rliable is archived. The tests compare these functions with SciPy's.

Scores are float64[num_seeds, num_workloads]: mean JCT relative to a reference, or makespan if the task minimises it;
less is better. A scheduler that does not learn has one row. Intervals are percentiles of a stratified bootstrap: within
each stratum (task) it draws workloads with replacement, the same ones for all schedulers, and the training seeds of
each scheduler with replacement.
"""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import numpy.typing as npt

from envs.evaluation.comparison import Comparison
from envs.evaluation.statistics import Estimate
from envs.types import FloatArray

Stratum = Sequence[FloatArray]  # scores of each scheduler on one task, float64[num_seeds of it, num_workloads]
Statistic = Callable[[Sequence[Stratum]], FloatArray]  # of scores with resamples as first axis, for each resample
NUM_RESAMPLES = 2000
NUM_THRESHOLDS = 60  # points of a performance profile


def interquartile_mean(scores: npt.ArrayLike) -> float:
    """Return the mean of the middle half of all scores, as `scipy.stats.trim_mean` cuts them; NaN without scores."""
    return float(interquartile_means(np.asarray(scores, np.float64).ravel()))


def interquartile_means(scores: FloatArray) -> FloatArray:
    """Return the interquartile means over the last axis: float64[...] for float64[..., num_scores]."""
    size = scores.shape[-1]
    cut, last = size // 4, size - size // 4
    if not size:
        return np.full(scores.shape[:-1], np.nan)
    return np.asarray(np.partition(scores, (cut, last - 1), axis=-1)[..., cut:last].mean(axis=-1))


def improvement_probability(scores: FloatArray, other: FloatArray) -> FloatArray:
    """Return the probability that a seed of one scheduler is better than a seed of another on the same workload.

    It is the mean over workloads of the Mann-Whitney statistic U / (seeds x other seeds): a tie counts one half.

    Args:
        scores: float64[..., num_seeds, num_workloads].
        other: float64[..., num_other_seeds, num_workloads].

    Returns:
        float64[...]; NaN without workloads.
    """
    if not scores.shape[-1]:
        return np.full(scores.shape[:-2], np.nan)
    own, others = scores[..., :, None, :], other[..., None, :, :]
    return np.asarray(np.mean((own < others) + 0.5 * (own == others), axis=(-3, -2, -1)))


def performance_profile(scores: FloatArray, thresholds: FloatArray) -> FloatArray:
    """Return float64[num_thresholds]: the share of all scores (seeds x workloads) that are at most each threshold."""
    ordered = np.sort(scores.ravel())
    return np.asarray(np.searchsorted(ordered, thresholds, side="right") / max(ordered.size, 1))


def stratified_bootstrap(
    strata: Sequence[Stratum],
    statistic: Statistic,
    rng: np.random.Generator,
    resamples: int = NUM_RESAMPLES,
    level: float = 0.95,
) -> Estimate:
    """Return a statistic of the scores of several schedulers with its percentile interval.

    Args:
        strata: for each task, the scores of each scheduler; all schedulers have the same workloads.
        statistic: is called with strata whose scores have one more axis, the first: the resamples. It returns one
            figure for each.
        rng: random generator of the resamples.
        resamples: number of resamples.
        level: confidence level.
    """
    replicates = statistic([resample(stratum, rng, resamples) for stratum in strata])
    tail = (1 - level) / 2
    known = replicates[~np.isnan(replicates)]
    low, high = np.quantile(known, [tail, 1 - tail]) if len(known) else (np.nan, np.nan)
    (value,) = statistic([[scores[None] for scores in stratum] for stratum in strata])
    return Estimate(float(value), float(low), float(high))


def resample(stratum: Stratum, rng: np.random.Generator, count: int) -> list[FloatArray]:
    """Draw workloads with replacement, the same for all schedulers, and the seeds of each scheduler likewise.

    With one workload (rliable's case, in which a task is one number for each run) only seeds are drawn.

    Returns:
        For each scheduler float64[count, num_seeds of it, num_workloads].
    """
    num_workloads = stratum[0].shape[1]
    workloads = rng.integers(0, num_workloads, (count, 1, num_workloads))
    return [scores[rng.integers(0, len(scores), (count, len(scores), 1)), workloads] for scores in stratum]


@dataclass(frozen=True)
class Aggregate:
    """The figures of one scheduler over workloads and training seeds; scores are relative to a reference.

    Attributes:
        name: the scheduler, or what its seeds have in common.
        num_seeds: number of training seeds; 1 for schedulers that do not learn.
        num_workloads: number of workloads that all of its seeds and the reference ran.
        iqm: interquartile mean of the scores.
        improvement: probability of improvement over the reference.
        scores: float64[num_seeds, num_workloads].
    """

    name: str
    num_seeds: int
    num_workloads: int
    iqm: Estimate
    improvement: Estimate
    scores: FloatArray

    def row(self) -> dict[str, Any]:
        """Return the figures as plain values."""
        return {
            "scheduler": self.name,
            "num_seeds": self.num_seeds,
            "num_workloads": self.num_workloads,
            **{f"iqm{part}": value for part, value in _parts(self.iqm)},
            **{f"improvement{part}": value for part, value in _parts(self.improvement)},
        }


def _parts(estimate: Estimate) -> list[tuple[str, float]]:
    return [("", estimate.value), ("_low", estimate.low), ("_high", estimate.high)]


def aggregate_comparison(
    comparison: Comparison, groups: Mapping[str, Sequence[str]] | None = None, reference: str = ""
) -> list[Aggregate]:
    """Return the aggregates of a comparison, by ascending IQM.

    Args:
        comparison: the comparison; workloads without a compared job are left out.
        groups: names of schedulers that are seeds of one policy, by the policy's name; other schedulers stand alone.
        reference: the scheduler that scores are relative to; that of the comparison if empty.
    """
    reference = reference or comparison.reference
    seeds = {name for members in (groups or {}).values() for name in members}
    alone = {name: [name] for name in comparison.schedulers if name not in seeds}
    base = _minimised(comparison, reference)
    found = []
    for name, members in {**(groups or {}), **alone}.items():
        scores = np.stack([_minimised(comparison, member) for member in members]) / base
        scores = scores[:, ~np.isnan(scores).any(axis=0)]
        if not scores.shape[1]:
            continue
        rng = np.random.default_rng(comparison.seed)  # the same draws for every scheduler
        strata = [[scores, np.ones((1, scores.shape[1]))]]
        iqm, better = (
            stratified_bootstrap(strata, each, rng, comparison.resamples, comparison.level)
            for each in (
                lambda drawn: interquartile_means(drawn[0][0].reshape(len(drawn[0][0]), -1)),
                lambda drawn: improvement_probability(drawn[0][0], drawn[0][1]),
            )
        )
        found.append(Aggregate(name, len(members), scores.shape[1], iqm, better, scores))
    return sorted(found, key=lambda each: each.iqm.value)


def profile_thresholds(aggregates: Sequence[Aggregate]) -> FloatArray:
    """Return float64[NUM_THRESHOLDS]: thresholds on a log scale that cover all scores."""
    scores = np.concatenate([each.scores.ravel() for each in aggregates])
    scores = scores[scores > 0]
    return np.geomspace(scores.min() * 0.95, scores.max() * 1.05, NUM_THRESHOLDS) if len(scores) else np.ones(1)


def _minimised(comparison: Comparison, scheduler: str) -> FloatArray:
    """float64[num_workloads]: mean JCT or makespan of the compared jobs; NaN where the scheduler did not run."""
    found = np.full(comparison.num_workloads, np.nan)
    summaries = comparison.summaries[scheduler]
    found[: len(summaries)] = [getattr(summary, comparison.metric) for summary in summaries]
    return found
