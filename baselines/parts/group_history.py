"""Predict run times from those of the same user and of the same name."""

from collections.abc import Sequence
from typing import NamedTuple

import numpy as np

from envs.simulation.pooled_history import MEDIAN_WITHOUT_HISTORY, SPREAD_WITHOUT_HISTORY, log_normal
from envs.types import FloatArray, IntArray, JobFacts, Seconds

LEAST_VARIANCE = 1e-6  # of a part of the logarithm, so that precisions are finite
LEAST_JOBS = 30  # of a number of GPUs, for a mean of its own

GroupKey = tuple[str, ...]


class Spreads(NamedTuple):
    """Variances of the parts of a logarithm of a run time.

    Attributes:
        user: between users.
        name: between the names of a user.
        job: between jobs of one name.
    """

    user: float
    name: float
    job: float


WITHOUT_HISTORY = Spreads(*(SPREAD_WITHOUT_HISTORY**2 * share for share in (0.3, 0.3, 0.4)))  # shares: our choice


class GroupHistory:
    """Predictor in which the logarithm of a run time has a part of the user's, one of the name's and one of its own.

    Nested random effects (Searle, Casella, McCulloch, "Variance Components", 1992): the three variances and the mean of
    each number of GPUs come from past episodes. The parts of a user and of a name are their posterior means after the
    ended jobs, past ones and those of this episode, and the prediction is log-normal.

    It stands for predictors that average over jobs of one group (PAI, Weng et al., NSDI'22: users, groups, repeated
    jobs), as a reconstruction with a spread. Jobs without names count as of one name if they have the same user and
    number of GPUs, and each came within `gap` of the one before. Of such a sweep the shorter jobs end first, which is
    not corrected.

    Args:
        gap: seconds between jobs without names that belong together.
    """

    def __init__(self, gap: Seconds = 60.0) -> None:
        self.gap = gap
        self.spreads = WITHOUT_HISTORY
        self._mean, self._mean_of = float(np.log(MEDIAN_WITHOUT_HISTORY)), dict[int, float]()
        self._groups = Groups()
        self._jobs: IntArray = np.zeros(0, np.int64)  # past jobs of each name
        self._total: FloatArray = np.zeros(0)  # sum of their logarithms, beyond the mean of their number of GPUs

    def train(self, episodes: Sequence[JobFacts]) -> None:
        """See `envs.scheduling.WorkPredictor.train`."""
        if not sum(len(jobs.run_time) for jobs in episodes):
            return
        values = np.log(np.concatenate([jobs.run_time for jobs in episodes]))
        sizes = np.concatenate([jobs.num_gpus for jobs in episodes])
        self._mean = float(values.mean())
        for size, count in zip(*np.unique(sizes, return_counts=True), strict=True):
            if count >= LEAST_JOBS:
                self._mean_of[int(size)] = float(values[sizes == size].mean())
        names = [self._groups.find(jobs, self.gap, str(episode)) for episode, jobs in enumerate(episodes)]
        name, rest = np.concatenate(names), values - self._means(sizes)
        self._jobs, self._total = np.bincount(name), np.bincount(name, rest).astype(np.float64)
        self.spreads = find_spreads(name, rest, self._groups.user)

    def predict(self, asked: JobFacts, ended: JobFacts) -> FloatArray:
        """See `envs.scheduling.WorkPredictor.predict`."""
        count, known = len(asked.run_time), len(self._jobs)
        groups = self._groups.copy()
        both = JobFacts._make(np.concatenate(pair) for pair in zip(asked, ended, strict=True))
        name = groups.find(both, self.gap)
        rest = np.log(ended.run_time) - self._means(ended.num_gpus)
        jobs = np.bincount(name[count:], minlength=len(groups.user))
        total = np.zeros(len(groups.user))
        np.add.at(total, name[count:], rest)
        jobs[:known] += self._jobs
        total[:known] += self._total
        level, variance = believe(self.spreads, np.array(groups.user), jobs, total)
        mean = self._means(asked.num_gpus) + level[name[:count]]
        return log_normal(mean, np.sqrt(variance[name[:count]] + self.spreads.job))

    def _means(self, num_gpus: IntArray) -> FloatArray:
        """float64[n]: mean logarithm of the run times of jobs with so many GPUs."""
        sizes, of_job = np.unique(num_gpus, return_inverse=True)
        return np.array([self._mean_of.get(size, self._mean) for size in sizes.tolist()])[of_job]


class Groups:
    """Users and names of jobs, numbered in the order in which they were first seen.

    Attributes:
        user: the user of each name.
        users: number of each user, by tenant and user.
        names: number of each name, by tenant, user and name; for a job without a name, "" and its chain.
    """

    def __init__(self) -> None:
        self.user: list[int] = []
        self.users: dict[GroupKey, int] = {}
        self.names: dict[GroupKey, int] = {}

    def copy(self) -> "Groups":
        """Return a copy that grows by itself."""
        other = Groups()
        other.user, other.users, other.names = list(self.user), dict(self.users), dict(self.names)
        return other

    def find(self, jobs: JobFacts, gap: Seconds, episode: str = "") -> IntArray:
        """int64[n]: the name of each job, see `GroupHistory`.

        Args:
            jobs: the jobs, in any order.
            gap: seconds between jobs without names that belong together.
            episode: an own one for jobs whose submission times are not comparable.
        """
        if (jobs.name != "").all():
            keys: list[GroupKey] = list(zip(jobs.tenant.tolist(), jobs.user.tolist(), jobs.name.tolist(), strict=True))
            for new in sorted(set(keys) - self.names.keys()):
                self._number(new)
            return np.array([self.names[each] for each in keys], np.int64)
        found = np.empty(len(jobs.submit), np.int64)
        chain = ""
        order = np.lexsort([jobs.submit, jobs.num_gpus, jobs.name, jobs.user, jobs.tenant])
        apart = np.diff(jobs.submit[order], prepend=-np.inf) > gap
        for column in (jobs.num_gpus, jobs.name, jobs.user, jobs.tenant):
            apart[1:] |= column[order][1:] != column[order][:-1]
        for job, begins in zip(order.tolist(), apart.tolist(), strict=True):
            user = str(jobs.tenant[job]), str(jobs.user[job])
            chain = f"{episode} {job}" if begins else chain
            key: GroupKey = (*user, str(jobs.name[job])) if jobs.name[job] else (*user, "", chain)
            if key not in self.names:
                self._number(key)
            found[job] = self.names[key]
        return found

    def _number(self, key: GroupKey) -> None:
        """Add a name that is not known."""
        self.names[key] = len(self.user)
        self.user.append(self.users.setdefault(key[:2], len(self.users)))


def believe(spreads: Spreads, user: IntArray, jobs: IntArray, total: FloatArray) -> tuple[FloatArray, FloatArray]:
    """Return mean and variance of the part of each name and its user together, after ended jobs.

    Args:
        spreads: the variances.
        user: int64[num_names], the user of each name.
        jobs: int64[num_names], ended jobs of each name.
        total: float64[num_names], sum of their logarithms beyond the mean of their number of GPUs.
    """
    seen = np.maximum(jobs, 1)
    precision = np.where(jobs > 0, 1 / (spreads.name + spreads.job / seen), 0.0)  # of the user's part, by this name
    weighted = precision * total / seen
    others = np.bincount(user, precision)[user] - precision
    of_user = 1 / (1 / spreads.user + np.maximum(others, 0.0))
    level = of_user * (np.bincount(user, weighted)[user] - weighted)
    variance = of_user + spreads.name
    gain = np.where(jobs > 0, variance / (variance + spreads.job / seen), 0.0)
    return level + gain * (total / seen - level), (1 - gain) * variance


def find_spreads(name: IntArray, rest: FloatArray, user: Sequence[int]) -> Spreads:
    """Estimate the three variances from past jobs by the method of moments.

    The variance of means is that of the parts, plus what finer parts add to a mean; none is below `LEAST_VARIANCE`.

    Args:
        name: int64[num_jobs].
        rest: float64[num_jobs], logarithms of run times beyond the mean of their number of GPUs.
        user: the user of each name.
    """
    jobs = np.bincount(name, minlength=len(user))
    mean = np.bincount(name, rest, minlength=len(user)) / jobs
    free = len(rest) - len(jobs)
    job = max(float(((rest - mean[name]) ** 2).sum()) / free, LEAST_VARIANCE) if free else WITHOUT_HISTORY.job
    names = np.bincount(user)
    of_user = np.bincount(user, mean) / names
    noise = np.bincount(user, 1 / jobs) / names * job  # what jobs add to the mean of a name
    free = len(user) - len(names)
    between = float(((mean - of_user[list(user)]) ** 2).sum()) - float(((names - 1) * noise).sum())
    of_name = max(between / free, LEAST_VARIANCE) if free else WITHOUT_HISTORY.name
    if len(names) < 2:
        return Spreads(WITHOUT_HISTORY.user, of_name, job)
    added = float(((of_name + noise) / names).mean())
    return Spreads(max(float(of_user.var(ddof=1)) - added, LEAST_VARIANCE), of_name, job)
