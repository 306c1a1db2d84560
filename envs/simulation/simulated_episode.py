"""One episode in the engine's arrays: time passes in it, and allocations change it."""

from abc import ABC, abstractmethod
from collections.abc import Iterator
from functools import cached_property
from typing import NoReturn

import numpy as np

from envs.scheduling import ClusterView
from envs.simulation.compiled.jit import Records
from envs.simulation.entries import end_round, next_round
from envs.simulation.known.beliefs import Beliefs
from envs.simulation.known.predictions import Predictions
from envs.simulation.result import RECORD, EndReason, LimitedTime, RunResult
from envs.simulation.setup import Setup
from envs.simulation.world import kernels, requested
from envs.simulation.world.arrays import World, world_of
from envs.simulation.world.exact import PARTS, ExactThroughputs, whole_parts
from envs.simulation.world.ideal import ideal_throughput
from envs.simulation.world.job_classes import JobClasses
from envs.simulation.world.queue_limits import QueueLimits
from envs.simulation.world.requested import REQUESTED, plan_requested
from envs.simulation.world.shares import NAMED_CPUS, NAMED_MEMORY
from envs.simulation.world.state import State
from envs.simulation.world.throughput import ThroughputTable, node_level
from envs.types import (
    Allocation,
    AllocationError,
    ExecutionPlan,
    IntArray,
    JobId,
    PerformanceError,
    Placement,
    PreemptionError,
)
from envs.workloads import Workload


class SimulatedEpisode(ABC):
    """Common base of `Simulator`, `Snapshot` and `Replica`, which differ in how they come to their state.

    Args:
        setup: the cluster, the performance model and the scenario.
        table: throughputs of the models in the workload.
        state: the engine's arrays, with one episode.
        scheduler_seed: of the generator that schedulers get.
    """

    beliefs: Beliefs | None = None  # of views about throughputs that the engine alone knows
    predictions: Predictions | None = None  # of work, which the engine alone knows

    def __init__(
        self, setup: Setup, table: ThroughputTable, state: State, scheduler_seed: np.random.SeedSequence
    ) -> None:
        self.setup, self.table, self.state = setup, table, state
        self.cluster, self.scenario = setup.cluster, setup.scenario
        self.plans: list[ExecutionPlan] = []  # those that placements have named so far
        self.scheduler_seed = scheduler_seed
        self._world: World | None = None
        self._classes: JobClasses | None = None

    @property
    @abstractmethod
    def workload(self) -> Workload:
        """The jobs; those of a `Snapshot` are the submitted ones."""

    @property
    @abstractmethod
    def exact(self) -> ExactThroughputs:
        """Exact throughputs of placements that set more than GPUs."""

    @property
    @abstractmethod
    def view(self) -> ClusterView:
        """A view of the cluster at the present time."""

    @property
    def rng(self) -> np.random.Generator:
        """A fresh generator for the scheduler, the same for every scheduler on the same seed."""
        return scheduler_rng(self.scheduler_seed)

    @cached_property
    def queue_limits(self) -> QueueLimits:
        """The limits of queues on this cluster."""
        return QueueLimits(self.scenario.queue_limits, self.cluster)

    @property
    def world(self) -> World:
        """The engine's arrays for compiled code; a new object after the log has grown."""
        if self._world is None:
            self._world = world_of(self.state, self.table)
        return self._world

    def rounds(self) -> Iterator[ClusterView]:
        """Yield the view at each round, until the episode ends."""
        while self.advance():
            yield self.view

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
            for job in self.view.running.tolist():
                changes.setdefault(job, None)
        elif self.scenario.sharing != "off":
            changes |= self._guests_to_keep(changes)
        known_plans = len(self.plans)
        try:
            self._check_kept(changes)
            self._check_constraints(changes)
            self._check_queues(changes)
            self._plan(changes)
        except AllocationError:
            del self.plans[known_plans:]
            raise
        self.settle()
        self.state.episode[0, 0].next_decision = allocation.next_decision

    def _check_kept(self, changes: dict[JobId, Placement | None]) -> None:
        """Check that running jobs keep what they have, where the scenario says so."""
        if self.scenario.preemption != "never":
            return
        running = set(self.view.running.tolist())
        for job, placement in changes.items():
            if job in running and (placement is None or not _keeps(placement, self.view.placement(job))):
                raise PreemptionError(
                    f"job {job}: runs, and is to {'stop' if placement is None else 'change'}; scenario.preemption is "
                    "never, so leave it what it has"
                )

    def _check_constraints(self, changes: dict[JobId, Placement | None]) -> None:
        """Check that the jobs may run where they are placed."""
        if self._classes is None or self._classes.table is not self.table:
            self._classes = JobClasses(self.cluster, self.table)
        classes, rows = self._classes, self.state.jobs[0]["model"]
        if not classes.constrained:
            return
        placed = {job: placement for job, placement in changes.items() if placement and self._is_there(job)}
        for job, placement in placed.items():
            limits = classes.limits[rows[job]]
            if limits is not None and placement.gpus:
                limits.check(job, placement.gpus, self.cluster)
        if classes.exclusive:
            held = {job: self.view.placement(job).gpus for job in self.view.running.tolist() if job not in changes}
            held |= {job: placement.gpus for job, placement in placed.items()}
            classes.check_alone(held, {job: int(rows[job]) for job in held})

    def _check_queues(self, changes: dict[JobId, Placement | None]) -> None:
        """Check that no queue gets more GPUs than it may hold."""
        limits = self.queue_limits
        if not limits.rules:
            return
        last = self.cluster.num_nodes - 1
        shares = self.view.shares
        rows = [tuple(row) for row in shares[~np.isin(shares[:, 0], list(changes))].tolist()]
        for job, placement in changes.items():
            if placement is not None and self._is_there(job):
                rows += [(job, node, gpus) for node, gpus in placement.gpus.items() if 0 <= node <= last]
        table = np.array(rows, np.int64).reshape(-1, 3)
        of = self.workload.jobs["tenant"][table[:, 0]]
        limits.refuse(limits.held(self.workload.tenants, of, table[:, 1], table[:, 2]))

    def _guests_to_keep(self, changes: dict[JobId, Placement | None]) -> dict[JobId, Placement]:
        """Placements of the guests of jobs that are changed, but stay on their GPUs: the guests stay beside them."""
        kept: dict[JobId, Placement] = {}
        columns = self.state.jobs[0]
        for job, placement in changes.items():
            if placement is None or placement.beside is not None or not self._is_there(job):
                continue
            guest = int(columns["partner"][job])
            if guest < 0 or guest in changes or not columns["guest"][guest]:
                continue
            if dict(self.view.placement(job).gpus) == dict(placement.gpus):
                kept[guest] = self.view.placement(guest)
        return kept

    def settle(self) -> None:
        """End the round: apply the planned changes."""
        while end_round(self.world) < 0:
            self.grow_log()

    def _plan(self, changes: dict[JobId, Placement | None]) -> None:
        """Put all requested changes into the draft of this round, or raise and change nothing."""
        stopped = np.array([job for job, placement in changes.items() if placement is None], dtype=np.int64)
        rows = self._rows(changes)
        wrong, place = plan_requested(self.world, stopped, rows)
        if wrong != requested.FITS:
            self._refuse(wrong, place, stopped, rows)

    def _rows(self, changes: dict[JobId, Placement | None]) -> Records:
        """REQUESTED rows of all placements; those beside other jobs at the end."""
        rows: list[tuple[float, ...]] = []
        for job, placement in changes.items():
            if placement is None:
                continue
            if placement.beside is not None and self.scenario.sharing == "off":
                raise AllocationError(
                    f"job {job}: its placement shares the GPUs of job {placement.beside}, which this scenario does not "
                    "let jobs do; leave beside None or set scenario.sharing=pairs"
                )
            if not placement.gpus:
                raise self._out_of_range(job, 0) if self._is_there(job) else self._not_there(job)
            if not _names_anything(placement):
                for node, gpus in placement.gpus.items():
                    rows.append((job, node, gpus, np.nan, np.nan, -1, 0, 0, 0.0, 0.0, _owner(placement)))
            else:
                rows.extend(self._named_rows(job, placement))
        rows.sort(key=lambda row: row[-1] > 0)
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
            batch, owner = placement.batch_size or 0, _owner(placement)
            yield job, node, gpus, cpus, memory, plan, batch, named, exact, traffic, owner

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
        if wrong in (requested.NO_OWNER, requested.OTHER_GPUS, requested.TOO_LARGE_TOGETHER):
            owner = int(rows["owner"][place]) - 1
            reason = {
                requested.NO_OWNER: "which holds none for itself alone; place that one, and at most two together",
                requested.OTHER_GPUS: "which holds other GPUs; both must hold the same",
                requested.TOO_LARGE_TOGETHER: "but the two do not fit into the memory of a GPU; keep them apart",
            }[wrong]
            raise AllocationError(f"job {job}: is to share the GPUs of job {owner}, {reason}")
        if wrong == requested.NO_GPUS:
            changed = {*stopped.tolist(), *rows["job"].tolist()}
            columns = self.state.jobs[0]
            free = int(self.state.nodes[0]["free"][node])
            for j in changed & set(self.view.running.tolist()):
                stays = columns["guest"][j] or (
                    columns["partner"][j] >= 0 and int(columns["partner"][j]) not in changed
                )
                free += 0 if stays else self.view.placement(j).gpus.get(node, 0)
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
        cut_short = done & np.isfinite(jobs["deadline"])  # at a limit, or it could never run
        records["finish_time"] = np.where(done & ~cut_short, jobs["finish"], np.nan)
        records["attained_service"] = self.view.attained_service(records["job"])
        for field in ("num_restarts", "num_preemptions", "num_interruptions", "num_gpus"):
            records[field] = jobs[field]
        with np.errstate(divide="ignore"):  # infinite for a model that runs nowhere in the cluster
            ideal = ideal_throughput(self.setup, self.table, jobs["model"], jobs["num_gpus"])
            records["ideal_duration"] = jobs["work"] / ideal
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
            np.where(cut_short, jobs["finish"], np.nan),
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


def _owner(placement: Placement) -> int:
    """REQUESTED's `owner` of a placement."""
    return 0 if placement.beside is None else placement.beside + 1


def _keeps(placement: Placement, held: Placement) -> bool:
    """Return whether a placement leaves a job the GPUs, plan and batch size that it holds."""
    same = dict(placement.gpus) == dict(held.gpus) and placement.beside == held.beside
    return same and (placement.plan, placement.batch_size) == (held.plan, held.batch_size)


def _names_anything(placement: Placement) -> bool:
    named = (placement.plan, placement.batch_size, placement.cpus, placement.memory)
    return any(amount is not None for amount in named)
