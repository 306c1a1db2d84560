"""The simulator's whole state as a few arrays of records, one leading axis for the episodes of a batch.

Compiled kernels take single-episode views (`state.jobs[b]`). Records have `numpy.record` type, so the same
attribute access works compiled and interpreted.
"""

from dataclasses import dataclass
from enum import IntEnum
from typing import Any

import numpy as np
import numpy.typing as npt

from envs.simulation.log import EVENT, SHARE, EventLog
from envs.simulation.scenario import Scenario
from envs.simulation.speed import SpeedTable
from envs.types import ClusterSpec, IntArray
from envs.workloads import Workload

Records = npt.NDArray[Any]  # an array of records of one of the dtypes below


class Status(IntEnum):
    """Where a job is in its life."""

    PENDING = 0  # not submitted yet
    QUEUED = 1
    RUNNING = 2
    DONE = 3


class Outcome(IntEnum):
    """Why `advance` came back."""

    ROUND = 0  # a decision is due
    END = 1  # everything finished, the horizon, or a stall that nobody resolved
    LOG_FULL = 2  # the log needs room; call again


def _records(*fields: tuple[str, type]) -> np.dtype[Any]:
    return np.dtype((np.record, list(fields)), align=True)


f8, i8 = np.float64, np.int64

EPISODE = _records(
    ("time", f8),
    ("job_seconds", f8),  # integral of the number of jobs in the system: the sum of all JCTs in the end
    ("busy_seconds", f8),  # integral of the number of GPUs held
    ("next_round", f8),  # next round of the fixed interval; infinite without one
    ("next_job", i8),  # first job not submitted yet
    ("num_active", i8),  # submitted and not done
    ("num_running", i8),  # also the size of the heap
    ("num_gpus", i8),
    ("num_free", i8),  # GPUs that no job holds
    ("free_share", i8),  # head of the list of unused share records
    ("num_touched", i8),  # jobs whose placement the current round has changed so far
    ("round_due", i8),
    ("stalls", i8),  # rounds in a row in which time could not advance by itself
    ("num_rounds", i8),
    ("num_events", i8),  # FINISH and ARRIVE so far, counted with or without a log
    ("log_events", i8),
    ("log_shares", i8),
    ("ended", i8),
    # The scenario, unfolded.
    ("horizon", f8),
    ("interval", f8),
    ("stall_interval", f8),
    ("max_stalls", i8),
    ("on_events", i8),
    ("proportional", i8),
    ("knows_work", i8),
    ("logging", i8),
)
JOB = _records(
    ("submit", f8),
    ("work", f8),
    ("remaining", f8),  # samples at `synced`
    ("rate", f8),  # samples/s from `synced` on
    ("synced", f8),  # in the future while the job starts or restarts
    ("finish", f8),  # predicted; final once DONE
    ("start", f8),  # first start; NaN before
    ("service", f8),  # GPU-seconds until `served`
    ("served", f8),
    ("estimate", f8),  # factor by which schedulers misjudge the remaining work; 1 if exact
    ("start_delay", f8),
    ("restart_delay", f8),
    ("model", i8),
    ("num_gpus", i8),
    ("min_gpus", i8),
    ("max_gpus", i8),
    ("status", i8),
    ("gpus", i8),  # held now
    ("num_shares", i8),
    ("first_share", i8),  # list of shares by ascending node; -1 ends it
    ("touched", i8),
    ("before_gpus", i8),  # what it held when the current round began, if touched
    ("before_shares", i8),
    ("before_share", i8),
    ("heap_place", i8),
    ("num_restarts", i8),
    ("num_preemptions", i8),
)
NODE = _records(
    ("gpu_type", i8),
    ("num_gpus", i8),
    ("free", i8),
    ("num_jobs", i8),
    ("first_share", i8),  # list of shares by ascending job; -1 ends it
)
SHARE_RECORD = _records(("job", i8), ("node", i8), ("gpus", i8), ("next_of_job", i8), ("next_of_node", i8))


@dataclass
class State:
    """State of a batch of episodes on one cluster. Arrays have a leading axis of `batch_size`."""

    episode: Records  # EPISODE [B, 1]
    jobs: Records  # JOB [B, num_jobs]
    nodes: Records  # NODE [B, num_nodes]
    shares: Records  # SHARE_RECORD [B, 2 * num_gpus]: now, and as the round began
    heap: IntArray  # int64 [B, num_gpus]: running jobs by (finish, job)
    active: IntArray  # int64 [B, num_jobs]: jobs in the system, ascending
    touched: IntArray  # int64 [B, num_jobs]
    events: npt.NDArray[np.void]  # EVENT [B, capacity], empty without a log
    log_shares: npt.NDArray[np.void]  # SHARE [B, capacity]

    @classmethod
    def allocate(cls, cluster: ClusterSpec, num_jobs: int, batch_size: int = 1) -> "State":
        """Empty state for episodes of up to `num_jobs` jobs."""
        nodes = np.zeros((batch_size, cluster.num_nodes), NODE)
        nodes["gpu_type"] = cluster.node_types
        nodes["num_gpus"] = cluster.node_gpus
        return cls(
            episode=np.zeros((batch_size, 1), EPISODE),
            jobs=np.zeros((batch_size, num_jobs), JOB),
            nodes=nodes,
            shares=np.zeros((batch_size, 2 * cluster.num_gpus), SHARE_RECORD),
            heap=np.zeros((batch_size, cluster.num_gpus), np.int64),
            active=np.zeros((batch_size, num_jobs), np.int64),
            touched=np.zeros((batch_size, num_jobs), np.int64),
            events=np.zeros((batch_size, 0), EVENT),
            log_shares=np.zeros((batch_size, 0), SHARE),
        )

    def load(self, b: int, workload: Workload, scenario: Scenario, table: SpeedTable, rng: np.random.Generator) -> None:
        """Put a workload into episode `b` at t = 0; where the arrays hold more jobs, the others never come."""
        count = len(workload)
        jobs = self.jobs[b]
        jobs[:] = np.zeros((), JOB)
        jobs["submit"] = np.inf
        index = np.array([table.models.index(model) for model in workload.models])
        for field, column in (("submit", "submit_time"), ("work", "work"), ("remaining", "work")):
            jobs[field][:count] = workload.jobs[column]
        for field in ("num_gpus", "min_gpus", "max_gpus"):
            jobs[field][:count] = workload.jobs[field]
        jobs["model"][:count] = index[workload.jobs["model"]]
        jobs["start"] = np.nan
        jobs["finish"] = np.inf
        jobs["estimate"] = 1.0
        if scenario.information.work == "estimate":
            jobs["estimate"][:count] = np.exp(scenario.information.error * rng.standard_normal(count))
        jobs["start_delay"] = scenario.start_delay
        jobs["restart_delay"] = scenario.restart_delay
        jobs["first_share"] = jobs["before_share"] = jobs["heap_place"] = -1
        self._clear(b, scenario)

    def _clear(self, b: int, scenario: Scenario) -> None:
        nodes, shares = self.nodes[b], self.shares[b]
        nodes["free"] = nodes["num_gpus"]
        nodes["num_jobs"] = 0
        nodes["first_share"] = -1
        shares["next_of_job"] = np.arange(1, len(shares) + 1)
        shares["next_of_job"][-1] = -1
        episode = self.episode[b]
        episode[:] = np.zeros((), EPISODE)
        episode["num_gpus"] = episode["num_free"] = nodes["num_gpus"].sum()
        episode["horizon"] = scenario.horizon
        episode["interval"] = scenario.rounds.interval or np.inf
        episode["next_round"] = 0.0 if scenario.rounds.interval else np.inf
        episode["stall_interval"] = scenario.rounds.stall_interval
        episode["max_stalls"] = scenario.rounds.max_stalls
        episode["on_events"] = scenario.rounds.on_events
        episode["proportional"] = scenario.worker_shares == "proportional"
        episode["knows_work"] = scenario.information.work != "none"
        episode["logging"] = self.events.shape[1] > 0

    def episode_view(self, b: int) -> "State":
        """One episode as a state of its own that shares memory with this one."""
        return State(**{name: getattr(self, name)[b : b + 1] for name in self.__dataclass_fields__})

    def grow_log(self) -> None:
        """Double the log, or begin one."""
        self.events = _doubled(self.events)
        self.log_shares = _doubled(self.log_shares)
        self.episode["logging"] = 1

    def log(self, b: int) -> EventLog:
        """The events of episode `b` so far, copied."""
        episode = self.episode[b, 0]
        return EventLog(self.events[b, : episode.log_events].copy(), self.log_shares[b, : episode.log_shares].copy())

    def copy_from(self, other: "State") -> None:
        """Become equal to another state of the same shape, except for its log."""
        for name in ("episode", "jobs", "nodes", "shares", "heap", "active", "touched"):
            getattr(self, name)[...] = getattr(other, name)
        self.episode["logging"] = 0

    @property
    def nbytes(self) -> int:
        """Memory of all arrays."""
        return sum(getattr(self, name).nbytes for name in self.__dataclass_fields__)


def _doubled(rows: npt.NDArray[np.void]) -> npt.NDArray[np.void]:
    batch, capacity = rows.shape
    grown = np.zeros((batch, max(1024, 2 * capacity)), rows.dtype)
    grown[:, :capacity] = rows
    return grown
