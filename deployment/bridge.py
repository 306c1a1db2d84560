"""The bridge between a scheduler and a real cluster: look, decide, act, round by round.

Each round begins with what the cluster manager says. The bridge remembers only what it has ordered, and the journal
has that too, so that it can be killed and started again at any instant.
"""

import math
import time
from collections.abc import Callable, Iterable, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import suppress
from dataclasses import dataclass, replace
from pathlib import Path

from deployment.adapter import ActionRefusedError, ClusterAdapter, NodeStatus, TaskNote, TaskStatus
from deployment.clock import SteadyClock
from deployment.deciding import DecisionMaker
from deployment.jobs import DONE, STOPPED, BadReportError, GoOnOrder, JobReport, load_report, write_order
from deployment.journal import CARRIED_OUT, DECIDED, INTENDED, MEASURED, POSTPONED, REFUSED, SHADOWED, Journal
from deployment.limits import ActionLimit
from deployment.messages import write_placement
from deployment.mirror import Mirror
from deployment.records import JobRun
from deployment.recovery import recover
from deployment.state import ClusterState, Decision
from envs.simulation import Information, Setup
from envs.types import AllocationError, ClusterError, ClusterSpec, JobSpec, MurmurationError, Placement, Seconds

MISSING_ROUNDS = 3  # in which Slurm may not know a new task yet
MOST_LOSSES = 5  # in a row without progress; then a job's command is taken to be at fault
LOOKS = 5  # at the jobs, for one at the nodes while all of them are up
JOURNAL = "journal.jsonl"


@dataclass(frozen=True)
class BridgeRules:
    """Rules by which a bridge acts.

    Attributes:
        shadow: only decide and log; nothing is started or stopped.
        scale: seconds of the scheduler's time in a second of real time, for replaying traces.
        grace: seconds of real time from SIGTERM until a task is killed.
        actions_per_minute: the most starts and stops in a minute of real time; those above wait.
        interval: seconds of real time between looks at the cluster.
        retry: seconds of real time until a refused action may be decided again.
        knows_work: whether the scheduler is told the remaining work.
    """

    shadow: bool = True
    scale: float = 1.0
    grace: Seconds = 30.0
    actions_per_minute: int = 60
    interval: Seconds = 5.0
    retry: Seconds = 10.0
    knows_work: bool = True

    def __post_init__(self) -> None:
        for name in ("scale", "grace", "actions_per_minute", "interval", "retry"):
            if not (getattr(self, name) > 0 and math.isfinite(getattr(self, name))):
                raise MurmurationError(f"bridge.{name} is {getattr(self, name)}; it must be positive and finite")


class Bridge:
    """Plays jobs on a cluster under a scheduler.

    Args:
        adapter: of the cluster manager.
        owner: id of this play for the notes of its tasks; the same after a restart.
        setup: the nodes as the scheduler knows them, in the order of `adapter.nodes()`, and the rules of the world by
            which its decisions are checked.
        jobs: all jobs, in order of submission; their submit times are those of scaled time.
        commands: returns the command of a job's segment, from job, segment number, placement and folder.
        folder: of the journal and of the jobs' folders. An earlier bridge's work there is continued.
        rules: how to act.
        clock: scaled time.
    """

    def __init__(
        self,
        adapter: ClusterAdapter,
        owner: str,
        setup: Setup,
        jobs: Sequence[JobSpec],
        commands: Callable[[JobRun], Sequence[str]],
        folder: Path,
        rules: BridgeRules,
        clock: SteadyClock,
    ) -> None:
        self.adapter, self.owner, self.cluster, self.rules, self.clock = adapter, owner, setup.cluster, rules, clock
        self._commands = commands
        self.runs = [JobRun(spec, folder / "jobs" / str(spec.id), rules.scale) for spec in jobs]
        self.submitted, self._told, self._told_done = 0, 0, set[int]()
        self.nodes: Sequence[NodeStatus] = adapter.nodes()
        check_nodes(self.nodes, setup.cluster)
        self._checks = _mirror_of(setup, jobs)
        self.journal = Journal(folder / JOURNAL)
        recover(self.runs, self.journal.earlier, [node.name for node in self.nodes], self.journal.path)
        for run in self.runs:
            if run.target:  # perhaps that was not ordered any more
                write_order(run.folder, self._order(run, run.target, released=False))
        rounds = [line["now"] for line in self.journal.earlier if (line["action"], line["phase"]) == ("round", DECIDED)]
        self._decided = max(rounds, default=-math.inf)
        self._limit = ActionLimit(rules.actions_per_minute)
        self._next_decision = math.inf
        self._due_since: float | None = None
        self._down: frozenset[int] = frozenset()
        self._strays: dict[str, tuple[float, float]] = {}  # when each was seen first, and asked to stop last
        self._told_refused = ""  # why the last decision was refused
        self.num_looks = 0

    @property
    def finished(self) -> bool:
        """Whether all jobs are done or given up."""
        return all(run.over for run in self.runs)

    def play(self, scheduler: DecisionMaker, look: Callable[["Bridge"], None], until: Seconds = math.inf) -> None:
        """Go on until all jobs are done, or until a scaled time; call `look` after every look at the cluster."""
        while not self.finished and self.clock.now() < until:
            before = self.clock.seconds()
            try:
                self.step(scheduler)
            except ActionRefusedError as error:
                self.journal.write(REFUSED, "look", why=str(error))
            look(self)
            time.sleep(max(self.rules.interval - (self.clock.seconds() - before), 0.0))

    def step(self, scheduler: DecisionMaker) -> None:
        """Look at the cluster, and decide and act if something has happened.

        Raises:
            ActionRefusedError: the cluster manager does not answer; nothing has changed.
        """
        self._look()
        if self._due_since is None or not self._open():
            return
        since, self._due_since, self._next_decision = self._due_since, None, math.inf
        state = self._state()
        self._checks.observe(state)
        decision = scheduler.decide(state)
        try:
            self._checks.check(decision)
        except AllocationError as error:  # nothing of it is carried out, and the scheduler is asked again
            self._refused("decision", {"now": state.time}, error)
            self._told_refused = str(error)
            return
        self._next_decision = decision.next_decision
        self._carry_out(decision, since)

    def _open(self) -> list[JobRun]:
        return [run for run in self.runs[: self.submitted] if not run.over]

    def _due(self, since: float) -> None:
        """Ask for a round because of an event at an instant of real time since the beginning."""
        self._due_since = since if self._due_since is None else min(since, self._due_since)

    def _due_after(self, event: Seconds) -> None:
        """Ask for a round because of an event in scaled time; one that an earlier bridge has answered counts as now."""
        seconds = self.clock.seconds()
        self._due(min(event / self.rules.scale, seconds) if event > self._decided else seconds)

    def _look(self) -> None:
        """Bring everything up to date with what the cluster manager and the jobs say."""
        own = [task for task in self.adapter.tasks() if task.note.owner == self.owner]
        tasks = {(task.note.job, task.note.segment): task for task in own}
        self.num_looks += 1
        nodes = self.adapter.nodes() if self.num_looks % LOOKS == 0 or self._down else self.nodes
        now, seconds = self.clock.now(), self.clock.seconds()
        while self.submitted < len(self.runs) and self.runs[self.submitted].spec.submit_time <= now:
            self._due_after(self.runs[self.submitted].spec.submit_time)
            self.submitted += 1
        for run in self._open():
            self._look_at(run, tasks.get((run.spec.id, run.segment)))
            if run.target:
                after = tasks.get((run.spec.id, run.segment + 1))
                self._let_go(run, run.target, after if after and after.state != "ended" else None)
        self._end_strays(own)
        up = {node.name for node in nodes if node.up}
        down = frozenset(i for i, node in enumerate(self.nodes) if node.name not in up)  # or not shown at all
        if down != self._down:
            self._due(seconds)
        self._down = down
        if self._next_decision <= now:
            self._due(self._next_decision / self.rules.scale)

    def _look_at(self, run: JobRun, task: TaskStatus | None) -> None:
        """Bring one job up to date; `task` is its last segment, None if the cluster manager does not know it."""
        run.task = task
        report, wall = self._report(run), self.clock.wall()
        run.progress = report or run.progress
        if report is not None and report.segment == run.stopped and report.state in (STOPPED, DONE):
            run.stopped, seconds = 0, max(report.updated - run.stopping, 0.0)
            run.latencies.add_stop(seconds)
            self.journal.write(MEASURED, "stop", job=run.spec.id, segment=report.segment, seconds=seconds)
        if report is not None and report.segment == run.segment and run.seen_start < run.segment:
            run.seen_start, seconds = run.segment, max(report.began - run.ordered, 0.0)
            run.latencies.add_start(seconds)
            self.journal.write(MEASURED, "start", job=run.spec.id, segment=run.segment, seconds=seconds)
        if report is not None and report.state == DONE:  # also if the next segment was ordered meanwhile
            run.free(report.updated)
            run.finish_time = min(max(report.updated - self.clock.began, 0.0) * self.rules.scale, self.clock.now())
            self._due_after(run.finish_time)
            return
        if run.placement:
            gone = task is None or task.state == "ended"
            run.missing = run.missing + 1 if gone else 0
            if run.missing >= MISSING_ROUNDS and wall - run.ordered > self.rules.interval:
                self._lose(run, "its task has ended", counts=True)
                self._due(self.clock.seconds())

    def _report(self, run: JobRun) -> JobReport | None:
        """Return what a job has reported; one that cannot be is journalled once, and counts as none."""
        try:
            found, wall = load_report(run.folder), self.clock.wall()
            if found is not None and found.segment > run.segment + (run.target is not None):
                raise BadReportError(f"its segment is none of the {run.segment} that were started")
            return found and replace(found, began=min(found.began, wall), updated=min(found.updated, wall))
        except BadReportError as error:
            if str(error) not in run.faults:
                run.faults.add(str(error))
                self.journal.write(REFUSED, "report", job=run.spec.id, segment=run.segment, why=str(error))
            return None

    def _lose(self, run: JobRun, why: str, *, counts: bool) -> None:
        """Return a job to the queue after its segment ended by itself; give it up after `MOST_LOSSES` without progress.

        Args:
            run: the job.
            why: for the journal.
            counts: whether the job may be at fault, which it is not where a node has failed.
        """
        wall, done = self.clock.wall(), run.progress.work_done if run.progress else 0.0
        about = {"job": run.spec.id, "segment": run.segment}
        self.journal.write(CARRIED_OUT, "lose", **about, time=wall, work_done=done, why=why, counts=counts)
        run.lose(wall)
        if counts and run.count_loss(done) == MOST_LOSSES:
            run.given_up = True
            why = f"its processes ended {MOST_LOSSES} times in a row before it got any further; see {run.folder}"
            self.journal.write(CARRIED_OUT, "give up", **about, why=why)

    def _end_strays(self, tasks: Iterable[TaskStatus]) -> None:
        """Ask tasks again to stop that should not run, and kill them after their grace time.

        An order may be lost: the cluster manager restarted, or an earlier bridge was killed before it gave it.
        """
        wall, before = self.clock.wall(), self._strays
        self._strays = {}
        for task in tasks:
            run = self.runs[task.note.job] if 0 <= task.note.job < len(self.runs) else None
            if task.state == "ended" or run is None or (run.placement and run.segment == task.note.segment):
                continue
            first, last = before.get(task.name, (wall, wall))
            if wall - last > self.rules.retry and not self.rules.shadow:
                kill = wall - first > self.rules.grace
                about = {"job": run.spec.id, "segment": task.note.segment, "time": wall}
                self.journal.write(INTENDED, "kill" if kill else "stop again", **about)
                self.adapter.stop(task, kill=kill)
                last = wall
            self._strays[task.name] = first, last

    def _state(self) -> ClusterState:
        told = self.runs[self._told : self.submitted]
        specs = tuple(run.spec if self.rules.knows_work else replace(run.spec, work=math.nan) for run in told)
        self._told = self.submitted
        ended = {run.spec.id: run.service for run in self.runs[: self.submitted] if run.over}
        new = {job: service for job, service in ended.items() if job not in self._told_done}
        self._told_done |= set(new)
        now = self.clock.now()
        states = [run.state(now, self.clock.began, self.rules.knows_work) for run in self._open()]
        on_down = {each.job for each in states if each.placement and set(each.placement.gpus) & self._down}
        for run in self._open():
            if run.spec.id in on_down:  # its node is gone: it waits again
                self._lose(run, "a node of it is down", counts=False)
                run.stopping = self.clock.wall()
        if on_down:
            states = [run.state(now, self.clock.began, self.rules.knows_work) for run in self._open()]
        worked = {job: self.runs[job].spec.work for job in new if self.runs[job].done}
        refused, self._told_refused = self._told_refused, ""
        return ClusterState(now, specs, new, self._down, tuple(states), worked, refused)

    def _carry_out(self, decision: Decision, since: float) -> None:
        """Stop and start jobs as decided: first all stops, then all starts."""
        late = max(self.clock.seconds() - since, 0.0)
        changed = {job: p for job, p in sorted(decision.placements.items()) if p != self.runs[job].wanted}
        for job in changed:
            self.runs[job].latencies.late += late
        self.journal.write(DECIDED, "round", now=self.clock.now(), late=late, jobs=list(changed))
        shrinks = {job: p for job, p in changed.items() if p and self._can_release(self.runs[job], p)}
        for job, placement in shrinks.items():
            self._release(self.runs[job], placement)
        others = {job: p for job, p in changed.items() if job not in shrinks}
        stops = [self.runs[job] for job in others if self.runs[job].placement]
        starts = [(self.runs[job], placement) for job, placement in others.items() if placement]
        preempted = {job for job, placement in others.items() if not placement}
        with ThreadPoolExecutor(4) as pool:  # a command takes some hundredths of a second
            ordered = pool.map(lambda run: self._stop(run, preempts=run.spec.id in preempted), stops)
            stopped = dict(zip((run.spec.id for run in stops), ordered, strict=True))
            free = [(run, placement) for run, placement in starts if stopped.get(run.spec.id, True)]
            list(pool.map(lambda pair: self._start(*pair), free))

    def _may_act(self, action: str, run: JobRun) -> bool:
        """Whether one more action is within the limit of this minute; another round is asked for if not."""
        now = self.clock.seconds()
        if not self._limit.take(now):
            self.journal.write(POSTPONED, action, job=run.spec.id)
            self._next_decision = min(self._next_decision, (now + 1.0) * self.rules.scale)
            return False
        return True

    def _can_release(self, run: JobRun, placement: Placement) -> bool:
        """Whether a running job keeps all its GPUs on some of its nodes, so that the others can be released."""
        held, task = run.placement, run.task
        if held is None or run.target or task is None or task.state != "running" or run.seen_start < run.segment:
            return False
        kept = {self.nodes[node].name for node in placement.gpus}
        inside = placement.gpus.items() < held.gpus.items()
        return inside and task.first_node in kept

    def _release(self, run: JobRun, placement: Placement) -> None:
        """Order a job to stop and to go on with some of its nodes, once the others are released."""
        if not self._may_act("release", run):
            return
        if self.rules.shadow:
            self.journal.write(SHADOWED, "release", **self._about_start(run, placement))
            return
        self.journal.write(INTENDED, "release", **self._about_start(run, placement))
        run.target = placement
        write_order(run.folder, self._order(run, placement, released=False))

    def _order(self, run: JobRun, placement: Placement, *, released: bool) -> GoOnOrder:
        then = replace(run, placement=placement, segment=run.segment + 1)
        return GoOnOrder(then.segment, list(self._commands(then)), released)

    def _let_go(self, run: JobRun, placement: Placement, after: TaskStatus | None) -> None:
        """Release nodes of a job that was asked to stop for that and has stopped, and let it go on.

        Args:
            run: the job.
            placement: what it keeps.
            after: its task, if the nodes were released by a bridge that could not say so any more.
        """
        report, task = run.progress, run.task
        if after is None and (report is None or (report.segment, report.state) != (run.segment, STOPPED)):
            return
        about, order = self._about_start(run, placement), self._order(run, placement, released=True)
        try:
            if after is None and task is None:
                return  # it is lost
            if after is None and task is not None:
                self.adapter.release(task, TaskNote(self.owner, run.spec.id, order.segment, self._named(placement)))
        except ActionRefusedError as error:
            self._refused("release", about, error)
            if task is not None:
                self._end(run, task)
            return
        run.follow(placement, self.clock.wall())
        run.task = after
        write_order(run.folder, order)
        self.journal.write(CARRIED_OUT, "release", **about)

    def _end(self, run: JobRun, task: TaskStatus) -> None:
        """Stop a task whose command has stopped; the job waits again."""
        run.free(self.clock.wall())
        run.num_preemptions += 1
        self._due(self.clock.seconds())
        with suppress(ActionRefusedError):  # it is asked again as a stray
            self.adapter.stop(task)

    def _named(self, placement: Placement) -> dict[str, int]:
        """GPUs by name of node."""
        return {self.nodes[node].name: count for node, count in placement.gpus.items()}

    def _about_start(self, run: JobRun, placement: Placement) -> dict[str, object]:
        """Return the entry of the journal about a job's next segment."""
        named = {"gpus": self._named(placement), "placement": write_placement(placement)}  # also batch size and plan
        times = {"time": self.clock.wall(), "now": self.clock.now()}
        return {"job": run.spec.id, "segment": run.segment + 1, **named, **times}

    def _stop(self, run: JobRun, *, preempts: bool) -> bool:
        """Stop a job's segment; return whether that was ordered. It is preempted if it is to get no GPUs instead."""
        if not self._may_act("stop", run):
            return False
        times = {"time": self.clock.wall(), "now": self.clock.now()}
        about = {"job": run.spec.id, "segment": run.segment, "preempts": preempts, **times}
        if self.rules.shadow:
            self.journal.write(SHADOWED, "stop", **about)
            return False
        self.journal.write(INTENDED, "stop", **about)
        try:
            if run.task is not None and run.task.state != "ended":
                self.adapter.stop(run.task)
            elif run.task is None:
                self._next_decision = min(self._next_decision, (self.clock.seconds() + 0.5) * self.rules.scale)
                raise ActionRefusedError("the cluster manager does not show the task yet")
        except ActionRefusedError as error:
            self._refused("stop", about, error)
            return False
        run.free(self.clock.wall())
        run.stopping, run.stopped = times["time"], run.segment
        run.num_preemptions += preempts
        self.journal.write(CARRIED_OUT, "stop", **about)
        return True

    def _start(self, run: JobRun, placement: Placement) -> None:
        """Start a job's next segment."""
        if not self._may_act("start", run):
            return
        about = self._about_start(run, placement)
        if self.rules.shadow:
            self.journal.write(SHADOWED, "start", **about)
            return
        self.journal.write(INTENDED, "start", **about)
        run.start(run.segment + 1, placement, self.clock.wall(), self.clock.now())
        run.folder.mkdir(parents=True, exist_ok=True)
        try:
            note = TaskNote(self.owner, run.spec.id, run.segment, self._named(placement))
            name = self.adapter.start(note, self._commands(run), run.folder)
        except ActionRefusedError as error:
            run.not_started()
            self._refused("start", about, error)
            return
        self.journal.write(CARRIED_OUT, "start", name=name, **about)

    def _refused(self, action: str, about: Mapping[str, object], error: MurmurationError) -> None:
        self.journal.write(REFUSED, action, why=str(error), **about)
        later = (self.clock.seconds() + self.rules.retry) * self.rules.scale
        self._next_decision = min(self._next_decision, later)


def _mirror_of(setup: Setup, jobs: Sequence[JobSpec]) -> Mirror:
    """Return the mirror in which decisions are checked: it may know all about the jobs, since it decides nothing."""
    scenario = replace(setup.scenario, information=Information())
    most = max((job.max_gpus for job in jobs), default=1)
    return Mirror(replace(setup, scenario=scenario), [job.model for job in jobs[:1]], most_gpus=most)


def check_nodes(nodes: Sequence[NodeStatus], cluster: ClusterSpec) -> None:
    """Check that a cluster's nodes are those of the scheduler's setup.

    Raises:
        ClusterError: the number of nodes or of their GPUs differs.
    """
    if len(nodes) != cluster.num_nodes:
        raise ClusterError(f"the cluster has {len(nodes)} nodes with GPUs, {cluster.name} has {cluster.num_nodes}")
    for node, spec in zip(nodes, cluster.nodes, strict=True):
        if node.num_gpus != spec.num_gpus:
            raise ClusterError(f"node {node.name} has {node.num_gpus} GPUs; {cluster.name} has {spec.num_gpus} there")
