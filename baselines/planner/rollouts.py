"""Rollouts: apply an allocation to a copy of the cluster, let a heuristic continue, and estimate what is left."""

import math
from collections.abc import Sequence
from heapq import heapify, heappop, heappush
from typing import Protocol, TypeGuard, runtime_checkable

import numpy as np

from baselines.parts.priority import jobs_present
from baselines.starling.knee import knee
from envs.scheduling import ClusterView, Scheduler
from envs.simulation import SimulatedEpisode, plays_compiled
from envs.simulation.world.state import Status
from envs.types import Allocation, AllocationError, ClusterSpec, FloatArray, IntArray, JobId, MurmurationError, Seconds

LEAST_EFFICIENCY = 0.05  # below it, running jobs say nothing about those that wait
SLACK = 4  # a rollout ends after so many times the rounds of the first one, if its time does not end it before


@runtime_checkable
class PlaysAhead(Protocol):
    """A scheduler that plays on a simulator in compiled code, for some rounds or up to a time."""

    def play(self, simulator: SimulatedEpisode, *, rounds: int | None = None, until: Seconds = math.inf) -> bool:
        """Play as `schedule` would; return False and change nothing if it cannot.

        Args:
            simulator: between rounds, or in a round that is settled.
            rounds: stop when so many further rounds have taken effect; None for no limit.
            until: stop at this time.
        """
        ...


def plays_ahead(scheduler: Scheduler) -> TypeGuard[PlaysAhead]:
    """Return whether a scheduler plays ahead in compiled code, and nothing for which that stands is overridden."""
    return isinstance(scheduler, PlaysAhead) and plays_compiled(scheduler)


def play_on(copy: SimulatedEpisode, scheduler: Scheduler, rounds: int | None, until: Seconds) -> None:
    """Let a scheduler decide on a copy whose present round is settled, in compiled code where it can.

    Args:
        copy: the copy; changed.
        scheduler: it decides in all further rounds.
        rounds: stop when so many of them have taken effect; None for no limit.
        until: stop at this time.
    """
    if plays_ahead(scheduler) and scheduler.play(copy, rounds=rounds, until=until):
        return
    episode = copy.state.episode[0, 0]
    horizon, left = float(episode.horizon), rounds
    episode.horizon = min(until, horizon)
    while left != 0 and copy.advance():
        copy.apply(scheduler.schedule(copy.view))
        left = None if left is None else left - 1
    episode.horizon = horizon


def play_events(copy: SimulatedEpisode, scheduler: Scheduler, rounds: int) -> None:
    """Play as `play_on`, but do not count rounds that only an interval causes: no job is submitted or ends in them.

    Otherwise the horizon would be 20 minutes where the world asks for a decision in each minute, and hours elsewhere.
    """
    episode = copy.state.episode[0, 0]
    before, left = -1, rounds
    while left and episode.num_rounds != before:
        before, jobs = int(episode.num_rounds), (int(episode.next_job), int(episode.num_active))
        play_on(copy, scheduler, 1, math.inf)
        left -= (int(episode.next_job), int(episode.num_active)) != jobs


def prolong_restarts(copy: SimulatedEpisode, weight: float) -> None:
    """Multiply the restart delays of the jobs of a copy that have not ended, before an allocation is applied to it."""
    jobs = copy.state.jobs
    counted = (jobs["status"] != Status.DONE) & (jobs["submit"] < math.inf)  # other rows hold no jobs
    np.multiply(jobs["restart_delay"], weight, out=jobs["restart_delay"], where=counted)


def samples_left(copy: SimulatedEpisode, jobs: IntArray) -> FloatArray:
    """float64[len(jobs)]: samples that jobs of a copy have left, also where its view hides them."""
    column, time = copy.state.jobs[0], float(copy.state.episode[0, 0].time)
    ran = np.maximum(time - column["synced"][jobs], 0.0) * column["throughput"][jobs]
    done = np.where(column["status"][jobs] == Status.RUNNING, ran, 0.0)
    left: FloatArray = np.maximum(column["remaining"][jobs] - done, 0.0)
    return left


class Rest:
    """An estimate of the completion times of the jobs present, from their placements and a queue for all GPUs.

    Jobs that run stay as they are for `horizon` seconds, if they do not end before. What is left then, and jobs that
    wait, run at their knee, at the efficiency that running jobs have on average: their throughput per GPU relative to
    that at their knee on their fastest GPU type. It is taken from the first copy of a round, so that no candidate looks
    better for stopping an inefficient job. Jobs that wait start in order of their GPU-time at the
    knee, each as soon as so many GPUs are free, wherever they are (list scheduling; Graham, SIAM J. Appl. Math. 1969).

    Args:
        threshold: see `baselines.starling.knee.knee`.
        horizon: seconds for which placements are assumed to last.
    """

    def __init__(self, threshold: float, horizon: Seconds) -> None:
        self.threshold, self.horizon = threshold, horizon
        self._knees: dict[tuple[int, int, int], tuple[float, int]] = {}
        self._efficiency: float | None = None
        self._num_beliefs = 0

    def reset(self) -> None:
        """Forget the models of the last episode."""
        self._knees = {}
        self.begin()

    def begin(self) -> None:
        """Begin a round: the next copy sets the efficiency."""
        self._efficiency = None

    def job_seconds(self, copy: SimulatedEpisode) -> Seconds:
        """Return the sum of the times from now to the end of each job in a copy."""
        view = copy.view
        jobs = jobs_present(view)
        if not jobs.size:
            return 0.0
        if view.num_beliefs != self._num_beliefs:
            self._knees, self._num_beliefs = {}, view.num_beliefs
        columns, time = copy.state.jobs[0][jobs], view.time
        ranges = zip(*(columns[name].tolist() for name in ("model", "min_gpus", "max_gpus")), strict=True)
        knees = [self._knee(view, job, key) for job, key in zip(jobs.tolist(), ranges, strict=True)]
        at_knee, gpus = np.array(knees).T
        left, runs = samples_left(copy, jobs), columns["status"] == Status.RUNNING
        held, now = columns["gpus"][runs], columns["throughput"][runs]
        if self._efficiency is None:
            efficiency = float(np.mean(now / held / (at_knee / gpus)[runs])) if runs.any() else 1.0
            self._efficiency = max(efficiency, LEAST_EFFICIENCY)
        usual = at_knee * self._efficiency
        stall = np.maximum(columns["synced"][runs] - time, 0.0)
        done = np.minimum(left[runs], np.maximum(self.horizon - stall, 0.0) * now)
        lasting = np.divide(done, now, out=np.where(left[runs] > 0, self.horizon, 0.0), where=now > 0)
        ends = stall + lasting + (left[runs] - done) / usual[runs]
        waits = np.flatnonzero(~runs)
        order = waits[np.lexsort((jobs[waits], (left / at_knee * gpus)[waits]))]
        queue = zip((left / usual)[order].tolist(), gpus[order].astype(int).tolist(), strict=True)
        return float(ends.sum()) + queue_seconds(
            list(zip(ends.tolist(), held.tolist(), strict=True)), list(queue), view
        )

    def _knee(self, view: ClusterView, job: JobId, key: tuple[int, int, int]) -> tuple[float, int]:
        """Return samples/s and GPUs at a job's knee on its fastest type, found once for each model and range."""
        if key not in self._knees:
            curves, (_, least, most) = view.throughputs(job).copy(), key
            any_size = float((curves / np.maximum(np.arange(curves.shape[1]), 1)).max()) * least
            curves[:, :least] = curves[:, most + 1 :] = 0.0
            sizes = [knee(curve, self.threshold) for curve in curves]
            reached = [float(curve[size]) for curve, size in zip(curves, sizes, strict=True)]
            best = int(np.argmax(reached))  # a gang that fits on no one type is as fast as anywhere per GPU
            self._knees[key] = (reached[best], sizes[best]) if reached[best] > 0 else (any_size, least)
        return self._knees[key]


def queue_seconds(
    running: list[tuple[Seconds, int]], waiting: Sequence[tuple[Seconds, int]], view: ClusterView
) -> Seconds:
    """Return the sum of the times from now to the end of jobs that wait in a queue for all GPUs.

    Args:
        running: the time to the end and the GPUs of each job that runs; changed.
        waiting: the run time and the GPUs of each job that waits, in order; a job with too many GPUs takes all.
        view: the cluster.
    """
    capacity = int(view.capacity.sum())
    free, now, total = capacity - sum(gpus for _, gpus in running), 0.0, 0.0
    heapify(running)
    for seconds, wanted in waiting:
        gpus = min(wanted, capacity)
        while free < gpus:
            end, freed = heappop(running)
            now, free = max(now, end), free + freed
        heappush(running, (now + seconds, gpus))
        free, total = free - gpus, total + now + seconds
    return total


class Rollouts:
    """Values of the allocations of one round: job-seconds up to a common instant, and an estimate of those after it.

    The first allocation is played for `rounds` rounds, without those that only an interval causes. The time that it
    reaches is the horizon of all others, so that they are compared at the same instant.

    Args:
        continuation: the scheduler that decides after the first round; it must not draw random numbers.
        rounds: rounds of the first rollout; None plays to the end.
        rest: estimates what is left at the horizon.
        restart_weight: factor on the restart delays of a copy.

    Raises:
        MurmurationError: `rounds` is not positive.
    """

    def __init__(self, continuation: Scheduler, rounds: int | None, rest: Rest, restart_weight: float = 1.0) -> None:
        if rounds is not None and rounds < 1:
            raise MurmurationError(f"planner: rounds is {rounds}; it must be at least 1, or null to play to the end")
        self.continuation, self.rounds = continuation, rounds
        self.rest, self.restart_weight = rest, restart_weight
        self.count = 0  # rollouts so far in this round
        self.until: Seconds = math.inf
        self._horizon_is_set = self._later_jobs = False
        self._most_rounds: int | None = None  # of a rollout that is not the first

    def reset(self, cluster: ClusterSpec, rng: np.random.Generator) -> None:
        """Begin an episode."""
        self.forget_jobs(cluster, rng)
        self.rest.reset()

    def forget_jobs(self, cluster: ClusterSpec, rng: np.random.Generator) -> None:
        """Make the continuation forget the jobs that it has seen, before others get their ids."""
        self.continuation.reset(cluster, rng)

    def begin(self, *, later_jobs: bool) -> None:
        """Begin a round: the next rollout sets the horizon.

        Args:
            later_jobs: whether jobs are submitted during rollouts.
        """
        self.count, self.until, self._later_jobs = 0, math.inf, later_jobs
        self._horizon_is_set = False
        self.rest.begin()

    def play(self, trial: SimulatedEpisode, allocation: Allocation) -> Seconds | None:
        """Play an allocation on a copy of the present round; return its job-seconds from now on.

        The result is None if the allocation is refused.
        """
        before = float(trial.state.episode[0, 0].job_seconds)
        prolong_restarts(trial, self.restart_weight)
        try:
            trial.apply(allocation)
        except AllocationError:
            return None
        if self._later_jobs and not plays_ahead(self.continuation):
            self.forget_jobs(trial.cluster, trial.rng)  # an earlier rollout may have seen more of them
        first, self.count, self._horizon_is_set = not self._horizon_is_set, self.count + 1, True
        episode = trial.state.episode[0, 0]
        if first:
            self._play_first(trial)
        else:
            play_on(trial, self.continuation, self._most_rounds, self.until)
        return float(episode.job_seconds) - before + self.rest.job_seconds(trial)

    def _play_first(self, trial: SimulatedEpisode) -> None:
        """Play to the horizon, and set it for the other rollouts of this round."""
        episode = trial.state.episode[0, 0]
        before = int(episode.num_rounds)
        if self.rounds is None or not trial.scenario.rounds.interval:
            play_on(trial, self.continuation, self.rounds, math.inf)  # one call, as every round is an event
        else:
            play_events(trial, self.continuation, self.rounds)
        if self.rounds is not None:
            self._most_rounds = SLACK * max(self.rounds, int(episode.num_rounds) - before)
        if not episode.ended:
            self.until = float(episode.time)
