"""The reference engine: `docs/world.md` in plain Python, slow and obvious.

Tests compare the compiled engine with it, event by event and to the bit. It is also the most readable form of the
rules. The code is deliberately simple: the next instant is a minimum over all running jobs and all nodes, and shares
are objects in lists. `reference.rules` has throughput, cores, memory and contention; `reference.check` the checks.
"""

import math
from bisect import insort
from collections.abc import Iterator, Sequence
from dataclasses import replace

import numpy as np

from envs.scheduling import ClusterView
from envs.simulation.log import EventKind, EventLog
from envs.simulation.reference.beliefs import ReferenceBeliefs
from envs.simulation.reference.check import check_requested
from envs.simulation.reference.holds import earliest_begin, must_wait, note_what_they_wait_for, released, tell_end
from envs.simulation.reference.log import EventLogWriter
from envs.simulation.reference.objects import Job, JobStatus, Node, jobs_of
from envs.simulation.reference.pairs import join_owner, leave_partner, owners_after, unchanged, works_as_before
from envs.simulation.reference.predictions import ReferencePredictions
from envs.simulation.reference.progress import Progress
from envs.simulation.reference.records import limits_of_running, records_of
from envs.simulation.reference.rules import ReferenceRules
from envs.simulation.reference.snapshot import (
    assume_work,
    copy_fields,
    go_on_as_believed,
    known_to_copies,
    submitted_jobs,
    with_arrivals,
)
from envs.simulation.reference.throughputs import check_placeable
from envs.simulation.reference.view import ReferenceView, look
from envs.simulation.result import EndReason, RunResult
from envs.simulation.setup import Setup
from envs.types import Allocation, FloatArray, JobSpec, MurmurationError, Seconds
from envs.workloads import Workload

SNAPSHOT_FIELDS = ("time", "num_submitted", "num_rounds", "next_tick", "next_decision", "stalls", "ended", "in_round")


class ReferenceSimulator:
    """Simulation of one workload on one cluster, with the same arguments as `Simulator`.

    ```
    for view in simulator.rounds():
        simulator.apply(scheduler.schedule(view))
    ```

    Args:
        workload: the jobs.
        setup: the cluster, the performance model and the scenario.
        seed: for noisy estimates, the scheduler and node failures.

    Raises:
        ClusterError: a job can never run on this cluster.
        PerformanceError: a model or GPU type has no figures.
    """

    def __init__(self, workload: Workload, setup: Setup, seed: int = 0) -> None:
        cluster = setup.cluster
        self.workload, self.setup, self.cluster, self.scenario = workload, setup, cluster, setup.scenario
        noise, self._scheduler_seed, outages, samples = np.random.SeedSequence(seed).spawn(4)
        self.rules = self.shown = ReferenceRules(workload, setup)  # those of the world, and those that views show
        check_placeable(workload, self.rules.table)
        hidden, predicted = self.rules.hidden, self.scenario.information.work == "predicted"
        self.beliefs = ReferenceBeliefs(setup, workload, self.rules.table, samples) if hidden else None
        self.jobs = jobs_of(workload, self.scenario, np.random.default_rng(noise))
        self.holds = workload.waits  # whether jobs may be held
        note_what_they_wait_for(self.jobs, workload)
        alone = [self.rules.ideal_throughput(job) for job in self.jobs] if predicted else []
        self.predictions = ReferencePredictions(setup.predictor, workload, alone) if predicted else None
        self.nodes = [Node.of(i, cluster.nodes[i]) for i in range(cluster.num_nodes)]
        failures = self.scenario.failures
        self.checkpoint_interval = failures.checkpoint_interval if failures else math.inf
        self.outages: list[list[list[Seconds]]] = []  # by node and outage: seconds up, seconds down
        if failures:
            self.outages = failures.draw(cluster.num_nodes, np.random.default_rng(outages)).tolist()
            for node, spans in zip(self.nodes, self.outages, strict=True):
                node.next_change = spans[0][0]
        self.time: Seconds = 0.0
        self.num_submitted = 0
        self.num_rounds = 0
        self.next_tick: Seconds = 0.0 if self.scenario.rounds.interval else math.inf
        self.next_decision: Seconds = math.inf  # instant at which the scheduler asked for a round
        self.stalls = 0  # rounds in a row in which time could not advance by itself
        self.ended = False
        self.end_reason = EndReason.NOT_ENDED
        self.progress = Progress(self.jobs, self.scenario.rounds)
        self.active: list[Job] = []  # submitted and not done, ascending
        self.uneven: set[Node] = set()  # nodes whose cores and memory must be divided anew
        self.refed: set[Job] = set()  # jobs whose cores, memory or partner have changed, and not their throughput yet
        self.dirty: set[Node] = set()  # nodes whose jobs need new contention factors
        self.in_round = False  # whether a decision was asked for, and time has not advanced since
        self.seconds = dict.fromkeys(("running", "cpus", "memory", "network"), 0.0)  # of running jobs, by limit
        self.window_rounds, self.queue_rounds = 0, 0
        self.log_writer = EventLogWriter()

    @property
    def rng(self) -> np.random.Generator:
        """A fresh generator for the scheduler, the same for all; it must not hold the seed, which tells failures."""
        rng = np.random.default_rng(0)
        rng.bit_generator.state = np.random.default_rng(self._scheduler_seed).bit_generator.state
        return rng

    @property
    def view(self) -> ClusterView:
        """A view of the cluster at the present time."""
        return ReferenceView(self)

    @property
    def log(self) -> EventLog:
        """The events so far."""
        return self.log_writer.log()

    def rounds(self) -> Iterator[ClusterView]:
        """Yield the view at each round, until the episode ends."""
        view = self.view
        while self.advance():
            yield view

    def running(self) -> list[Job]:
        """Jobs that hold GPUs, ascending."""
        return [job for job in self.active if job.status is JobStatus.RUNNING]

    def snapshot(self, remaining: FloatArray | None = None, arrivals: Sequence[JobSpec] = ()) -> "ReferenceSimulator":
        """Return a private copy in a round, for a scheduler; see `envs.scheduling.ClusterView.snapshot`.

        Args:
            remaining: float64[num_submitted], samples left that the copy assumes; NaN takes what the scenario reveals.
            arrivals: jobs that might be submitted later; see `envs.simulation.Snapshot.add_arrivals`.

        Raises:
            MurmurationError: `remaining` is negative or has another shape.
        """
        count, knows_work = self.num_submitted, self.scenario.information.work != "none"
        assumed = np.full(count, math.nan) if remaining is None else np.asarray(remaining, np.float64)
        if assumed.shape != (count,) or (assumed < 0).any():
            raise MurmurationError(
                f"snapshot: remaining must be {count} numbers, each 0 or more, or NaN; it is {assumed}"
            )
        known = replace(self.workload, models=self.beliefs.names) if self.beliefs else self.workload
        workload = with_arrivals(submitted_jobs(known, self.jobs[:count], knows_work), arrivals)
        scenario = replace(self.scenario, failures=None, information=known_to_copies(self.scenario.information))
        copy = ReferenceSimulator(workload, replace(self.setup, scenario=scenario))
        copy.rules = copy.shown = self.shown  # they have no state, and their table covers jobs of all sizes
        for name in (*SNAPSHOT_FIELDS, "window_rounds", "queue_rounds", "end_reason"):
            setattr(copy, name, getattr(self, name))
        copy.progress.copy_from(self.progress)
        copy.seconds = dict(self.seconds)
        for node, its_node in zip(copy.nodes, self.nodes, strict=True):
            node.up = its_node.up
        for job, original in zip(copy.jobs[:count], self.jobs[:count], strict=True):
            copy_fields(job, original, copy.nodes)
            assume_work(job, copy.time, knows_work, float(assumed[job.id]))
        for job in copy.jobs[count:]:
            job.estimate = 1.0
        copy.active = [copy.jobs[job.id] for job in self.active]
        for job in copy.active:
            job.partner = None if job.partner is None else copy.jobs[job.partner.id]
        copy.uneven, copy.dirty = ({copy.nodes[n.id] for n in marked} for marked in (self.uneven, self.dirty))
        copy.refed = {copy.jobs[job.id] for job in self.refed}
        if self.beliefs is not None:
            go_on_as_believed(copy)
        return copy

    # Instants

    def advance(self) -> bool:
        """Advance time until a decision is due; return False at the end of the episode."""
        if self.in_round:
            self._close_round()
            if self.progress.has_ceased(self.jobs[: self.num_submitted], self.time, self.num_rounds):
                self._end(EndReason.NO_PROGRESS)
        while not self.ended:
            instant, tick = self._next_instant()
            if instant == math.inf or instant > self.scenario.horizon:
                stalled = self.active and self.stalls > self.scenario.rounds.max_stalls
                self._end(EndReason.STALLED if stalled and instant == math.inf else EndReason.DONE)
                break
            self._pass_time(max(self.time, instant))
            happened = self._completions() + self._node_changes() + self._arrivals()
            if tick <= self.time and self.scenario.rounds.interval:
                self.next_tick = tick + self.scenario.rounds.interval
            asked = self.next_decision <= self.time
            if asked:
                self.next_decision = math.inf
            if self.active and (tick <= self.time or asked or (happened and self.scenario.rounds.on_events)):
                self.num_rounds += 1
                self.next_decision = math.inf
                self.in_round = True
                look(self)
                return True
            self._follow_up()
        return False

    def _close_round(self) -> None:
        """Count a round that has ended, and whether it left jobs in the queue."""
        self.in_round = False
        start, end = self.workload.window
        if start <= self.time < end:
            self.window_rounds += 1
            self.queue_rounds += len(self.active) > len(self.running())
        self._follow_up()  # nothing is left to do unless the scheduler gave no allocation

    def _pass_time(self, until: Seconds) -> None:
        """Advance time, and integrate the numbers of running jobs by what limits them over the workload's window."""
        start, end = self.workload.window
        span = min(until, end) - max(self.time, start)
        if span > 0 and (self.rules.shared or self.rules.contention != "off"):
            limits = [job.limit() for job in self.running()]
            self.seconds["running"] += len(limits) * span
            for limit in ("cpus", "memory", "network"):
                self.seconds[limit] += limits.count(limit) * span
        self.time = until

    def _next_instant(self) -> tuple[Seconds, Seconds]:
        """Return the earliest next event or round, and the next tick; infinite at the end."""
        pending = self.num_submitted < len(self.jobs)
        arrival = self.jobs[self.num_submitted].spec.submit_time if pending else math.inf
        arrival = min(arrival, earliest_begin(self.jobs)) if self.holds else arrival
        finish = min((job.finish for job in self.running()), default=math.inf)
        change = min(node.next_change for node in self.nodes)
        tick = self._tick(arrival)
        if self._nothing_moves():
            if not self.active or self.stalls > self.scenario.rounds.max_stalls:
                return math.inf, math.inf
            if all(node.up for node in self.nodes) or change == math.inf:  # in a snapshot no node comes back
                if self.scenario.rounds.interval is None:
                    tick = self.time + self.scenario.rounds.stall_interval
                if tick < change:
                    self.stalls += 1
                    if self.stalls > self.scenario.rounds.max_stalls or tick >= self.scenario.horizon:
                        return math.inf, math.inf
                    return tick, tick
        return min(finish, change, arrival, tick, self.next_decision), tick

    def _nothing_moves(self) -> bool:
        """Return whether no job will end, and none will arrive."""
        ends = any(job.finish < math.inf for job in self.running())
        return (
            self.num_submitted == len(self.jobs)
            and not ends
            and not (self.holds and earliest_begin(self.jobs) < math.inf)
        )

    def _tick(self, arrival: Seconds) -> Seconds:
        """Time of the next round of the fixed interval; in an empty system, of the first one after an arrival."""
        interval = self.scenario.rounds.interval
        if interval and not self.active and arrival < math.inf:
            self.next_tick = max(self.next_tick, math.ceil(arrival / interval) * interval)
        return self.next_tick

    def _end(self, reason: EndReason) -> None:
        """End the episode; with jobs left, time advances to a finite horizon."""
        held = self.holds and any(job.status is JobStatus.PENDING for job in self.jobs[: self.num_submitted])
        if (self.active or held) and self.scenario.horizon < math.inf:
            self._pass_time(max(self.time, self.scenario.horizon))
        self.ended, self.end_reason = True, reason

    def _completions(self) -> int:
        """End all jobs that are done or have reached their time limits; return the number."""
        count = 0
        while due := [job for job in self.running() if job.finish <= self.time]:
            job = min(due, key=lambda one: (one.finish, one.id))
            at_limit = job.complete(self.time)
            self.active.remove(job)
            self._give_back(job)
            self.log_writer.job(self.time, EventKind.LIMIT if at_limit else EventKind.FINISH, job)
            tell_end(job, finished=not at_limit)
            self._no_stall()
            count += 1
        return count

    def _node_changes(self) -> int:
        """Take down and bring up all nodes that are due; return the number of changes."""
        count = 0
        while due := [node for node in self.nodes if node.next_change <= self.time]:
            node = min(due, key=lambda one: (one.next_change, one.id))
            self.stalls += self._nothing_moves()
            if node.up:
                self._go_down(node)
            else:
                self._come_back(node)
            count += 1
        return count

    def _go_down(self, node: Node) -> None:
        """Fail a node; its jobs return to the queue and to their last checkpoints."""
        node.next_change += self.outages[node.id][node.outages % len(self.outages[node.id])][1]
        self.log_writer.node(self.time, EventKind.DOWN, node)
        for job in [share.job for share in node.shares]:
            job.bring_up_to_date(self.time, self.checkpoint_interval)
            job.remaining = job.saved
            job.num_interruptions += 1
            self._give_back(job)
            job.wait()
            self.log_writer.job(self.time, EventKind.INTERRUPT, job)
        node.up = False

    def _come_back(self, node: Node) -> None:
        """Put a repaired node back into service, without jobs."""
        node.outages += 1
        node.next_change += self.outages[node.id][node.outages % len(self.outages[node.id])][0]
        node.up = True
        self.log_writer.node(self.time, EventKind.UP, node)

    def _arrivals(self) -> int:
        """Take in held jobs that wait for nothing more, and those whose submission time has come; return the number."""
        count = 0
        for job in released(self.jobs[: self.num_submitted], self.time) if self.holds else ():
            self._enter(job)
            count += 1
        while self.num_submitted < len(self.jobs) and self.jobs[self.num_submitted].spec.submit_time <= self.time:
            job = self.jobs[self.num_submitted]
            self.num_submitted += 1
            self._no_stall()
            if not must_wait(job):
                self._enter(job)
            count += 1
        return count

    def _enter(self, job: Job) -> None:
        """Put a submitted job into the queue, or end it where it can never run."""
        if job.unmeetable:
            job.leave(self.time)
            self.log_writer.job(self.time, EventKind.NEVER, job)
            tell_end(job, finished=False)
        else:
            job.status = JobStatus.QUEUED
            insort(self.active, job, key=lambda one: one.id)
            self.log_writer.job(self.time, EventKind.ARRIVE, job)
        self._no_stall()

    def _no_stall(self) -> None:
        """Reset the count of stalls after an event; without rounds on events, the next tick is the first request."""
        self.stalls = 0 if self.scenario.rounds.on_events else -1

    # A round takes effect

    def apply(self, allocation: Allocation) -> None:
        """Apply an allocation at the present time.

        Raises:
            AllocationError: it does not fit; nothing has changed then.
        """
        allocation.check_next_decision(self.time)
        requested = dict(allocation.changes)
        if not allocation.keep_running:
            for job in self.running():
                requested.setdefault(job.id, None)
        check_requested(requested, self.jobs, self.nodes, self.rules, self.time)
        owners = owners_after(requested, self.active)
        self.next_decision = allocation.next_decision
        changed = [job for job in sorted(requested) if not unchanged(self.jobs[job], requested)]
        changes = [(self.jobs[job], requested[job]) for job in changed]
        stops = [job for job, placement in changes if placement is None]
        starts = [
            (job, placement) for job, placement in changes if placement is not None and job.status is JobStatus.QUEUED
        ]
        resizes = [
            (job, placement) for job, placement in changes if placement is not None and job.status is JobStatus.RUNNING
        ]
        restarts = {job.id for job, placement in resizes if not works_as_before(job, placement, requested)}
        for job, _ in changes:
            if job.status is JobStatus.RUNNING:
                job.bring_up_to_date(self.time, self.checkpoint_interval)
                self._give_back(job)
        for placement in requested.values():
            if placement is not None and placement.plan is not None:
                self.log_writer.add_plan(placement.plan)
        for job, placement in changes:
            if placement is not None:
                job.take(placement, self.nodes)
                self.uneven.update(share.node for share in job.shares)
        for guest, owner in owners.items():
            self.refed |= join_owner(self.jobs[guest], self.jobs[owner], self.rules)
        self._divide()
        for job in stops:
            job.num_preemptions += 1
            job.wait()
            self.log_writer.job(self.time, EventKind.STOP, job)
        for job, _ in starts:
            self._start(job)
            self.log_writer.job(self.time, EventKind.START, job)
        for job, _ in resizes:
            self._resize(job, pays=job.id in restarts)
            self.log_writer.job(self.time, EventKind.RESIZE, job)
        for job, _ in changes:
            if job.partner is not None:
                self.refed |= {job, job.partner}
        self._update_throughputs()

    def _start(self, job: Job) -> None:
        """Start a waiting job on its new shares."""
        first = math.isnan(job.start)
        if first:
            job.start = self.time
        else:
            job.num_restarts += 1
        job.status = JobStatus.RUNNING
        job.served = self.time
        job.deadline = self.time + job.spec.time_limit
        self._begin(job, job.start_delay if first else job.restart_delay)
        if job.throughput > 0:
            self.stalls = 0

    def _resize(self, job: Job, *, pays: bool) -> None:
        """Continue a running job on its new shares, at once or after a restart."""
        if pays:
            job.num_restarts += 1
            self._begin(job, job.restart_delay)
        else:
            self.rules.set_throughput(job)
            self.mark(job)

    def _begin(self, job: Job, delay: Seconds) -> None:
        """Let a job process samples after the delay, from a fresh checkpoint."""
        job.synced = job.segment = self.time + delay
        job.saved = job.remaining
        self.rules.set_throughput(job)
        self.mark(job)

    # Co-located jobs

    def _give_back(self, job: Job) -> None:
        """Take all shares from a job; its partner keeps the GPUs."""
        self.mark(job)
        self.uneven.update(share.node for share in job.shares)
        job.give_back()
        self.refed |= leave_partner(job)

    def mark(self, job: Job) -> None:
        """Mark the nodes of a job that comes or goes, if it affects the other jobs there."""
        mode = self.rules.contention
        if mode == "worst_case" or (mode in ("measured", "max_min") and job.traffic > 0):
            self.dirty.update(share.node for share in job.shares)

    def _follow_up(self) -> None:
        """End an instant after which no decision takes effect."""
        self._divide()
        self._update_throughputs()

    def _divide(self) -> None:
        """Divide the cores and memory of all nodes whose jobs have changed."""
        for node in self.uneven if self.rules.shared else ():
            self.refed |= self.rules.divide(node)
        self.uneven.clear()

    def _update_throughputs(self) -> None:
        """Recompute the throughput of jobs with other cores or memory, and of all jobs on nodes with other traffic."""
        self.refed = {job for job in self.refed if job.status is JobStatus.RUNNING}
        for job in self.refed:
            traffic = job.traffic
            self.rules.feed(job)
            if job.traffic != traffic:
                self.dirty.update(share.node for share in job.shares)
        for node in self.dirty:
            self.rules.share_node(node)
        for job in self.running():
            if job in self.refed or any(share.node in self.dirty for share in job.shares):
                throughput = job.throughput_under_contention()
                if throughput != job.throughput:
                    job.bring_up_to_date(self.time, self.checkpoint_interval)
                    job.run_at(throughput)
        self.dirty.clear()
        self.refed.clear()

    def result(
        self, scheduler: str, decision_seconds: float = 0.0, counters: dict[str, int] | None = None
    ) -> RunResult:
        """The result of the run so far.

        Raises:
            ConservationError: jobs were lost.
        """
        records, limit_times = records_of(self.jobs[: self.num_submitted], self.workload, self.rules, self.time)
        result = RunResult(
            scheduler,
            self.workload,
            self.cluster,
            records,
            self.log,
            self.time,
            self.num_rounds,
            decision_seconds,
            counters or {},
            limits_of_running(self),
            self.end_reason,
            self.progress.progress_time,
            limit_times,
        )
        result.check_conservation()
        return result
