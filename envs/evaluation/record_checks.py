"""How the values of a recorded episode must agree with its workload and with each other.

Figures of jobs have `JOB_DIGITS` significant digits, metrics `DIGITS`, so everything is compared within what rounding
allows. Lower bounds are checked when schedulers are compared (`envs.evaluation.plausible`).
"""

import math
from collections.abc import Mapping
from dataclasses import dataclass
from functools import cached_property
from typing import Any

import numpy as np

from envs.evaluation.episode import OF_RHO, EpisodeFigures
from envs.evaluation.record_schema import JOB_DIGITS, RecordError
from envs.metrics import figures_of_jobs, times_to_start
from envs.simulation import Scenario
from envs.types import FloatArray, Seconds

ROUNDING = 2e-8  # relative: twice that of a figure with 9 digits
OF_WAIT = ("mean_wait", "p99_wait", "mean_time_to_start", "p99_time_to_start")
OF_JOBS = ("mean_jct", "p50_jct", "p99_jct", "mean_slowdown", "mean_bounded_slowdown", *OF_WAIT, *OF_RHO)
LIMITS = ("limited_by_gpus", "limited_by_cpus", "limited_by_memory", "limited_by_network")


def half_units(seconds: FloatArray) -> FloatArray:
    """float64[n]: by how much figures that were rounded to `JOB_DIGITS` digits may differ from what they were."""
    near = seconds * (1 + 1e-6)  # 100 s can have become 99.99999 s in a difference of two times
    with np.errstate(divide="ignore"):
        return np.asarray(0.5000001 * 10.0 ** (np.floor(np.log10(near)) - (JOB_DIGITS - 1)))


@dataclass(frozen=True)
class EpisodeCheck:
    """The checks of one recorded episode; each raises a `RecordError` that names the value.

    Args:
        figures: the episode as `restore_episode` returns it.
        scenario: of the comparison; jobs may be missing, and jobs may end, only up to its horizon.
    """

    figures: EpisodeFigures
    scenario: Scenario

    def run(self) -> None:
        """Make all checks.

        Raises:
            RecordError: two values disagree; names them.
        """
        self._check_counts()
        self._check_figures_of_jobs()
        self._check_times()
        self._check_lateness()
        self._check_waits()
        self._check_fairness()
        self._check_cluster()

    @cached_property
    def _summary(self) -> Mapping[str, Any]:
        own = self.figures.own
        return {name: getattr(own, name) for name in own.__dataclass_fields__}

    @cached_property
    def _done(self) -> Any:
        """bool[n]: which jobs finished."""
        return ~np.isnan(self.figures.jobs["finish_time"])

    @cached_property
    def _left(self) -> FloatArray:
        """float64[n]: seconds in the system of the jobs that left without finishing; NaN for the others."""
        stays = np.full(len(self.figures.jobs), np.nan)
        for each in (self.figures.at_limit, self.figures.never_ran):
            stays[list(each)] = list(each.values())
        return stays

    @cached_property
    def _ended(self) -> Any:
        """bool[n]: which jobs finished or left."""
        return self._done | ~np.isnan(self._left)

    @cached_property
    def _stays(self) -> FloatArray:
        """float64[m]: seconds in the system of those that finished or left."""
        jobs = self.figures.jobs
        stays = np.where(self._done, jobs["finish_time"] - jobs["submit_time"], self._left)
        return np.asarray(stays[self._ended])

    @cached_property
    def _jct(self) -> FloatArray:
        rows = self.figures.jobs[self._done]
        return np.asarray(rows["finish_time"] - rows["submit_time"])

    @cached_property
    def _slack(self) -> FloatArray:
        return half_units(self._jct)

    def _require(self, holds: object, what: str) -> None:
        if not holds:
            raise RecordError(f"{self.figures.workload.name}: {what}")

    def _agree(self, name: str, found: float, slack: float, of: str = "JCTs") -> None:
        stated = self._summary[name]
        near = math.isfinite(stated) and abs(stated - found) <= slack + ROUNDING * max(abs(found), abs(stated))
        self._require(near, f"{name} is {stated:g}, but its {of} give {found:g}")

    def _agree_on_percentile(
        self, name: str, q: float, seconds: FloatArray, slack: FloatArray, of: str = "JCTs"
    ) -> None:
        low, found, high = (float(np.percentile(seconds + sign * slack, q)) for sign in (-1, 0, 1))
        self._agree(name, found, max(high - found, found - low), of)

    def _check_counts(self) -> None:
        jobs, said, workload = self.figures.jobs, self._summary, self.figures.workload
        submit = workload.jobs["submit_time"][workload.measured]
        horizon = self.scenario.horizon
        unfinished, done = int((~self._ended).sum()), int(self._done.sum())
        least = int((submit < horizon).sum())
        self._require(
            (least if not unfinished or math.isfinite(horizon) else 0) <= len(jobs) <= int((submit <= horizon).sum()),
            f"has {len(jobs)} JCTs, and {least} jobs are measured",
        )
        counts = {"num_measured": len(jobs), "num_unfinished": unfinished, "num_compared": done}
        for name, count in counts.items():
            self._require(said[name] == count, f"{name} is {said[name]}, but its JCTs are of {count}")
        self._require(self.figures.num_rounds > 0 or not len(self._jct), "num_rounds is 0, but jobs ended")
        batches = not self.figures.chose_batches or self.scenario.batch_sizes != "usual"
        self._require(batches, "chose_batches is true, and jobs keep their usual batch size here")

    def _check_figures_of_jobs(self) -> None:
        if not len(self._jct):
            for name in OF_JOBS:
                self._require(math.isnan(self._summary[name]), f"{name} is a number, but no job finished")
            return
        rows, slack = self.figures.jobs[self._done], self._slack
        found = figures_of_jobs(rows, rows["rho"], rows["wait"])
        ideal = rows["ideal_duration"]
        self._agree("mean_jct", found["mean_jct"], float(slack.mean()))
        for q in (50, 99):
            self._agree_on_percentile(f"p{q}_jct", q, self._jct, slack)
        self._agree("mean_slowdown", found["mean_slowdown"], float((slack / ideal).mean()))
        bounded = float((slack / np.maximum(ideal, 10.0)).mean())
        self._agree("mean_bounded_slowdown", found["mean_bounded_slowdown"], bounded)

    @cached_property
    def _end(self) -> Seconds:
        """The end of the run if jobs are unfinished: it is the last end of all, from which the makespan follows."""
        return float(self._summary["makespan"] + self.figures.jobs["submit_time"].min())

    def _check_times(self) -> None:
        jobs, said, stay = self.figures.jobs, self._summary, self.figures.stay
        if not len(jobs):
            self._require(stay == 0, f"stay is {stay:g} s, but no job was submitted")
            return
        first, ends = jobs["submit_time"].min(), jobs["submit_time"][self._ended] + self._stays
        waits, spare = jobs["submit_time"][~self._ended], half_units(self._stays)
        least = float((ends - spare).max() - first) if ends.size else 0.0
        most = float((ends + spare).max() - first) if ends.size else 0.0
        made, slack = said["makespan"], ROUNDING * max(said["makespan"], first)
        self._require(math.isfinite(made), "makespan is no number of seconds")
        self._require(least <= made + slack, f"makespan is {made:g} s, but its JCTs give {least:g} s and more")
        self._require(
            waits.size or made <= most + slack, f"makespan is {made:g} s, but its JCTs give {most:g} s and less"
        )
        self._require(made <= self.scenario.horizon, f"makespan is {made:g} s, beyond the horizon")
        self._require((waits <= self._end + slack).all(), "unfinished jobs were submitted after the end")
        found = float(self._stays.sum() + (self._end - waits).sum())
        near = abs(stay - found) <= spare.sum() + ROUNDING * found + slack * waits.size
        self._require(near, f"stay is {stay:g} s, but its JCTs give {found:g} s")
        censored = stay / len(jobs)
        self._require(
            math.isclose(said["mean_jct_censored"], censored, rel_tol=ROUNDING),
            f"mean_jct_censored is {said['mean_jct_censored']:g} s, but stay gives {censored:g} s",
        )

    def _check_lateness(self) -> None:
        jobs, figures = self.figures.jobs, self.figures
        last = figures.workload.jobs["submit_time"][-1]
        ends, unfinished = jobs["submit_time"][self._ended] + self._stays, int((~self._ended).sum())
        low, high = ends - half_units(self._stays), ends + half_units(self._stays)
        fewest, most = int((low > last).sum()), int((high > last).sum()) + unfinished
        late = figures.num_late
        self._require(fewest <= late <= most, f"num_late is {late}, but its JCTs give {fewest} to {most}")
        over = max(self._end - last, 0.0) * unfinished if unfinished else 0.0
        least = float(np.maximum(low - last, 0.0).sum()) + over
        highest = float(np.maximum(high - last, 0.0).sum()) + over
        slack = ROUNDING * (highest + last * max(unfinished, 1))
        self._require(
            least - slack <= figures.beyond <= highest + slack,
            f"beyond is {figures.beyond:g} s, but its JCTs give {least:g} to {highest:g} s",
        )

    def _check_waits(self) -> None:
        """Check that time to start <= wait <= JCT for each job, and that the metrics are those of the jobs."""
        jobs, done = self.figures.jobs, self._done
        wait, to_start = jobs["wait"], times_to_start(jobs)
        noise = 4 * np.spacing(np.fmax(jobs["finish_time"], jobs["submit_time"] + wait))  # of differences of times
        self._require(not np.isnan(to_start[done]).any(), "a job ended without a start")
        self._require(not (to_start > wait + noise).any(), "a job has a longer time_to_start than wait")
        self._require((wait[done] <= self._jct + noise[done]).all(), "a job has a longer wait than JCT")
        for name, seconds in (("wait", wait[done]), ("time_to_start", to_start[done])) if done.any() else ():
            slack, of = half_units(seconds) + noise[done], f"jobs' {name}"
            self._agree(f"mean_{name}", float(seconds.mean()), float(slack.mean()), of)
            self._agree_on_percentile(f"p99_{name}", 99, seconds, slack, of)

    def _check_fairness(self) -> None:
        said, count = self._summary, len(self._jct)
        if not count:
            return
        if not np.isfinite(self.figures.jobs["ideal_duration"][self._done]).all():
            return  # a gang that does not fit on any one type has no fairness
        mean, worst, jain = (said[name] for name in OF_RHO)
        self._require(0 < mean <= said["mean_slowdown"] * (1 + ROUNDING), f"mean_fairness is {mean:g}, but cannot be")
        self._require(mean <= worst * (1 + ROUNDING), f"worst_fairness is {worst:g}, below the mean, {mean:g}")
        self._require(worst <= mean * count * (1 + ROUNDING), f"worst_fairness is {worst:g}, above the sum")
        self._require(jain * count >= 1 - ROUNDING * count, f"jain_index is {jain:g}, below 1 / {count}")

    def _check_cluster(self) -> None:
        said, jobs = self._summary, self.figures.jobs
        if not len(jobs):
            return
        for name in ("utilisation", "mean_jobs_in_system", "gpu_hours"):
            self._require(not math.isnan(said[name]), f"{name} is none, but jobs were submitted")
            self._require(math.isfinite(said[name]), f"{name} is infinite")
        shares = [said[name] for name in LIMITS]
        known = [not math.isnan(each) for each in shares]
        whole = abs(sum(shares) - 1.0) <= 1e-7 if all(known) else not any(known)
        self._require(whole, f"{', '.join(LIMITS)} do not add up to 1")
