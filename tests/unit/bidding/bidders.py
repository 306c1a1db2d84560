"""Policies that bid, and a market that does at random what an allocation can express."""

from typing import Any

import numpy as np
import numpy.typing as npt

from envs.bidding import BiddingBatch, BiddingRound, BiddingRules, BidObservation
from envs.scheduling import ClusterView
from envs.simulation import Setup, SimulationView, State, ThroughputTable
from envs.simulation.seen.market import BidArrays, Changes, Market, no_changes
from envs.simulation.world.arrays import STATE_FIELDS, World
from envs.simulation.world.kernels import QUEUED, RUNNING
from envs.simulation.world.shares import NAMED_CPUS
from envs.simulation.world.throughput import node_level
from envs.types import Allocation, ClusterSpec

Actions = npt.NDArray[np.float32]


def silent(observation: BidObservation) -> Actions:
    """Bid nothing."""
    return np.zeros((*observation["pair_jobs"].shape, 6), np.float32)


def loud(observation: BidObservation) -> Actions:
    """Bids that depend on every feature and edge of the episode, so that a difference in any last bit shows."""
    weights = np.random.default_rng(0)
    keys = ("jobs", "nodes", "pairs", "cluster", "edge_features")
    seen = sum(float(np.sin(1e3 * observation[key].astype(np.float64)).sum()) for key in keys)
    seen += float((observation["edges"].astype(np.int64) * [[[3], [5]]]).sum())
    phase = weights.uniform(0, 99, (*observation["pair_jobs"].shape, 6))
    return np.sin(seen + phase).astype(np.float32)


def louder(observation: BidObservation) -> Actions:
    """The bids of `loud`, and bids for batch sizes."""
    said = loud(observation)
    return np.concatenate([said, said[..., :1] * np.float32(-0.5)], axis=-1)


def one_of(worlds: World, b: int) -> World:
    """One episode of a batch, for plain Python."""
    return worlds._replace(**{name: getattr(worlds, name)[b] for name in STATE_FIELDS})


class Bidder:
    """A policy that answers `Scheduler.schedule` by bidding on a copy of the cluster's state."""

    def __init__(self, policy: Any, market: Market, rules: BiddingRules | None = None) -> None:
        self.policy, self.market, self.rules = policy, market, rules or BiddingRules()

    def reset(self, cluster: ClusterSpec, rng: np.random.Generator) -> None:
        """Begin an episode."""
        self.round = BiddingRound(self.market, self.rules)

    def schedule(self, view: ClusterView) -> Allocation:
        """One round."""
        assert isinstance(view, SimulationView)
        self.round.begin(view)
        return self.round.fill(self.policy(self.round.observation), view.allocation(keep_running=True))


class WhimMarket:
    """Stops, starts, resizes, moves and names cores at random; what it draws depends on what is there and on the bids.

    Args:
        disturb: probability that a running job changes.
    """

    def __init__(self, disturb: float = 0.25) -> None:
        self.disturb = disturb
        self.setup: Setup
        self.table: ThroughputTable

    def attach(self, setup: Setup, table: ThroughputTable, state: State) -> "WhimMarket":
        """See `Market`."""
        market = WhimMarket(self.disturb)
        market.setup, market.table = setup, table
        market.proposed, market.cleared = no_changes(state), no_changes(state)
        return market

    proposed: Changes
    cleared: Changes

    def begin(self, worlds: World, b: int, view: SimulationView) -> None:
        """See `Market`."""

    def propose(self, worlds: World) -> Changes:
        """See `Market`."""
        for b in range(len(worlds.episode)):
            self._decide(one_of(worlds, b), self.proposed, b, [])
        return self.proposed

    def clear(self, worlds: World, bids: BidArrays) -> Changes:
        """See `Market`."""
        for b in range(len(worlds.episode)):
            count = int(worlds.episode[b, 0].next_job)
            heard = np.concatenate([offsets[b][:count].ravel() for offsets in bids])
            said = [] if not heard.any() else np.frombuffer(heard.tobytes(), np.uint32).tolist()
            self._decide(one_of(worlds, b), self.cleared, b, said)
        return self.cleared

    def _decide(self, world: World, changes: Changes, b: int, said: list[int]) -> None:
        changes.num_stopped[b] = changes.num_rows[b] = 0
        changes.next_decision[b] = np.inf
        if not world.episode[0].in_round or world.episode[0].ended:
            return
        status = world.jobs["status"]
        active = np.flatnonzero((status == QUEUED) | (status == RUNNING))
        rng = np.random.default_rng([int(world.episode[0].time * 64), *active.tolist(), *said])
        free = np.where(world.nodes["down"] > 0, 0, world.nodes["num_gpus"])
        wanted = []
        for j in active.tolist():
            if status[j] == RUNNING and rng.random() >= self.disturb:
                share = world.jobs[j].first_share
                while share >= 0:
                    free[world.shares[share].node] -= world.shares[share].gpus
                    share = world.shares[share].next_of_job
            else:
                wanted.append(j)
        for j in rng.permutation(wanted).tolist():
            gpus = self._place(world, j, free, rng) if rng.random() < 0.85 else {}
            if gpus:
                self._write(world, changes, b, j, gpus, rng)
            elif status[j] == RUNNING:
                changes.stopped[b, changes.num_stopped[b]] = j
                changes.num_stopped[b] += 1
        if rng.random() < 0.1:
            changes.next_decision[b] = world.episode[0].time + 7.0

    def _place(self, world: World, j: int, free: Any, rng: np.random.Generator) -> dict[int, int]:
        """GPUs by node, taken from `free`; empty if the draw does not run."""
        job = world.jobs[j]
        left = int(rng.integers(job.min_gpus, job.max_gpus + 1))
        gpus: dict[int, int] = {}
        for n in rng.permutation(np.flatnonzero(free)).tolist():
            if left > 0:
                gpus[n] = min(left, int(free[n]), int(rng.integers(1, 5)))
                left -= gpus[n]
        count = sum(gpus.values())
        runs = gpus and all(
            self.table.throughputs[job.model, world.nodes[n].gpu_type, count, node_level(len(gpus))] > 0 for n in gpus
        )
        if left > 0 or not runs:
            return {}
        for n, here in gpus.items():
            free[n] -= here
        return dict(sorted(gpus.items()))

    def _write(
        self, world: World, changes: Changes, b: int, j: int, gpus: dict[int, int], rng: np.random.Generator
    ) -> None:
        names = self.setup.scenario.cpu_memory == "shared" and rng.random() < 0.3
        for n, here in gpus.items():
            cpus = np.floor(0.9 * world.nodes[n].cpus * here / world.nodes[n].num_gpus * 64) / 64 if names else np.nan
            row = (j, n, here, cpus, np.nan, -1, 0, NAMED_CPUS if names else 0, 0.0, 0.0, 0)
            changes.rows[b, changes.num_rows[b]] = row
            changes.num_rows[b] += 1


def rolled_out(
    policy: Any,
    market: Market,
    setup: Setup,
    workload: Any,
    seed: int,
    rules: BiddingRules | None = None,
    failing: bool = False,
) -> BiddingBatch:
    """The policy played through the environment to the episode's end, with a log.

    The estimates are those of a `Simulator` with this seed; with `failing`, the failures of its nodes are.
    """
    batch = BiddingBatch(setup, workload.models, len(workload), 1, market, rules, logging=True)
    batch.load(0, workload, np.random.default_rng(np.random.SeedSequence(seed).spawn(3)[2 if failing else 0]))
    while not batch.ended[0]:
        batch.step(policy(batch.observation))
    return batch
