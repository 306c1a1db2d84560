"""Shadow mode: what a scheduler would do on a cluster that others schedule. Nothing is touched."""

import math
from collections.abc import Sequence
from contextlib import suppress
from dataclasses import dataclass

from deployment.history import ClusterHistory, ObservedJob, StandIn
from deployment.journal import SHADOWED, Journal
from deployment.played import PlayedChange, PlayedCluster, RoundFailedError
from envs.scheduling import Scheduler
from envs.simulation import Setup
from envs.types import NodeId, Seconds

OBSERVED = "observed"  # phase of a journal's line about something that others did


@dataclass(frozen=True, slots=True)
class JobWait:
    """When one job began really and in the shadow, in seconds since 1970; NaN if it did not.

    Attributes:
        job: its name.
        user: its owner.
        gpus: that it asked for.
        submitted: when it could start first.
        real_start: on the real cluster.
        simulated_start: in the shadow.
    """

    job: str
    user: str
    gpus: int
    submitted: float
    real_start: float
    simulated_start: float

    @property
    def waits(self) -> tuple[Seconds, Seconds]:
        """Real and simulated wait; NaN if it did not start."""
        return self.real_start - self.submitted, self.simulated_start - self.submitted


class Shadow:
    """Plays the jobs of a real cluster on one of its own under a scheduler, and writes what the scheduler does.

    The two part at the first look. Each job begins at most once in the shadow, and runs as `PlayedCluster` says.

    Args:
        scheduler: it is reset here.
        setup: of the cluster; see `Mirror`.
        model: stands for all jobs; see `StandIn`.
        journal: takes the decisions.

    Attributes:
        history: what was seen.

    Raises:
        MurmurationError: the model runs on no number of GPUs.
    """

    def __init__(self, scheduler: Scheduler, setup: Setup, model: str, journal: Journal) -> None:
        self._scheduler, self._journal = scheduler, journal
        self.history = ClusterHistory(StandIn(setup, model))
        self._played: PlayedCluster | None = None

    @property
    def num_rounds(self) -> int:
        """Rounds that the scheduler has answered."""
        return self._played.num_rounds if self._played else 0

    @property
    def num_running(self) -> int:
        """Jobs that run in the shadow."""
        return sum(play.placement is not None for play in self._played.plays) if self._played else 0

    def look(
        self, now: float, jobs: Sequence[ObservedJob], down: frozenset[NodeId] = frozenset()
    ) -> list[PlayedChange]:
        """Take what is seen of the real cluster, and play on until now; return what the scheduler has changed.

        Args:
            now: seconds since 1970.
            jobs: all that wait or run, and those that have ended as long as they are listed, in any order.
            down: nodes that cannot run new jobs.

        Raises:
            RoundFailedError: the scheduler has failed; it is reset, and the next look begins with the same round.
        """
        for new in self.history.look(now, jobs, down):
            about = {"job": new.seen.name, "gpus": new.spec.num_gpus, "now": new.spec.submit_time}
            self._journal.write(OBSERVED, "job", **about)
        if self._played is None:
            self._played = PlayedCluster(self._scheduler, self.history)
        return self._write(self._played.play(self.history.time))

    def play_out(self) -> list[PlayedChange]:
        """Play on until all jobs that have come have ended; return what the scheduler has changed.

        Raises:
            RoundFailedError: the scheduler has failed.
        """
        return self._write(self._played.play(math.inf)) if self._played else []

    def _write(self, changes: Sequence[PlayedChange]) -> list[PlayedChange]:
        for each in changes:
            gpus = {str(node): count for node, count in each.gpus.items()}
            self._journal.write(SHADOWED, each.action, job=each.job.seen.name, now=each.time, gpus=gpus)
        return list(changes)

    def waits(self) -> list[JobWait]:
        """Return the waits of all jobs that did not run yet at the first look.

        Where it has turned out since that a job runs shorter or longer than was assumed when it was played, all of it
        is played again by what is known now.
        """
        if self._played is None:
            return []
        played = self._played
        with suppress(RoundFailedError):  # then what was played first stands
            played = played.play_again() if played.guessed else played
        began, jobs = self.history.began, enumerate(self.history.jobs)
        return [
            JobWait(
                job.seen.name,
                job.seen.user,
                job.spec.num_gpus,
                began + job.spec.submit_time,
                began + job.start,
                began + played.plays[number].start,
            )
            for number, job in jobs
            if number not in played.inherited and number < len(played.plays)
        ]
