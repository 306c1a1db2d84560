"""Schedulers as a bridge asks them."""

from typing import Protocol

import numpy as np

from deployment.mirror import Mirror, decide
from deployment.state import ClusterState, Decision
from envs.scheduling import Scheduler


class DecisionMaker(Protocol):
    """A scheduler as the bridge asks it: in this process or through the protocol."""

    def decide(self, state: ClusterState) -> Decision:
        """Return the decision for a round."""
        ...


class LocalScheduler:
    """A scheduler of this process as a `DecisionMaker`.

    Args:
        scheduler: it is reset here.
        mirror: the cluster's mirror.
        rng: of the scheduler.
    """

    def __init__(self, scheduler: Scheduler, mirror: Mirror, rng: np.random.Generator) -> None:
        scheduler.reset(mirror.setup.cluster, rng)
        self._scheduler, self._mirror = scheduler, mirror

    def decide(self, state: ClusterState) -> Decision:
        """Return the decision for a round."""
        view = self._mirror.observe(state)
        return decide(self._scheduler.schedule(view), view.running.tolist())
