"""Episodes under FIFO in compiled code: from the start, from a loaded instant, and up to one."""

import numpy as np

from baselines.compiled.fifo import play_fifo
from baselines.compiled.gang import gangs_of
from benchmarks.worlds import Size
from envs.simulation import Scenario, State


class FifoEpisode:
    """One world that can be played again and again from one instant.

    Args:
        size: its cluster and jobs.
        scenario: its rules.
    """

    def __init__(self, size: Size, scenario: Scenario) -> None:
        self.simulator = size.simulator(scenario)
        gangs = gangs_of(self.simulator)
        assert gangs is not None, "every gang of these workloads fits on one type"
        self.gangs = gangs
        self.start = State.allocate(self.simulator.cluster, size.jobs, scenario=scenario)
        self.keep()

    def keep(self) -> None:
        """Begin here from now on."""
        self.start.copy_from(self.simulator.state)

    def rewind(self) -> None:
        """Go back to where it begins."""
        self.simulator.state.copy_from(self.start)
        self.gangs.hopeless[:] = -1

    def play(self) -> None:
        """On to the end or the horizon."""
        play_fifo(self.simulator.world, self.gangs, False)

    def load(self, job: int) -> None:
        """Play until a job is about to be submitted, and begin there."""
        self.set_horizon(float(np.nextafter(self.simulator.workload.jobs["submit_time"][job], 0.0)))
        self.play()
        self.simulator.state.episode["ended"] = 0
        self.set_horizon(np.inf)
        self.keep()

    def set_horizon(self, horizon: float) -> None:
        """Let play end at an instant."""
        self.simulator.state.episode["horizon"] = horizon
        self.start.episode["horizon"] = horizon

    @property
    def num_events(self) -> int:
        """Arrivals and completions since where it begins."""
        return int(self.simulator.state.episode["num_events"][0, 0] - self.start.episode["num_events"][0, 0])
