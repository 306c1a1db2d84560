"""The cluster as a scheduler sees it in one round: a window on the simulator's state."""

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import replace
from typing import Any, NoReturn

import numpy as np

from envs.simulation.exact import ExactThroughputs
from envs.simulation.kernels import RUNNING
from envs.simulation.ordered_set import list_members
from envs.simulation.setup import Setup
from envs.simulation.shares import NAMED_CPUS, NAMED_MEMORY
from envs.simulation.state import State
from envs.simulation.throughput import ThroughputTable
from envs.types import (
    Allocation,
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
    Seconds,
)
from envs.workloads import Workload


class RunningPlacements(Mapping[JobId, Placement]):
    """Current placements, read lazily from the state; jobs index into `plans`."""

    def __init__(self, state: State, plans: Sequence[ExecutionPlan] = ()) -> None:
        # Columns share memory with the state; reading a number from a column is far cheaper than through a record.
        jobs, shares = state.jobs[0], state.shares[0]
        self._state, self._plans, self._jobs = state, plans, jobs
        self._status, self._first_share, self._named_plan = jobs["status"], jobs["first_share"], jobs["plan"]
        self._batch_size, self._named = jobs["batch_size"], jobs["named"]
        self._node, self._gpus, self._next = shares["node"], shares["gpus"], shares["next_of_job"]
        self._cpus, self._memory = shares["cpus"], shares["memory"]

    def __contains__(self, job: object) -> bool:
        return isinstance(job, (int, np.integer)) and self._runs(int(job))

    def _runs(self, job: JobId) -> bool:
        return 0 <= job < len(self._status) and bool(self._status[job] == RUNNING)

    def __getitem__(self, job: JobId) -> Placement:
        if not self._runs(job):
            raise KeyError(f"job {job} is not running")
        gpus = self._by_node(job, self._gpus)
        named = int(self._named[job])
        if self._named_plan[job] < 0 and not self._batch_size[job] and not named:
            return Placement(gpus)
        return Placement(
            gpus,
            cpus=self._by_node(job, self._cpus) if named & NAMED_CPUS else None,
            memory=self._by_node(job, self._memory) if named & NAMED_MEMORY else None,
            plan=self._plans[self._named_plan[job]] if self._named_plan[job] >= 0 else None,
            batch_size=int(self._batch_size[job]) or None,
        )

    def _by_node(self, job: JobId, column: Any) -> dict[NodeId, Any]:
        amounts: dict[NodeId, Any] = {}
        share = self._first_share[job]
        while share >= 0:
            amounts[int(self._node[share])] = column[share].item()
            share = self._next[share]
        return amounts

    def get(self, job: JobId, default: Any = None) -> Any:
        """Get a placement as from any mapping, without the cost of an exception."""
        if not self._runs(job):
            return default
        return self[job]

    def __iter__(self) -> Iterator[JobId]:
        return iter(self._running().tolist())

    def __len__(self) -> int:
        return len(self._running())

    def _running(self) -> IntArray:
        return members(self._state.running[0], len(self._jobs), int(self._state.episode[0]["num_running"][0]))


def members(words: IntArray, size: int, count: int) -> IntArray:
    """int64[count]: the first members of an ordered set of jobs."""
    found = np.empty(count, dtype=np.int64)
    list_members(words, size, found)
    return found


class SimulationView:
    """`envs.scheduling.ClusterView` over episode 0 of a `State`. Valid until the round ends; read only.

    Attributes:
        state: the engine's own arrays, for schedulers that plan on a copy of them, such as a trained policy.
        table: throughputs of all models in the workload.
    """

    def __init__(
        self,
        state: State,
        setup: Setup,
        workload: Workload,
        table: ThroughputTable,
        exact: ExactThroughputs,
        plans: Sequence[ExecutionPlan] = (),
    ) -> None:
        self.state = state
        self.cluster = setup.cluster
        self._workload = workload
        self.table = table
        self.scenario = setup.scenario
        self._exact = exact
        self._jobs = state.jobs[0]
        self._status, self._model, self._requested = (self._jobs[name] for name in ("status", "model", "num_gpus"))
        self._episode = state.episode[0]
        self._next_job, self._time = self._episode["next_job"], self._episode["time"]
        self._placements = RunningPlacements(state, plans)
        self._per_model: dict[int, Sequence[int]] = {}

    def _submitted(self, field: str) -> Any:
        column = self._jobs[field][: self._next_job[0]]
        column.flags.writeable = False
        return column

    def _of_workload(self, field: str) -> Any:
        column = self._workload.jobs[field][: self._next_job[0]]
        column.flags.writeable = False  # other runs use the same workload
        return column

    @property
    def time(self) -> Seconds:
        """Time of this round, in seconds."""
        return float(self._time[0])

    @property
    def queued(self) -> IntArray:
        """int64[num_queued]: jobs that wait, in order of submission."""
        waiting = int(self._episode["num_active"][0] - self._episode["num_running"][0])
        return members(self.state.queued[0], len(self._jobs), waiting)

    @property
    def running(self) -> IntArray:
        """int64[num_running]: jobs that hold GPUs, in order of submission."""
        return members(self.state.running[0], len(self._jobs), int(self._episode["num_running"][0]))

    @property
    def capacity(self) -> IntArray:
        """int64[num_nodes]: GPUs of each node; 0 while it is down."""
        nodes = self.state.nodes[0]
        capacity: IntArray = np.where(nodes["down"] > 0, 0, nodes["num_gpus"])
        return capacity

    @property
    def free_gpus(self) -> IntArray:
        """int64[num_nodes]: GPUs that no job holds."""
        free: IntArray = self.state.nodes[0]["free"].copy()
        return free

    @property
    def num_gpus(self) -> IntArray:
        """int64[num_submitted]: GPUs requested."""
        return self._submitted("num_gpus")  # type: ignore[no-any-return]

    @property
    def min_gpus(self) -> IntArray:
        """int64[num_submitted]: lower end of the elastic range."""
        return self._submitted("min_gpus")  # type: ignore[no-any-return]

    @property
    def max_gpus(self) -> IntArray:
        """int64[num_submitted]: upper end of the elastic range."""
        return self._submitted("max_gpus")  # type: ignore[no-any-return]

    @property
    def submit_time(self) -> FloatArray:
        """float64[num_submitted]: submission time of each job, in seconds."""
        return self._submitted("submit")  # type: ignore[no-any-return]

    @property
    def start_delay(self) -> FloatArray:
        """float64[num_submitted]: seconds to the first sample after a first start."""
        return self._submitted("start_delay")  # type: ignore[no-any-return]

    @property
    def restart_delay(self) -> FloatArray:
        """float64[num_submitted]: seconds without progress after a resize, a migration or a preemption."""
        return self._submitted("restart_delay")  # type: ignore[no-any-return]

    @property
    def tenant(self) -> IntArray:
        """int64[num_submitted]: index into the workload's tenants."""
        return self._of_workload("tenant")  # type: ignore[no-any-return]

    @property
    def guaranteed(self) -> BoolArray:
        """bool[num_submitted]: whether the job has a service level."""
        return self._of_workload("guaranteed")  # type: ignore[no-any-return]

    @property
    def quotas(self) -> IntArray:
        """int64[num_tenants]: GPUs guaranteed to each tenant; all of the cluster's where the scenario sets none."""
        quotas = self.scenario.quotas
        return np.array([quotas.get(tenant, self.cluster.num_gpus) for tenant in self._workload.tenants])

    @property
    def shares_cpu_memory(self) -> bool:
        """Whether jobs share the cores and memory of nodes, so that a placement may name its amounts."""
        return self.scenario.cpu_memory == "shared"

    def _known(self, jobs: IntArray) -> IntArray:
        """Check that jobs are submitted; a scheduler must not ask about future jobs."""
        jobs = np.asarray(jobs, dtype=np.int64)
        unknown = jobs[(jobs < 0) | (jobs >= self._next_job[0])]
        if unknown.size:
            self._refuse(int(unknown[0]))
        return jobs

    def _known_one(self, job: JobId) -> JobId:
        if not 0 <= job < self._next_job[0]:
            self._refuse(job)
        return job

    def _refuse(self, job: JobId) -> NoReturn:
        raise MurmurationError(
            f"job {job} is not submitted at t = {self.time:g} s; the view shows jobs 0 to {self._next_job[0] - 1}"
        )

    def job(self, job: JobId) -> JobSpec:
        """The job as submitted; `work` is NaN unless the scenario lets schedulers know it exactly."""
        spec = self._workload.spec(self._known_one(job))
        exact = self._episode["knows_work"][0] and self._jobs["estimate"][job] == 1.0
        return spec if exact else replace(spec, work=float("nan"))

    def placement(self, job: JobId) -> Placement:
        """Placement of a running job."""
        return self._placements[job]

    @property
    def shares(self) -> IntArray:
        """int64[num_shares, 3]: all placements at once, as rows (job, node, GPUs) by ascending job and node."""
        running, shares = self.running, self.state.shares[0]
        count = self._jobs["num_shares"][running]
        rows = np.empty((int(count.sum()), 3), dtype=np.int64)
        at, share = np.cumsum(count) - count, self._jobs["first_share"][running]
        while at.size:  # the first share of every job, then the second of jobs that have one
            rows[at] = np.column_stack([shares[name][share] for name in ("job", "node", "gpus")])
            share = shares["next_of_job"][share]
            at, share = at[share >= 0] + 1, share[share >= 0]
        return rows

    def attained_service(self, jobs: IntArray) -> FloatArray:
        """float64[len(jobs)]: GPU-seconds received."""
        jobs, column = self._known(jobs), self._jobs
        since = np.where(self._status[jobs] == RUNNING, self.time - column["served"][jobs], 0.0)
        service: FloatArray = column["service"][jobs] + column["gpus"][jobs] * since
        return service

    def remaining_work(self, jobs: IntArray) -> FloatArray:
        """float64[len(jobs)]: samples left: exact, estimated, or NaN, by the scenario's `information`."""
        jobs, column = self._known(jobs), self._jobs
        if not self._episode["knows_work"][0]:
            return np.full(len(jobs), np.nan)
        ran = np.maximum(self.time - column["synced"][jobs], 0.0) * column["throughput"][jobs]
        done = np.where(self._status[jobs] == RUNNING, ran, 0.0)
        work: FloatArray = np.maximum(column["remaining"][jobs] - done, 0.0) * column["estimate"][jobs]
        return work

    def remaining_time(self, jobs: IntArray) -> FloatArray:
        """float64[len(jobs)]: seconds for the remaining work on the requested GPUs, consolidated, on the fastest type.

        A job that requests more GPUs than the cluster has counts as running on all of them.
        """
        jobs = self._known(jobs)
        throughput = self.table.requested_throughput(self._model[jobs], self._requested[jobs])
        with np.errstate(divide="ignore"):
            time: FloatArray = self.remaining_work(jobs) / throughput
        return time

    def throughputs(self, job: JobId) -> FloatArray:
        """float64[num_gpu_types, largest max_gpus + 1]: samples/s on the fewest nodes."""
        throughputs: FloatArray = self.table.consolidated()[self._model[self._known_one(job)]]
        return throughputs

    def throughput(self, job: JobId, configuration: Configuration) -> float:
        """Samples/s from the performance model; see `PerformanceModel.throughput`."""
        model = int(self._model[self._known_one(job)])
        return self._exact.ask(self.table.models[model], configuration)

    def efficiency(self, job: JobId, configuration: Configuration) -> float:
        """Progress per sample relative to the usual batch size; see `envs.performance.BatchSizes.efficiency`."""
        model = self.table.models[int(self._model[self._known_one(job)])]
        return self._exact.batches.efficiency(model, configuration.num_gpus, configuration.batch_size)

    def goodput(self, job: JobId, configuration: Configuration) -> float:
        """Useful samples/s: throughput x efficiency."""
        return self._exact.goodput(self.table.models[int(self._model[self._known_one(job)])], configuration)

    def batch_range(self, job: JobId, gpu_type: str, num_gpus: int) -> tuple[int, int] | None:
        """Both ends of the batch sizes that a placement may name; see `envs.performance.BatchSizes.offered`."""
        model = self.table.models[int(self._model[self._known_one(job)])]
        low, high = (int(self._workload.jobs[name][job]) for name in ("min_batch", "max_batch"))
        return self._exact.batches.offered(model, gpu_type, num_gpus, low, high)

    def allocation(self, *, keep_running: bool = False) -> Allocation:
        """An allocation to fill: empty, or with all current placements."""
        return Allocation(
            self.cluster,
            self._placements,
            self.state.nodes[0]["free"],
            prefer=self._fastest_types,
            num_gpus=lambda job: int(self._requested[self._known_one(job)]),
            keep_running=keep_running,
            capacity=self.capacity if self._episode["num_down"][0] else None,
        )

    def _fastest_types(self, job: JobId) -> Sequence[int]:
        """GPU types on which a job runs, fastest per GPU first."""
        model = int(self._model[self._known_one(job)])
        if model not in self._per_model:
            throughputs = self.table.throughputs[model, :, 1:].max(axis=(1, 2))
            order = np.argsort(-throughputs, kind="stable")
            self._per_model[model] = [int(gpu_type) for gpu_type in order if throughputs[gpu_type] > 0]
        return self._per_model[model]
