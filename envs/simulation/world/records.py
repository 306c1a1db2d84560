"""The records of which the state of an episode is made: `numpy.record` types that fill whole cache lines."""

import math
from typing import Any

import numpy as np

from envs.simulation.compiled.jit import LINE


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


def zeros_of(shape: tuple[int, ...], record: Any, first: int = 0) -> Any:
    """Return zeros of which the record at index `first` begins a cache line. NumPy aligns arrays to 16 bytes."""
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
    ("holds", i8),  # whether jobs may be held
    ("num_held", i8),  # submitted, and not in the queue yet
    ("first_begin", i8),  # list of jobs with a begin time, by it; see envs.simulation.world.holds
    ("first_ready", i8),  # list of held jobs that wait for nothing more, ascending
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
    ("begin", f8),  # time before which it does not enter the queue
    ("unmet", i4),  # ends of other jobs and begin time for which it still waits; negative if it can never run
    ("first_edge", i4),  # list of the jobs that wait for it, in `edges`
    ("next_begin", i4),
    ("next_ready", i4),
)
COLUMNS_OF_JOB = (  # fields of JOB, and the columns of a workload from which they are filled
    *(
        ("begin", "begin_time"),
        ("submit", "submit_time"),
        ("work", "work"),
        ("remaining", "work"),
        ("saved", "work"),
        ("least", "work"),
    ),
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
