"""Habits of users, from which run times can be predicted: an assumption about synthetic jobs."""

from dataclasses import dataclass
from typing import NamedTuple

import numpy as np
from scipy.special import ndtr

from envs.types import FloatArray, IntArray, TraceError


class Sweeps(NamedTuple):
    """The sweeps of a workload's jobs.

    Attributes:
        of_job: int64[num_jobs], the sweep of each job, in order of submission.
        user: int64[num_sweeps].
        name: int64[num_sweeps], one of the user's names, or a number of its own from `Habits.names` on.
        part: float64[num_sweeps], what users and names add to the level of a run time, as a standard normal number.
    """

    of_job: IntArray
    user: IntArray
    name: IntArray
    part: FloatArray


@dataclass(frozen=True)
class Habits:
    """Users who submit jobs of the same names again and again, several at a time.

    Jobs that follow each other form sweeps, whose sizes are geometric. The jobs of a sweep have the same user, name,
    GPUs and model. A run time is a quantile of the job stream's distribution for this number of GPUs, whose level has a
    part of the user's, one of the name's and one of its own, so that the distribution over all users stays what it is.
    Users, their names and the parts of both are the same in all workloads of a source.

    All numbers are choices of ours. In two traces, the logarithms of the run times of jobs that come within a minute of
    one of the same size and group correlate at 0.85 and 0.90 (ITP and Philly).

    Args:
        users: number of users, who submit equally often.
        names: names that each of them uses again and again, equally often.
        fresh: share of the sweeps that have a new name.
        sweep: mean number of jobs of a sweep.
        residual: standard deviation of a logarithm of run times among jobs of one name, about.
        of_user: the user's share of the other variance; the rest is the name's.
    """

    users: int = 20
    names: int = 4
    fresh: float = 0.2
    sweep: float = 4.0
    residual: float = 0.8
    of_user: float = 0.5

    def __post_init__(self) -> None:
        for name, good, allowed in (
            ("users", self.users >= 1, "at least 1"),
            ("names", self.names >= 1, "at least 1"),
            ("fresh", 0 <= self.fresh <= 1, "a share from 0 to 1"),
            ("sweep", 1 <= self.sweep < np.inf, "at least 1"),
            ("residual", 0 <= self.residual < np.inf, "not negative"),
            ("of_user", 0 <= self.of_user <= 1, "a share from 0 to 1"),
        ):
            if not good:
                raise TraceError(f"workload.habits.{name} is {getattr(self, name)}; it must be {allowed}")

    def draw(self, rng: np.random.Generator, count: int, seed: int) -> Sweeps:
        """Draw the sweeps of so many jobs.

        Args:
            rng: of the workload.
            count: number of jobs.
            seed: of the source, for the parts of users and names.
        """
        begins = rng.random(count) < 1 / self.sweep
        begins[0] = True
        num_sweeps = int(begins.sum())
        user = rng.integers(self.users, size=num_sweeps)
        fresh = rng.random(num_sweeps) < self.fresh
        name = np.where(fresh, self.names + np.arange(num_sweeps), rng.integers(self.names, size=num_sweeps))
        lasting = np.random.default_rng((seed, self.users, self.names))
        by_user, by_name = lasting.standard_normal(self.users), lasting.standard_normal((self.users, self.names))
        of_name = np.where(fresh, rng.standard_normal(num_sweeps), by_name[user, np.minimum(name, self.names - 1)])
        part = np.sqrt(self.of_user) * by_user[user] + np.sqrt(1 - self.of_user) * of_name
        return Sweeps(np.cumsum(begins) - 1, user, name, part)

    def durations(self, rng: np.random.Generator, part: FloatArray, sample: FloatArray) -> FloatArray:
        """Draw run times of jobs of one number of GPUs: float64[num_jobs], in seconds.

        Args:
            rng: of the workload.
            part: float64[num_jobs], `Sweeps.part` of each job.
            sample: float64[any], run times of the job stream, ascending; the quantiles of the distribution.
        """
        spread = float(np.log(sample).std())
        own = min(self.residual / spread, 1.0) if spread > 0 else 1.0
        normal = np.sqrt(1 - own**2) * part + own * rng.standard_normal(len(part))
        drawn: FloatArray = np.interp(ndtr(normal), (np.arange(len(sample)) + 0.5) / len(sample), sample)
        return drawn
