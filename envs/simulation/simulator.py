"""The engine's driver: rounds out, allocations in."""

import time
from collections.abc import Iterator
from contextlib import contextmanager
from typing import NoReturn, Protocol, cast, runtime_checkable

import numpy as np

from envs.performance import PerformanceModel
from envs.scheduling import ClusterView, Scheduler
from envs.simulation import kernels, wish
from envs.simulation.entries import end_round, next_round
from envs.simulation.exact import PARTS, ExactSpeeds, whole_parts
from envs.simulation.result import RECORD, RunResult
from envs.simulation.scenario import Scenario
from envs.simulation.shares import NAMED_CPUS, NAMED_MEMORY
from envs.simulation.speed import SpeedTable, node_level
from envs.simulation.state import State
from envs.simulation.view import SimulationView
from envs.simulation.wish import WISH, plan_wish
from envs.simulation.world import Records, World, world_of
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


class Simulator:
    """Plays one workload on one cluster; event-driven, exact, and ignorant of who decides.

    ```
    for view in simulator.rounds():
        simulator.apply(scheduler.schedule(view))
    ```

    Args:
        workload: the jobs.
        cluster: the nodes.
        performance: how fast jobs run; asked once, for a table.
        scenario: the rules.
        seed: of the scheduler's randomness, noisy estimates and node failures.
        logging: whether events are logged; without, runs of millions of jobs need less memory.

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
        *,
        logging: bool = True,
    ) -> None:
        self.workload = workload
        self.cluster = cluster
        self.scenario = scenario or Scenario()
        noise, self._scheduler_seed, outages = np.random.SeedSequence(seed).spawn(3)
        largest = int(workload.jobs["max_gpus"].max())
        self.table = SpeedTable.build(cluster, performance, workload.models, largest, self.scenario)
        check_runnable(workload, cluster, self.table)
        self.exact = ExactSpeeds(performance, cluster, self.scenario.worker_shares)
        self.plans: list[ExecutionPlan] = []  # those that wishes have named so far
        self.state = State.allocate(cluster, len(workload), scenario=self.scenario)
        if logging:
            self.state.grow_log()
        generators = np.random.default_rng(noise), np.random.default_rng(outages)
        self.state.load(0, workload, self.scenario, self.table, *generators)
        self._world: World | None = None
        self._view = self.view

    @property
    def rng(self) -> np.random.Generator:
        """A fresh generator for the scheduler, the same for every scheduler on the same seed."""
        return np.random.default_rng(self._scheduler_seed)

    @property
    def view(self) -> SimulationView:
        """The cluster as it stands."""
        return SimulationView(
            self.state, self.cluster, self.workload, self.table, self.exact, self.scenario, self.plans
        )

    @property
    def world(self) -> World:
        """The engine's arrays as compiled code sees them; a log that grows makes a new one."""
        if self._world is None:
            self._world = world_of(self.state, self.table)
        return self._world

    def rounds(self) -> Iterator[ClusterView]:
        """Views at which a decision is due, until the episode ends."""
        view = self.view
        while self.advance():
            yield view

    def advance(self) -> bool:
        """Let time pass until a decision is due; False at the end of the episode."""
        while (outcome := next_round(self.world)) == kernels.LOG_FULL:
            self.grow_log()
        return outcome == kernels.ROUND

    def grow_log(self) -> None:
        """Make room for more events."""
        self.state.grow_log()
        self._world = None

    def apply(self, allocation: Allocation) -> None:
        """Let an allocation take effect at the present instant.

        Raises:
            AllocationError: it does not fit; nothing has changed then. Names job, node and resource.
        """
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

    def settle(self) -> None:
        """End the round: whatever the plan has changed takes effect."""
        while end_round(self.world) < 0:
            self.grow_log()

    def _plan(self, changes: dict[JobId, Placement | None]) -> None:
        """Put a wish into the plan of this round, all of it or nothing."""
        stopped = np.array([job for job, placement in changes.items() if placement is None], dtype=np.int64)
        rows = self._rows(changes)
        wrong, place = plan_wish(self.world, stopped, rows)
        if wrong != wish.FITS:
            self._refuse(wrong, place, stopped, rows)

    def _rows(self, changes: dict[JobId, Placement | None]) -> Records:
        """WISH rows of all placements."""
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
        return np.array(rows, WISH).view(np.recarray)

    def _named_rows(self, job: JobId, placement: Placement) -> Iterator[tuple[float, ...]]:
        """WISH rows of a placement that names more than its GPUs; its speed is asked of the performance model."""
        if not self._is_there(job):
            raise self._not_there(job)
        named = self._check_names(job, placement)
        model = self.table.models[self.state.jobs[0, job]["model"]]
        try:
            exact = self.exact.speed(model, placement)
            talks = placement.batch_size is not None and self.scenario.contention.mode != "off"
            traffic = self.exact.sample_traffic(model, placement) if talks else 0.0
        except PerformanceError as error:
            raise AllocationError(f"job {job}: {error}") from error
        if not exact > 0:
            raise AllocationError(
                f"job {job}: {model} does not fit on {placement.num_gpus} GPUs with what its "
                f"placement names (plan {placement.plan}, batch size {placement.batch_size}); name something else"
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
        """Which of cores and memory a placement names, as in JOB; its batch size is within the job's range."""
        named = 0
        size, columns = placement.batch_size, self.workload.jobs[job]
        low, high = int(columns["min_batch"]), int(columns["max_batch"])  # 0: no end of its own
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
                    f"job {job}: its placement sets {name}, of which this scenario has no end; leave it None or set "
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
        """Say what is wrong with a wish."""
        if wrong == wish.NOT_THERE:
            raise self._not_there(int(np.concatenate([stopped, rows["job"]])[place]))
        job, node = int(rows["job"][place]), int(rows["node"][place])
        mine = rows[rows["job"] == job]
        record = self.state.jobs[0][job]
        count = int(mine["gpus"].sum())
        if wrong == wish.OUT_OF_RANGE:
            raise self._out_of_range(job, count)
        if wrong == wish.NO_NODE:
            raise AllocationError(
                f"job {job}: asks for {rows['gpus'][place]} GPUs on node {node}; "
                f"nodes are 0 to {self.cluster.num_nodes - 1}"
            )
        if wrong == wish.NO_SPEED:
            level = node_level(len(mine))
            kinds = self.cluster.node_types[mine["node"]]
            node = int(mine["node"][np.argmin(self.table.rates[record.model, kinds, count, level])])
            raise AllocationError(
                f"job {job}: {self.table.models[record.model]} does not run on {count} GPUs with node "
                f"{node} ({self.cluster.nodes[node].gpu_type}) among them; place it elsewhere"
            )
        if wrong == wish.NO_GPUS:
            changed = {*stopped.tolist(), *rows["job"].tolist()}
            free = int(self.state.nodes[0]["free"][node])
            free += sum(self._view.placement(int(j)).gpus.get(node, 0) for j in changed & set(self._view.running))
            free -= int(rows["gpus"][:place][rows["node"][:place] == node].sum())
            raise AllocationError(
                f"job {job}: asks for {rows['gpus'][place]} GPUs on node {node}, where {free} are free"
            )
        name, total = ("cores", "cpus") if wrong == wish.NO_CPUS else ("GB of memory", "memory")
        raise AllocationError(
            f"job {job}: node {node} has {self.state.nodes[0][total][node]:g} {name}, fewer than the placements on it "
            "name, with 1/64 left for every other GPU; name less"
        )

    def _is_there(self, job: JobId) -> bool:
        """Whether a job is in the system."""
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
        """What the run so far leaves behind.

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
        with np.errstate(divide="ignore"):  # infinite for a gang that no one type holds
            records["ideal_duration"] = jobs["work"] / self.table.requested_speed(jobs["model"], jobs["num_gpus"])
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
        )
        result.check_conservation(count)
        return result


def _names_anything(placement: Placement) -> bool:
    named = (placement.plan, placement.batch_size, placement.cpus, placement.memory)
    return any(amount is not None for amount in named)


def check_runnable(workload: Workload, cluster: ClusterSpec, table: SpeedTable) -> None:
    """Assert that every job has at least one placement on an empty cluster.

    Raises:
        ClusterError: names the first job that has none, and the fix.
    """
    speeds = table.consolidated()  # [model, type, gpus]
    runs = speeds.max(axis=1) > 0  # [model, gpus]: on one type
    any_runs = table.rates.max(axis=(1, 3)) > 0  # spread over types
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
    """What plays an episode: `Simulator`, or the reference engine."""

    cluster: ClusterSpec

    @property
    def rng(self) -> np.random.Generator:
        """A fresh generator for the scheduler."""
        ...

    def rounds(self) -> Iterator[ClusterView]:
        """Views at which a decision is due, until the episode ends."""
        ...

    def apply(self, allocation: Allocation) -> None:
        """Let an allocation take effect at the present instant."""
        ...

    def result(
        self, scheduler: str, decision_seconds: float = 0.0, counters: dict[str, int] | None = None
    ) -> RunResult:
        """What the run so far leaves behind."""
        ...


@runtime_checkable
class CompiledScheduler(Scheduler, Protocol):
    """A scheduler that can also play whole episodes in compiled code, over the engine's own arrays."""

    def play(self, simulator: Simulator) -> bool:
        """Play an episode to its end, as `schedule` would; False, and nothing done, if it cannot."""
        ...


def run_episode(scheduler: Scheduler, simulator: Engine, name: str = "", *, compiled: bool = True) -> RunResult:
    """Play one workload to the end under one scheduler; FIFO and a trained net go through the same loop.

    A `CompiledScheduler` plays by itself where it can, unless `compiled` is False; its decision time then is that of
    the whole episode.

    Raises:
        AllocationError: the scheduler wishes what cannot be; names it, the instant, job, node and resource.
    """
    scheduler.reset(simulator.cluster, simulator.rng)
    began = time.perf_counter()
    can_play = compiled and isinstance(simulator, Simulator) and isinstance(scheduler, CompiledScheduler)
    if can_play and cast(CompiledScheduler, scheduler).play(cast(Simulator, simulator)):
        return simulator.result(name or type(scheduler).__name__, time.perf_counter() - began)
    thought = 0.0
    for view in simulator.rounds():
        began = time.perf_counter()
        with _blaming(name or type(scheduler).__name__, view.time):
            allocation = scheduler.schedule(view)
            thought += time.perf_counter() - began
            if not isinstance(allocation, Allocation):
                raise AllocationError(
                    f"schedule() returned {type(allocation).__name__}; return what view.allocation() gave you"
                )
            simulator.apply(allocation)
    counters = dict(getattr(scheduler, "counters", {}))
    return simulator.result(name or type(scheduler).__name__, thought, counters)


@contextmanager
def _blaming(scheduler: str, now: Seconds) -> Iterator[None]:
    """Say of an error whose decision it was, and when."""
    try:
        yield
    except AllocationError as error:
        raise AllocationError(f"scheduler {scheduler} at t = {now:g} s: {error}") from error
    except Exception as error:
        error.add_note(f"in scheduler {scheduler} at t = {now:g} s")
        raise
