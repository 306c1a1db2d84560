"""Rounds of decisions on a simulator's state, shared by the environment and by a trained policy as a scheduler."""

import numpy as np
import numpy.typing as npt

from envs.episodes.placements import placement_in_plan
from envs.gpu_cluster import kernels
from envs.gpu_cluster.arrays import allocate
from envs.gpu_cluster.spec import DecisionRules, EnvSpec
from envs.simulation import Setup, SimulationView, Snapshot, State, ThroughputTable
from envs.simulation.world import batch_world
from envs.types import (
    Allocation,
    IntArray,
)

Observation = dict[str, npt.NDArray[np.generic]]


class Negotiation:
    """Nodes that decide on a batch of episodes, without advancing time.

    Args:
        setup: cluster, performance model and scenario of all episodes.
        state: the engine's arrays, changed in place.
        spec: sizes of observation and action.
        rules: how nodes decide.
        table: throughputs of the models in the state.
    """

    def __init__(self, setup: Setup, state: State, spec: EnvSpec, rules: DecisionRules, table: ThroughputTable) -> None:
        self.setup, self.state, self.spec, self.table = setup, state, spec, table
        self.arrays = allocate(state, spec, rules, table)

    @property
    def observation(self) -> Observation:
        """The current observation by name, with a leading batch axis; the next step overwrites the arrays."""
        return {name: getattr(self.arrays, name) for name in observation_keys(self.spec)}

    def use_table(self, table: ThroughputTable) -> None:
        """Use another throughput table, which a workload with larger jobs needs."""
        self.table = table
        self.arrays = self.arrays._replace(world=batch_world(self.state, table))

    def use_log(self) -> None:
        """Use the state's present log arrays, after they have grown."""
        world = self.arrays.world._replace(events=self.state.events, log_shares=self.state.log_shares)
        self.arrays = self.arrays._replace(world=world)

    def set_actions(self, actions: IntArray) -> None:
        """Decode joint actions int64[B, num_nodes] into the arrays that the kernels read."""
        self.arrays.choice[:], self.arrays.gpus[:] = self.spec.decode(actions)

    def set_episode_actions(self, b: int, actions: IntArray) -> None:
        """Decode the joint action int64[num_nodes] of one episode."""
        self.arrays.choice[b], self.arrays.gpus[b] = self.spec.decode(actions)

    def counters(self, b: int = 0) -> dict[str, int]:
        """Count decisions, claims, conflicts and incomplete gangs of an episode so far."""
        record = self.arrays.rules[b, 0]
        return {name: int(record[name]) for name in ("decisions", "claims", "conflicts", "incomplete")}

    def clear_counters(self, b: int) -> None:
        """Reset the counters of an episode, which begins anew."""
        for name in ("seen", "decision", "decisions", "claims", "conflicts", "incomplete"):
            self.arrays.rules[b, 0][name] = 0


class NegotiatedRound:
    """Rounds negotiated on a snapshot, with which a policy implements `Scheduler.schedule`.

    Call `begin`, then `observe` and `decide` until the round is over, then `fill`. The counters are those of all rounds
    since the first.

    Args:
        spec: sizes of observation and action.
        rules: how nodes decide.
    """

    def __init__(self, spec: EnvSpec, rules: DecisionRules) -> None:
        self.spec, self.rules = spec, rules
        self._snapshot: Snapshot | None = None
        self._negotiation: Negotiation | None = None

    def begin(self, view: SimulationView) -> None:
        """Take a snapshot at the beginning of a round."""
        snapshot = self._snapshot = view.snapshot(into=self._snapshot)
        state, table = snapshot.state, snapshot.table
        before = self._negotiation
        if before is None or before.state is not state:
            self._negotiation = Negotiation(snapshot.setup, state, self.spec, self.rules, table)
            if before is not None:
                self._negotiation.arrays.rules[:] = before.arrays.rules
        elif before.table is not table:
            before.use_table(table)
        self.negotiation.arrays.rules[0, 0]["seen"] = 0

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
        return kernels.observe_episode(self.negotiation.arrays, 0) > 0

    def decide(self, actions: IntArray) -> bool:
        """Apply a joint action int64[num_nodes]; return whether the round is over."""
        self.negotiation.set_actions(actions[None])
        return bool(kernels.decide_episode(self.negotiation.arrays, 0))

    def fill(self, allocation: Allocation) -> Allocation:
        """Write the round's plan into a `keep_running` allocation."""
        kernels.close_episode(self.negotiation.arrays, 0)
        assert self._snapshot is not None
        state, plans = self.negotiation.state, self._snapshot.plans
        touched = state.touched[0, : state.episode[0, 0].num_touched]
        placements = {int(job): placement_in_plan(state, 0, int(job), plans) for job in np.sort(touched)}
        for job in placements:
            allocation.stop(job)
        for job, placement in placements.items():
            if placement:
                allocation.place(job, placement)
        return allocation


def observation_keys(spec: EnvSpec) -> tuple[str, ...]:
    """Return the names of the arrays of an observation."""
    return ("nodes", "slots", "queue", "cluster", *(("effects",) if spec.effects else ()), "mask")
