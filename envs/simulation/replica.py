"""Complete copies of a simulation, with all that is still to come: for measuring what knowing the future is worth."""

from functools import cached_property

from envs.simulation.exact import ExactThroughputs
from envs.simulation.simulated_episode import SimulatedEpisode
from envs.simulation.snapshot import SimulationView
from envs.simulation.state import State
from envs.workloads import Workload


class Replica(SimulatedEpisode):
    """A copy of a simulation that continues exactly as it does: with its arrivals, failures and hidden work.

    No scheduler gets one: a view offers `Snapshot`s, from which the future is absent. It shares no memory with the
    original, except for what never changes. It has no log.

    Args:
        original: a simulation, between rounds or in a round.
    """

    def __init__(self, original: SimulatedEpisode) -> None:
        state = State.allocate(original.cluster, original.state.jobs.shape[1], scenario=original.scenario)
        super().__init__(original.setup, original.table, state, original.scheduler_seed)
        self._workload, self._exact = original.workload, original.exact
        self.copy_from(original)

    @property
    def workload(self) -> Workload:
        """The jobs."""
        return self._workload

    @property
    def exact(self) -> ExactThroughputs:
        """Exact throughputs of placements that set more than GPUs."""
        return self._exact

    @cached_property
    def view(self) -> SimulationView:
        """A view of the cluster; it shows the present time."""
        return SimulationView(self.state, self.setup, self.workload, self.table, self.exact, self.plans)

    def copy_from(self, other: SimulatedEpisode) -> None:
        """Become a copy of another simulation of the same workload."""
        self.plans[:] = other.plans
        self.state.copy_from(other.state)
