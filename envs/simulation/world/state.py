"""The complete state of the simulator: a few arrays of records, with a leading axis for the episodes of a batch.

Compiled kernels take views of one episode (`state.jobs[b]`). Records have `numpy.record` type, so that attribute access
works in compiled and interpreted code alike.
"""

import itertools
from collections.abc import Sequence
from dataclasses import dataclass
from enum import IntEnum

import numpy as np
import numpy.typing as npt

from envs.performance.contention import MODES
from envs.simulation.compiled.jit import Records
from envs.simulation.log import EVENT, SHARE, EventLog
from envs.simulation.scenario import OUTAGES, Scenario
from envs.simulation.world.exact import whole_parts
from envs.simulation.world.heap import ENTRY, Places
from envs.simulation.world.ordered_set import fill_by_node, num_words
from envs.simulation.world.records import COLUMNS_OF_JOB, EPISODE, JOB, NODE, SERVED, SHARE_RECORD, zeros_of
from envs.simulation.world.throughput import ThroughputTable
from envs.types import ClusterSpec, ExecutionPlan, FloatArray, IntArray
from envs.workloads import Workload


class Status(IntEnum):
    """Status of a job, from submission to completion."""

    PENDING = 0  # not submitted yet, or held: it waits for its begin time or other jobs
    QUEUED = 1
    RUNNING = 2
    DONE = 3


class AdvanceResult(IntEnum):
    """The reason why `advance` returned."""

    ROUND = 0  # a decision is due
    END = 1  # the episode has ended, see `EndReason`
    LOG_FULL = 2  # the log needs room; enlarge it and call again


_histories = itertools.count(1)


def log2_slots(cluster: ClusterSpec, holders: int = 1) -> int:
    """Share records of a node, as a power of two: one for each GPU and holder now, and at the start of the round.

    The records of a node are adjacent, for the cache, and their number tells the node.

    Args:
        cluster: the nodes.
        holders: most jobs that may hold one GPU.
    """
    return (2 * holders * int(cluster.node_gpus.max()) - 1).bit_length()


NOT_COPIED = ("events", "log_shares", "edges")


@dataclass
class State:
    """State of a batch of episodes on one cluster. Arrays have a leading axis of `batch_size`."""

    episode: Records  # EPISODE [B, 1]
    jobs: Records  # JOB [B, num_jobs]
    nodes: Records  # NODE [B, num_nodes]
    shares: Records  # SHARE_RECORD [B, num_nodes * slots]: current, and from the start of the round; see `log2_slots`
    heap: Records  # ENTRY [B, most running jobs]: running jobs by (finish, job)
    heap_places: Places  # int32[B, num_jobs]: index of each job in the heap; -1 if absent
    outage_heap: Records  # ENTRY [B, num_nodes]: nodes by (finish, node); empty without failures
    outage_places: Places  # int32[B, num_nodes]: index of each node in that heap
    queued: IntArray  # int64[B, words]: ordered set of the jobs that wait
    running: IntArray  # int64[B, words]: ordered set of the jobs that run
    room: IntArray  # int64[B, num_gpu_types, most GPUs of a node + 1, words]: ordered sets of nodes by free GPUs
    touched: IntArray  # int64[B, num_jobs]
    uneven: IntArray  # int64[B, num_nodes]
    serving: Records  # SERVED [B, slots of a node]: shares in the order in which `divide` serves them
    dirty: IntArray  # int64[B, num_nodes]
    outages: FloatArray  # float64[B, num_nodes, OUTAGES, 2]; empty without failures
    events: npt.NDArray[np.void]  # EVENT [B, capacity], empty without a log
    log_shares: npt.NDArray[np.void]  # SHARE [B, capacity]
    edges: IntArray  # int64[B, edges, 3]: dependencies: the job that waits, ends that meet it, the next of this list

    @classmethod
    def allocate(
        cls, cluster: ClusterSpec, num_jobs: int, batch_size: int = 1, scenario: Scenario | None = None
    ) -> "State":
        """Empty state for episodes of up to `num_jobs` jobs."""
        nodes = zeros_of((batch_size, cluster.num_nodes), NODE)
        nodes["gpu_type"] = cluster.node_types
        nodes["num_gpus"] = cluster.node_gpus
        nodes["cpus"] = [whole_parts(node.cpu_cores) for node in cluster.nodes]
        nodes["memory"] = [whole_parts(node.memory) for node in cluster.nodes]
        nodes["link"] = [node.inter_node_bandwidth for node in cluster.nodes]
        job_words, node_words = num_words(num_jobs), num_words(cluster.num_nodes)
        sizes = (len(cluster.gpu_types), int(cluster.node_gpus.max()) + 1)
        failing = cluster.num_nodes if scenario is not None and scenario.failures else 0
        holders = 2 if scenario is not None and scenario.sharing == "pairs" else 1
        slots = log2_slots(cluster, holders)
        return cls(
            episode=zeros_of((batch_size, 1), EPISODE),
            jobs=zeros_of((batch_size, num_jobs), JOB),
            nodes=nodes,
            shares=zeros_of((batch_size, cluster.num_nodes << slots), SHARE_RECORD),
            heap=zeros_of((batch_size, holders * cluster.num_gpus), ENTRY, first=1),
            heap_places=np.full((batch_size, num_jobs), -1, np.int32),
            outage_heap=zeros_of((batch_size, failing), ENTRY, first=1),
            outage_places=np.zeros((batch_size, failing), np.int32),
            queued=np.zeros((batch_size, job_words), np.int64),
            running=np.zeros((batch_size, job_words), np.int64),
            room=np.zeros((batch_size, *sizes, node_words), np.int64),
            touched=np.zeros((batch_size, num_jobs), np.int64),
            uneven=np.zeros((batch_size, cluster.num_nodes), np.int64),
            serving=zeros_of((batch_size, 1 << slots), SERVED),
            dirty=np.zeros((batch_size, cluster.num_nodes), np.int64),
            outages=np.zeros((batch_size, failing, OUTAGES, 2)),
            events=np.zeros((batch_size, 0), EVENT),
            log_shares=np.zeros((batch_size, 0), SHARE),
            edges=np.zeros((batch_size, 0, 3), np.int64),
        )

    def load(
        self,
        b: int,
        workload: Workload,
        scenario: Scenario,
        table: ThroughputTable,
        rng: np.random.Generator,
        outages: np.random.Generator | None = None,
    ) -> None:
        """Put a workload into episode `b` at t = 0; surplus rows of the job array are never submitted.

        Args:
            b: the episode.
            workload: its jobs.
            scenario: its rules.
            table: throughputs of all models of the workload, or more.
            rng: for noisy estimates.
            outages: for node failures; `rng` if None.
        """
        count = len(workload)
        jobs = self.jobs[b]
        self.forget_jobs(b)
        index = np.array([table.models.index(model) for model in workload.models])
        for field, column in COLUMNS_OF_JOB:
            jobs[field][:count] = workload.jobs[column]
        jobs["model"][:count] = index[workload.jobs["model"]]
        jobs["time_limit"][:count] = _limits(workload.jobs)
        if scenario.information.work == "estimate":
            jobs["estimate"][:count] = np.exp(scenario.information.error * rng.standard_normal(count))
        start_delay, restart_delay = scenario.delays(workload.models)
        jobs["start_delay"][:count] = start_delay[workload.jobs["model"]]
        jobs["restart_delay"][:count] = restart_delay[workload.jobs["model"]]
        self._clear(b, scenario)
        if workload.waits:
            self._hold(b, workload)
        self.episode["longest_delay"][b] = jobs["restart_delay"].max()
        self.episode["window_start"][b], self.episode["window_end"][b] = workload.window
        if scenario.failures is not None:
            self._schedule_outages(b, scenario.failures.draw(self.nodes.shape[1], outages or rng))

    def append(
        self,
        first: int,
        rows: npt.NDArray[np.void],
        models: npt.NDArray[np.int64],
        scenario: Scenario,
        table: ThroughputTable,
    ) -> None:
        """Add jobs that are not submitted yet to episode 0, with exact work.

        Args:
            first: their first row, behind all other jobs.
            rows: dtype `JOB_COLUMNS`, in order of submission.
            models: int64[len(rows)], indices into the table's models.
            scenario: its rules.
            table: throughputs.
        """
        jobs = self.jobs[0][first : first + len(rows)]
        jobs[:] = np.zeros((), JOB)
        for field, column in COLUMNS_OF_JOB:
            jobs[field] = rows[column]
        start_delay, restart_delay = scenario.delays(table.models)
        jobs["model"], jobs["start_delay"], jobs["restart_delay"] = models, start_delay[models], restart_delay[models]
        jobs["start"], jobs["finish"], jobs["estimate"] = np.nan, np.inf, 1.0
        jobs["deadline"], jobs["time_limit"] = np.inf, _limits(rows)
        jobs["first_share"] = jobs["before_share"] = jobs["plan"] = jobs["partner"] = jobs["before_partner"] = -1

    def forget_jobs(self, b: int) -> None:
        """Make the rows of an episode's jobs such that none is there."""
        jobs = self.jobs[b]
        jobs[:] = np.zeros((), JOB)
        jobs["submit"] = jobs["finish"] = jobs["deadline"] = jobs["time_limit"] = np.inf
        jobs["start"], jobs["estimate"] = np.nan, 1.0
        jobs["first_share"] = jobs["before_share"] = jobs["plan"] = jobs["partner"] = jobs["before_partner"] = -1
        self.heap_places[b] = -1

    def _clear(self, b: int, scenario: Scenario) -> None:
        nodes, shares = self.nodes[b], self.shares[b]
        nodes["free"] = nodes["num_gpus"]
        counts = *("num_jobs", "uneven", "short", "claimed_cpus", "claimed_memory"), *("dirty", "planned", "down")
        for field in (*counts, "outages"):
            nodes[field] = 0
        nodes["first_share"] = -1
        nodes["finish"] = np.inf
        slots = len(shares) // len(nodes)
        shares["next_of_job"] = np.arange(1, len(shares) + 1)
        shares["next_of_job"][slots - 1 :: slots] = -1
        nodes["free_share"] = np.arange(0, len(shares), slots)
        self.queued[b] = self.running[b] = self.room[b] = 0
        fill_by_node(self.room[b], nodes["gpu_type"], nodes["free"])
        episode = self.episode[b]
        episode[:] = np.zeros((), EPISODE)
        episode["history"] = next(_histories)
        episode["num_gpus"] = episode["num_up"] = episode["num_free"] = nodes["num_gpus"].sum()
        episode["horizon"] = scenario.horizon
        episode["interval"] = scenario.rounds.interval or np.inf
        episode["next_round"] = 0.0 if scenario.rounds.interval else np.inf
        episode["next_decision"] = np.inf
        episode["stall_interval"] = scenario.rounds.stall_interval
        episode["max_stalls"] = scenario.rounds.max_stalls
        episode["max_futile_rounds"] = episode["next_check"] = scenario.rounds.max_futile_rounds
        episode["on_events"] = scenario.rounds.on_events
        episode["proportional"] = scenario.worker_shares == "proportional"
        episode["knows_work"] = scenario.information.work != "none"
        episode["knows_limits"] = scenario.information.work == "limit"
        episode["logging"] = self.events.shape[1] > 0
        episode["shares_cpu_memory"] = scenario.cpu_memory == "shared"
        episode["log2_slots"] = slots.bit_length() - 1
        episode["contention"] = MODES.index(scenario.contention.mode)
        if scenario.failures is not None:
            episode["failing"] = 1
            episode["checkpoint_interval"] = scenario.failures.checkpoint_interval

    def make_room(self, num_edges: int) -> bool:
        """Make room for so many dependencies of an episode; return whether `edges` is a new array."""
        if num_edges <= self.edges.shape[1]:
            return False
        self.edges = np.pad(self.edges, ((0, 0), (0, num_edges - self.edges.shape[1]), (0, 0)))
        return True

    def _hold(self, b: int, workload: Workload) -> None:
        """Note for what the jobs of an episode wait."""
        jobs, count = self.jobs[b], len(workload)
        later = np.flatnonzero(jobs["begin"][:count] > jobs["submit"][:count])
        later = later[np.argsort(jobs["begin"][later], kind="stable")]
        jobs["unmet"][later] = 1
        jobs["next_begin"][later] = [*(later[1:] + 1).tolist(), 0][: len(later)]
        self.episode["holds"][b] = 1
        self.episode["first_begin"][b] = later[0] + 1 if len(later) else 0
        self.make_room(len(workload.dependencies))
        for edge, (job, on, met_by) in enumerate(workload.dependencies):
            jobs["unmet"][job] += 1
            self.edges[b, edge] = job, met_by, jobs["first_edge"][on]
            jobs["first_edge"][on] = edge + 1

    def _schedule_outages(self, b: int, outages: FloatArray) -> None:
        """Schedule the first failure of every node; a sorted array is a valid heap."""
        self.outages[b] = outages
        nodes = self.nodes[b]
        nodes["finish"] = outages[:, 0, 0]
        order = np.argsort(nodes["finish"], kind="stable")
        self.outage_heap[b]["member"] = order
        self.outage_heap[b]["time"] = nodes["finish"][order]
        self.outage_places[b, order] = np.arange(len(nodes))

    def episode_view(self, b: int) -> "State":
        """One episode as a separate state that shares memory with this one."""
        return State(**{name: getattr(self, name)[b : b + 1] for name in self.__dataclass_fields__})

    def grow_log(self) -> None:
        """Double the log, or start one."""
        self.events = _doubled(self.events)
        self.log_shares = _doubled(self.log_shares)
        self.episode["logging"] = 1

    def log(self, b: int, plans: Sequence[ExecutionPlan] = ()) -> EventLog:
        """Copy the events of episode `b` so far; its events index into `plans`."""
        episode = self.episode[b, 0]
        events, shares = self.events[b, : episode.log_events], self.log_shares[b, : episode.log_shares]
        return EventLog(events.copy(), shares.copy(), tuple(plans))

    def copy_from(self, other: "State") -> None:
        """Copy another state of the same shape, without its log."""
        for name in self.__dataclass_fields__:
            if name not in NOT_COPIED:
                getattr(self, name)[...] = getattr(other, name)
        self.edges = other.edges  # they never change
        self.episode["logging"] = 0
        self.episode["history"] = [[next(_histories)] for _ in self.episode]

    def copy_episodes(self, places: IntArray, other: "State", episodes: IntArray) -> None:
        """Copy some episodes of another state for the same cluster and as many jobs, without their logs.

        Args:
            places: int64[n], indices of the copies.
            other: the state.
            episodes: int64[n], indices in the other state.
        """
        for name in self.__dataclass_fields__:
            if name not in NOT_COPIED:
                getattr(self, name)[places] = getattr(other, name)[episodes]
        self.episode["logging"][places] = 0
        self.episode["history"][places, 0] = [next(_histories) for _ in places]

    @property
    def nbytes(self) -> int:
        """Bytes of all arrays."""
        return sum(getattr(self, name).nbytes for name in self.__dataclass_fields__)


def _limits(rows: npt.NDArray[np.void]) -> FloatArray:
    """float64[len(rows)]: the time limits of jobs (dtype `JOB_COLUMNS`), infinite for none."""
    limits: FloatArray = np.where(rows["time_limit"] > 0, rows["time_limit"], np.inf)
    return limits


def _doubled(rows: npt.NDArray[np.void]) -> npt.NDArray[np.void]:
    batch, capacity = rows.shape
    grown = np.zeros((batch, max(1024, 2 * capacity)), rows.dtype)
    grown[:, :capacity] = rows
    return grown
