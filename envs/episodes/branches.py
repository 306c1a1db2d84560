"""Branches: copies of episodes in which a market decides by itself after one decision, to find what it is worth.

A branch begins in the round of its episode and has the same future: the same jobs arrive, the same nodes fail. After
the decision that is to be judged, a market decides without bids in all its rounds, in compiled code and without
observations. So the difference between two branches of one round belongs to their first decisions, as far as what
follows does not blur it.
"""

from typing import NamedTuple

import numpy as np

from envs.episodes.batch import EpisodeBatch
from envs.simulation import SimulationView, State
from envs.simulation.clearing import plan_all
from envs.simulation.clock import advance
from envs.simulation.jit import kernel
from envs.simulation.kernels import ROUND, settle
from envs.simulation.market import BidArrays, Changes, Market, no_bids, no_changes
from envs.simulation.world import World, batch_world, episode_of
from envs.types import BoolArray, FloatArray, IntArray, MurmurationError
from envs.workloads import Workload

NEVER = -1


class Stretch(NamedTuple):
    """What happened in branches between two instants, round by round.

    Attributes:
        job_seconds: float64[T, num_branches], integral of the number of jobs in the system over each of T periods.
        seconds: float64[T, num_branches], their lengths in simulated time.
    """

    job_seconds: FloatArray
    seconds: FloatArray

    def total(self) -> FloatArray:
        """float64[num_branches]: job-seconds of the whole stretch."""
        total: FloatArray = self.job_seconds.sum(axis=0)
        return total


@kernel
def advance_branches(worlds: World, playing: BoolArray) -> None:
    """Let the plans of branches take effect and advance each to its next round; one that ends is not played any more.

    Args:
        worlds: the branches; they keep no log.
        playing: bool[num_branches], overwritten.
    """
    for b in range(len(playing)):
        if playing[b]:
            world = episode_of(worlds, b)
            settle(world)
            playing[b] = advance(world) == ROUND


class Branches:
    """`size` copies of episodes of a batch.

    Copy rounds with `copy`, make plans for them (`plan`, or with the decisions of another environment), then call
    `play`, as often as there are instants of interest.

    Args:
        source: the batch whose episodes are copied. Its table may grow.
        size: number of branches.
        market: decides in the branches, without bids.

    Attributes:
        state: the engine's arrays of the branches.
    """

    def __init__(self, source: EpisodeBatch, size: int, market: Market) -> None:
        self.source, self.size, self.setup = source, size, source.setup
        self.state = State.allocate(source.cluster, source.state.jobs.shape[1], size, source.scenario)
        self._unattached = market
        self._began = np.full(size, NEVER)  # history of the episode for whose jobs the market has begun
        self._own_horizon = np.full(size, np.inf)
        self._changes = no_changes(self.state)
        self._held: BidArrays | None = None
        self._use_table()

    def _use_table(self) -> None:
        self.table, self.exact = self.source.table, self.source.exact
        self.worlds = batch_world(self.state, self.table)
        self.market = self._unattached.attach(self.setup, self.table, self.state)
        self._began[:] = NEVER

    def copy(self, places: IntArray, episodes: IntArray) -> None:
        """Make branches of the present rounds of episodes, plans included.

        Args:
            places: int64[n], the branches, each at most once.
            episodes: int64[n], the episode that each of them copies.

        Raises:
            MurmurationError: an episode has not begun.
        """
        if self.table is not self.source.table:
            self._use_table()
        self.state.copy_episodes(places, self.source.state, episodes)
        for bids in self._held or ():
            bids[places] = 0.0
        self._own_horizon[places] = self.state.episode["horizon"][places, 0]
        histories = self.source.state.episode["history"][episodes, 0]
        for place, b, history in zip(places.tolist(), episodes.tolist(), histories.tolist(), strict=True):
            workload = self.source.workloads[b]
            if workload is None:
                raise MurmurationError(f"episode {b} has not begun; load a workload before it is branched")
            if self._began[place] != history:
                self._begin(place, workload)
                self._began[place] = history

    def redraw_arrivals(self, place: int, episode: int, other: Workload) -> None:
        """Replace the jobs that have not been submitted by those of another workload, at the same places in its order.

        The first of them comes after the present as long as it came after the job before it in its own workload, and
        the gaps between them stay. Failures of nodes stay as they are, and estimates of work become exact.

        Args:
            place: a branch that has just been copied.
            episode: the episode that it copies.
            other: a workload with as many jobs, drawn from the same source.

        Raises:
            MurmurationError: the workload has another number of jobs.
        """
        own = self.source.workloads[episode]
        assert own is not None, "the branch has been copied from an episode that has begun"
        if len(other) != len(own):
            raise MurmurationError(
                f"workload {other.name}: has {len(other)} jobs, the branch {len(own)}; draw both from the same source"
            )
        record = self.state.episode[place, 0]
        first, count = int(record.next_job), len(own)
        if first < count:
            rows = other.jobs[first:count].copy()
            before = float(other.jobs["submit_time"][first - 1]) if first else 0.0
            rows["submit_time"] += float(record.time) - before
            index = np.array([self.table.models.index(model) for model in other.models])
            view = self.state.episode_view(place)
            view.append(first, rows, index[rows["model"]], self.source.scenario, self.table)
        self._begin(place, other)
        self._began[place] = NEVER

    def _begin(self, place: int, workload: Workload) -> None:
        """Prepare the market for the jobs of a branch."""
        view = SimulationView(
            self.state.episode_view(place), self.setup, workload, self.table, self.exact, self.source.plans
        )
        self.market.begin(self.worlds, place, view)

    def plan(self, places: IntArray, changes: Changes, episodes: IntArray) -> None:
        """Put what a market has decided for episodes into the plans of their branches.

        Args:
            places: int64[n], branches that have been copied in this round.
            changes: a market's answer for the source's episodes.
            episodes: int64[n], the episode whose part of the answer each branch gets.

        Raises:
            AllocationError: the changes do not fit.
        """
        self._changes.num_stopped[:], self._changes.num_rows[:] = 0, 0
        self._changes.next_decision[:] = np.inf
        for own, given in zip(self._changes, changes, strict=True):
            own[places] = given[episodes]
        waiting = self._only(places)
        plan_all(self._changes, self.worlds, self.state, self.table, self.exact)
        self.state.episode["in_round"][:, 0] = waiting

    def hold(self, places: IntArray, bids: BidArrays, episodes: IntArray) -> None:
        """Pass these bids to the market in all later rounds of branches, until a branch is copied again.

        Args:
            places: int64[n], branches that have been copied.
            bids: of the source's episodes.
            episodes: int64[n], the episode whose bids each branch gets.
        """
        if self._held is None:
            self._held = no_bids(self.state)
        for own, given in zip(self._held, bids, strict=True):
            own[places] = given[episodes]

    def _decide(self) -> Changes:
        """Return what the market does in all branches that are in a round."""
        return self.market.propose(self.worlds) if self._held is None else self.market.clear(self.worlds, self._held)

    def _only(self, places: IntArray) -> IntArray:
        """Mark the other branches as being in no round; return the marks to be put back."""
        flags = self.state.episode["in_round"][:, 0]
        before: IntArray = flags.copy()
        chosen = np.zeros(self.size, np.bool_)
        chosen[places] = True
        flags[~chosen] = 0
        return before

    def play(self, places: IntArray, until: FloatArray) -> Stretch:
        """Play branches up to an instant: first what is planned, then what the market decides in each round.

        A branch stops where all its jobs are done, and where its episode would end.

        Args:
            places: int64[n], branches with a planned round, or that have been played before.
            until: float64[n], the instants in s; not before the present of each branch.

        Returns:
            What happened, with zeros for other branches.
        """
        episode = self.state.episode[:, 0]
        playing = np.zeros(self.size, np.bool_)
        playing[places] = True
        episode["ended"][places] = 0
        episode["horizon"][places] = np.minimum(until, self._own_horizon[places])
        others = self._only(places)
        job_seconds, seconds = [], []
        while playing.any():
            spent, began = episode["job_seconds"].copy(), episode["time"].copy()
            advance_branches(self.worlds, playing)
            job_seconds.append(episode["job_seconds"] - spent)
            seconds.append(episode["time"] - began)
            if playing.any():
                plan_all(self._decide(), self.worlds, self.state, self.table, self.exact)
        rest = np.ones(self.size, np.bool_)
        rest[places] = False
        episode["in_round"][rest] = others[rest]
        return Stretch(np.reshape(job_seconds, (-1, self.size)), np.reshape(seconds, (-1, self.size)))

    def finished(self, places: IntArray) -> BoolArray:
        """bool[n]: branches in which nothing is left to do and nothing arrives."""
        episode, jobs = self.state.episode[places, 0], self.state.jobs
        last = np.minimum(episode["next_job"], jobs.shape[1] - 1)
        none_arrives = (episode["next_job"] >= jobs.shape[1]) | np.isinf(jobs["submit"][places, last])
        at_end = episode["time"] >= self._own_horizon[places]
        found: BoolArray = ((episode["num_active"] == 0) & none_arrives) | at_end
        return found
