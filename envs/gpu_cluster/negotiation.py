"""Rounds of decisions over a simulator's state: what the environment and a trained scheduler have in common."""

import numpy as np
import numpy.typing as npt

from envs.gpu_cluster import kernels
from envs.gpu_cluster.arrays import allocate
from envs.gpu_cluster.spec import DecisionRules, EnvSpec
from envs.simulation import SpeedTable, State
from envs.simulation.world import batch_world
from envs.types import Allocation, IntArray, JobId, Placement

Observation = dict[str, npt.NDArray[np.generic]]
OBSERVATION_KEYS = ("servers", "slots", "queue", "cluster", "mask")


class Negotiation:
    """Servers deciding on a batch of episodes while time stands still.

    Args:
        state: the engine's arrays, changed in place.
        spec: sizes of observation and action.
        rules: how servers decide.
        table: speeds of the models in the state.
    """

    def __init__(self, state: State, spec: EnvSpec, rules: DecisionRules, table: SpeedTable) -> None:
        self.state, self.spec = state, spec
        self.arrays = allocate(state, spec, rules, table)

    @property
    def observation(self) -> Observation:
        """The present observation by name, with a leading batch axis; the arrays are overwritten by the next step."""
        return {name: getattr(self.arrays, name) for name in OBSERVATION_KEYS}

    def use_table(self, table: SpeedTable) -> None:
        """Go on with other speeds (a workload with larger jobs came)."""
        self.arrays = self.arrays._replace(world=batch_world(self.state, table))

    def use_log(self) -> None:
        """Go on with the state's present log arrays (they grew)."""
        world = self.arrays.world._replace(events=self.state.events, log_shares=self.state.log_shares)
        self.arrays = self.arrays._replace(world=world)

    def set_actions(self, actions: IntArray) -> None:
        """Put joint actions int64[B, num_servers] where the kernels look for them."""
        self.arrays.choice[:], self.arrays.gpus[:], _ = self.spec.decode(actions)

    def counters(self, b: int = 0) -> dict[str, int]:
        """Decisions, claims, conflicts and incomplete gangs of an episode so far."""
        record = self.arrays.rules[b, 0]
        return {name: int(record[name]) for name in ("decisions", "claims", "conflicts", "incomplete")}

    def clear_counters(self, b: int) -> None:
        """Begin to count anew."""
        for name in ("seen", "decision", "decisions", "claims", "conflicts", "incomplete"):
            self.arrays.rules[b, 0][name] = 0


class Deliberation(Negotiation):
    """One round negotiated on a copy of the state: how a policy answers `Scheduler.schedule`.

    Call `begin`, then `observe` and `decide` until the round is over, then `fill`.
    """

    def begin(self, state: State) -> None:
        """Copy the state in which the round stands."""
        self.state.copy_from(state)
        self.arrays.rules[0, 0]["seen"] = 0

    def observe(self) -> bool:
        """Write the observation; False if no server has a choice, which ends the round."""
        return kernels.observe_episode(self.arrays, 0) > 0

    def decide(self, actions: IntArray) -> bool:
        """Take a joint action int64[num_servers]; say whether the round is over."""
        self.set_actions(actions[None])
        return bool(kernels.decide_episode(self.arrays, 0))

    def fill(self, allocation: Allocation) -> Allocation:
        """Write the round's plan into a `keep_running` allocation."""
        kernels.close_round(self.arrays, 0)
        touched = self.state.touched[0, : self.state.episode[0, 0].num_touched]
        placements = {int(job): self._placement(int(job)) for job in np.sort(touched)}
        for job in placements:
            allocation.stop(job)
        for job, placement in placements.items():
            if placement:
                allocation.place(job, placement)
        return allocation

    def _placement(self, job: JobId) -> Placement | None:
        gpus: dict[int, int] = {}
        share = self.state.jobs[0, job].first_share
        while share >= 0:
            record = self.state.shares[0, share]
            gpus[int(record.node)] = int(record.gpus)
            share = record.next_of_job
        return Placement(gpus) if gpus else None
