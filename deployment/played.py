"""A counterfactual cluster: jobs that were observed on a real one are played under a scheduler, event by event."""

import math
from collections.abc import Mapping
from dataclasses import dataclass, replace

import numpy as np

from deployment.deciding import LocalScheduler
from deployment.history import ClusterHistory, JobHistory
from deployment.mirror import Mirror
from deployment.state import ClusterState, Decision, JobState
from envs.scheduling import Scheduler
from envs.types import MurmurationError, NodeId, Placement, Seconds


class RoundFailedError(MurmurationError):
    """A scheduler could not answer one round; it begins anew with the next one."""


@dataclass(slots=True)
class JobPlay:
    """One job in the counterfactual cluster; times in seconds since the history began, NaN if not yet.

    Attributes:
        placement: what it holds; None while it waits.
        start: when it began first; NaN also if it ran already when the play began.
        since: when it began to run on what it holds.
        ran: for how long it had run before.
        end: when it ended, or was cancelled.
        restarts: starts and moves after the first start.
    """

    placement: Placement | None = None
    start: Seconds = math.nan
    since: Seconds = math.nan
    ran: Seconds = 0.0
    end: Seconds = math.nan
    restarts: int = 0

    @property
    def open(self) -> bool:
        """Whether it waits or runs."""
        return math.isnan(self.end)

    def run_time(self, now: Seconds) -> Seconds:
        """Return how long it has run."""
        return self.ran + (max(now - self.since, 0.0) if self.placement else 0.0)


@dataclass(frozen=True, slots=True)
class PlayedChange:
    """A change by a scheduler: the job, the time, and its GPUs by node; none if it is stopped."""

    time: Seconds
    job: JobHistory
    action: str
    gpus: Mapping[NodeId, int]

    def __str__(self) -> str:
        where = ", ".join(f"{count} GPUs on node {node}" for node, count in self.gpus.items())
        return f"{self.action} {where}".strip()


class PlayedCluster:
    """Plays a cluster on under a scheduler, from how it really was at the last look of a history.

    Jobs come, and those that wait are cancelled, when they really did. A job that was started runs as long as it really
    ran. Where that is not known, it runs until its time limit, or as long as it has really run if that is longer. A job
    that is stopped or moved goes on where it was, after the restart delay of the scenario. A node that is out of
    service gets no further jobs. Where the scenario says that jobs are not preempted, stops and moves are not carried
    out, and a job that was to get other GPUs starts on those that are free.

    Args:
        scheduler: it is reset here.
        history: what is known of the jobs; it may go on.

    Attributes:
        plays: of the jobs of the history that have come, by id.
        time: up to which the cluster was played.
        num_rounds: rounds that the scheduler has answered.
        wanted: ids of jobs in the order in which the scheduler first placed them, also where that was not possible;
            in one round those that it was possible for come first.
        inherited: ids of jobs that ran, or had ended, when the play began.
        guessed: whether a job has ended at another time than it would have by what is known now.
    """

    def __init__(self, scheduler: Scheduler, history: ClusterHistory) -> None:
        setup = history.stand_in.setup
        self._scheduler, self._history, self._setup = scheduler, history, setup
        self._keeps = setup.scenario.preemption == "never"
        self._restart_delay = float(setup.scenario.delays([history.stand_in.model])[1][0])
        self.time, self.num_rounds, self.guessed = history.time, 0, False
        self.plays = [self._present(each) for each in history.jobs]
        self._due: Seconds = self.time
        self.wanted: dict[int, None] = {}
        self.inherited = frozenset(job for job, play in enumerate(self.plays) if play.placement or not play.open)
        self._first = self.time, [replace(play) for play in self.plays]
        self._begin()

    def play_again(self) -> "PlayedCluster":
        """Return a cluster that was played from the same beginning until now, by what is known now.

        Raises:
            RoundFailedError: the scheduler has failed.
        """
        again = PlayedCluster(self._scheduler, self._history)
        time, plays = self._first
        again.time, again._due, again.inherited = time, time, self.inherited
        again.plays = [replace(play) for play in plays]
        again.play(self.time)
        return again

    def _begin(self) -> None:
        """Begin with an empty mirror and a scheduler that is reset."""
        cluster = self._setup.cluster
        self._mirror = Mirror(self._setup, [self._history.stand_in.model], most_gpus=cluster.num_gpus)
        self._asked = LocalScheduler(self._scheduler, self._mirror, np.random.default_rng(0))
        self._told, self._told_ended = 0, set[int]()

    def _present(self, job: JobHistory) -> JobPlay:
        """Return a job as it really is."""
        if not math.isnan(job.left):
            return JobPlay(ran=0.0 if job.cancelled else job.run_time, end=job.left)
        if not job.seen.gpus:
            return JobPlay()
        return JobPlay(Placement(dict(job.seen.gpus)), since=job.start)

    def play(self, until: Seconds, most_rounds: float = math.inf) -> list[PlayedChange]:
        """Play on until a time; return what the scheduler has changed.

        Args:
            until: seconds since the history began; infinite until nothing happens any more.
            most_rounds: after which it stops earlier.

        Raises:
            RoundFailedError: the scheduler has failed. It is reset, and asked the same again when it is played on.
        """
        changes: list[PlayedChange] = []
        last = self.num_rounds + most_rounds
        while (time := self._next_event()) <= until and time < math.inf and self.num_rounds < last:
            changes += self._round(time)
        if until < math.inf:
            self.time = max(self.time, until)
        return changes

    def _next_event(self) -> Seconds:
        """Return when something happens next; one that became known too late happens now."""
        jobs, count = self._history.jobs, len(self.plays)
        times = [self._due, *(self._end(job) for job, play in enumerate(self.plays) if play.open)]
        times += [jobs[count].spec.submit_time] if count < len(jobs) else []
        times += [since for since, _ in self._history.down if since > self.time][:1]
        return max(min(times), self.time)

    def _end(self, job: int) -> Seconds:
        """Return when a job leaves, as far as that is known now."""
        known, play = self._history.jobs[job], self.plays[job]
        if known.cancelled:
            return known.left
        if not play.placement:
            return math.inf
        return play.since + self._run_time(known) - play.ran

    def _run_time(self, known: JobHistory) -> Seconds:
        if not math.isnan(known.run_time):
            return known.run_time
        elapsed = 0.0 if math.isnan(known.start) else self._history.time - known.start
        return known.seen.expected if known.seen.expected > elapsed else elapsed + 1.0  # it still runs

    def _round(self, now: Seconds) -> list[PlayedChange]:
        """Let everything happen that happens at one instant, and ask the scheduler."""
        self.time, self._due = now, math.inf
        jobs = self._history.jobs
        for job, play in enumerate(self.plays):
            if play.open and (end := self._end(job)) <= now:
                self.guessed |= end < now or (math.isnan(jobs[job].left) and math.isnan(jobs[job].run_time))
                play.ran, play.end, play.placement = play.run_time(now), now, None
        while len(self.plays) < len(jobs) and jobs[len(self.plays)].spec.submit_time <= now:
            self.plays.append(JobPlay())
        if not any(play.open for play in self.plays):
            return []
        try:
            decision = self._ask()
        except Exception as error:  # a scheduler may be anybody's
            self._begin()
            self._due = now
            name = "" if isinstance(error, MurmurationError) else f"{type(error).__name__}: "
            raise RoundFailedError(f"the scheduler failed ({name}{error})") from error
        self.num_rounds += 1
        self._due = decision.next_decision if decision.next_decision > now else math.inf
        return [change for job, placement in decision.placements.items() if (change := self._change(job, placement))]

    def _ask(self) -> Decision:
        """Return what can be carried out of the scheduler's decision."""
        now, jobs = self.time, self._history.jobs
        ended = {job: play for job, play in enumerate(self.plays) if not play.open and job not in self._told_ended}
        held = {node for play in self.plays if play.placement for node in play.placement.gpus}
        down = self._down()
        state = ClusterState(
            now,
            tuple(jobs[job].spec for job in range(self._told, len(self.plays))),
            {job: play.ran * jobs[job].spec.num_gpus for job, play in ended.items()},
            down - held,  # one that is drained runs its jobs to their end
            tuple(self._state(job) for job, play in enumerate(self.plays) if play.open),
        )
        self._told, self._told_ended = len(self.plays), self._told_ended | set(ended)
        decision = self._asked.decide(state)
        carried_out = Decision(self._possible(decision.placements, down), decision.next_decision)
        placed = [job for job, placement in decision.placements.items() if placement]
        self.wanted |= dict.fromkeys(sorted(placed, key=lambda job: job not in carried_out.placements))
        self._mirror.check(carried_out)
        return carried_out

    def _down(self) -> frozenset[NodeId]:
        """Nodes that are out of service now."""
        return next((down for since, down in reversed(self._history.down) if since <= self.time), frozenset())

    def _state(self, job: int) -> JobState:
        play, spec = self.plays[job], self._history.jobs[job].spec
        ran = play.run_time(self.time)
        throughput = self._history.stand_in.throughput(spec.num_gpus)
        left = max(spec.work - ran * throughput, spec.work * 0.01)  # where it has outlived its limit
        return JobState(
            job,
            play.placement,
            ran * spec.num_gpus,
            left,
            ready_time=max(play.since, self.time) if play.placement else math.nan,
            segment=play.since if play.placement else math.nan,
            start_time=play.since - play.ran if play.placement and math.isnan(play.start) else play.start,
            num_restarts=play.restarts,
        )

    def _possible(
        self, placements: Mapping[int, Placement | None], down: frozenset[NodeId]
    ) -> dict[int, Placement | None]:
        """Return the changes that can be carried out, and change something."""
        free = self._setup.cluster.node_gpus.tolist()
        for play in self.plays:
            for node, count in play.placement.gpus.items() if play.placement else ():
                free[node] -= count
        for node in down:
            free[node] = 0
        found: dict[int, Placement | None] = {}
        for job, placement in placements.items():
            held = self.plays[job].placement
            if _gpus_of(held) == _gpus_of(placement) or (self._keeps and held):
                continue
            if placement and self._keeps:
                placement = _fit(placement, free, self._history.jobs[job].spec.constraints.max_nodes)
            if held or (placement and not down & set(placement.gpus)):
                found[job] = placement
        return found

    def _change(self, job: int, placement: Placement | None) -> PlayedChange:
        """Carry out one change."""
        play, now = self.plays[job], self.time
        first = play.placement is None and play.ran == 0
        action = "stop" if placement is None else "move" if play.placement else "start" if first else "resume"
        play.ran = play.run_time(now)
        play.placement, play.since = placement, now
        if first:
            play.start = now
        elif placement:
            play.since, play.restarts = now + self._restart_delay, play.restarts + 1
        return PlayedChange(now, self._history.jobs[job], action, _gpus_of(placement))


def _gpus_of(placement: Placement | None) -> dict[NodeId, int]:
    return dict(placement.gpus) if placement else {}


def _fit(placement: Placement, free: list[int], max_nodes: int) -> Placement | None:
    """Return a placement, on other GPUs where those are not free; None if too few are. Takes them from `free`.

    Args:
        placement: what was wanted.
        free: GPUs of each node.
        max_nodes: at most so many nodes; 0 for any number.
    """
    gpus, want = dict(placement.gpus), placement.num_gpus
    if any(count > free[node] for node, count in gpus.items()):
        gpus = {}
        tight = [node for node, count in sorted(enumerate(free), key=lambda each: each[1]) if count >= want]
        for node in tight[:1] or sorted(range(len(free)), key=lambda node: -free[node]):
            if take := min(free[node], want - sum(gpus.values())):
                gpus[node] = take
        if sum(gpus.values()) < want or len(gpus) > (max_nodes or len(free)):
            return None
    for node, count in gpus.items():
        free[node] -= count
    return Placement(gpus)
