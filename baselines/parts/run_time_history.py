"""Run times of earlier jobs of the same size, model, user and name, as numbers to learn predictions from."""

import re
from collections.abc import Sequence
from typing import NamedTuple

import numpy as np

from baselines.parts.siblings import find_groups
from envs.types import FloatArray, JobFacts, Seconds

KEYS = ("GPUs", "model", "user", "user and GPUs", "similar name", "group")
FEATURES = ("log2 GPUs", *(f"{what} of {key}" for key in KEYS for what in ("mean", "recent", "log jobs")))
RECENT = 0.5  # weight of the latest job in the recent mean, our choice
UNKNOWN = np.nan, np.nan, 0.0

HistoryKey = tuple[str | int, ...]
_DIGITS = re.compile(r"\d+")


class EarlierJobs(NamedTuple):
    """Earlier jobs of one key.

    Attributes:
        number: of jobs.
        mean: of the logarithms of their run times.
        recent: the mean that gives the latest job a weight of `RECENT`, and the others together the rest.
    """

    number: int
    mean: float
    recent: float

    def after(self, value: float) -> "EarlierJobs":
        """Return it with one more job."""
        mean = self.mean + (value - self.mean) / (self.number + 1)
        return EarlierJobs(self.number + 1, mean, self.recent + RECENT * (value - self.recent))


class RunTimeHistory:
    """Earlier jobs by size, model, user, user and size, user and similar name, and group.

    Names are similar if they differ in numbers alone, such as run_1 and run_2. A group is a name of a user, or a sweep
    of jobs without names; see `envs.workloads.Habits` and `find_groups`.

    Args:
        gap: seconds between jobs without names that belong together.
    """

    def __init__(self, gap: Seconds = 60.0) -> None:
        self.gap = gap
        self._past: dict[HistoryKey, EarlierJobs] = {}

    def replay(self, episodes: Sequence[JobFacts]) -> FloatArray:
        """Learn from past episodes, and return what was known of each job when it was submitted.

        Jobs count as ended once they have been submitted for as long as they run. Earlier episodes are known.

        Returns:
            float64[num_jobs, len(FEATURES)], NaN where nothing was known; in the order of episodes and their jobs.
        """
        found = []
        for episode, jobs in enumerate(episodes):
            count = len(jobs.run_time)
            keys = list_keys(jobs, self.gap, str(episode))
            values = np.log(jobs.run_time).tolist()
            rows: list[list[float]] = [[]] * count
            order = np.lexsort([np.repeat([1, 0], count), np.concatenate([jobs.submit, jobs.submit + jobs.run_time])])
            for event in order.tolist():  # at one instant, ends first
                if event < count:
                    rows[event] = self._look_up(self._past, keys[event])
                else:
                    self._add(self._past, keys[event - count], values[event - count])
            found.append(_with_size(jobs, rows))
        self._past = {key: jobs for key, jobs in self._past.items() if key[0] != "sweep"}  # sweeps do not come again
        return np.concatenate(found)

    def describe(self, asked: JobFacts, ended: JobFacts) -> FloatArray:
        """Return what is known of jobs: float64[n, len(FEATURES)], NaN where nothing is.

        Args:
            asked: the jobs.
            ended: other jobs of the same episode.
        """
        count = len(asked.run_time)
        both = JobFacts._make(np.concatenate(pair) for pair in zip(asked, ended, strict=True))
        keys = list_keys(both, self.gap)
        now: dict[HistoryKey, EarlierJobs] = {}
        values = np.log(ended.run_time).tolist()
        for job in np.lexsort([ended.run_time, ended.submit + ended.run_time]).tolist():
            self._add(now, keys[count + job], values[job])
        return _with_size(asked, [self._look_up(now, each) for each in keys[:count]])

    def _add(self, to: dict[HistoryKey, EarlierJobs], keys: Sequence[HistoryKey], value: float) -> None:
        for key in keys:
            known = to.get(key) or self._past.get(key) or EarlierJobs(0, value, value)
            to[key] = known.after(value)

    def _look_up(self, now: dict[HistoryKey, EarlierJobs], keys: Sequence[HistoryKey]) -> list[float]:
        row: list[float] = []
        for key in keys:
            known = now.get(key) or self._past.get(key)
            row += (known.mean, known.recent, known.number) if known else UNKNOWN
        return row


def list_keys(jobs: JobFacts, gap: Seconds, episode: str = "") -> list[tuple[HistoryKey, ...]]:
    """Return the keys of each job in the order of `KEYS`.

    Args:
        jobs: the jobs.
        gap: seconds between jobs without names that belong together.
        episode: a text of its own for jobs whose submission times are not comparable with others.
    """
    group, _ = find_groups(jobs, gap)
    columns = (jobs.num_gpus, jobs.model, jobs.tenant, jobs.user, jobs.name, group)
    return [
        (
            ("GPUs", gpus),
            ("model", model),
            ("user", tenant, user),
            ("user and GPUs", tenant, user, gpus),
            ("similar", tenant, user, _DIGITS.sub("#", name)),
            ("name", tenant, user, name) if name else ("sweep", episode, own),
        )
        for gpus, model, tenant, user, name, own in zip(*(column.tolist() for column in columns), strict=True)
    ]


def _with_size(jobs: JobFacts, rows: Sequence[Sequence[float]]) -> FloatArray:
    known = np.array(rows, np.float64).reshape(len(rows), -1)
    known[:, 2::3] = np.log1p(known[:, 2::3])
    return np.column_stack([np.log2(jobs.num_gpus), known])
