"""Recompute a run from its event log: order, capacity, GPU-seconds and work. A result that cannot be is refused.

The checks share no code with the engines beyond the performance model and the format of the log. They take a few
operations on arrays per run, so that every run of a comparison is checked.
"""

from dataclasses import dataclass
from typing import Any, NoReturn

import numpy as np
import numpy.typing as npt

from envs.metrics.timeline import counted_once, owner_leaves, segments, step_function
from envs.performance import find_throughput
from envs.simulation import EndReason, EventKind, RunResult, Scenario, Setup
from envs.simulation.world.throughput import level_nodes, node_level
from envs.types import BoolArray, Configuration, ExecutionPlan, FloatArray, ImpossibleResultError, IntArray, plain_type
from envs.types.dependency import NOT_OK, OK
from envs.workloads import Workload
from envs.workloads.classes import classes_of

TOLERANCE = 1e-9  # relative, of work and GPU-seconds: rounding of sums over a run
PLACING = (EventKind.START, EventKind.RESIZE)  # after these a job holds GPUs
WAITING = (EventKind.ARRIVE, EventKind.STOP, EventKind.INTERRUPT)  # after these it waits

STAY = np.dtype(
    [
        ("job", np.int64),
        ("start", np.float64),  # seconds
        ("end", np.float64),
        ("delay", np.float64),  # seconds without progress at its beginning
        ("first", np.bool_),  # whether the job starts for the first time
        ("event", np.int64),  # row of the event that began it
    ]
)


@dataclass(frozen=True, slots=True)
class AuditCounts:
    """How much an audit has checked."""

    events: int
    jobs: int
    placements: int  # distinct ones, whose throughput the performance model was asked for


class Audit:
    """Checks of runs in one setup; it remembers the throughputs that it asked the performance model for.

    What is checked of each run:

    - order: time never falls, every job arrives, starts, changes and ends in an order that the rules allow, and the
      records say the same as the log;
    - capacity: at no instant do jobs hold more GPUs of a node than it has, and none of a node that is down;
    - entries: each job enters the queue when it is submitted, or once its begin time has come and the jobs on which it
      depends have ended; it leaves then if its dependency can no longer be met;
    - limits: no job holds GPUs longer than its time limit allows, and those that end at it have held them for as long;
    - queues: at no instant do the jobs of a queue hold more GPUs than its limits allow;
    - GPU-seconds: the attained service of each job is the sum over the log of GPUs times time;
    - work: a finished job had its placements for long enough to process its samples at the throughput alone. Where
      nothing slows a placement down (no shared cores or memory, contention or failures), the samples are exactly the
      job's, and no unfinished job has processed more than its work.

    Args:
        setup: the cluster, the performance model and the scenario of the runs.
    """

    def __init__(self, setup: Setup) -> None:
        self.setup = setup
        scenario = setup.scenario
        alone = scenario.contention.mode == "off" and scenario.sharing == "off"
        self.exact = scenario.cpu_memory == "unlimited" and alone and not scenario.failures
        self._batches = scenario.offered_batches(setup.performance)
        self._known: dict[tuple[Any, ...], float] = {}

    def check(self, result: RunResult) -> AuditCounts:
        """Check one run.

        Returns:
            How much was checked.

        Raises:
            ImpossibleResultError: the result cannot be; names scheduler, workload, job or node, and both figures.
        """
        check_order(result)
        check_capacity(result)
        check_service(result)
        check_limits(result)
        check_queue_limits(result, self.setup.scenario)
        placements = self.check_work(result)
        return AuditCounts(len(result.log), len(result.records), placements)

    def check_work(self, result: RunResult) -> int:
        """Check the samples of every job; return the number of distinct placements.

        Raises:
            ImpossibleResultError: a job finished too early, or where progress is exact, too late.
        """
        found = stays(result, *self.setup.scenario.delays(result.workload.models))
        throughputs, count = self._throughputs(result, found["event"])
        seconds = np.maximum(found["end"] - found["start"] - found["delay"], 0.0)
        done = np.bincount(found["job"], seconds * throughputs, minlength=len(result.records))
        work: FloatArray = result.workload.jobs["work"][result.records["job"]]
        # The clock has a resolution: of a short job late in a long run, some samples are lost in rounding.
        fastest = np.zeros(len(work))
        np.maximum.at(fastest, found["job"], throughputs)
        allowed = TOLERANCE * work + fastest * 8 * np.spacing(result.end_time) + 1e-12
        too_early = result.finished & (done < work - allowed)
        if too_early.any():
            _refuse(result, too_early, "finished with work for {0:g} samples in its placements, not {1:g}", done, work)
        beyond = done > work + allowed
        if self.exact and beyond.any():
            _refuse(result, beyond, "processed {0:g} samples, more than its work, {1:g}", done, work)
        _compare(result, "num_restarts", np.bincount(found["job"][~found["first"]], minlength=len(work)))
        return count

    def _throughputs(self, result: RunResult, rows: IntArray) -> tuple[FloatArray, int]:
        """Return float64[n], samples/s alone of the placements after these events, and how many are distinct."""
        log, workload, cluster = result.log, result.workload, self.setup.cluster
        events = log.events[rows]
        owner, shares = expand_shares(log, rows)
        by_type = np.zeros((len(rows), len(cluster.gpu_types)), np.int64)
        np.add.at(by_type, (owner, cluster.node_types[shares["node"]]), shares["gpus"])
        model = workload.jobs["model"][events["job"]]
        key = np.column_stack([model, events["num_shares"], events["plan"], events["batch_size"], by_type])
        distinct, which = classes_of(key)
        values = np.array([self._throughput(workload, log.plans, row) for row in distinct.tolist()])
        return values[which] if len(values) else np.zeros(0), len(distinct)

    def _throughput(self, workload: Workload, plans: tuple[ExecutionPlan, ...], row: list[int]) -> float:
        """Useful samples/s of GPUs by type on a number of nodes, with ample cores, memory and links."""
        model, nodes, plan, batch, *by_type = row
        name, named = workload.models[model], plans[plan] if plan >= 0 else None
        known = (name, nodes, named, batch, *by_type)
        if known not in self._known:
            self._known[known] = self._ask(name, nodes, named, batch, by_type)
        return self._known[known]

    def _ask(self, model: str, nodes: int, plan: ExecutionPlan | None, batch: int, by_type: list[int]) -> float:
        count = sum(by_type)
        counted = {nodes} if plan or batch else {min(level_nodes(node_level(nodes)), count)}
        if self.setup.scenario.cpu_memory == "shared":  # a placement that names cores is priced by its true nodes
            counted.add(nodes)
        found = []
        for on in counted:
            configurations = [
                (gpus, Configuration(name, count, on, batch_size=batch or None, plan=plan))
                for name, gpus in zip(self.setup.cluster.gpu_types, by_type, strict=True)
                if gpus
            ]
            alone = [(gpus, find_throughput(self.setup.performance, model, each)) for gpus, each in configurations]
            slowest = min(throughput for _, throughput in alone)
            shared = slowest == 0.0 or self.setup.scenario.worker_shares == "equal"
            found.append(slowest if shared else sum(gpus * throughput for gpus, throughput in alone) / count)
        return max(found) * self._batches.efficiency(model, count, batch or None)


def check_order(result: RunResult) -> None:
    """Check the order of events, and that the records agree with the log.

    Raises:
        ImpossibleResultError: they do not; names the job.
    """
    events = result.log.events
    if len(events) and ((np.diff(events["time"]) < 0).any() or events["time"][-1] > result.end_time):
        raise _error(result, "time runs backwards, or events lie after the end")
    own = events[events["job"] >= 0]
    own = own[np.argsort(own["job"], kind="stable")]
    first = np.ones(len(own), np.bool_)
    first[1:] = own["job"][1:] != own["job"][:-1]
    before = np.concatenate([[-1], own["kind"][:-1]])
    waits, runs = np.isin(before, WAITING), np.isin(before, PLACING)
    arrival, start = np.isin(own["kind"], (EventKind.ARRIVE, EventKind.NEVER)), own["kind"] == EventKind.START
    wrong = np.where(first, ~arrival, np.where(start, ~waits, ~runs | arrival))
    if wrong.any():
        place = int(np.flatnonzero(wrong)[0])
        name = EventKind(int(own["kind"][place])).name
        raise _error(result, f"job {own['job'][place]} has a {name} at t = {own['time'][place]:g} s out of order")
    _check_records(result, own, first)


def _check_records(result: RunResult, own: npt.NDArray[np.void], first: BoolArray) -> None:
    """Compare times and counts of the records with the log: `own` has the events by job, `first` marks arrivals."""
    records, count = result.records, len(result.records)
    entered, (expected, never) = own["job"][first], entry_times(result)
    # After its last event a run that was given up lets no job enter, up to its horizon.
    until = result.end_time if result.end_reason is EndReason.DONE else result.log.events["time"].max(initial=-np.inf)
    if not np.array_equal(entered, np.flatnonzero(expected <= until)) or not np.array_equal(
        records["job"], np.arange(count)
    ):
        raise _error(result, f"{len(entered)} jobs arrive in the log, {count} have a record")
    submitted = result.workload.jobs["submit_time"][:count]
    for name, times, wanted in (
        ("log", own["time"][first], expected[entered]),
        ("record", records["submit_time"], submitted),
    ):
        late = times != wanted
        if late.any():
            at = int(np.flatnonzero(late)[0])
            job = entered[at] if name == "log" else at
            raise _error(result, f"job {job} is submitted at {wanted[at]:g} s, its {name} says {times[at]:g} s")
    if not np.array_equal(own["kind"][first] == EventKind.NEVER, never[entered]):
        raise _error(result, "other jobs leave without having run than those whose dependencies can no longer be met")
    for name, event in (("start_time", EventKind.START), ("finish_time", EventKind.FINISH)):
        rows = own[own["kind"] == event][::-1]  # of several starts the first is written last
        times = np.full(count, np.nan)
        times[rows["job"]] = rows["time"]
        _compare(result, name, times)
    at_limit = np.zeros(count, np.bool_)
    at_limit[own["job"][own["kind"] == EventKind.LIMIT]] = True
    if not np.array_equal(at_limit, result.at_limit):
        raise _error(result, "its log and its records name different jobs that ended at their time limits")
    if not np.array_equal(np.flatnonzero(result.never_ran), np.sort(own["job"][own["kind"] == EventKind.NEVER])):
        raise _error(result, "its log and its records name different jobs that left without having run")
    for name, event in (("num_preemptions", EventKind.STOP), ("num_interruptions", EventKind.INTERRUPT)):
        _compare(result, name, np.bincount(own["job"][own["kind"] == event], minlength=count))


def entry_times(result: RunResult) -> tuple[FloatArray, BoolArray]:
    """Recompute from the ends of jobs in the log when each job entered the queue, or left without having run.

    Returns:
        float64[num_records], in seconds; infinite for a job that waits for one that has not ended. bool[num_records]:
        whether a dependency could no longer be met then.
    """
    events, jobs, count = result.log.events, result.workload.jobs, len(result.records)
    ends, how = np.full(len(jobs), np.inf), np.zeros(len(jobs), np.int64)
    for end in (EventKind.FINISH, EventKind.LIMIT, EventKind.NEVER):
        rows = events[events["kind"] == end]
        ends[rows["job"]], how[rows["job"]] = rows["time"], OK if end is EventKind.FINISH else NOT_OK
    entered = np.maximum(jobs["submit_time"], jobs["begin_time"])
    lost = np.full(len(jobs), np.inf)
    for job, on, met_by in result.workload.dependencies:
        if np.isinf(ends[on]) or met_by & how[on]:
            entered[job] = max(entered[job], ends[on])
        else:
            lost[job] = min(lost[job], ends[on])
    never = lost < np.inf
    return np.where(never, np.maximum(jobs["submit_time"], lost), entered)[:count], never[:count]


def check_capacity(result: RunResult) -> None:
    """Check that jobs hold at most the GPUs of each node at every instant, and none while it is down.

    GPUs that two jobs share count once; that they hold the same is checked too.

    Raises:
        ImpossibleResultError: they do not; names node, time and both figures, or both jobs.
    """
    both = segments(result.log, result.end_time)
    check_pairs(result, both)
    held = counted_once(both)
    down = _down(result)
    node = np.concatenate([held["node"], held["node"], down["node"], down["node"]])
    time = np.concatenate([held["start"], held["end"], down["start"], down["end"]])
    change = np.concatenate([held["gpus"], -held["gpus"], down["gpus"], -down["gpus"]])
    if not len(node):
        return
    order = np.lexsort((change, time, node))  # within an instant GPUs are released first
    total = np.cumsum(change[order])  # every node ends with 0, so that the next one begins with 0
    over = (total > result.cluster.node_gpus[node[order]]) | (total < 0) | (change[order] == 0)
    if over.any():
        place = order[np.flatnonzero(over)[0]]
        has, gpus = result.cluster.node_gpus[node[place]], int(total[np.flatnonzero(over)[0]])
        raise _error(
            result, f"node {node[place]} has {has} GPUs, and jobs or outages hold {gpus} at t = {time[place]:g} s"
        )


def check_pairs(result: RunResult, held: npt.NDArray[np.void]) -> None:
    """Check that a job that shares another one's GPUs holds the same as that one, and that no third job does.

    Args:
        result: the run.
        held: its segments.

    Raises:
        ImpossibleResultError: that is not so; names the jobs and the time.
    """
    guests = held[held["beside"] >= 0]
    order = np.lexsort((guests["start"], guests["node"], guests["beside"]))
    sorted_guests = guests[order]
    same = (sorted_guests["beside"][1:] == sorted_guests["beside"][:-1]) & (
        sorted_guests["node"][1:] == sorted_guests["node"][:-1]
    )
    third = same & (sorted_guests["start"][1:] < sorted_guests["end"][:-1])
    if third.any():
        row = sorted_guests[1:][third][0]
        raise _error(result, f"job {row['job']} is the third on GPUs of job {row['beside']} at t = {row['start']:g} s")
    of_owner: dict[tuple[int, int], list[Any]] = {}
    owners = held[np.isin(held["job"], np.unique(guests["beside"])) & (held["beside"] < 0)]
    for row in owners:
        of_owner.setdefault((int(row["job"]), int(row["node"])), []).append(row)
    for guest in guests:
        its = of_owner.get((int(guest["beside"]), int(guest["node"])), [])
        covered = sum(
            min(row["end"], guest["end"]) - max(row["start"], guest["start"])
            for row in its
            if row["gpus"] == guest["gpus"] and row["start"] < guest["end"] and row["end"] > guest["start"]
        )
        if not np.isclose(covered, guest["end"] - guest["start"], rtol=1e-9, atol=1e-9):
            raise _error(
                result,
                f"job {guest['job']} shares GPUs of node {guest['node']} from t = {guest['start']:g} s with job "
                f"{guest['beside']}, which does not hold the same",
            )


def _down(result: RunResult) -> npt.NDArray[np.void]:
    """Return the outages of nodes in the form of `segments`; the GPUs are all of the node's."""
    events = result.log.events
    rows = np.flatnonzero(np.isin(events["kind"], (EventKind.DOWN, EventKind.UP)))
    nodes = result.log.shares["node"][events["first_share"][rows]]
    order = np.argsort(nodes, kind="stable")
    rows, nodes = rows[order], nodes[order]
    until = np.full(len(rows), result.end_time)
    same = nodes[1:] == nodes[:-1]
    until[:-1][same] = events["time"][rows[1:]][same]
    fails = events["kind"][rows] == EventKind.DOWN
    found = np.zeros(int(fails.sum()), [("node", np.int64), ("gpus", np.int64), ("start", float), ("end", float)])
    found["node"], found["start"], found["end"] = nodes[fails], events["time"][rows][fails], until[fails]
    found["gpus"] = result.cluster.node_gpus[nodes[fails]]
    return found[found["end"] > found["start"]]


def check_service(result: RunResult) -> None:
    """Check that the attained service of every job is GPUs x time held, as the log has it.

    Raises:
        ImpossibleResultError: it is not; names the job and both figures.
    """
    held = segments(result.log, result.end_time)
    amounts = (held["end"] - held["start"]) * held["gpus"]
    service = np.bincount(held["job"], amounts, minlength=len(result.records))
    recorded: FloatArray = result.records["attained_service"]
    gpus = result.cluster.num_gpus
    wrong = ~np.isclose(service, recorded, rtol=TOLERANCE, atol=16 * gpus * np.spacing(result.end_time) + 1e-9)
    if wrong.any():
        _refuse(result, wrong, "held GPUs for {0:g} GPU-seconds, its record says {1:g}", service, recorded)


def check_limits(result: RunResult) -> None:
    """Check that jobs leave their GPUs by their time limits, which count from the start after each wait.

    Raises:
        ImpossibleResultError: they do not; names the job and both figures.
    """
    if not (result.workload.limited or result.at_limit.any()):
        return
    events = result.log.events
    own = events[np.isin(events["kind"], (EventKind.RESIZE, EventKind.DOWN, EventKind.UP), invert=True)]
    own = own[np.argsort(own["job"], kind="stable")]
    starts = np.flatnonzero(own["kind"] == EventKind.START)
    following = np.minimum(starts + 1, len(own) - 1)
    ends = (following > starts) & (own["job"][following] == own["job"][starts])
    jobs = own["job"][starts]
    left = np.where(ends, own["time"][following], result.end_time)
    limit = result.workload.jobs["time_limit"][jobs]
    deadline = np.where(limit > 0, own["time"][starts] + limit, np.inf)
    at_limit = ends & (own["kind"][following] == EventKind.LIMIT)
    regular = ends | (result.end_reason == EndReason.DONE)  # a run that was given up lets no job end up to its horizon
    wrong = (regular & (left > deadline)) | (at_limit & (left != deadline))
    if wrong.any():
        place = int(np.flatnonzero(wrong)[0])
        raise _error(
            result,
            f"job {jobs[place]} held GPUs from t = {own['time'][starts[place]]:g} to {left[place]:g} s, with a time "
            f"limit of {limit[place]:g} s",
        )


def check_queue_limits(result: RunResult, scenario: Scenario) -> None:
    """Check that the jobs of each queue, and of those below it, never hold more GPUs than they may.

    Raises:
        ImpossibleResultError: they do; names queue, time and both figures.
    """
    if not scenario.queue_limits:
        return
    held = segments(result.log, result.end_time)
    paths = {queue.split("/")[-1]: f"{queue}/" for queue in scenario.queue_limits}
    paths |= {queue: f"{queue}/" for queue in scenario.queue_limits}
    own = np.array([paths.get(tenant, "") for tenant in result.workload.tenants])
    of = own[result.workload.jobs["tenant"][held["job"]]]
    types = np.array([plain_type(node.gpu_type) for node in result.cluster.nodes])[held["node"]]
    for queue, row in scenario.queue_limits.items():
        for gpu_type, most in row.items():
            mine = held[np.char.startswith(of, f"{queue}/") & ((types == gpu_type) | (gpu_type == "all"))]
            jumps = np.concatenate([mine["gpus"], -mine["gpus"]])
            times, total = step_function(np.concatenate([mine["start"], mine["end"]]), jumps)
            if (total > most).any():
                place = int(np.argmax(total > most))
                raise _error(
                    result,
                    f"queue {queue} holds {total[place]} GPUs ({gpu_type}) at t = {times[place]:g} s, not {most}",
                )


def stays(result: RunResult, start_delays: FloatArray, restart_delays: FloatArray) -> npt.NDArray[np.void]:
    """Return the intervals in which jobs kept their GPUs, plan and batch size (dtype `STAY`), by job and time.

    A RESIZE that changes only cores or memory costs no time, so it continues the interval before it.

    Args:
        result: the run.
        start_delays: float64[num_models], seconds to the first sample after a first start.
        restart_delays: float64[num_models], the same after later starts and changes.
    """
    events = result.log.events
    rows = np.flatnonzero(events["job"] >= 0)
    rows = rows[np.argsort(events["job"][rows], kind="stable")]
    job, after = events["job"][rows], events["kind"][rows]
    until = np.full(len(rows), result.end_time)
    until[:-1] = np.where(job[1:] == job[:-1], events["time"][rows[1:]], result.end_time)
    places = np.isin(after, PLACING)
    begins = places & ~_continues(result, rows)
    ends = until.copy()
    kept = np.flatnonzero(places)
    group = np.cumsum(begins[kept]) - 1
    np.maximum.at(ends, kept[begins[kept]][group], until[kept])
    found = np.zeros(int(begins.sum()), STAY)
    found["job"], found["event"] = job[begins], rows[begins]
    found["start"], found["end"] = events["time"][rows][begins], ends[begins]
    found["first"][:1] = True
    found["first"][1:] = found["job"][1:] != found["job"][:-1]
    model = result.workload.jobs["model"][found["job"]]
    found["delay"] = np.where(found["first"], start_delays[model], restart_delays[model])
    return found


def _continues(result: RunResult, rows: IntArray) -> BoolArray:
    """Return which of these events, sorted by job, are a RESIZE to the GPUs, plan and batch size held before.

    A job that joins another one, or leaves one that stays, moves to other GPUs.
    """
    events, shares = result.log.events, result.log.shares
    before, now = events[rows[:-1]], events[rows[1:]]
    same = (now["kind"] == EventKind.RESIZE) & (now["job"] == before["job"])
    for name in ("plan", "batch_size", "num_shares"):
        same &= now[name] == before[name]
    for place in np.flatnonzero(same).tolist():
        old, new = int(before["first_share"][place]), int(now["first_share"][place])
        count = int(now["num_shares"][place])
        old_shares, new_shares = shares[old : old + count], shares[new : new + count]
        same[place] = all(np.array_equal(old_shares[name], new_shares[name]) for name in ("node", "gpus"))
        owner, other = int(before["beside"][place]), int(now["beside"][place])
        if owner >= 0:
            alone = owner_leaves(result.log, int(rows[place])) <= now["time"][place]
            same[place] &= alone if other < 0 else owner == other and not alone
        else:
            same[place] &= other < 0
    found = np.zeros(len(rows), np.bool_)
    found[1:] = same
    return found


def expand_shares(log: Any, rows: IntArray) -> tuple[IntArray, npt.NDArray[np.void]]:
    """Return the shares of these events, and for each share the index into `rows` of its event."""
    counts = log.events["num_shares"][rows]
    owner = np.repeat(np.arange(len(rows)), counts)
    within = np.arange(len(owner)) - np.repeat(np.cumsum(counts) - counts, counts)
    return owner, log.shares[log.events["first_share"][rows][owner] + within]


def _compare(result: RunResult, name: str, logged: npt.NDArray[Any]) -> None:
    """Compare a column of the records with what the log says."""
    recorded = result.records[name]
    wrong = ~((recorded == logged) | (np.isnan(recorded) & np.isnan(logged)))
    if wrong.any():
        _refuse(result, wrong, f"has {name} {{0:g}} in the log and {{1:g}} in its record", logged, recorded)


def _refuse(result: RunResult, wrong: BoolArray, what: str, *figures: npt.NDArray[Any]) -> NoReturn:
    """Raise the error for the first wrong job."""
    place = int(np.flatnonzero(wrong)[0])
    job = int(result.records["job"][place])
    raise _error(result, f"job {job} {what.format(*(float(figure[place]) for figure in figures))}")


def _error(result: RunResult, what: str) -> ImpossibleResultError:
    return ImpossibleResultError(
        f"{result.scheduler} on {result.workload.name}: the result cannot be: {what}. Either the scheduler has changed "
        "the simulator's state, or the performance model does not always give the same answer, or this is a bug"
    )
