"""Complete copies of a simulation, with all that is still to come: for measuring what knowing the future is worth."""

from envs.simulation.simulated_episode import SimulatedEpisode
from envs.simulation.whole_episode import WholeEpisode
from envs.simulation.world.state import State


class Replica(WholeEpisode):
    """A copy of a simulation that continues exactly as it does: with its arrivals, failures and hidden work.

    No scheduler gets one: a view offers `Snapshot`s, from which the future is absent. It shares no memory with the
    original, except for what never changes. It has no log.

    Args:
        original: a simulation, between rounds or in a round.
    """

    def __init__(self, original: SimulatedEpisode) -> None:
        state = State.allocate(original.cluster, original.state.jobs.shape[1], scenario=original.scenario)
        super().__init__(
            original.workload, original.exact, original.setup, original.table, state, original.scheduler_seed
        )
        self.copy_from(original)

    def copy_from(self, other: SimulatedEpisode) -> None:
        """Become a copy of another simulation of the same workload."""
        self.plans[:] = other.plans
        self.state.copy_from(other.state)
