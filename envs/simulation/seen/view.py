"""The cluster as a scheduler sees it in one round: a window on the simulator's state."""

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import replace
from functools import cached_property
from types import MappingProxyType
from typing import Any, NoReturn

import numpy as np

from envs.simulation.known.beliefs import Beliefs
from envs.simulation.known.predictions import remaining_outcomes
from envs.simulation.setup import Setup
from envs.simulation.world.arrays import World, world_of
from envs.simulation.world.exact import ExactThroughputs
from envs.simulation.world.job_classes import JobClasses
from envs.simulation.world.kernels import RUNNING
from envs.simulation.world.ordered_set import list_members
from envs.simulation.world.shares import NAMED_CPUS, NAMED_MEMORY
from envs.simulation.world.state import State
from envs.simulation.world.throughput import ThroughputTable
from envs.types import (
    Allocation,
    Belief,
    BoolArray,
    Configuration,
    ExecutionPlan,
    FloatArray,
    IntArray,
    JobId,
    JobSpec,
    MurmurationError,
    NodeId,
    Placement,
    PlacementLimits,
    SealedColumn,
    Seconds,
    SharedResources,
)
from envs.workloads import Workload

OF_WORKLOAD = ("tenant", "guaranteed")  # columns that the engine itself does not need


class RunningPlacements(Mapping[JobId, Placement]):
    """Current placements, read lazily from the state."""

    def __init__(self, source: "ViewSource") -> None:
        self._engine_side = source

    def __contains__(self, job: object) -> bool:
        return isinstance(job, (int, np.integer)) and self._runs(int(job))

    def _runs(self, job: JobId) -> bool:
        status = self._engine_side.status
        return 0 <= job < len(status) and bool(status[job] == RUNNING)

    def __getitem__(self, job: JobId) -> Placement:
        if not self._runs(job):
            raise KeyError(f"job {job} is not running")
        source = self._engine_side
        gpus = self._by_node(job, source.gpus)
        named = int(source.named[job])
        beside = int(source.jobs["partner"][job]) if source.jobs["guest"][job] else None
        if source.plan[job] < 0 and not source.batch_size[job] and not named:
            return Placement(gpus, beside=beside)
        return Placement(
            gpus,
            cpus=self._by_node(job, source.cpus) if named & NAMED_CPUS else None,
            memory=self._by_node(job, source.memory) if named & NAMED_MEMORY else None,
            plan=source.plans[source.plan[job]] if source.plan[job] >= 0 else None,
            batch_size=int(source.batch_size[job]) or None,
            beside=beside,
        )

    def _by_node(self, job: JobId, column: Any) -> dict[NodeId, Any]:
        amounts: dict[NodeId, Any] = {}
        node, next_of_job = self._engine_side.node, self._engine_side.next_of_job
        share = self._engine_side.first_share[job]
        while share >= 0:
            amounts[int(node[share])] = column[share].item()
            share = next_of_job[share]
        return amounts

    def get(self, job: JobId, default: Any = None) -> Any:
        """Get a placement as from any mapping, without the cost of an exception."""
        if not self._runs(job):
            return default
        return self[job]

    def __iter__(self) -> Iterator[JobId]:
        return iter(self._engine_side.running().tolist())

    def __len__(self) -> int:
        return int(self._engine_side.episode["num_running"][0])


def members(words: IntArray, size: int, count: int) -> IntArray:
    """int64[count]: the first members of an ordered set of jobs."""
    found = np.empty(count, dtype=np.int64)
    list_members(words, size, found)
    return found


class ViewSource:
    """The engine's side of a view. No scheduler may use it; `tests/architecture` checks this project's.

    A view reaches the engine's own arrays, and objects that hold them, through attributes named `_engine_side` only.
    Columns share memory with the state; reading a number from a column is far cheaper than through a record.
    """

    def __init__(
        self,
        state: State,
        setup: Setup,
        workload: Workload,
        table: ThroughputTable,
        exact: ExactThroughputs,
        plans: Sequence[ExecutionPlan],
        beliefs: Beliefs | None,
        predicted: FloatArray | None,
    ) -> None:
        self.predicted = predicted  # float64[num_jobs, NUM_OUTCOMES], total work; None unless it is predicted
        self.state, self.setup, self.workload = state, setup, workload
        self.table, self.exact, self.plans = table, exact, plans
        self.beliefs, self.num_beliefs = beliefs, beliefs.num_beliefs if beliefs else 0
        self.jobs, self.nodes, self.shares, self.episode = (
            state.jobs[0],
            state.nodes[0],
            state.shares[0],
            state.episode[0],
        )
        self.status, self.model, self.requested = (self.jobs[name] for name in ("status", "model", "num_gpus"))
        self.first_share, self.plan = self.jobs["first_share"], self.jobs["plan"]
        self.batch_size, self.named = self.jobs["batch_size"], self.jobs["named"]
        self.node, self.gpus, self.next_of_job = (self.shares[name] for name in ("node", "gpus", "next_of_job"))
        self.cpus, self.memory = self.shares["cpus"], self.shares["memory"]
        self.next_job, self.time = self.episode["next_job"], self.episode["time"]
        self._columns: dict[str, SealedColumn] = {}

    @cached_property
    def world(self) -> World:
        """The engine's arrays for compiled code; its log may be outdated."""
        return world_of(self.state, self.table)

    @cached_property
    def classes(self) -> JobClasses:
        """The classes of jobs with constraints."""
        return JobClasses(self.setup.cluster, self.table)

    def limits(self, job: JobId) -> PlacementLimits | None:
        """What the constraints of a job allow; None if it has no constraints, or if there is no such job."""
        return self.classes.limits[self.model[job]] if 0 <= job < self.next_job[0] else None

    def running(self) -> IntArray:
        """int64[num_running]: jobs that hold GPUs, in order of submission."""
        return members(self.state.running[0], len(self.jobs), int(self.episode["num_running"][0]))

    def submitted(self, name: str) -> Any:
        """One column of the submitted jobs, read-only; the column must never change."""
        column = self._columns.get(name)
        if column is None:
            records = self.workload.jobs if name in OF_WORKLOAD else self.jobs
            column = self._columns[name] = SealedColumn(records[name])
        return column.first(int(self.next_job[0]))


class StateView:
    """A view of episode 0 of a `State`, without snapshots. Valid until the round ends; nothing of it is writable.

    All arrays that it returns are copies, or read-only to their base.
    """

    def __init__(
        self,
        state: State,
        setup: Setup,
        workload: Workload,
        table: ThroughputTable,
        exact: ExactThroughputs,
        plans: Sequence[ExecutionPlan] = (),
        beliefs: Beliefs | None = None,
        predicted: FloatArray | None = None,
    ) -> None:
        self.cluster = setup.cluster
        self._engine_side = ViewSource(state, setup, workload, table, exact, plans, beliefs, predicted)
        self._placements = RunningPlacements(self._engine_side)
        self._per_model: dict[int, Sequence[int]] = {}

    @property
    def time(self) -> Seconds:
        """Time of this round, in seconds."""
        return float(self._engine_side.time[0])

    @property
    def queued(self) -> IntArray:
        """int64[num_queued]: jobs that wait, in order of submission."""
        source = self._engine_side
        waiting = int(source.episode["num_active"][0] - source.episode["num_running"][0])
        return members(source.state.queued[0], len(source.jobs), waiting)

    @property
    def running(self) -> IntArray:
        """int64[num_running]: jobs that hold GPUs, in order of submission."""
        return self._engine_side.running()

    @property
    def capacity(self) -> IntArray:
        """int64[num_nodes]: GPUs of each node; 0 while it is down."""
        nodes = self._engine_side.nodes
        capacity: IntArray = np.where(nodes["down"] > 0, 0, nodes["num_gpus"])
        return capacity

    @property
    def free_gpus(self) -> IntArray:
        """int64[num_nodes]: GPUs that no job holds, alone or with the rest of its nodes."""
        free: IntArray = self._engine_side.nodes["free"].copy()
        return free

    @property
    def num_gpus(self) -> IntArray:
        """int64[num_submitted]: GPUs requested."""
        return self._engine_side.submitted("num_gpus")  # type: ignore[no-any-return]

    @property
    def min_gpus(self) -> IntArray:
        """int64[num_submitted]: lower end of the elastic range."""
        return self._engine_side.submitted("min_gpus")  # type: ignore[no-any-return]

    @property
    def max_gpus(self) -> IntArray:
        """int64[num_submitted]: upper end of the elastic range."""
        return self._engine_side.submitted("max_gpus")  # type: ignore[no-any-return]

    @property
    def submit_time(self) -> FloatArray:
        """float64[num_submitted]: submission time of each job, in seconds."""
        return self._engine_side.submitted("submit")  # type: ignore[no-any-return]

    @property
    def start_delay(self) -> FloatArray:
        """float64[num_submitted]: seconds to the first sample after a first start."""
        return self._engine_side.submitted("start_delay")  # type: ignore[no-any-return]

    @property
    def restart_delay(self) -> FloatArray:
        """float64[num_submitted]: seconds without progress after a resize, a migration or a preemption."""
        return self._engine_side.submitted("restart_delay")  # type: ignore[no-any-return]

    @property
    def tenant(self) -> IntArray:
        """int64[num_submitted]: index into the workload's tenants."""
        return self._engine_side.submitted("tenant")  # type: ignore[no-any-return]

    @property
    def guaranteed(self) -> BoolArray:
        """bool[num_submitted]: whether the job has a service level."""
        return self._engine_side.submitted("guaranteed")  # type: ignore[no-any-return]

    @property
    def quotas(self) -> IntArray:
        """int64[num_tenants]: GPUs guaranteed to each tenant; all of the cluster's where the scenario sets none."""
        quotas, tenants = self._engine_side.setup.scenario.quotas, self._engine_side.workload.tenants
        return np.array([quotas.get(tenant, self.cluster.num_gpus) for tenant in tenants])

    @property
    def queue_limits(self) -> Mapping[str, Mapping[str, int]]:
        """Most GPUs that jobs may hold, by queue and GPU type; see `Scenario.queue_limits`."""
        return MappingProxyType(self._engine_side.setup.scenario.queue_limits)

    @property
    def shares_cpu_memory(self) -> bool:
        """Whether jobs share the cores and memory of nodes, so that a placement may name its amounts."""
        return self._engine_side.setup.scenario.cpu_memory == "shared"

    @property
    def shares_gpus(self) -> bool:
        """Whether two jobs may hold the same GPUs, so that a placement may name the job beside it."""
        return self._engine_side.setup.scenario.sharing == "pairs"

    @property
    def pairs(self) -> dict[JobId, JobId]:
        """The jobs that share GPUs: by the job that held them first, the job beside it."""
        jobs, running = self._engine_side.jobs, self.running
        owners = running[(jobs["partner"][running] >= 0) & (jobs["guest"][running] == 0)]
        return dict(zip(owners.tolist(), jobs["partner"][owners].tolist(), strict=True))

    @property
    def pair_factors(self) -> FloatArray:
        """float64[num_gpu_types, num_models, num_models]: see `ClusterView.pair_factors`."""
        return self._engine_side.table.pair_factors.view()

    @property
    def shared_resources(self) -> SharedResources:
        """The effects of shared cores, memory and links on jobs, by model; read only."""
        return self._engine_side.table.shared_resources(self._engine_side.setup.scenario)

    @property
    def models(self) -> tuple[str, ...]:
        """Names of the models, with the constraints of their jobs."""
        return self._engine_side.table.models

    @property
    def model(self) -> IntArray:
        """int64[num_submitted]: index of each job's model in `shared_resources`."""
        return self._engine_side.submitted("model")  # type: ignore[no-any-return]

    def _known(self, jobs: IntArray) -> IntArray:
        """Check that jobs are submitted; a scheduler must not ask about future jobs."""
        jobs = np.asarray(jobs, dtype=np.int64)
        unknown = jobs[(jobs < 0) | (jobs >= self._engine_side.next_job[0])]
        if unknown.size:
            self._refuse(int(unknown[0]))
        return jobs

    def _known_one(self, job: JobId) -> JobId:
        if not 0 <= job < self._engine_side.next_job[0]:
            self._refuse(job)
        return job

    def _refuse(self, job: JobId) -> NoReturn:
        raise MurmurationError(
            f"job {job} is not submitted at t = {self.time:g} s; "
            f"the view shows jobs 0 to {self._engine_side.next_job[0] - 1}"
        )

    def job(self, job: JobId) -> JobSpec:
        """The job as submitted; `work` is NaN unless the scenario lets schedulers know it exactly."""
        source = self._engine_side
        spec = source.workload.spec(self._known_one(job))
        exact = source.episode["knows_work"][0] and source.jobs["estimate"][job] == 1.0
        return replace(spec, work=float(source.jobs["work"][job]) if exact else float("nan"))

    def placement(self, job: JobId) -> Placement:
        """Placement of a running job."""
        return self._placements[job]

    @property
    def shares(self) -> IntArray:
        """int64[num_shares, 3]: all placements at once, as rows (job, node, GPUs) by ascending job and node."""
        running, shares, columns = self.running, self._engine_side.shares, self._engine_side.jobs
        count = columns["num_shares"][running]
        rows = np.empty((int(count.sum()), 3), dtype=np.int64)
        at, share = np.cumsum(count) - count, self._engine_side.first_share[running]
        while at.size:  # the first share of every job, then the second of jobs that have one
            rows[at] = np.column_stack([shares[name][share] for name in ("job", "node", "gpus")])
            share = shares["next_of_job"][share]
            at, share = at[share >= 0] + 1, share[share >= 0]
        return rows

    def attained_service(self, jobs: IntArray) -> FloatArray:
        """float64[len(jobs)]: GPU-seconds received."""
        jobs, column = self._known(jobs), self._engine_side.jobs
        since = np.where(self._engine_side.status[jobs] == RUNNING, self.time - column["served"][jobs], 0.0)
        service: FloatArray = column["service"][jobs] + column["gpus"][jobs] * since
        return service

    def remaining_work(self, jobs: IntArray) -> FloatArray:
        """float64[len(jobs)]: samples left: exact, estimated, predicted or NaN, by the scenario's `information`."""
        jobs = self._known(jobs)
        if not self._engine_side.episode["knows_work"][0]:
            return np.full(len(jobs), np.nan)
        work: FloatArray = self._left(jobs) * self._engine_side.jobs["estimate"][jobs]
        return work

    def _left(self, jobs: IntArray) -> FloatArray:
        """float64[len(jobs)]: samples that are left in truth."""
        column = self._engine_side.jobs
        ran = np.maximum(self.time - column["synced"][jobs], 0.0) * column["throughput"][jobs]
        done = np.where(self._engine_side.status[jobs] == RUNNING, ran, 0.0)
        left: FloatArray = np.maximum(column["remaining"][jobs] - done, 0.0)
        return left

    def likely_work(self, jobs: IntArray) -> FloatArray:
        """float64[len(jobs), any]: equally likely samples left; NaN where a row has fewer, or nothing is known."""
        predicted = self._engine_side.predicted
        if predicted is None:
            return self.remaining_work(jobs)[:, None]
        jobs = self._known(jobs)
        return remaining_outcomes(predicted[jobs], self._engine_side.jobs["work"][jobs] - self._left(jobs))

    def remaining_time(self, jobs: IntArray) -> FloatArray:
        """float64[len(jobs)]: seconds for the remaining work on the requested GPUs, consolidated, on the fastest type.

        A job that requests more GPUs than the cluster has counts as running on all of them.
        """
        jobs = self._known(jobs)
        source = self._engine_side
        throughput = source.table.requested_throughput(source.model[jobs], source.requested[jobs])
        with np.errstate(divide="ignore", invalid="ignore"):  # NaN for an ended job that runs on several types
            time: FloatArray = self.remaining_work(jobs) / throughput
        return time

    def throughputs(self, job: JobId) -> FloatArray:
        """float64[num_gpu_types, largest max_gpus + 1]: samples/s on the fewest nodes."""
        throughputs: FloatArray = self._engine_side.table.consolidated()[self._engine_side.model[self._known_one(job)]]
        return throughputs

    def most_nodes(self, job: JobId) -> IntArray:
        """int64[num_gpu_types, largest max_gpus + 1]: the most nodes on which so many GPUs of a type run the job."""
        most: IntArray = self._engine_side.table.most_nodes()[self._engine_side.model[self._known_one(job)]]
        return most

    def throughput(self, job: JobId, configuration: Configuration) -> float:
        """Samples/s from the performance model; see `PerformanceModel.throughput`."""
        return self._engine_side.exact.ask(self._model_name(job), configuration)

    def belief(self, job: JobId, configuration: Configuration) -> Belief:
        """`throughput`, its spread, and how often it was measured; exact where nothing is hidden."""
        source = self._engine_side
        if source.beliefs is None:
            return Belief(self.throughput(job, configuration), 0.0, 0)
        return source.beliefs.belief(int(source.model[self._known_one(job)]), configuration)

    @property
    def num_beliefs(self) -> int:
        """How often beliefs about throughputs have changed in this episode; 0 where nothing is hidden."""
        return self._engine_side.num_beliefs

    def _model_name(self, job: JobId) -> str:
        return self._engine_side.table.models[int(self._engine_side.model[self._known_one(job)])]

    def efficiency(self, job: JobId, configuration: Configuration) -> float:
        """Progress per sample relative to the usual batch size; see `envs.performance.BatchSizes.efficiency`."""
        model = self._model_name(job)
        return self._engine_side.exact.batches.efficiency(model, configuration.num_gpus, configuration.batch_size)

    def goodput(self, job: JobId, configuration: Configuration) -> float:
        """Useful samples/s: throughput x efficiency."""
        return self._engine_side.exact.goodput(self._model_name(job), configuration)

    def batch_range(self, job: JobId, gpu_type: str, num_gpus: int) -> tuple[int, int] | None:
        """Both ends of the batch sizes that a placement may name; see `envs.performance.BatchSizes.offered`."""
        model = self._model_name(job)
        low, high = (int(self._engine_side.workload.jobs[name][job]) for name in ("min_batch", "max_batch"))
        return self._engine_side.exact.batches.offered(model, gpu_type, num_gpus, low, high)

    def allocation(self, *, keep_running: bool = False) -> Allocation:
        """An allocation to fill: empty, or with all current placements."""
        classes = self._engine_side.classes
        return Allocation(
            self.cluster,
            self._placements,
            self._engine_side.nodes["free"],
            prefer=self._fastest_types,
            num_gpus=lambda job: int(self._engine_side.requested[self._known_one(job)]),
            keep_running=keep_running,
            capacity=self.capacity if self._engine_side.episode["num_down"][0] else None,
            pairs=self.pairs if keep_running and self.shares_gpus else None,
            limits=self._engine_side.limits if classes.constrained else None,
        )

    def _fastest_types(self, job: JobId) -> Sequence[int]:
        """GPU types on which a job runs, fastest per GPU first."""
        source = self._engine_side
        model = int(source.model[self._known_one(job)])
        if model not in self._per_model:
            throughputs = source.table.throughputs[model, :, 1:].max(axis=(1, 2))
            order = np.argsort(-throughputs, kind="stable")
            self._per_model[model] = [int(gpu_type) for gpu_type in order if throughputs[gpu_type] > 0]
        return self._per_model[model]
