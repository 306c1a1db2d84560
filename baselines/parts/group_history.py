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

    Attributes:
        spreads: the variances.
        jobs: int64[num_names], past jobs of each name.
        total: float64[num_names], sum of their logarithms beyond the mean of their number of GPUs.
    """

    def __init__(self, gap: Seconds = 60.0) -> None:
        self.gap = gap
        self.spreads = WITHOUT_HISTORY
        self._mean, self._mean_of = float(np.log(MEDIAN_WITHOUT_HISTORY)), dict[int, float]()
        self._groups = Groups()
        self.jobs: IntArray = np.zeros(0, np.int64)
        self.total: FloatArray = np.zeros(0)

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
        name, rest = self._groups.find_all(episodes, self.gap), values - self.means(sizes)
        self.jobs, self.total = np.bincount(name), np.bincount(name, rest).astype(np.float64)
        self.spreads = find_spreads(name, rest, self._groups.user)

    def predict(self, asked: JobFacts, ended: JobFacts) -> FloatArray:
        """See `envs.scheduling.WorkPredictor.predict`."""
        count = len(asked.run_time)
        both = JobFacts._make(np.concatenate(pair) for pair in zip(asked, ended, strict=True))
        order = np.argsort(both.submit, kind="stable")
        episode = self.follow()
        episode.submit(both.rows(order))
        place = np.argsort(order)
        return episode.predict(place[:count], place[count:], both.run_time[order])

    def follow(self) -> "FollowedJobs":
        """See `envs.scheduling.FollowingPredictor.follow`."""
        return FollowedJobs(self, self._groups.copy())

    def means(self, num_gpus: IntArray) -> FloatArray:
        """float64[n]: mean logarithm of the run times of past jobs with so many GPUs."""
        return np.array([self._mean_of.get(size, self._mean) for size in num_gpus.tolist()], np.float64)


class FollowedJobs:
    """The jobs of an episode, whose names are looked up once.

    Args:
        history: past jobs.
        groups: their users and names; grows.
    """

    def __init__(self, history: GroupHistory, groups: "Groups") -> None:
        self._history, self._groups = history, groups
        self._name: IntArray = np.zeros(0, np.int64)
        self._mean: FloatArray = np.zeros(0)

    def submit(self, jobs: JobFacts) -> None:
        """See `envs.scheduling.FollowedEpisode.submit`."""
        self._name = np.concatenate([self._name, self._groups.find(jobs, self._history.gap)])
        self._mean = np.concatenate([self._mean, self._history.means(jobs.num_gpus)])

    def predict(self, asked: IntArray, ended: IntArray, run_time: FloatArray) -> FloatArray:
        """See `envs.scheduling.FollowedEpisode.predict`."""
        history, count = self._history, len(self._groups.user)
        name = self._name[ended]
        jobs = np.bincount(name, minlength=count)
        total = np.bincount(name, np.log(run_time[ended]) - self._mean[ended], count).astype(np.float64)
        jobs[: len(history.jobs)] += history.jobs
        total[: len(history.total)] += history.total
        level, variance = believe(history.spreads, np.array(self._groups.user), jobs, total)
        mine = self._name[asked]
        return log_normal(self._mean[asked] + level[mine], np.sqrt(variance[mine] + history.spreads.job))

    def copy(self) -> "FollowedJobs":
        """See `envs.scheduling.FollowedEpisode.copy`."""
        other = FollowedJobs(self._history, self._groups.copy())
        other._name, other._mean = self._name, self._mean
        return other


class Groups:
    """Users and names of jobs, numbered in the order in which they were first seen.

    Attributes:
        user: the user of each name.
        users: number of each user, by tenant and user.
        names: number of each name, by tenant, user and name; of a sweep of jobs without names, by tenant, user, "" and
            a number.
    """

    def __init__(self) -> None:
        self.user: list[int] = []
        self.users: dict[GroupKey, int] = {}
        self.names: dict[GroupKey, int] = {}
        self._sweeps: dict[tuple[str, str, int], tuple[Seconds, int]] = {}  # the latest: last submission, and its name

    def copy(self) -> "Groups":
        """Return a copy that grows by itself."""
        other = Groups()
        other.user, other.users, other.names = list(self.user), dict(self.users), dict(self.names)
        other._sweeps = dict(self._sweeps)
        return other

    def find_all(self, episodes: Sequence[JobFacts], gap: Seconds) -> IntArray:
        """int64[num_jobs]: the name of each job of past episodes, whose submission times are not comparable.

        Args:
            episodes: the jobs of each, in order of submission.
            gap: see `find`.
        """
        found = []
        for jobs in episodes:
            found.append(self.find(jobs, gap))
            self._sweeps.clear()
        return np.concatenate(found)

    def find(self, jobs: JobFacts, gap: Seconds) -> IntArray:
        """int64[n]: the name of each job, see `GroupHistory`.

        Args:
            jobs: the next jobs of an episode, in order of submission.
            gap: seconds between jobs without names that belong together.
        """
        columns = (jobs.submit, jobs.num_gpus, jobs.tenant, jobs.user, jobs.name)
        rows = zip(*(column.tolist() for column in columns), strict=True)
        found = [
            self._number((tenant, user, name)) if name else self._sweep(tenant, user, gpus, submit, gap)
            for submit, gpus, tenant, user, name in rows
        ]
        return np.array(found, np.int64)

    def _number(self, key: GroupKey) -> int:
        """Return the number of a name; add it if it is new."""
        number = self.names.setdefault(key, len(self.user))
        if number == len(self.user):
            self.user.append(self.users.setdefault(key[:2], len(self.users)))
        return number

    def _sweep(self, tenant: str, user: str, gpus: int, submit: Seconds, gap: Seconds) -> int:
        """Return the number of the sweep of a job without a name."""
        last, number = self._sweeps.get((tenant, user, gpus), (-np.inf, -1))
        if submit - last > gap:
            number = self._number((tenant, user, "", str(len(self.names))))
        self._sweeps[tenant, user, gpus] = submit, number
        return number


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
