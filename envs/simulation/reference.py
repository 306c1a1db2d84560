"""The reference engine: `docs/world.md` in plain Python, slow and obvious.

It is the oracle that the compiled engine is compared with, event by event and to the bit, and a place to read what the
world does. Nothing is clever here: the next instant is a minimum over all running jobs and all nodes, shares are
objects in lists. Speed, cores, memory and neighbours are in `reference_rules`, what is refused in `reference_check`.
"""

import math
from collections.abc import Iterator

import numpy as np

from envs.performance import PerformanceModel
from envs.scheduling import ClusterView
from envs.simulation.log import EventKind, EventLog
from envs.simulation.reference_check import check_wishes
from envs.simulation.reference_log import Diary
from envs.simulation.reference_objects import Job, Life, Node
from envs.simulation.reference_rules import Rules, rate_among_neighbours
from envs.simulation.reference_view import ReferenceView
from envs.simulation.result import RECORD, RunResult
from envs.simulation.scenario import OUTAGES, Scenario
from envs.simulation.simulator import check_runnable
from envs.types import Allocation, ClusterSpec, Seconds
from envs.workloads import Workload


class ReferenceSimulator:
    """Plays one workload on one cluster, as `Simulator` does and with the same arguments.

    ```
    for view in simulator.rounds():
        simulator.apply(scheduler.schedule(view))
    ```

    Args:
        workload: the jobs.
        cluster: the nodes.
        performance: how fast jobs run.
        scenario: the rules.
        seed: of noisy estimates, of the scheduler's randomness and of the nodes' outages.

    Raises:
        ClusterError: a job can never run on this cluster.
        PerformanceError: a model or GPU type has no figures.
    """

    def __init__(
        self,
        workload: Workload,
        cluster: ClusterSpec,
        performance: PerformanceModel,
        scenario: Scenario | None = None,
        seed: int = 0,
    ) -> None:
        self.workload, self.cluster, self.scenario = workload, cluster, scenario or Scenario()
        noise, self._scheduler_seed, outages = np.random.SeedSequence(seed).spawn(3)
        self.rules = Rules(workload, cluster, performance, self.scenario)
        check_runnable(workload, cluster, self.rules.table)
        self.jobs = _jobs(workload, self.scenario, np.random.default_rng(noise))
        self.nodes = [Node.of(i, cluster.nodes[i]) for i in range(cluster.num_nodes)]
        failures = self.scenario.failures
        self.checkpoint_interval = failures.checkpoint_interval if failures else math.inf
        self.outages: list[list[list[Seconds]]] = []  # by node and outage: seconds up, seconds down
        if failures:
            self.outages = failures.draw(cluster.num_nodes, np.random.default_rng(outages)).tolist()
            for node, draws in zip(self.nodes, self.outages, strict=True):
                node.next_change = draws[0][0]
        self.time: Seconds = 0.0
        self.num_submitted = 0
        self.num_rounds = 0
        self.next_tick: Seconds = 0.0 if self.scenario.rounds.interval else math.inf
        self.stalls = 0  # rounds in a row in which time could not advance by itself
        self.ended = False
        self.active: list[Job] = []  # submitted and not done, ascending
        self.dirty: set[Node] = set()  # nodes whose neighbours are to be re-rated
        self.diary = Diary()

    @property
    def rng(self) -> np.random.Generator:
        """A fresh generator for the scheduler, the same for every scheduler on the same seed."""
        return np.random.default_rng(self._scheduler_seed)

    @property
    def view(self) -> ClusterView:
        """The cluster as it stands."""
        return ReferenceView(self)

    @property
    def log(self) -> EventLog:
        """The events so far."""
        return self.diary.log()

    def rounds(self) -> Iterator[ClusterView]:
        """Views at which a decision is due, until the episode ends."""
        view = self.view
        while self.advance():
            yield view

    def running(self) -> list[Job]:
        """Jobs that hold GPUs, ascending."""
        return [job for job in self.active if job.life is Life.RUNNING]

    # Instants

    def advance(self) -> bool:
        """Let time pass until a decision is due; False at the end of the episode."""
        while not self.ended:
            instant, tick = self._next_instant()
            if instant == math.inf or instant > self.scenario.horizon:
                self._end()
                break
            self.time = max(self.time, instant)
            happened = self._completions() + self._node_changes() + self._arrivals()
            if tick <= self.time and self.scenario.rounds.interval:
                self.next_tick = tick + self.scenario.rounds.interval
            if self.active and (tick <= self.time or (happened and self.scenario.rounds.on_events)):
                self.num_rounds += 1
                return True
        return False

    def _next_instant(self) -> tuple[Seconds, Seconds]:
        """The earliest of what will happen, and of that the next time to ask without an event; infinite at the end."""
        pending = self.num_submitted < len(self.jobs)
        arrival = self.jobs[self.num_submitted].spec.submit_time if pending else math.inf
        finish = min((job.finish for job in self.running()), default=math.inf)
        change = min(node.next_change for node in self.nodes)
        tick = self._tick(arrival)
        if self._nothing_moves():
            if not self.active or self.stalls > self.scenario.rounds.max_stalls:
                return math.inf, math.inf
            if all(node.up for node in self.nodes):
                if self.scenario.rounds.interval is None:
                    tick = self.time + self.scenario.rounds.stall_interval
                if tick < change:
                    self.stalls += 1
                    if self.stalls > self.scenario.rounds.max_stalls or tick >= self.scenario.horizon:
                        return math.inf, math.inf
        return min(finish, change, arrival, tick), tick

    def _nothing_moves(self) -> bool:
        """Whether no job will end and none will come."""
        return self.num_submitted == len(self.jobs) and all(job.finish == math.inf for job in self.running())

    def _tick(self, arrival: Seconds) -> Seconds:
        """The next round of the fixed interval; while the system is empty, the first one that has jobs to decide on."""
        interval = self.scenario.rounds.interval
        if interval and not self.active and arrival < math.inf:
            self.next_tick = max(self.next_tick, math.ceil(arrival / interval) * interval)
        return self.next_tick

    def _end(self) -> None:
        """Stop the clock: at the horizon if jobs are left and there is one."""
        if self.active and self.scenario.horizon < math.inf:
            self.time = max(self.time, self.scenario.horizon)
        self.ended = True

    def _completions(self) -> int:
        """Jobs whose predicted end has come leave the system; return how many."""
        count = 0
        while due := [job for job in self.running() if job.finish <= self.time]:
            job = min(due, key=lambda one: (one.finish, one.id))
            job.service = job.service_at(self.time)
            job.life = Life.DONE
            job.remaining = job.rate = 0.0
            self.active.remove(job)
            self._give_back(job)
            self.diary.job(self.time, EventKind.FINISH, job)
            self._re_rate()
            self._no_stall()
            count += 1
        return count

    def _node_changes(self) -> int:
        """Nodes whose time has come go down or come back; return how many changes."""
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
        """A node fails; its jobs go back to the queue and to their last checkpoints."""
        node.next_change += self.outages[node.id][node.outages % OUTAGES][1]
        self.diary.node(self.time, EventKind.DOWN, node)
        for job in [share.job for share in node.shares]:
            job.bring_up_to_date(self.time, self.checkpoint_interval)
            job.remaining = job.saved
            job.num_interruptions += 1
            self._give_back(job)
            job.wait()
            self.diary.job(self.time, EventKind.INTERRUPT, job)
        node.up = False
        self._re_rate()

    def _come_back(self, node: Node) -> None:
        """A node is there again, empty."""
        node.outages += 1
        node.next_change += self.outages[node.id][node.outages % OUTAGES][0]
        node.up = True
        self.diary.node(self.time, EventKind.UP, node)

    def _arrivals(self) -> int:
        """Jobs whose time of submission has come are queued; return how many."""
        before = self.num_submitted
        while self.num_submitted < len(self.jobs) and self.jobs[self.num_submitted].spec.submit_time <= self.time:
            job = self.jobs[self.num_submitted]
            job.life = Life.QUEUED
            self.active.append(job)
            self.num_submitted += 1
            self.diary.job(self.time, EventKind.ARRIVE, job)
            self._no_stall()
        return self.num_submitted - before

    def _no_stall(self) -> None:
        """There is something new to decide on, at once or at the next tick, which then asks for the first time."""
        self.stalls = 0 if self.scenario.rounds.on_events else -1

    # A round takes effect

    def apply(self, allocation: Allocation) -> None:
        """Let an allocation take effect at the present instant.

        Raises:
            AllocationError: it does not fit; nothing has changed then.
        """
        wishes = dict(allocation.changes)
        if not allocation.keep_running:
            for job in self.running():
                wishes.setdefault(job.id, None)
        check_wishes(wishes, self.jobs, self.nodes, self.rules, self.time)
        changes = [(self.jobs[job], wishes[job]) for job in sorted(wishes) if not self.jobs[job].satisfies(wishes[job])]
        stops = [job for job, wish in changes if wish is None]
        starts = [(job, wish) for job, wish in changes if wish is not None and job.life is Life.QUEUED]
        resizes = [(job, wish) for job, wish in changes if wish is not None and job.life is Life.RUNNING]
        restarts = {job.id for job, wish in resizes if not job.works_as(wish)}
        for job, _ in changes:
            if job.life is Life.RUNNING:
                job.bring_up_to_date(self.time, self.checkpoint_interval)
                self._give_back(job)
        for wish in wishes.values():
            if wish is not None and wish.plan is not None:
                self.diary.knows(wish.plan)
        for job, wish in changes:
            if wish is not None:
                job.take(wish, self.nodes, hand_out=self.rules.shared)
        self.rules.hand_out(job for job, wish in changes if wish is not None)
        for job in stops:
            job.num_preemptions += 1
            job.wait()
            self.diary.job(self.time, EventKind.STOP, job)
        for job, _ in starts:
            self._start(job)
            self.diary.job(self.time, EventKind.START, job)
        for job, _ in resizes:
            self._resize(job, pays=job.id in restarts)
            self.diary.job(self.time, EventKind.RESIZE, job)
        self._re_rate()

    def _start(self, job: Job) -> None:
        """A waiting job begins to run on its new shares."""
        first = math.isnan(job.start)
        if first:
            job.start = self.time
        else:
            job.num_restarts += 1
        job.life = Life.RUNNING
        job.served = self.time
        self._begin(job, job.start_delay if first else job.restart_delay)
        if job.rate > 0:
            self.stalls = 0

    def _resize(self, job: Job, *, pays: bool) -> None:
        """A running job goes on with its new shares, at once or after a restart."""
        if pays:
            job.num_restarts += 1
            self._begin(job, job.restart_delay)
        else:
            self.rules.set_speed(job)
            self._mark(job)

    def _begin(self, job: Job, delay: Seconds) -> None:
        """Process samples from the end of the delay on, with a checkpoint behind."""
        job.synced = job.segment = self.time + delay
        job.saved = job.remaining
        self.rules.set_speed(job)
        self._mark(job)

    # Neighbours

    def _give_back(self, job: Job) -> None:
        """Take all shares from a job."""
        self._mark(job)
        job.give_back()

    def _mark(self, job: Job) -> None:
        """Remember the nodes of a job that comes or goes, if others there will notice."""
        mode = self.rules.contention
        if mode == "worst_case" or (mode == "measured" and job.traffic > 0):
            self.dirty.update(share.node for share in job.shares)

    def _re_rate(self) -> None:
        """Let the jobs on nodes whose neighbourhood changed go on at their new speed."""
        for node in self.dirty:
            self.rules.share_node(node)
        for job in self.running():
            if any(share.node in self.dirty for share in job.shares):
                rate = rate_among_neighbours(job)
                if rate != job.rate:
                    job.bring_up_to_date(self.time, self.checkpoint_interval)
                    job.run_at(rate)
        self.dirty.clear()

    def result(
        self, scheduler: str, decision_seconds: float = 0.0, counters: dict[str, int] | None = None
    ) -> RunResult:
        """What the run so far leaves behind.

        Raises:
            ConservationError: jobs were lost.
        """
        submitted = self.jobs[: self.num_submitted]
        records = np.zeros(len(submitted), RECORD)
        for record, job in zip(records, submitted, strict=True):
            record["job"] = job.id
            record["submit_time"] = job.spec.submit_time
            record["start_time"] = job.start
            record["finish_time"] = job.finish if job.life is Life.DONE else math.nan
            record["attained_service"] = job.service_at(self.time)
            record["num_restarts"] = job.num_restarts
            record["num_preemptions"] = job.num_preemptions
            record["num_interruptions"] = job.num_interruptions
            record["num_gpus"] = job.spec.num_gpus
            speed = self.rules.requested_speed(job)
            record["ideal_duration"] = job.spec.work / speed if speed > 0 else math.inf
            record["measured"] = self.workload.measured[job.id]
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
        )
        result.check_conservation(self.num_submitted)
        return result


def _jobs(workload: Workload, scenario: Scenario, rng: np.random.Generator) -> list[Job]:
    """All jobs of a workload, before they come."""
    errors = [1.0] * len(workload)
    if scenario.information.work == "estimate":
        errors = np.exp(scenario.information.error * rng.standard_normal(len(workload))).tolist()
    start, restart = (delays.tolist() for delays in scenario.delays(workload.models))
    models = workload.jobs["model"].tolist()
    return [
        Job(spec, model, start[model], restart[model], error, spec.work)
        for spec, model, error in zip(workload, models, errors, strict=True)
    ]
