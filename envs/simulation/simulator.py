"""The simulator in Python: it yields rounds and applies allocations."""

import time
from collections.abc import Iterator
from contextlib import contextmanager
from typing import NoReturn, Protocol, TypeGuard, runtime_checkable

import numpy as np

from envs.scheduling import ClusterView, Scheduler
from envs.simulation import kernels, requested
from envs.simulation.entries import end_round, next_round
from envs.simulation.exact import PARTS, ExactThroughputs, whole_parts
from envs.simulation.jit import Records
from envs.simulation.overriding import find_definer, find_override
from envs.simulation.requested import REQUESTED, plan_requested
from envs.simulation.result import RECORD, EndReason, LimitedTime, RunResult
from envs.simulation.setup import Setup
from envs.simulation.shares import NAMED_CPUS, NAMED_MEMORY
from envs.simulation.state import State
from envs.simulation.throughput import ThroughputTable, node_level
from envs.simulation.view import SimulationView
from envs.simulation.watch import DecisionWatch
from envs.simulation.world import World, world_of
from envs.types import (
    Allocation,
    AllocationError,
    ClusterError,
    ClusterSpec,
    ExecutionPlan,
    IntArray,
    JobId,
    PerformanceError,
    Placement,
    Seconds,
)
from envs.workloads import Workload

DECISION_LIMIT: Seconds = 600.0  # real time of one decision, after which a warning names the scheduler


class Simulator:
    """Event-driven, exact simulation of one workload on one cluster, independent of the scheduler.

    ```
    for view in simulator.rounds():
        simulator.apply(scheduler.schedule(view))
    ```

    Args:
        workload: the jobs.
        setup: the cluster, the performance model and the scenario.
        seed: for the scheduler, noisy estimates and node failures.
        logging: whether to log events; without a log, runs of millions of jobs need less memory.

    Raises:
        ClusterError: a job can never run on this cluster.
        PerformanceError: a model or GPU type has no figures.
    """

    def __init__(
        self,
        workload: Workload,
        setup: Setup,
        seed: int = 0,
        *,
        logging: bool = True,
    ) -> None:
        self.workload = workload
        self.setup = setup
        self.cluster, self.scenario = setup.cluster, setup.scenario
        noise, self._scheduler_seed, outages = np.random.SeedSequence(seed).spawn(3)
        largest = int(workload.jobs["max_gpus"].max())
        self.table = ThroughputTable.of(setup, workload.models, largest)
        check_runnable(workload, self.cluster, self.table)
        self.exact = ExactThroughputs(setup)
        self.plans: list[ExecutionPlan] = []  # those that placements have named so far
        self.state = State.allocate(self.cluster, len(workload), scenario=self.scenario)
        if logging:
            self.state.grow_log()
        generators = np.random.default_rng(noise), np.random.default_rng(outages)
        self.state.load(0, workload, self.scenario, self.table, *generators)
        self._world: World | None = None
        self._view = self.view

    @property
    def rng(self) -> np.random.Generator:
        """A fresh generator for the scheduler, the same for every scheduler on the same seed."""
        return scheduler_rng(self._scheduler_seed)

    @property
    def view(self) -> SimulationView:
        """A view of the cluster at the present time."""
        return SimulationView(self.state, self.setup, self.workload, self.table, self.exact, self.plans)

    @property
    def world(self) -> World:
        """The engine's arrays for compiled code; a new object after the log has grown."""
        if self._world is None:
            self._world = world_of(self.state, self.table)
        return self._world

    def rounds(self) -> Iterator[ClusterView]:
        """Yield the view at each round, until the episode ends."""
        view = self.view
        while self.advance():
            yield view

    def advance(self) -> bool:
        """Advance time until a decision is due; return False at the end of the episode."""
        while (outcome := next_round(self.world)) == kernels.LOG_FULL:
            self.grow_log()
        return outcome == kernels.ROUND

    def grow_log(self) -> None:
        """Enlarge the event log."""
        self.state.grow_log()
        self._world = None

    def apply(self, allocation: Allocation) -> None:
        """Apply an allocation at the present time.

        Raises:
            AllocationError: it does not fit; names job, node and resource. Nothing has changed then.
        """
        allocation.check_next_decision(float(self.state.episode[0, 0].time))
        changes = dict(allocation.changes)
        if not allocation.keep_running:
            for job in self._view.running.tolist():
                changes.setdefault(job, None)
        known_plans = len(self.plans)
        try:
            self._plan(changes)
        except AllocationError:
            del self.plans[known_plans:]
            raise
        self.settle()
        self.state.episode[0, 0].next_decision = allocation.next_decision

    def settle(self) -> None:
        """End the round: apply the planned changes."""
        while end_round(self.world) < 0:
            self.grow_log()

    def _plan(self, changes: dict[JobId, Placement | None]) -> None:
        """Put all requested changes into the plan of this round, or raise and change nothing."""
        stopped = np.array([job for job, placement in changes.items() if placement is None], dtype=np.int64)
        rows = self._rows(changes)
        wrong, place = plan_requested(self.world, stopped, rows)
        if wrong != requested.FITS:
            self._refuse(wrong, place, stopped, rows)

    def _rows(self, changes: dict[JobId, Placement | None]) -> Records:
        """REQUESTED rows of all placements."""
        rows: list[tuple[float, ...]] = []
        for job, placement in changes.items():
            if placement is None:
                continue
            if not placement.gpus:
                raise self._out_of_range(job, 0) if self._is_there(job) else self._not_there(job)
            if not _names_anything(placement):
                for node, gpus in placement.gpus.items():
                    rows.append((job, node, gpus, np.nan, np.nan, -1, 0, 0, 0.0, 0.0))
            else:
                rows.extend(self._named_rows(job, placement))
        return np.array(rows, REQUESTED).view(np.recarray)

    def _named_rows(self, job: JobId, placement: Placement) -> Iterator[tuple[float, ...]]:
        """REQUESTED rows of a placement that names more than its GPUs; the performance model gives its throughput."""
        if not self._is_there(job):
            raise self._not_there(job)
        named = self._check_names(job, placement)
        model = self.table.models[self.state.jobs[0, job]["model"]]
        try:
            exact = self.exact.useful_throughput(model, placement)
            has_traffic = placement.batch_size is not None and self.scenario.contention.mode != "off"
            traffic = self.exact.sample_traffic(model, placement) if has_traffic else 0.0
        except PerformanceError as error:
            raise AllocationError(f"job {job}: {error}") from error
        if not exact > 0:
            raise AllocationError(
                f"job {job}: {model} does not fit on {placement.num_gpus} GPUs with what its "
                f"placement names (plan {placement.plan}, batch size {placement.batch_size}); change one of them"
            )
        plan = self._plan_index(placement.plan)
        for node, gpus in placement.gpus.items():
            cpus = np.nan if placement.cpus is None else whole_parts(placement.cpus[node])
            memory = np.nan if placement.memory is None else whole_parts(placement.memory[node])
            yield job, node, gpus, cpus, memory, plan, placement.batch_size or 0, named, exact, traffic

    def _plan_index(self, plan: ExecutionPlan | None) -> int:
        if plan is None:
            return -1
        if plan not in self.plans:
            self.plans.append(plan)
        return self.plans.index(plan)

    def _check_names(self, job: JobId, placement: Placement) -> int:
        """Check batch size, cores and memory of a placement; return JOB's `named`."""
        named = 0
        size, columns = placement.batch_size, self.workload.jobs[job]
        low, high = int(columns["min_batch"]), int(columns["max_batch"])  # 0: no bound
        if size is not None and not low <= size <= (high or size):
            raise AllocationError(
                f"job {job}: its placement sets batch size {size}; its range is {low or 1} to {high or 'any'}"
            )
        for flag, name in ((NAMED_CPUS, "cpus"), (NAMED_MEMORY, "memory")):
            amounts = getattr(placement, name)
            if amounts is None:
                continue
            if self.scenario.cpu_memory == "unlimited":
                raise AllocationError(
                    f"job {job}: its placement sets {name}, which this scenario does not limit; leave it None or set "
                    "scenario.cpu_memory=shared"
                )
            if set(amounts) != set(placement.gpus) or any(
                not whole_parts(amounts[node]) >= gpus / PARTS for node, gpus in placement.gpus.items()
            ):
                raise AllocationError(
                    f"job {job}: its placement sets {name} to {dict(amounts)}; give each of its nodes "
                    f"{sorted(placement.gpus)} at least 1/64 for each GPU"
                )
            named |= flag
        return named

    def _refuse(self, wrong: int, place: int, stopped: IntArray, rows: Records) -> NoReturn:
        """Raise the error for a requested allocation that does not fit."""
        if wrong == requested.NOT_THERE:
            raise self._not_there(int(np.concatenate([stopped, rows["job"]])[place]))
        job, node = int(rows["job"][place]), int(rows["node"][place])
        mine = rows[rows["job"] == job]
        record = self.state.jobs[0][job]
        count = int(mine["gpus"].sum())
        if wrong == requested.OUT_OF_RANGE:
            raise self._out_of_range(job, count)
        if wrong == requested.NO_NODE:
            raise AllocationError(
                f"job {job}: asks for {rows['gpus'][place]} GPUs on node {node}; "
                f"nodes are 0 to {self.cluster.num_nodes - 1}"
            )
        if wrong == requested.DOES_NOT_RUN:
            level = node_level(len(mine))
            gpu_types = self.cluster.node_types[mine["node"]]
            node = int(mine["node"][np.argmin(self.table.throughputs[record.model, gpu_types, count, level])])
            raise AllocationError(
                f"job {job}: {self.table.models[record.model]} does not run on {count} GPUs with node "
                f"{node} ({self.cluster.nodes[node].gpu_type}) among them; place it elsewhere"
            )
        if wrong == requested.NO_GPUS:
            changed = {*stopped.tolist(), *rows["job"].tolist()}
            free = int(self.state.nodes[0]["free"][node])
            free += sum(self._view.placement(int(j)).gpus.get(node, 0) for j in changed & set(self._view.running))
            free -= int(rows["gpus"][:place][rows["node"][:place] == node].sum())
            raise AllocationError(
                f"job {job}: asks for {rows['gpus'][place]} GPUs on node {node}, where {free} are free"
            )
        name, total = ("cores", "cpus") if wrong == requested.NO_CPUS else ("GB of memory", "memory")
        raise AllocationError(
            f"job {job}: node {node} has {self.state.nodes[0][total][node]:g} {name}, fewer than its placements "
            "set plus 1/64 for every other GPU; set less"
        )

    def _is_there(self, job: JobId) -> bool:
        """Return whether a job is in the system."""
        there = 0 <= job < int(self.state.episode[0, 0].next_job)
        return there and self.state.jobs[0]["status"][job] in (kernels.QUEUED, kernels.RUNNING)

    def _not_there(self, job: JobId) -> AllocationError:
        time = self.state.episode[0, 0].time
        return AllocationError(f"job {job} is not in the system at t = {time:g} s; place queued or running jobs")

    def _out_of_range(self, job: JobId, count: int) -> AllocationError:
        record = self.state.jobs[0][job]
        return AllocationError(f"job {job}: is given {count} GPUs; its range is {record.min_gpus} to {record.max_gpus}")

    def result(
        self, scheduler: str, decision_seconds: float = 0.0, counters: dict[str, int] | None = None
    ) -> RunResult:
        """The result of the run so far.

        Raises:
            ConservationError: jobs were lost.
        """
        episode = self.state.episode[0, 0]
        count = int(episode.next_job)
        jobs = self.state.jobs[0][:count]
        done = jobs["status"] == kernels.DONE
        records = np.zeros(count, RECORD)
        records["job"] = np.arange(count)
        records["submit_time"] = jobs["submit"]
        records["start_time"] = jobs["start"]
        records["finish_time"] = np.where(done, jobs["finish"], np.nan)
        records["attained_service"] = self._view.attained_service(records["job"])
        for field in ("num_restarts", "num_preemptions", "num_interruptions", "num_gpus"):
            records[field] = jobs[field]
        with np.errstate(divide="ignore"):  # infinite for a gang that does not fit on any one type
            records["ideal_duration"] = jobs["work"] / self.table.requested_throughput(jobs["model"], jobs["num_gpus"])
        records["measured"] = self.workload.measured[:count]
        result = RunResult(
            scheduler,
            self.workload,
            self.cluster,
            records,
            self.state.log(0, self.plans),
            float(episode.time),
            int(episode.num_rounds),
            decision_seconds,
            counters or {},
            limited_time(episode),
            EndReason(episode.ended),
            float(episode.progress_time),
        )
        result.check_conservation()
        return result


def scheduler_rng(seed: np.random.SeedSequence) -> np.random.Generator:
    """A generator with the stream of a seed that does not hold the seed, from which estimates and failures follow."""
    bits = np.random.PCG64(0)
    bits.state = np.random.PCG64(seed).state
    return np.random.Generator(bits)


def limited_time(episode: Records) -> LimitedTime:
    """What limited the running jobs of an episode so far (dtype `EPISODE`)."""
    present = bool(episode.in_round and episode.window_start <= episode.time < episode.window_end)
    waiting = bool(episode.num_active > episode.num_running)
    return LimitedTime(
        running=float(episode.running_seconds) if episode.shares_cpu_memory or episode.contention else float("nan"),
        cpus=float(episode.cpus_seconds),
        memory=float(episode.memory_seconds),
        network=float(episode.network_seconds),
        num_rounds=int(episode.window_rounds) + present,
        num_queue_rounds=int(episode.queue_rounds) + (present and waiting),
    )


def _names_anything(placement: Placement) -> bool:
    named = (placement.plan, placement.batch_size, placement.cpus, placement.memory)
    return any(amount is not None for amount in named)


def check_runnable(workload: Workload, cluster: ClusterSpec, table: ThroughputTable) -> None:
    """Assert that every job has at least one placement on an empty cluster.

    Raises:
        ClusterError: names the first job without one, and the fix.
    """
    throughputs = table.consolidated()  # [model, type, gpus]
    runs = throughputs.max(axis=1) > 0  # [model, gpus]: on one type
    any_runs = table.throughputs.max(axis=(1, 3)) > 0  # spread over types
    columns = workload.jobs
    largest = np.minimum(columns["max_gpus"], runs.shape[1] - 1)
    for job in np.flatnonzero(columns["min_gpus"] > cluster.num_gpus)[:1]:
        name = workload.names[job] if workload.names else job
        raise ClusterError(
            f"workload {workload.name}: job {name} needs {columns['min_gpus'][job]} GPUs, cluster {cluster.name} has "
            f"{cluster.num_gpus}; choose a larger cluster or set workload.max_gpus={cluster.num_gpus}"
        )
    for model in np.unique(columns["model"]):
        able = np.cumsum(np.concatenate([[0], (runs | any_runs)[model, 1:]]))
        rows = np.flatnonzero(columns["model"] == model)
        stuck = rows[able[largest[rows]] - able[columns["min_gpus"][rows] - 1] == 0]
        if stuck.size:
            raise ClusterError(
                f"workload {workload.name}: job {stuck[0]} ({workload.models[model]}) runs on none of "
                f"{', '.join(cluster.gpu_types)} with {columns['min_gpus'][stuck[0]]} to "
                f"{columns['max_gpus'][stuck[0]]} GPUs; choose a cluster with larger GPUs "
                "or drop the model from the job mix"
            )


class Engine(Protocol):
    """Interface of a simulator: `Simulator` or the reference engine."""

    cluster: ClusterSpec

    @property
    def rng(self) -> np.random.Generator:
        """A fresh generator for the scheduler."""
        ...

    def rounds(self) -> Iterator[ClusterView]:
        """Yield the view at each round, until the episode ends."""
        ...

    def apply(self, allocation: Allocation) -> None:
        """Apply an allocation at the present time."""
        ...

    def result(
        self, scheduler: str, decision_seconds: float = 0.0, counters: dict[str, int] | None = None
    ) -> RunResult:
        """The result of the run so far."""
        ...


@runtime_checkable
class CompiledScheduler(Scheduler, Protocol):
    """A scheduler that can also run whole episodes in compiled code, on the engine's own arrays."""

    def play(self, simulator: Simulator) -> bool:
        """Run an episode to its end, as `schedule` would; return False and change nothing if it cannot."""
        ...


def plays_compiled(scheduler: Scheduler) -> TypeGuard[CompiledScheduler]:
    """Return whether a scheduler may be asked to `play`: nothing for which that stands is overridden.

    `play` stands for what the class that defines it defines, inherits and sets. If a subclass, a mixin or the object
    itself has another `schedule`, helper method or attribute, its own rule is played, decision by decision. A subclass
    that overrides `play` too is compiled again.
    """
    owner = find_definer(scheduler, "play")
    return owner is not None and not find_override(scheduler, owner, "schedule")


def run_episode(
    scheduler: Scheduler,
    simulator: Engine,
    name: str = "",
    *,
    compiled: bool = True,
    decision_limit: Seconds = DECISION_LIMIT,
) -> RunResult:
    """Run one workload to its end under one scheduler, heuristic or trained policy.

    A `CompiledScheduler` runs the episode itself where it can (`plays_compiled`), unless `compiled` is False; its
    decision time is then the time of the whole episode. Decision times are CPU time of the process, so that other
    programs on the machine hardly change them. A `SlowDecisionWarning` names a decision that takes longer than
    `decision_limit` seconds of real time (infinite: none does), while it still runs.

    Raises:
        AllocationError: an allocation does not fit; names scheduler, time, job, node and resource.
    """
    name = name or type(scheduler).__name__
    scheduler.reset(simulator.cluster, simulator.rng)
    began = time.process_time()
    if compiled and isinstance(simulator, Simulator) and plays_compiled(scheduler) and scheduler.play(simulator):
        return simulator.result(name, time.process_time() - began)
    thought = 0.0
    with DecisionWatch(name, decision_limit) as watch:
        for view in simulator.rounds():
            began = time.process_time()
            with _blaming(name, view.time):
                watch.begin(view.time)
                allocation = scheduler.schedule(view)
                watch.end()
                thought += time.process_time() - began
                if not isinstance(allocation, Allocation):
                    raise AllocationError(
                        f"schedule() returned {type(allocation).__name__}; return what view.allocation() gave you"
                    )
                simulator.apply(allocation)
    counters = dict(getattr(scheduler, "counters", {}))
    return simulator.result(name, thought, counters)


@contextmanager
def _blaming(scheduler: str, now: Seconds) -> Iterator[None]:
    """Add scheduler and simulated time to an error."""
    try:
        yield
    except AllocationError as error:
        raise AllocationError(f"scheduler {scheduler} at t = {now:g} s: {error}") from error
    except Exception as error:
        error.add_note(f"in scheduler {scheduler} at t = {now:g} s")
        raise
