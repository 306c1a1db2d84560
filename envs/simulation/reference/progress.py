"""The check for net progress in plain Python, which ends runs that would never end."""

from collections.abc import Sequence

from envs.simulation.reference.objects import Job, JobStatus
from envs.simulation.scenario import Rounds
from envs.types import Seconds

LEAST_SECONDS = 1e-6  # simulated time for each round; with less the clock stands still
DELAYS = 10  # longest restart delays without net progress, before which no run is ended


class Progress:
    """Net progress of the jobs of one run, as far as it has been checked.

    Args:
        jobs: all jobs of the run.
        rounds: the scenario's rounds.
    """

    def __init__(self, jobs: Sequence[Job], rounds: Rounds) -> None:
        self.max_futile_rounds = rounds.max_futile_rounds
        self.next_check = self.max_futile_rounds  # number of rounds after which the next check is due
        self.longest_delay: Seconds = max((job.restart_delay for job in jobs), default=0.0)
        self.checked_events = 0  # arrivals and completions until the last check
        self.checked_time: Seconds = 0.0
        self.progress_time: Seconds = 0.0  # of the last check that found net progress
        self.progress_restarts = 0  # restarts until then of the jobs that were in the system

    def copy_from(self, other: "Progress") -> None:
        """Continue as another one does."""
        vars(self).update(vars(other))

    def has_ceased(self, jobs: Sequence[Job], time: Seconds, num_rounds: int) -> bool:
        """Check for net progress if that is due; return whether the run must end for lack of it.

        Args:
            jobs: the submitted jobs.
            time: the present time.
            num_rounds: the number of rounds so far.
        """
        if num_rounds < self.next_check:
            return False
        active = [job for job in jobs if job.status is not JobStatus.DONE]
        happened = 2 * len(jobs) - len(active)  # each arrival and each completion
        events, self.checked_events = happened > self.checked_events, happened
        elapsed, self.checked_time = time - self.checked_time, time
        self.next_check = num_rounds + self.max_futile_rounds
        advanced = [job for job in active if job.remaining_at(time) < job.least]
        for job in advanced:
            job.least = job.remaining_at(time)
        restarts = sum(job.num_restarts for job in active)
        if events or advanced:
            self.progress_time, self.progress_restarts = time, restarts
        stands_still = not events and elapsed < LEAST_SECONDS * self.max_futile_rounds
        many_restarts = restarts - self.progress_restarts >= self.max_futile_rounds
        return stands_still or (many_restarts and time - self.progress_time >= DELAYS * self.longest_delay)
