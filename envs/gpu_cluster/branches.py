"""Branches of the discrete environment: nodes decide once, the round ends, and a market decides from then on."""

import numpy as np

from envs.episodes.branches import Branches
from envs.gpu_cluster.batch import GpuClusterBatch
from envs.gpu_cluster.negotiation import Negotiation
from envs.simulation.market import Market
from envs.types import IntArray

SHARED_ARRAYS = ("world", "level_cpus", "level_memory")  # of `EnvArrays`, which have no axis for episodes


class ChoiceBranches(Branches):
    """Copies of episodes of a `GpuClusterBatch`, with what nodes have decided in the round so far; see `Branches`.

    After `copy` call `decide` for some or all of them, then `play`. A branch for which `decide` is not called takes
    what is planned as it is: with a market that proposes, the proposal.

    Args:
        source: the batch whose episodes are copied.
        size: number of branches.
        market: decides in the branches after their first round.
    """

    source: GpuClusterBatch

    def __init__(self, source: GpuClusterBatch, size: int, market: Market) -> None:
        super().__init__(source, size, market)

    def _use_table(self) -> None:
        super()._use_table()
        source = self.source
        self._negotiation = Negotiation(self.setup, self.state, source.spec, source.rules, self.table, self.exact)

    def copy(self, places: IntArray, episodes: IntArray) -> None:
        """Make branches of the present decisions of episodes; see `Branches.copy`."""
        super().copy(places, episodes)
        own, theirs = self._negotiation.arrays, self.source.negotiation.arrays
        for name in own._fields:
            if name not in SHARED_ARRAYS:
                getattr(own, name)[places] = getattr(theirs, name)[episodes]

    def decide(self, places: IntArray, actions: IntArray) -> None:
        """Let the nodes decide once more, and end the decisions of the round.

        Args:
            places: int64[n], branches that have been copied.
            actions: int64[n, num_nodes], joint actions that the masks allow.
        """
        for place, joint in zip(np.asarray(places).tolist(), actions, strict=True):
            self._negotiation.set_episode_actions(place, joint)
            self._negotiation.kernels.decide(self._negotiation.arrays, place)
            self._negotiation.kernels.close(self._negotiation.arrays, place)
            self._negotiation.price(place)
