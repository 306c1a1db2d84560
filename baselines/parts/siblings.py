"""Predict run times from siblings: jobs of one name or sweep, whether they have ended or still run."""

from collections.abc import Sequence

import numpy as np
from scipy.special import log_ndtr, ndtr, ndtri

from baselines.parts.group_history import LEAST_JOBS, WITHOUT_HISTORY, GroupKey, Groups, Spreads, believe, find_spreads
from envs.simulation.known.predictions import SHORTEST_RUN
from envs.simulation.pooled_history import MEDIAN_WITHOUT_HISTORY, NORMAL_QUANTILES, SPREAD_WITHOUT_HISTORY
from envs.types import FloatArray, IntArray, JobFacts, Seconds

KEPT_LEVELS: FloatArray = (np.arange(512) + 0.5) / 512  # at which a distribution is kept
GRID: FloatArray = np.linspace(-4.0, 4.0, 33)  # standard deviations about the mean of a group's part


class Siblings:
    """Predictor for which the jobs of one name or sweep run about equally long, as a Gaussian copula.

    Run times of each number of GPUs are distributed as in the past; their normal scores have a part of the user's, one
    of the group's and one of their own, with variances from the past (`find_spreads`). A group is a name of a user.
    Jobs without names form a group if they have the same user (or tenant) and number of GPUs, and each came within
    `gap` of the one before. What siblings say of the group's part is weighed by Bayes' rule: an ended one says how long
    it ran, and a running one that it takes longer than so far. So the shorter jobs of a sweep, which end first, do not
    make the others look short.

    A design of ours. In Philly's and ITP's traces, two jobs of three come within a minute of one of the same size and
    group, and logarithms of their run times correlate at 0.90 and 0.85.

    Args:
        gap: seconds between jobs without names that belong together.
    """

    def __init__(self, gap: Seconds = 60.0) -> None:
        self.gap = gap
        self.spreads = Spreads(*np.array(WITHOUT_HISTORY) / sum(WITHOUT_HISTORY))
        self._scale = NormalScores()
        self._past: dict[GroupKey, tuple[float, float]] = {}  # mean and variance of a part, by user or user and name

    def train(self, episodes: Sequence[JobFacts]) -> None:
        """See `envs.scheduling.WorkPredictor.train`."""
        if not sum(len(jobs.run_time) for jobs in episodes):
            return
        sizes = np.concatenate([jobs.num_gpus for jobs in episodes])
        run_time = np.concatenate([jobs.run_time for jobs in episodes])
        self._scale = NormalScores(sizes, run_time)
        score = self._scale.score(sizes, run_time)
        groups = Groups()
        name = groups.find_all(episodes, self.gap)
        self.spreads = find_spreads(name, score, groups.user)
        users = list(groups.users)
        owner = np.array([*groups.user, *range(len(users))], np.int64)  # and of each user a name without jobs
        jobs = np.bincount(name, minlength=len(owner))
        total = np.bincount(name, score, minlength=len(owner)).astype(np.float64)
        level, variance = believe(self.spreads, owner, jobs, total)
        kept = [*groups.names, *users]
        known = zip(kept, level.tolist(), variance.tolist(), strict=True)
        self._past = {key: (mean, spread) for key, mean, spread in known if len(key) < 3 or key[2]}

    def predict(self, asked: JobFacts, ended: JobFacts) -> FloatArray:
        """See `envs.scheduling.WorkPredictor.predict`."""
        count = len(asked.run_time)
        both = JobFacts._make(np.concatenate(pair) for pair in zip(asked, ended, strict=True))
        group, first = find_groups(both, self.gap)
        level, variance = self._prior(both.rows(first))
        own = self.spreads.job
        score = self._scale.score(both.num_gpus, both.run_time)
        done, mine = group[count:], group[:count]
        precision = 1 / variance + np.bincount(done, minlength=len(first)) / own
        total = level / variance + np.bincount(done, score[count:], minlength=len(first)) / own
        part = (total / precision)[:, None] + GRID / np.sqrt(precision)[:, None]  # float64[num_groups, len(GRID)]
        survival = log_ndtr((part[mine] - score[:count, None]) / np.sqrt(own))
        survival[asked.run_time <= 0] = 0.0
        likelihood = np.zeros_like(part)
        np.add.at(likelihood, mine, survival)
        weight = likelihood[mine] - survival - GRID**2 / 2  # a job's own run time so far is ruled out by the caller
        weight = np.exp(weight - weight.max(axis=1, keepdims=True))
        weight /= weight.sum(axis=1, keepdims=True)
        mean = (weight * part[mine]).sum(axis=1)
        spread = np.sqrt((weight * (part[mine] - mean[:, None]) ** 2).sum(axis=1) + own)
        return self._scale.run_time(asked.num_gpus, mean[:, None] + spread[:, None] * NORMAL_QUANTILES)

    def _prior(self, jobs: JobFacts) -> tuple[FloatArray, FloatArray]:
        """Return mean and variance of the parts of groups before anything of the episode, by a job of each."""
        unknown = 0.0, self.spreads.user + self.spreads.name
        found = [
            self._past.get((tenant, user, name), self._past.get((tenant, user), unknown))
            for tenant, user, name in zip(jobs.tenant.tolist(), jobs.user.tolist(), jobs.name.tolist(), strict=True)
        ]
        level, variance = np.array(found).T
        return level, variance


class NormalScores:
    """Run times of a number of GPUs as normal scores, and back: the quantiles of past run times.

    Beyond the shortest and longest past run times lie those themselves. Without past jobs, run times are log-normal.

    Args:
        num_gpus: int64[n], GPUs of past jobs.
        run_time: float64[n], their run times.
    """

    def __init__(self, num_gpus: IntArray | None = None, run_time: FloatArray | None = None) -> None:
        self._pooled: FloatArray = np.log(MEDIAN_WITHOUT_HISTORY) + SPREAD_WITHOUT_HISTORY * ndtri(KEPT_LEVELS)
        self._by_size: dict[int, FloatArray] = {}
        if num_gpus is None or run_time is None:
            return
        logarithm = np.log(np.maximum(run_time, SHORTEST_RUN))
        self._pooled = np.quantile(logarithm, KEPT_LEVELS)
        for size, count in zip(*np.unique(num_gpus, return_counts=True), strict=True):
            if count >= LEAST_JOBS:
                self._by_size[int(size)] = np.quantile(logarithm[num_gpus == size], KEPT_LEVELS)

    def score(self, num_gpus: IntArray, run_time: FloatArray) -> FloatArray:
        """float64[n]: the normal scores of run times."""
        logarithm = np.log(np.maximum(run_time, SHORTEST_RUN))
        found = np.empty(len(run_time))
        for size in np.unique(num_gpus).tolist():
            rows = num_gpus == size
            found[rows] = np.interp(logarithm[rows], self._quantiles(size), KEPT_LEVELS)
        scores: FloatArray = ndtri(found)
        return scores

    def run_time(self, num_gpus: IntArray, score: FloatArray) -> FloatArray:
        """float64[n, any]: the run times of normal scores of the same shape."""
        found = np.empty_like(score)
        for size in np.unique(num_gpus).tolist():
            rows = num_gpus == size
            found[rows] = np.interp(ndtr(score[rows]), KEPT_LEVELS, self._quantiles(size))
        run_times: FloatArray = np.exp(found)
        return run_times

    def _quantiles(self, size: int) -> FloatArray:
        return self._by_size.get(size, self._pooled)


def find_groups(jobs: JobFacts, gap: Seconds) -> tuple[IntArray, IntArray]:
    """Return the group of each job, and a job of each group; see `Siblings`.

    Returns:
        int64[n], groups numbered from 0, and int64[num_groups], rows.
    """
    order = np.lexsort([jobs.submit, jobs.num_gpus, jobs.name, jobs.user, jobs.tenant])
    unnamed = jobs.name[order][1:] == ""
    changes = [column[order][1:] != column[order][:-1] for column in jobs]
    apart = changes[3] | changes[4] | changes[5]  # tenant, user, name
    apart |= unnamed & (changes[1] | (np.diff(jobs.submit[order]) > gap))
    group = np.empty(len(order), np.int64)
    group[order] = np.concatenate([[0], np.cumsum(apart)])[: len(order)]
    return group, order[np.flatnonzero(np.concatenate([[True], apart])[: len(order)])]
