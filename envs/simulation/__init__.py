"""The simulator: episodes, their settings, their event log and their result.

Its rooms: `world`, what is; `known`, what is known of it; `seen`, what schedulers see; `compiled`, how kernels are
compiled; `reference`, the rules a second time in plain Python.
"""

from envs.simulation.known.predictions import check_unseen, train_predictor
from envs.simulation.log import EVENT, SHARE, EventKind, EventLog
from envs.simulation.pooled_history import PooledHistory
from envs.simulation.result import RECORD, EndReason, LimitedTime, RunResult
from envs.simulation.scenario import Failures, Information, Rounds, Scenario
from envs.simulation.seen.fifo_market import FifoMarket
from envs.simulation.seen.market import BidArrays, Changes, Market
from envs.simulation.seen.snapshot import SimulationView, Snapshot
from envs.simulation.setup import Setup
from envs.simulation.simulated_episode import SimulatedEpisode
from envs.simulation.simulator import CompiledScheduler, Simulator, plays_compiled, run_episode
from envs.simulation.version import WORLD_VERSION
from envs.simulation.watch import SlowDecisionWarning
from envs.simulation.world.link_limit import LinkLimit
from envs.simulation.world.state import State
from envs.simulation.world.throughput import ThroughputTable

__all__ = ["EVENT", "RECORD", "SHARE", "WORLD_VERSION", "BidArrays", "Changes", "CompiledScheduler", "EndReason"]
__all__ += ["EventKind", "EventLog", "Failures", "FifoMarket", "Information", "LimitedTime", "LinkLimit", "Market"]
__all__ += ["PooledHistory", "Rounds", "RunResult", "Scenario", "Setup", "SimulatedEpisode", "SimulationView"]
__all__ += ["Simulator", "SlowDecisionWarning", "Snapshot", "State", "ThroughputTable", "check_unseen"]
__all__ += ["plays_compiled", "run_episode", "train_predictor"]
