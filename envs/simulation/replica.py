"""Complete copies of a simulator, with all that is still to come: for measuring what knowing the future is worth."""

from envs.simulation.simulator import Simulator
from envs.simulation.state import State
from envs.simulation.world import World


class Replica(Simulator):
    """A copy of a simulator that continues exactly as it does: with its arrivals, failures and hidden work.

    No scheduler gets one: a view offers `Snapshot`s, from which the future is absent. It shares no memory with the
    simulator, except for what never changes. It has no log.

    Args:
        original: the simulator, between rounds or in a round.
    """

    def __init__(self, original: Simulator) -> None:
        self.setup, self.cluster, self.scenario = original.setup, original.cluster, original.scenario
        self.workload, self.table, self.exact = original.workload, original.table, original.exact
        self.plans = list(original.plans)
        self._scheduler_seed = original._scheduler_seed
        self.state = State.allocate(self.cluster, original.state.jobs.shape[1], scenario=self.scenario)
        self.state.copy_from(original.state)
        self._world: World | None = None
        self._view = self.view

    def copy_from(self, other: Simulator) -> None:
        """Become a copy of another simulator of the same workload."""
        self.plans[:] = other.plans
        self.state.copy_from(other.state)
