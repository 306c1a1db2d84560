"""The complete state of the simulator: a few arrays of records, with a leading axis for the episodes of a batch.

Compiled kernels take views of one episode (`state.jobs[b]`). Records have `numpy.record` type, so that attribute access
works in compiled and interpreted code alike.
"""

import itertools
import math
from collections.abc import Sequence
from dataclasses import dataclass
from enum import IntEnum
from typing import Any

import numpy as np
import numpy.typing as npt

from envs.performance.contention import MODES
from envs.simulation.compiled.jit import LINE, Records
from envs.simulation.log import EVENT, SHARE, EventLog
from envs.simulation.scenario import OUTAGES, Scenario
from envs.simulation.world.exact import whole_parts
from envs.simulation.world.heap import ENTRY, Places
from envs.simulation.world.ordered_set import fill_by_node, num_words
from envs.simulation.world.throughput import ThroughputTable
from envs.types import ClusterSpec, ExecutionPlan, FloatArray, IntArray
from envs.workloads import Workload


class Status(IntEnum):
    """Status of a job, from submission to completion."""

    PENDING = 0  # not submitted yet
    QUEUED = 1
    RUNNING = 2
    DONE = 3


class AdvanceResult(IntEnum):
    """The reason why `advance` returned."""

    ROUND = 0  # a decision is due
    END = 1  # the episode has ended, see `EndReason`
    LOG_FULL = 2  # the log needs room; enlarge it and call again


def _records(*fields: tuple[str, type]) -> np.dtype[Any]:
    """Records that fill whole cache lines, so that the comments on lines below hold for every record of an array."""
    plain = np.dtype(list(fields), align=True)
    fields_of: Any = plain.fields
    layout: Any = {
        "names": list(plain.names or ()),
        "formats": [form for _, form in fields],
        "offsets": [fields_of[name][1] for name, _ in fields],
        "itemsize": -(-plain.itemsize // LINE) * LINE,
        "aligned": True,
    }
    return np.dtype((np.record, layout))


def _zeros(shape: tuple[int, ...], record: Any, first: int = 0) -> Any:
    """Zeros of which the record at index `first` begins a cache line. NumPy aligns arrays to 16 bytes."""
    size = math.prod(shape) * record.itemsize
    room = np.zeros(size + LINE, np.uint8)
    skip = -(room.ctypes.data + first * record.itemsize) % LINE
    return room[skip : skip + size].view(record).reshape(shape)


f8, i8, i4 = np.float64, np.int64, np.int32

EPISODE = _records(
    ("time", f8),
    ("job_seconds", f8),  # integral of the number of jobs in the system; at the end, the sum of all JCTs
    ("busy_seconds", f8),  # integral of the number of GPUs held
    ("next_round", f8),  # next round of the fixed interval; infinite without one
    ("next_decision", f8),  # instant at which the scheduler asked for a round; infinite if it did not
    ("next_job", i8),  # first job that is not submitted yet
    ("num_active", i8),  # submitted and not done
    ("num_running", i8),  # also the size of the heap
    ("num_gpus", i8),
    ("num_up", i8),  # GPUs of nodes that are up
    ("num_free", i8),  # GPUs of nodes that are up and that no job holds
    ("num_down", i8),  # nodes that are down
    ("num_touched", i8),  # jobs whose placement the current round has changed so far
    ("num_uneven", i8),  # nodes whose cores and memory must be divided anew
    ("num_dirty", i8),  # nodes whose jobs need new contention factors
    ("first_refed", i8),  # list of the jobs whose cores, memory or co-located job have changed, plus 1; 0 for none
    ("round_due", i8),
    ("in_round", i8),  # whether a decision was asked for, and time has not advanced since
    ("stalls", i8),  # rounds in a row in which time could not advance by itself
    ("num_rounds", i8),
    ("num_events", i8),  # FINISH and ARRIVE so far, counted with or without a log
    ("log_events", i8),
    ("log_shares", i8),
    ("ended", i8),  # EndReason
    ("next_check", i8),  # number of rounds after which net progress is checked
    ("checked_events", i8),  # `num_events` at the last check
    ("checked_time", f8),
    ("progress_time", f8),  # time of the last check that found net progress
    ("progress_restarts", i8),  # `num_restarts` then
    ("num_restarts", i8),  # so far, of the jobs that are in the system
    ("history", i8),  # number of this load or copy in the process: arrays of one history only ever went forward
    # What limits running jobs, within the workload's window; only where jobs share more than GPUs.
    ("limited_by_cpus", i8),  # running jobs limited by cores now
    ("limited_by_memory", i8),
    ("limited_by_network", i8),
    ("running_seconds", f8),  # integrals over time of the number of running jobs, and of these three
    ("cpus_seconds", f8),
    ("memory_seconds", f8),
    ("network_seconds", f8),
    ("window_rounds", i8),  # rounds in the window
    ("queue_rounds", i8),  # of these, those after which jobs waited
    ("window_start", f8),
    ("window_end", f8),
    # From the scenario.
    ("horizon", f8),
    ("interval", f8),
    ("stall_interval", f8),
    ("checkpoint_interval", f8),
    ("max_stalls", i8),
    ("max_futile_rounds", i8),
    ("longest_delay", f8),  # of all restarts
    ("on_events", i8),
    ("proportional", i8),
    ("knows_work", i8),
    ("knows_limits", i8),  # whether schedulers know work only by time limits
    ("logging", i8),
    ("failing", i8),
    ("shares_cpu_memory", i8),  # whether jobs divide the cores and memory of nodes
    ("contention", i8),  # index into envs.performance.contention.MODES
    ("log2_slots", i8),  # of the share records of a node
)
JOB = _records(
    # A large cluster waits for memory, so eight fields that are used together are one line. The first two are all
    # that a completion needs, these and the third are what a change of throughput needs.
    ("status", i8),
    ("gpus", i8),  # held now
    ("num_shares", i8),
    ("first_share", i8),  # list of shares by ascending node; -1 ends it
    ("touched", i4),
    ("partner", i4),  # the job that holds the same GPUs; -1 for none
    ("remaining", f8),  # samples at `synced`
    ("throughput", f8),  # samples/s from `synced` on
    ("service", f8),  # GPU-seconds until `served`
    # Line 2.
    ("served", f8),
    ("synced", f8),  # in the future while the job starts or restarts
    ("finish", f8),  # predicted; final once DONE
    ("deadline", f8),  # when it will reach its time limit; infinite without one, and while it holds no GPUs
    ("estimate", f8),  # factor on the remaining work that schedulers see; 1 if exact
    ("traffic", f8),  # GB/s over the link of each of its nodes, without co-located jobs
    ("alone", f8),  # samples/s without co-located jobs
    ("limit", i4),  # NO_LIMIT, CPU_LIMIT, MEMORY_LIMIT or NETWORK_LIMIT of envs.simulation.world.job_throughput
    ("num_restarts", i4),
    # Line 3: throughput.
    ("model", i8),
    ("ample", f8),  # `alone` with ample cores and memory where the placement names none
    ("fed_by_cpus", f8),  # fraction of its throughput that its cores alone would leave it
    ("fed_by_memory", f8),
    ("kept_by_links", f8),  # fraction of its throughput that the links of its nodes leave it without co-located jobs
    ("refed", i4),  # 1 in the list of those whose cores, memory or partner have changed; 2 if its throughput has too
    ("next_refed", i4),  # the next such job, plus 1; 0 ends the list
    ("named", i4),  # amounts that its placement names: 1 cores, 2 memory, 3 both
    ("guest", i4),  # whether its partner held the GPUs first: the node then counts them as the partner's
    ("least", f8),  # fewest samples left when net progress was checked, see `note_least`; its work at first
    # Line 4: starts, and what the placement names besides GPUs: -1, 0 and 0 if not named.
    ("num_gpus", i8),
    ("start", f8),  # first start; NaN before
    ("start_delay", f8),
    ("restart_delay", f8),
    ("plan", i8),
    ("batch_size", i8),
    ("exact", f8),  # samples/s of the named placement; 0 if the table has it
    ("sample_traffic", f8),  # GB per sample, for a named batch size
    # Line 5: the placement at the start of the current round, if touched; and `segment`, which is seldom read.
    ("before_gpus", i8),
    ("before_shares", i8),
    ("before_share", i8),
    ("before_plan", i4),
    ("before_batch_size", i4),
    ("segment", f8),  # time at which it last began to process samples after a start or change
    ("before_named", i4),
    ("before_partner", i4),
    ("before_exact", f8),
    ("before_sample_traffic", f8),
    # Other fields.
    ("submit", f8),
    ("min_gpus", i8),
    ("max_gpus", i8),
    ("min_batch", i8),  # its own range of batch sizes; 0 for none
    ("max_batch", i8),
    ("work", f8),
    ("num_preemptions", i4),
    ("num_interruptions", i4),
    ("before_guest", i4),
    ("saved", f8),  # samples left at the last checkpoint, where that counts, see `counts_checkpoints`
    ("time_limit", f8),  # seconds for which it may hold GPUs after it leaves the queue; infinite for none
)
COLUMNS_OF_JOB = (  # fields of JOB, and the columns of a workload from which they are filled
    *(("submit", "submit_time"), ("work", "work"), ("remaining", "work"), ("saved", "work"), ("least", "work")),
    *((name, name) for name in ("num_gpus", "min_gpus", "max_gpus", "min_batch", "max_batch")),
)
NODE = _records(
    # Line 1: GPUs and the list of shares.
    ("gpu_type", i8),
    ("num_gpus", i8),
    ("free", i8),  # GPUs that jobs may take; 0 while the node is down or held by an exclusive job
    ("num_jobs", i8),
    ("first_share", i8),  # list of shares by ascending job; -1 ends it
    ("free_share", i8),  # list of its unused share records by `next_of_job`; -1 ends it
    ("planned", i8),  # 1 + the last round whose draft changed its jobs
    ("link", f8),  # GB/s to other nodes
    # Line 2: cores and memory.
    ("cpus", f8),
    ("memory", f8),
    ("claimed_cpus", i8),  # 64ths that its shares name, or at which they saturate
    ("claimed_memory", i8),
    ("uneven", i4),  # whether its cores and memory must be divided anew
    ("short", i4),  # of what its shares can use more than it has, when last divided: 1 cores, 2 memory, 3 both
    ("dirty", i4),
    ("down", i4),
    ("finish", f8),  # time at which it goes down or comes back
    ("outages", i8),  # so far
)
SHARE_RECORD = _records(  # one line
    ("job", i4),
    ("node", i4),
    ("gpus", i4),
    ("next_of_job", i4),
    ("next_of_node", i4),
    ("most_cpus", i4),  # 64ths up to which the world gives it cores; 0 if its placement names them
    ("most_memory", i4),
    ("cpus", f8),  # NaN until assigned
    ("memory", f8),
    ("network", f8),  # factor on throughput by contention for the node's link
    ("cpu_stage", f8),  # the same for its CPUs
)
SERVED = _records(
    ("per_gpu", f8),  # 64ths of cores, or of memory, at which the share saturates, for each of its GPUs
    ("share", i8),
)


_histories = itertools.count(1)


def log2_slots(cluster: ClusterSpec, holders: int = 1) -> int:
    """Share records of a node, as a power of two: one for each GPU and holder now, and at the start of the round.

    The records of a node are adjacent, for the cache, and their number tells the node.

    Args:
        cluster: the nodes.
        holders: most jobs that may hold one GPU.
    """
    return (2 * holders * int(cluster.node_gpus.max()) - 1).bit_length()


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

    @classmethod
    def allocate(
        cls, cluster: ClusterSpec, num_jobs: int, batch_size: int = 1, scenario: Scenario | None = None
    ) -> "State":
        """Empty state for episodes of up to `num_jobs` jobs."""
        nodes = _zeros((batch_size, cluster.num_nodes), NODE)
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
            episode=_zeros((batch_size, 1), EPISODE),
            jobs=_zeros((batch_size, num_jobs), JOB),
            nodes=nodes,
            shares=_zeros((batch_size, cluster.num_nodes << slots), SHARE_RECORD),
            heap=_zeros((batch_size, holders * cluster.num_gpus), ENTRY, first=1),
            heap_places=np.full((batch_size, num_jobs), -1, np.int32),
            outage_heap=_zeros((batch_size, failing), ENTRY, first=1),
            outage_places=np.zeros((batch_size, failing), np.int32),
            queued=np.zeros((batch_size, job_words), np.int64),
            running=np.zeros((batch_size, job_words), np.int64),
            room=np.zeros((batch_size, *sizes, node_words), np.int64),
            touched=np.zeros((batch_size, num_jobs), np.int64),
            uneven=np.zeros((batch_size, cluster.num_nodes), np.int64),
            serving=_zeros((batch_size, 1 << slots), SERVED),
            dirty=np.zeros((batch_size, cluster.num_nodes), np.int64),
            outages=np.zeros((batch_size, failing, OUTAGES, 2)),
            events=np.zeros((batch_size, 0), EVENT),
            log_shares=np.zeros((batch_size, 0), SHARE),
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
            if name not in ("events", "log_shares"):
                getattr(self, name)[...] = getattr(other, name)
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
            if name not in ("events", "log_shares"):
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
