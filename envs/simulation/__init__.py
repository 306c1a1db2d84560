"""Time: state arrays, kernels, the engine, the event log, and the check that every allocation passes."""

from envs.simulation.log import EVENT, SHARE, EventKind, EventLog
from envs.simulation.result import RECORD, RunResult
from envs.simulation.scenario import Failures, Information, Rounds, Scenario
from envs.simulation.simulator import CompiledScheduler, Simulator, run_episode
from envs.simulation.speed import SpeedTable
from envs.simulation.state import State
from envs.simulation.view import SimulationView

__all__ = [
    "EVENT",
    "RECORD",
    "SHARE",
    "CompiledScheduler",
    "EventKind",
    "EventLog",
    "Failures",
    "Information",
    "Rounds",
    "RunResult",
    "Scenario",
    "SimulationView",
    "Simulator",
    "SpeedTable",
    "State",
    "run_episode",
]
