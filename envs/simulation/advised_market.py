"""A market whose proposal is another scheduler's allocation; jobs without bids keep it."""

import copy
from typing import Self

import numpy as np

from envs.scheduling import Scheduler
from envs.simulation.clearing import placements_of
from envs.simulation.exact import whole_parts
from envs.simulation.market import BidArrays, Changes, Market, no_changes
from envs.simulation.setup import Setup
from envs.simulation.shares import NAMED_CPUS, NAMED_MEMORY
from envs.simulation.state import State
from envs.simulation.throughput import ThroughputTable
from envs.simulation.view import SimulationView
from envs.simulation.world import World
from envs.types import AllocationError, IntArray, JobId, Placement


class AdvisedMarket:
    """Another scheduler proposes; a market decides about the jobs for which nodes bid.

    A job without bids gets what the adviser proposes. A job with bids gets what the market decides on all bids, if
    those GPUs are free beside the proposals for jobs without bids; else what the adviser proposes for it, else what it
    holds, else nothing. Jobs with bids are served in ascending order. Of the market's decision only GPUs count: cores,
    memory and batch size of a job that it places are left to the world.

    Args:
        market: what clears the bids.
        adviser: any scheduler that names no execution plans; each episode of a batch gets a copy of its own.
        seed: of the generator that the adviser gets in each episode.
    """

    def __init__(self, market: Market, adviser: Scheduler, seed: int = 0) -> None:
        self.market, self.adviser, self.seed = market, adviser, seed
        self._advisers: list[Scheduler] = []
        self._histories: list[int] = []
        self._views: list[SimulationView | None] = []
        self._asked: list[tuple[int, int]] = []  # episode and round of each proposal
        self._proposed: Changes
        self._cleared: Changes

    def attach(self, setup: Setup, table: ThroughputTable, state: State) -> Self:
        """Return a market with a copy of the adviser for each episode of a state."""
        attached = copy.copy(self)
        attached.market = self.market.attach(setup, table, state)
        count = len(state.episode)
        attached._advisers = [copy.deepcopy(self.adviser) for _ in range(count)]
        attached._histories, attached._views, attached._asked = [-1] * count, [None] * count, [(-1, -1)] * count
        attached._proposed, attached._cleared = no_changes(state), no_changes(state)
        return attached

    def begin(self, worlds: World, b: int, view: SimulationView) -> None:
        """Begin an episode with the adviser, or only take the view if it is the same episode."""
        self.market.begin(worlds, b, view)
        self._views[b] = view
        history = int(worlds.episode[b, 0].history)
        if history != self._histories[b]:
            self._histories[b] = history
            self._advisers[b].reset(view.cluster, np.random.default_rng(self.seed))

    def propose(self, worlds: World) -> Changes:
        """Ask the advisers.

        Raises:
            AllocationError: an adviser names an execution plan.
        """
        for b in range(len(self._advisers)):
            self._advise(worlds, b)
        return self._proposed

    def _advise(self, worlds: World, b: int) -> None:
        """Write the adviser's allocation for one episode."""
        view, episode = self._views[b], worlds.episode[b, 0]
        if view is None or not episode.in_round or episode.ended:
            _empty(self._proposed, b)
            return
        if self._asked[b] == (episode.history, episode.num_rounds):  # a second call could change the adviser's mind
            return
        self._asked[b] = int(episode.history), int(episode.num_rounds)
        _empty(self._proposed, b)
        allocation = self._advisers[b].schedule(view)
        allocation.check_next_decision(view.time)
        self._proposed.next_decision[b] = allocation.next_decision
        stopped = set() if allocation.keep_running else set(view.running.tolist()) - set(allocation.changes)
        for job, placement in allocation.changes.items():
            if placement is None:
                stopped.add(job)
            else:
                _write(self._proposed, b, job, placement)
        for job in sorted(stopped & set(view.running.tolist())):
            _stop(self._proposed, b, job)

    def clear(self, worlds: World, bids: BidArrays) -> Changes:
        """Decide about jobs with bids as the market does, and about the others as the advisers do."""
        changes = self.market.clear(worlds, bids)
        for b, view in enumerate(self._views):
            _empty(self._cleared, b)
            episode = worlds.episode[b, 0]
            if view is not None and episode.in_round and not episode.ended:
                self._merge(b, view, _jobs_with_bids(bids, b, np.union1d(view.queued, view.running)), changes)
        return self._cleared

    def _merge(self, b: int, view: SimulationView, bidders: list[JobId], changes: Changes) -> None:
        """Write the decision for one episode."""
        self._cleared.next_decision[b] = self._proposed.next_decision[b]
        advised, decided = _outcome(self._proposed, b), _outcome(changes, b)
        present = {int(job): view.placement(int(job)) for job in view.running}
        free = view.capacity.copy()
        for job in sorted((present.keys() | advised.keys()) - set(bidders)):
            _take(free, advised.get(job, present.get(job)))
            if job in advised:
                self._write_or_stop(b, job, advised[job])
        for job in bidders:
            held = present.get(job)
            decision = decided.get(job, held)
            if decision is not None and decision is not held:
                decision = Placement(decision.gpus)
            wanted = (decision, advised.get(job, held), held)
            chosen = next((one for one in wanted if one is None or _fits(free, one)), None)
            _take(free, chosen)
            if chosen is not held:
                self._write_or_stop(b, job, chosen)

    def _write_or_stop(self, b: int, job: JobId, placement: Placement | None) -> None:
        if placement is None:
            _stop(self._cleared, b, job)
        else:
            _write(self._cleared, b, job, placement)


def _empty(changes: Changes, b: int) -> None:
    changes.num_stopped[b] = changes.num_rows[b] = 0
    changes.next_decision[b] = np.inf


def _stop(changes: Changes, b: int, job: JobId) -> None:
    changes.stopped[b, changes.num_stopped[b]] = job
    changes.num_stopped[b] += 1


def _write(changes: Changes, b: int, job: JobId, placement: Placement) -> None:
    """Append the rows of a placement."""
    if placement.plan is not None:
        raise AllocationError(f"job {job}: the adviser names a plan, {placement.plan}; use one that leaves plans open")
    named = NAMED_CPUS * (placement.cpus is not None) + NAMED_MEMORY * (placement.memory is not None)
    for node in sorted(placement.gpus):
        cpus = np.nan if placement.cpus is None else whole_parts(placement.cpus[node])
        memory = np.nan if placement.memory is None else whole_parts(placement.memory[node])
        batch_size = placement.batch_size or 0
        row = (job, node, placement.gpus[node], cpus, memory, -1, batch_size, named, 0.0, 0.0)
        changes.rows[b, changes.num_rows[b]] = row
        changes.num_rows[b] += 1


def _outcome(changes: Changes, b: int) -> dict[JobId, Placement | None]:
    """Return the new placement of every changed job; None for a stop."""
    stopped = changes.stopped[b, : changes.num_stopped[b]].tolist()
    return {**dict.fromkeys(stopped), **placements_of(changes, b)}


def _jobs_with_bids(bids: BidArrays, b: int, jobs: IntArray) -> list[JobId]:
    """Return those of `jobs` for which a bid is not 0, ascending."""
    heard = np.zeros(len(jobs), np.bool_)
    for offsets in bids:
        said = offsets[b, jobs] != 0.0
        heard |= said if said.ndim == 1 else said.any(axis=1)
    found: list[JobId] = jobs[heard].tolist()
    return found


def _fits(free: IntArray, placement: Placement) -> bool:
    return all(gpus <= free[node] for node, gpus in placement.gpus.items())


def _take(free: IntArray, placement: Placement | None) -> None:
    """Take the GPUs of a placement."""
    for node, gpus in placement.gpus.items() if placement else ():
        free[node] -= gpus
