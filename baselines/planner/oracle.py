"""The planner with the true future, for measuring what is left to gain; no scheduler that could be used."""

import numpy as np

from baselines.planner.scheduler import RolloutPlanner
from envs.scheduling import ClusterView
from envs.simulation import SimulatedEpisode
from envs.simulation.seen.replica import Replica
from envs.types import Allocation, ClusterSpec, MurmurationError


class OraclePlanner:
    """`RolloutPlanner` on complete copies of the simulator: with the jobs to come, failures and hidden work.

    It measures headroom: what a planner of this kind would gain if it knew the future. It cannot decide from a view, so
    it plays whole episodes itself. `scheduler=all` leaves it out, and tables show it as "oracle". It is no bound: it
    searches no better than the planner. Since its rollouts are what the base would make of each candidate, an episode
    played to the end without margin has at most the sum of JCTs of its base.

    Args:
        planner: the planner; None for one without margin, whose rollouts go on to the end, with restarts that take as
            long as in the world.
    """

    information = "estimate"
    preemptive = True
    elastic = True

    def __init__(self, planner: RolloutPlanner | None = None) -> None:
        self.planner = planner or RolloutPlanner(rounds=None, margin=0.0, restart_weight=1.0)

    @property
    def counters(self) -> dict[str, int]:
        """See `RolloutPlanner.counters`."""
        return self.planner.counters

    def reset(self, cluster: ClusterSpec, rng: np.random.Generator) -> None:
        """Forget the last episode."""
        self.planner.reset(cluster, rng)

    def schedule(self, view: ClusterView) -> Allocation:
        """Refuse to decide: a view does not show the future.

        Raises:
            MurmurationError: always.
        """
        raise MurmurationError(
            "oracle: plays the true future, which no view shows; compare it with scripts/compare.py, and use "
            "scheduler=planner elsewhere"
        )

    def play(self, simulator: SimulatedEpisode) -> bool:
        """Play an episode to its end; see `envs.simulation.CompiledScheduler`."""
        root, trial = Replica(simulator), Replica(simulator)
        while simulator.advance():
            view = simulator.view
            root.copy_from(simulator)
            simulator.apply(self.planner.decide(view, (root, trial)))
        return True
