"""Simulated episodes that know their whole workload, with the jobs that are still to come."""

from functools import cached_property

import numpy as np

from envs.simulation.seen.snapshot import SimulationView
from envs.simulation.setup import Setup
from envs.simulation.simulated_episode import SimulatedEpisode
from envs.simulation.world.exact import ExactThroughputs
from envs.simulation.world.state import State
from envs.simulation.world.throughput import ThroughputTable
from envs.workloads import Workload


class WholeEpisode(SimulatedEpisode):
    """Common base of `Simulator` and `Replica`.

    Args:
        workload: the jobs.
        exact: throughputs of placements that set more than GPUs.
        setup: the cluster, the performance model and the scenario.
        table: throughputs of the models in the workload.
        state: the engine's arrays, with one episode.
        scheduler_seed: of the generator that schedulers get.
    """

    def __init__(
        self,
        workload: Workload,
        exact: ExactThroughputs,
        setup: Setup,
        table: ThroughputTable,
        state: State,
        scheduler_seed: np.random.SeedSequence,
    ) -> None:
        super().__init__(setup, table, state, scheduler_seed)
        self._workload, self._exact = workload, exact

    @property
    def workload(self) -> Workload:
        """The jobs."""
        return self._workload

    @property
    def exact(self) -> ExactThroughputs:
        """Exact throughputs of placements that set more than GPUs."""
        return self._exact

    @property
    def view(self) -> SimulationView:
        """A view of the cluster; it shows the present time, and new beliefs about throughputs ask for a new one."""
        return self._true_view

    @cached_property
    def _true_view(self) -> SimulationView:
        predicted = None if self.predictions is None else self.predictions.work
        parts = self.state, self.setup, self.workload, self.table, self.exact, self.plans
        return SimulationView(*parts, predicted=predicted)
