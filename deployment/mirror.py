"""A real cluster as a `ClusterView`: the engine's own arrays, filled with what was observed in place of simulation.

So every scheduler of the project works on it, also those that copy the view and let time pass on the copy.
"""

import math
from collections.abc import Mapping, Sequence
from dataclasses import replace
from functools import cached_property
from typing import Any

import numpy as np
import numpy.typing as npt

from deployment.checking import check_decision, check_known, check_state
from deployment.state import ClusterState, Decision, JobState
from envs.simulation import Setup, SimulationView, Snapshot, State, ThroughputTable
from envs.simulation.compiled.jit import kernel
from envs.simulation.known.beliefs import Beliefs, Cell, Seen
from envs.simulation.known.predictions import (
    SHORTEST_RUN,
    Predictions,
    believed_throughput,
    model_rows,
    remaining_outcomes,
)
from envs.simulation.simulator import check_runnable
from envs.simulation.whole_episode import WholeEpisode
from envs.simulation.world.arrays import World
from envs.simulation.world.exact import ExactThroughputs
from envs.simulation.world.ideal import ideal_throughput
from envs.simulation.world.ordered_set import insert
from envs.simulation.world.shares import set_free
from envs.simulation.world.throughput import node_level
from envs.types import Allocation, ClusterError, FloatArray, IntArray, JobId, JobSpec, MurmurationError, Placement
from envs.workloads import Workload
from envs.workloads.workload import JOB_COLUMNS

QUEUED, DONE = 1, 3  # Status
COVERED = 1024  # GPUs of one job, unless larger ones are expected
MOST_CELLS = 2**19  # throughputs of models by GPU type and number of GPUs; the performance model is asked for each
WRITTEN = (  # fields of a job's record, with those of a state
    ("service", "attained_service"),
    ("start", "start_time"),
    *((name, name) for name in ("num_restarts", "num_preemptions", "num_interruptions")),
)
CREDIBLE = 1000.0  # a job that reports so many times its model's throughput, or so small a part, has measured nothing


@kernel
def enter_jobs(world: World, done: IntArray, time: float) -> None:
    """Submit all jobs of an empty episode: those that are not done wait."""
    episode = world.episode[0]
    episode.time = time
    episode.next_job = len(done)
    for j in range(len(done)):
        world.jobs[j].status = QUEUED
        if done[j]:
            world.jobs[j].status = DONE
        else:
            insert(world.queued, len(world.jobs), j)
            episode.num_active += 1


@kernel
def close_node(world: World, n: int) -> None:
    """Take a node without jobs out of service."""
    node, episode = world.nodes[n], world.episode[0]
    set_free(world, n, 0)
    node.down = 1
    episode.num_down += 1
    episode.num_up -= node.num_gpus
    episode.num_free -= node.num_gpus


class MirrorView(SimulationView):
    """The view of a mirror; likely work is what was observed."""

    likely: dict[int, tuple[float, ...]]

    def likely_work(self, jobs: IntArray) -> FloatArray:
        """float64[len(jobs), any]: equally likely samples left; NaN where a row has fewer, or nothing is known."""
        if not self.likely:
            return super().likely_work(jobs)
        rows = [self.likely.get(int(job), (float("nan"),)) for job in jobs]
        found = np.full((len(rows), max(map(len, rows), default=1)), np.nan)
        for row, values in zip(found, rows, strict=True):
            row[: len(values)] = values
        return found


class MeasuredBeliefs(Beliefs):
    """Beliefs about throughputs of a real cluster: what a job has shown in a placement is what it has reported there.

    What a user would state of a job is taken from the performance model.

    Args:
        setup: the setup.
        workload: the jobs.
        table: throughputs of the workload's models by the performance model.
        reported: samples/s that jobs have reported, by job and placement. Where the model says that a job cannot run,
            or a throughput more than `CREDIBLE` times larger or smaller, its report does not count.
    """

    def __init__(
        self, setup: Setup, workload: Workload, table: ThroughputTable, reported: Mapping[Seen, float]
    ) -> None:
        super().__init__(setup, workload, table, np.random.SeedSequence(0))
        self._stated[:] = 0.0
        self._reported = {(seen.job, _cell(seen)): throughput for seen, throughput in reported.items()}
        self.look(len(workload), filter(self._credible, reported))

    def _credible(self, seen: Seen) -> bool:
        job, cell = seen.job, _cell(seen)
        modelled = self._modelled(job, cell)
        return modelled > 0 and 1 / CREDIBLE <= self._reported[job, cell] / modelled <= CREDIBLE

    def _modelled(self, job: JobId, cell: Cell) -> float:
        row = self._rows[self.workload.jobs["model"][job]]
        return float(self.truth.throughputs[(row, *cell)])

    def _error(self, job: JobId, cell: Cell) -> float:
        return math.log(self._reported[job, cell] / self._modelled(job, cell))


def _cell(seen: Seen) -> Cell:
    return seen.gpu_type, seen.num_gpus, node_level(seen.num_nodes)


class MirroredRound(WholeEpisode):
    """The engine's arrays in one round of a mirror."""

    likely: dict[int, tuple[float, ...]]

    @cached_property
    def _true_view(self) -> MirrorView:
        known = self.beliefs or self
        arguments = known.setup, known.workload, known.table, known.exact, self.plans, self.beliefs
        view = MirrorView(self.state, *arguments)
        view.likely = self.likely
        return view


class Mirror:
    """A cluster outside of the simulator, round by round.

    Args:
        setup: its nodes, the performance model by which throughputs are judged, and the rules that schedulers expect.
            With `information.throughput=observed` the view shows beliefs (`MeasuredBeliefs`), and with
            `information.work=predicted` what the setup's predictor, which was trained before, makes of the jobs.
        models: models that jobs may have, in the order of the view's tables; others are added when they come.
        tenants: likewise.
        most_gpus: the largest job that comes. The view's tables keep their width, since schedulers rely on that; they
            cover the whole cluster in any case, up to `COVERED` GPUs.
        shares: whether the cluster can let two jobs hold the same GPUs.

    Raises:
        MurmurationError: the setup wants profiles or work by time limits, or lets jobs share GPUs where the cluster
            cannot.
    """

    def __init__(
        self,
        setup: Setup,
        models: Sequence[str] = (),
        tenants: Sequence[str] = (),
        most_gpus: int = 0,
        *,
        shares: bool = False,
    ) -> None:
        information = setup.scenario.information
        if information.throughput == "profiled":
            raise MurmurationError(
                "information.throughput is profiled: no profiles were taken on this cluster; set "
                "information.throughput=observed, so that jobs show their throughputs while they run, or exact"
            )
        if information.work == "limit":
            raise MurmurationError(
                "information.work is limit: a cluster does not tell yet when its jobs reach their time limits; set "
                "information.work to exact, estimate, predicted or none"
            )
        if setup.scenario.sharing != "off" and not shares:
            raise MurmurationError(
                f"scenario.sharing is {setup.scenario.sharing}: on a real cluster jobs get GPUs of their own so far; "
                "set scenario.sharing=off"
            )
        scenario = replace(setup.scenario, failures=None, quotas=dict(setup.scenario.quotas))
        self.setup = replace(setup, scenario=scenario)
        self.models, self.tenants = list(models), list(tenants)
        self.most_gpus = max(most_gpus, min(setup.cluster.num_gpus, COVERED))
        self.jobs: list[JobSpec] = []
        self.done: list[bool] = []
        self._served: list[float] = []
        self._worked: list[float] = []
        self._expected: list[float] = []  # median of the work as it was predicted last
        self._exact = ExactThroughputs(self.setup)
        self._reported: dict[Seen, float] = {}
        self._submitted: Workload | None = None  # of all `jobs`
        self._view: MirrorView | None = None
        self._trial: Snapshot | None = None

    def observe(self, state: ClusterState) -> MirrorView:
        """Return the view of the cluster in this state.

        Raises:
            MurmurationError: a job is unknown, is submitted twice or out of order, or is both open and done.
            AllocationError: a placement does not fit on the cluster.
        """
        for spec in state.submitted:
            self._submit(spec)
        for job, service in state.completed.items():
            check_known(job, len(self.jobs))
            self.done[job], self._served[job] = True, service
            self._worked[job] = state.completed_work.get(job, math.nan)
        if not self.jobs:
            raise MurmurationError(f"t = {state.time:g} s: a round without jobs; ask when a job was submitted")
        check_state(state, self.setup.cluster, self.jobs, self.done)
        self._check_table()
        workload, table = self._workload(), ThroughputTable.of(self.setup, self.models, self.most_gpus)
        beliefs = None
        if self.setup.scenario.information.hides_throughput:
            for each in state.jobs:
                self._note_reported(each)
            beliefs = MeasuredBeliefs(self.setup, workload, table, self._reported)
        if self.setup.scenario.information.work == "predicted":
            state = self._predict(state, workload, table, beliefs)
        episode = self._load(state, workload, table)
        episode.beliefs = beliefs
        _place(episode, state)
        self._overwrite(episode, state)
        self._view = episode._true_view
        return self._view

    def check_runnable(self) -> None:
        """Check that each job has a placement on the empty cluster, as the simulator does with a workload.

        Raises:
            ClusterError: names the first job that can never run.
        """
        cluster = self.setup.cluster
        check_runnable(self._workload(), cluster, ThroughputTable.of(self.setup, self.models, self.most_gpus))

    def check(self, decision: Decision) -> None:
        """Check a decision about the state that was observed last, as the simulator checks an allocation.

        It is applied to a copy of the view; neither the view nor the mirror changes.

        Raises:
            AllocationError: the simulator would refuse it; one line names the job, the node or the resource.
            MurmurationError: nothing was observed yet.
        """
        if self._view is None:
            raise MurmurationError("a decision before the first round: there is no state to check it against")
        self._trial = self._view.snapshot(into=self._trial)
        check_decision(decision, self._trial)

    def _check_table(self) -> None:
        """Check that the tables of throughputs are built in seconds."""
        cluster = self.setup.cluster
        sizes = len(self.models), len(cluster.gpu_types), min(self.most_gpus, cluster.num_gpus)
        if math.prod(sizes) > MOST_CELLS:
            raise MurmurationError(
                f"{sizes[0]} models on {sizes[1]} GPU types with up to {sizes[2]} GPUs are too many throughputs; at "
                f"most {MOST_CELLS:,} are judged: name fewer models, or a smaller most_gpus"
            )

    def _submit(self, spec: JobSpec) -> None:
        if spec.id != len(self.jobs):
            raise MurmurationError(f"job {spec.id}: the next job to be submitted has the id {len(self.jobs)}")
        if self.jobs and spec.submit_time < self.jobs[-1].submit_time:
            raise MurmurationError(
                f"job {spec.id}: submitted at t = {spec.submit_time:g} s, before job {spec.id - 1}; send jobs in order"
            )
        if spec.min_gpus > self.setup.cluster.num_gpus:
            raise ClusterError(
                f"job {spec.id}: needs {spec.min_gpus} GPUs, and cluster {self.setup.cluster.name} has "
                f"{self.setup.cluster.num_gpus}, so it can never run; do not submit it, or give it a smaller min_gpus"
            )
        for known, name in ((self.models, spec.model), (self.tenants, spec.tenant)):
            if name not in known:
                known.append(name)
        if min(spec.max_gpus, self.setup.cluster.num_gpus) > self.most_gpus:
            raise MurmurationError(
                f"job {spec.id}: may get {spec.max_gpus} GPUs, and jobs of at most {self.most_gpus} are expected; "
                f"begin with most_gpus={spec.max_gpus}"
            )
        self._submitted = None
        self.jobs.append(spec)
        self.done.append(False)
        self._served.append(0.0)
        self._worked.append(math.nan)
        self._expected.append(0.0)

    def _predict(
        self, state: ClusterState, workload: Workload, table: ThroughputTable, beliefs: Beliefs | None
    ) -> ClusterState:
        """Add what the setup's predictor makes of the work of jobs, unless their states say something of it.

        A job whose samples are not reported counts as if it had run on its requested GPUs all the time. One that ended
        without service, cancelled before it began, tells nothing: it counts as it was predicted.
        """
        asked = {each.job for each in state.jobs if math.isnan(each.remaining_work) and not each.likely_work}
        if not asked:
            return state
        rows, num_gpus = model_rows(workload, table), workload.jobs["num_gpus"]
        if beliefs is None:
            throughput = ideal_throughput(self.setup, table, rows, num_gpus)
        else:
            throughput = believed_throughput(beliefs.table, rows, num_gpus)
        throughput_of_gpu = throughput / num_gpus
        ended = np.array(self.done)
        given = np.where(np.isnan(self._worked), [spec.work for spec in self.jobs], self._worked)
        worked = np.where(np.isnan(given), self._served * throughput_of_gpu, given)
        worked = np.where(worked > 0, worked, self._expected)
        jobs = workload.jobs.copy()
        jobs["work"][ended] = np.maximum(worked, SHORTEST_RUN * throughput)[ended]
        predictions = Predictions(self.setup, replace(workload, jobs=jobs), table)
        predictions.believe(table if beliefs is None else beliefs.table)
        present = np.array([each.job for each in state.jobs], np.int64)
        served = np.array([each.attained_service for each in state.jobs]) * throughput_of_gpu[present]
        reported = np.array([each.work_done for each in state.jobs])
        done = np.where(np.isnan(reported), served, reported)
        predictions.look(len(jobs), present, done)
        for job, outcomes in zip(present.tolist(), predictions.work[present], strict=True):
            self._expected[job] = float(np.median(outcomes))
        left = dict(zip(present.tolist(), remaining_outcomes(predictions.work[present], done), strict=True))
        return replace(
            state, jobs=tuple(_with_work(each, left[each.job]) if each.job in asked else each for each in state.jobs)
        )

    def _load(self, state: ClusterState, workload: Workload, table: ThroughputTable) -> MirroredRound:
        """Return an episode in which all open jobs wait."""
        arrays = State.allocate(self.setup.cluster, len(self.jobs), scenario=self.setup.scenario)
        arrays.load(0, workload, self.setup.scenario, table, np.random.default_rng(0))
        episode = MirroredRound(workload, self._exact, self.setup, table, arrays, np.random.SeedSequence(0))
        episode.likely = {each.job: each.likely_work for each in state.jobs if each.likely_work}
        enter_jobs(episode.world, np.array(self.done, np.int64), state.time)
        for node in sorted(state.down):
            close_node(episode.world, node)
        arrays.jobs[0]["estimate"] = 1.0
        arrays.jobs[0]["work"] = [spec.work for spec in self.jobs]
        return episode

    def _note_reported(self, state: JobState) -> None:
        """Remember the throughput that a job reports in its placement, if its GPUs are of one type."""
        if not state.placement or not state.throughput > 0:
            return
        cluster, gpus = self.setup.cluster, state.placement.gpus
        types = {int(cluster.node_types[node]) for node in gpus}
        if len(types) == 1:
            seen = Seen(state.job, types.pop(), state.placement.num_gpus, len(gpus), -1)
            self._reported[seen] = state.throughput

    def _workload(self) -> Workload:
        if self._submitted is None:
            self._submitted = self._build_workload()
        return self._submitted

    def _build_workload(self) -> Workload:
        rows = np.zeros(len(self.jobs), JOB_COLUMNS)
        for name in ("submit_time", "work", "num_gpus", "min_gpus", "max_gpus", "min_batch", "max_batch", "guaranteed"):
            rows[name] = [getattr(spec, name) for spec in self.jobs]
        rows["work"] = np.where(np.isnan(rows["work"]), 1.0, rows["work"])
        for name in ("priority", "nice"):
            rows[name] = [getattr(spec, name) for spec in self.jobs]
        rows["time_limit"] = [spec.time_limit if math.isfinite(spec.time_limit) else 0.0 for spec in self.jobs]
        rows["duration"] = np.nan
        for name, known in (("model", self.models), ("tenant", self.tenants)):
            places = {each: i for i, each in enumerate(known)}
            rows[name] = [places[getattr(spec, name)] for spec in self.jobs]
        lists = {
            column: tuple(getattr(spec, name) for spec in self.jobs)
            for column, name in (("names", "name"), ("plans", "plan"), ("users", "user"), ("qos", "qos"))
        }
        given: dict[str, Any] = {column: values for column, values in lists.items() if any(values)}
        return Workload("cluster", rows, tuple(self.models), tuple(self.tenants), **given)

    def _overwrite(self, episode: MirroredRound, state: ClusterState) -> None:
        """Put what was observed in place of what the engine has computed."""
        jobs = episode.state.jobs[0]
        jobs["service"] = self._served
        _set_jobs(jobs, state)
        running = [each.job for each in state.jobs if each.placement]
        order = sorted(running, key=lambda job: (jobs["finish"][job], job))
        heap = episode.state.heap[0]
        heap["member"][: len(order)], heap["time"][: len(order)] = order, jobs["finish"][order]
        episode.state.heap_places[0, order] = np.arange(len(order))  # a sorted array is a valid heap
        record = episode.state.episode[0, 0]
        record.in_round, record.num_rounds, record.num_restarts = 1, 1, int(jobs["num_restarts"].sum())
        record.stalls = 0


def _place(episode: MirroredRound, state: ClusterState) -> None:
    """Put the running jobs on their nodes.

    Raises:
        AllocationError: a placement does not fit.
    """
    allocation = episode.view.allocation()
    held = [(each.job, each.placement) for each in state.jobs if each.placement]
    for job, placement in sorted(held, key=lambda each: each[1].beside is not None):  # owners before their guests
        allocation.place(job, placement)
    episode.apply(allocation)


def _set_jobs(records: npt.NDArray[np.void], state: ClusterState) -> None:
    """Write the states of jobs into their records, int64[num_jobs] of dtype JOB."""
    index = np.array([each.job for each in state.jobs], np.int64)
    rows = records[index]
    left = np.array([each.remaining_work for each in state.jobs])
    left[np.isnan(left)] = np.inf
    rows["remaining"] = rows["saved"] = rows["least"] = left
    for field, name in WRITTEN:
        rows[field] = [getattr(each, name) for each in state.jobs]
    runs = np.array([each.placement is not None for each in state.jobs], bool)
    ready = np.fmax([each.ready_time for each in state.jobs], state.time)
    segment = np.array([each.segment for each in state.jobs])
    throughput = np.array([each.throughput for each in state.jobs])
    throughput = np.where(np.isnan(throughput), rows["throughput"], throughput)
    rows["served"], rows["synced"] = np.where(runs, state.time, 0.0), np.where(runs, ready, 0.0)
    rows["segment"] = np.where(runs, np.where(np.isnan(segment), ready, segment), 0.0)
    with np.errstate(divide="ignore", invalid="ignore"):
        finish = np.where(throughput > 0, ready + left / throughput, np.inf)
    rows["throughput"] = np.where(runs, throughput, rows["throughput"])
    rows["finish"] = np.where(runs, finish, rows["finish"])
    records[index] = rows


def _with_work(state: JobState, outcomes: FloatArray) -> JobState:
    """Return a state with equally likely samples left, of which NaN are none, and their mean."""
    known = outcomes[~np.isnan(outcomes)]
    return replace(state, remaining_work=float(known.mean()), likely_work=tuple(known.tolist()))


def decide(allocation: Allocation, running: Sequence[int]) -> Decision:
    """Return an allocation as changes of what the running jobs hold.

    Args:
        allocation: the scheduler's answer.
        running: jobs that hold GPUs.
    """
    placements = dict(allocation.changes)
    if not allocation.keep_running:
        for job in running:
            placements.setdefault(job, None)
    return Decision(placements, allocation.next_decision)


class Watched:
    """A simulated cluster as a real one would report it, round by round: the opposite of a `Mirror`."""

    def __init__(self) -> None:
        self._copy: Snapshot | None = None
        self._open: set[int] = set()
        self._known = 0

    def read(self, view: SimulationView) -> tuple[ClusterState, Snapshot]:
        """Return the state that a view shows, and the copy of the view from which it was read."""
        copy = self._copy = view.snapshot(into=self._copy)
        records, count, time = copy.state.jobs[0], len(view.num_gpus), view.time
        running = set(view.running.tolist())
        present = sorted({*running, *view.queued.tolist()})
        ended = [job for job in range(count) if (job in self._open or job >= self._known) and job not in set(present)]
        predicted = view.likely_work(np.array(present, np.int64))
        some = np.array(present, np.int64)
        columns = view.remaining_work(some), view.attained_service(some), predicted
        figures = zip(present, *(column.tolist() for column in columns), strict=True)
        states = tuple(
            _job_state(records[job], job, view.placement(job) if job in running else None, time, *each)
            for job, *each in figures
        )
        specs = tuple(view.job(job) for job in range(self._known, count))
        service = view.attained_service(np.array(ended, np.int64)).tolist()
        down = frozenset(np.flatnonzero(view.capacity == 0).tolist())
        self._open, self._known = set(present), count
        return ClusterState(time, specs, dict(zip(ended, service, strict=True)), down, states), copy


def _job_state(
    record: np.record, job: int, placement: Placement | None, time: float, left: float, service: float, likely: Any
) -> JobState:
    some = tuple(value for value in likely if value == value)  # NaN fills the row
    runs = placement is not None
    return JobState(
        job,
        placement,
        service,
        left,
        some if len(some) > 1 else (),
        float(record["throughput"]) if runs else np.nan,
        max(float(record["synced"]), time) if runs else np.nan,
        float(record["segment"]) if runs else np.nan,
        float(record["start"]),
        int(record["num_restarts"]),
        int(record["num_preemptions"]),
        int(record["num_interruptions"]),
    )
