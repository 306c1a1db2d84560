"""The simulator: state arrays, kernels, engine, event log, and the checks on every allocation."""

from envs.simulation.fifo_market import FifoMarket
from envs.simulation.link_limit import LinkLimit
from envs.simulation.log import EVENT, SHARE, EventKind, EventLog
from envs.simulation.market import BidArrays, Changes, Market
from envs.simulation.pooled_history import PooledHistory
from envs.simulation.predictions import check_unseen, train_predictor
from envs.simulation.result import RECORD, EndReason, LimitedTime, RunResult
from envs.simulation.scenario import Failures, Information, Rounds, Scenario
from envs.simulation.setup import Setup
from envs.simulation.simulated_episode import SimulatedEpisode
from envs.simulation.simulator import CompiledScheduler, Simulator, plays_compiled, run_episode
from envs.simulation.snapshot import SimulationView, Snapshot
from envs.simulation.state import State
from envs.simulation.throughput import ThroughputTable
from envs.simulation.version import WORLD_VERSION
from envs.simulation.watch import SlowDecisionWarning

__all__ = [
    "EVENT",
    "RECORD",
    "SHARE",
    "WORLD_VERSION",
    "BidArrays",
    "Changes",
    "CompiledScheduler",
    "EndReason",
    "EventKind",
    "EventLog",
    "Failures",
    "FifoMarket",
    "Information",
    "LimitedTime",
    "LinkLimit",
    "Market",
    "PooledHistory",
    "Rounds",
    "RunResult",
    "Scenario",
    "Setup",
    "SimulatedEpisode",
    "SimulationView",
    "Simulator",
    "SlowDecisionWarning",
    "Snapshot",
    "State",
    "ThroughputTable",
    "check_unseen",
    "plays_compiled",
    "run_episode",
    "train_predictor",
]
