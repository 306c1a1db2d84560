"""Rounds of decisions on a simulator's state, shared by the environment and by a trained policy as a scheduler."""

from collections.abc import Iterator
from contextlib import contextmanager
from typing import NamedTuple

import numpy as np
import numpy.typing as npt

from envs.episodes.placements import placement_in_plan
from envs.gpu_cluster import kernels
from envs.gpu_cluster.arrays import allocate
from envs.gpu_cluster.levels import level_table
from envs.gpu_cluster.spec import DecisionRules, EnvSpec
from envs.simulation import Setup, SimulationView, Snapshot, State, ThroughputTable
from envs.simulation.clearing import changed_placements, plan_all
from envs.simulation.exact import ExactThroughputs
from envs.simulation.jit import Records
from envs.simulation.market import Market
from envs.simulation.requested import FITS, plan_requested, withdraw
from envs.simulation.world import batch_world, world_of
from envs.types import (
    Allocation,
    BoolArray,
    IntArray,
    MurmurationError,
)

Observation = dict[str, npt.NDArray[np.generic]]


class PlannedProposal(NamedTuple):
    """The proposal with which a round of one episode began.

    Attributes:
        stopped: int64[...], jobs that lose their GPUs.
        rows: REQUESTED[...], placements of the other changed jobs.
        next_decision: the instant of the next round that it asks for, in s; infinite for none.
    """

    stopped: IntArray
    rows: Records
    next_decision: float


class Negotiation:
    """Nodes that decide on a batch of episodes, without advancing time.

    Args:
        setup: cluster, performance model and scenario of all episodes.
        state: the engine's arrays, changed in place.
        spec: sizes of observation and action.
        rules: how nodes decide.
        table: throughputs of the models in the state.
        exact: throughputs of placements that name cores or memory.
        market: proposes the allocation with which each round begins; None for the present placements.
    """

    def __init__(
        self,
        setup: Setup,
        state: State,
        spec: EnvSpec,
        rules: DecisionRules,
        table: ThroughputTable,
        exact: ExactThroughputs,
        market: Market | None = None,
    ) -> None:
        check_proposals(rules, market)
        self.setup, self.state, self.spec, self.table, self.exact = setup, state, spec, table, exact
        levels = level_table(setup, table, spec.node_gpus, spec.num_levels)
        self.arrays = allocate(state, spec, rules, table, levels, market is not None)
        self._unattached = market
        self.market = market.attach(setup, table, state) if market else None
        self.proposals: list[PlannedProposal | None] = [None] * len(state.episode)  # of the present rounds
        self.kernels = kernels.AMENDMENTS if rules.amendments else kernels.CLAIMS
        self._arguments: kernels.RoundKernels | None = None

    @property
    def names_amounts(self) -> bool:
        """Whether jobs may name cores and memory when a round closes, so that `price` must be called."""
        return self.spec.num_levels > 1

    @property
    def observation(self) -> Observation:
        """The current observation by name, with a leading batch axis; the next step overwrites the arrays."""
        return {name: getattr(self.arrays, name) for name in observation_keys(self.spec)}

    @property
    def rules(self) -> kernels.RoundKernels:
        """The kernels that decide, as an argument of compiled functions."""
        if self._arguments is None:
            self._arguments = kernels.as_arguments(self.kernels, self.arrays)
        return self._arguments

    def use_table(self, table: ThroughputTable) -> None:
        """Use another throughput table, which a workload with larger jobs needs."""
        self.table = table
        levels = level_table(self.setup, table, self.spec.node_gpus, self.spec.num_levels)
        world = batch_world(self.state, table)
        self.arrays = self.arrays._replace(world=world, level_cpus=levels.cpus, level_memory=levels.memory)
        if self._unattached:
            self.market = self._unattached.attach(self.setup, table, self.state)

    def use_log(self) -> None:
        """Use the state's present log arrays, after they have grown."""
        world = self.arrays.world._replace(events=self.state.events, log_shares=self.state.log_shares)
        self.arrays = self.arrays._replace(world=world)

    def set_actions(self, actions: IntArray) -> None:
        """Decode joint actions int64[B, num_nodes] into the arrays that the kernels read."""
        self.arrays.choice[:], self.arrays.gpus[:], self.arrays.level[:] = self.spec.decode(actions)

    def set_episode_actions(self, b: int, actions: IntArray) -> None:
        """Decode the joint action int64[num_nodes] of one episode."""
        self.arrays.choice[b], self.arrays.gpus[b], self.arrays.level[b] = self.spec.decode(actions)

    def propose(self, chosen: BoolArray) -> None:
        """Put the market's proposals into the plans of the chosen episodes, whose rounds have just begun.

        Raises:
            AllocationError: a proposal does not fit.
        """
        assert self.market is not None
        flags = self.state.episode["in_round"]
        present = flags.copy()
        flags[~chosen] = 0  # the others have plans already, which the market must not read
        worlds = self.arrays.world
        changes = self.market.propose(worlds)
        plan_all(changes, worlds, self.state, self.table, self.exact)
        for b in np.flatnonzero(chosen).tolist():
            stopped = changes.stopped[b, : changes.num_stopped[b]].copy()
            self.proposals[b] = PlannedProposal(
                stopped, changed_placements(changes, b).copy(), float(changes.next_decision[b])
            )
            self.arrays.rules[b, 0]["seen"] = 0
        flags[:] = present

    @contextmanager
    def without_proposal(self, b: int) -> Iterator[None]:
        """Take the proposal back for the time being, so that a scheduler sees the episode as its round began.

        Only before the first decision of a round.

        Raises:
            MurmurationError: nodes have decided in this round.
        """
        proposal = self.proposals[b]
        if self.arrays.rules[b, 0]["decision"] > 0:
            raise MurmurationError(f"episode {b}: nodes have decided in this round; ask before the first decision")
        world = world_of(self.state, self.table, b)
        withdraw(world)
        yield
        if proposal is not None:
            wrong, _ = plan_requested(world, proposal.stopped, proposal.rows)
            assert wrong == FITS, "a proposal that fitted fits again"

    def price(self, b: int) -> None:
        """Ask the performance model for the throughput of jobs that name cores and memory, when a round is closed."""
        state = self.state
        for job in state.touched[b, : state.episode[b, 0].num_touched].tolist():
            record = state.jobs[b, job]
            if record.named and record.exact == 0.0 and (placement := placement_in_plan(state, b, job)):
                record.exact = self.exact.useful_throughput(self.table.models[record.model], placement)

    def counters(self, b: int = 0) -> dict[str, int]:
        """Count decisions, claims, conflicts and incomplete gangs of an episode so far."""
        record = self.arrays.rules[b, 0]
        return {name: int(record[name]) for name in ("decisions", "claims", "conflicts", "incomplete")}

    def clear_counters(self, b: int) -> None:
        """Reset the counters of an episode, which begins anew."""
        self.arrays.amended[b] = 0
        self.proposals[b] = None
        for name in ("seen", "decision", "decisions", "claims", "conflicts", "incomplete"):
            self.arrays.rules[b, 0][name] = 0


class NegotiatedRound:
    """Rounds negotiated on a snapshot, with which a policy implements `Scheduler.schedule`.

    Call `begin`, then `observe` and `decide` until the round is over, then `fill`. The counters are those of all rounds
    since the first.

    Args:
        spec: sizes of observation and action.
        rules: how nodes decide.
        market: proposes the allocation with which each round begins; None for the present placements.
    """

    def __init__(self, spec: EnvSpec, rules: DecisionRules, market: Market | None = None) -> None:
        self.spec, self.rules, self.market = spec, rules, market
        self._snapshot: Snapshot | None = None
        self._negotiation: Negotiation | None = None
        self._submitted = -1

    def begin(self, view: SimulationView) -> None:
        """Take a snapshot at the beginning of a round, and a proposal if there is a market."""
        snapshot = self._snapshot = view.snapshot(into=self._snapshot)
        state, table = snapshot.state, snapshot.table
        before = self._negotiation
        if before is None or before.state is not state:
            self._negotiation = Negotiation(
                snapshot.setup, state, self.spec, self.rules, table, snapshot.exact, self.market
            )
            self._submitted = -1
            if before is not None:
                self._negotiation.arrays.rules[:] = before.arrays.rules
        elif before.table is not table:
            before.use_table(table)
            self._submitted = -1
        negotiation = self.negotiation
        negotiation.arrays.rules[0, 0]["seen"] = 0
        if negotiation.market is not None:
            submitted = int(state.episode[0, 0].next_job)
            if submitted != self._submitted:
                negotiation.market.begin(negotiation.arrays.world, 0, snapshot.view)
                self._submitted = submitted
            negotiation.propose(np.ones(1, np.bool_))

    @property
    def negotiation(self) -> Negotiation:
        """The negotiation of the present round."""
        assert self._negotiation is not None, "call begin first"
        return self._negotiation

    @property
    def observation(self) -> Observation:
        """The current observation, see `Negotiation.observation`."""
        return self.negotiation.observation

    def counters(self) -> dict[str, int]:
        """Count decisions, claims, conflicts and incomplete gangs so far."""
        return self.negotiation.counters()

    def observe(self) -> bool:
        """Write the observation; return False if no node has a choice, which ends the round."""
        return self.negotiation.kernels.observe(self.negotiation.arrays, 0) > 0

    def decide(self, actions: IntArray) -> bool:
        """Apply a joint action int64[num_nodes]; return whether the round is over."""
        self.negotiation.set_actions(actions[None])
        return bool(self.negotiation.kernels.decide(self.negotiation.arrays, 0))

    def fill(self, allocation: Allocation) -> Allocation:
        """Write the round's plan into a `keep_running` allocation."""
        self.negotiation.kernels.close(self.negotiation.arrays, 0)
        assert self._snapshot is not None
        state, plans = self.negotiation.state, self._snapshot.plans
        touched = state.touched[0, : state.episode[0, 0].num_touched]
        placements = {int(job): placement_in_plan(state, 0, int(job), plans) for job in np.sort(touched)}
        for job in placements:
            allocation.stop(job)
        for job, placement in placements.items():
            if placement:
                allocation.place(job, placement)
        proposal = self.negotiation.proposals[0]
        if proposal is not None:
            allocation.next_decision = proposal.next_decision
        return allocation


def observation_keys(spec: EnvSpec) -> tuple[str, ...]:
    """Return the names of the arrays of an observation."""
    return ("nodes", "slots", "queue", "cluster", *(("effects",) if spec.effects else ()), "mask")


def check_proposals(rules: DecisionRules, market: Market | None) -> None:
    """Assert that rounds may begin with proposals if there is a market.

    Raises:
        MurmurationError: nodes do not amend.
    """
    if market is not None and not rules.amendments:
        raise MurmurationError("env: rounds begin with a proposal only where nodes amend it; set amendments to true")
