"""The cluster as a scheduler sees it at one round: a window on the simulator's state."""

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import replace
from typing import Any, NoReturn

import numpy as np

from envs.simulation.exact import ExactSpeeds
from envs.simulation.kernels import RUNNING
from envs.simulation.ordered_set import list_members
from envs.simulation.scenario import Scenario
from envs.simulation.speed import SpeedTable
from envs.simulation.state import State
from envs.types import (
    Allocation,
    BoolArray,
    ClusterSpec,
    ExecutionPlan,
    FloatArray,
    Gigabytes,
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
    """Placements now in force, read from the state when asked for; `plans` are those that jobs name by index."""

    def __init__(self, state: State, plans: Sequence[ExecutionPlan] = ()) -> None:
        # Columns are windows on the state; reading one number from a column is far cheaper than through a record.
        jobs, shares = state.jobs[0], state.shares[0]
        self._state, self._plans, self._jobs = state, plans, jobs
        self._status, self._first_share, self._named_plan = jobs["status"], jobs["first_share"], jobs["plan"]
        self._batch_size, self._shares_host = jobs["batch_size"], state.episode[0]["shares_host"]
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
        if self._named_plan[job] < 0 and not self._batch_size[job] and not self._shares_host[0]:
            return Placement(gpus)
        return Placement(
            gpus,
            cpus=self._by_node(job, self._cpus) if self._shares_host[0] else None,
            memory=self._by_node(job, self._memory) if self._shares_host[0] else None,
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
        """As of any mapping, without the detour over an exception."""
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
        state: the engine's own arrays, for schedulers that plan on a copy of them (a trained policy does).
        table: speeds of all models in the workload.
    """

    def __init__(
        self,
        state: State,
        cluster: ClusterSpec,
        workload: Workload,
        table: SpeedTable,
        exact: ExactSpeeds,
        scenario: Scenario,
        plans: Sequence[ExecutionPlan] = (),
    ) -> None:
        self.state = state
        self.cluster = cluster
        self._workload = workload
        self.table = table
        self.scenario = scenario
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
        column.flags.writeable = False  # other schedulers play the same workload
        return column

    @property
    def time(self) -> Seconds:
        """The instant of this round."""
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
        """float64[num_submitted]: when each job came, in seconds."""
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
        """int64[num_submitted]: whose job it is."""
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

    def _known(self, jobs: IntArray) -> IntArray:
        """Submitted jobs; a question about the future is a mistake of the scheduler."""
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
            f"job {job} is not submitted at t = {self.time:g} s; a view knows jobs 0 to {self._next_job[0] - 1}"
        )

    def job(self, job: JobId) -> JobSpec:
        """The job as submitted; `work` is NaN unless the scenario lets schedulers know it exactly."""
        spec = self._workload.spec(self._known_one(job))
        exact = self._episode["knows_work"][0] and self._jobs["estimate"][job] == 1.0
        return spec if exact else replace(spec, work=float("nan"))

    def placement(self, job: JobId) -> Placement:
        """Where a running job runs."""
        return self._placements[job]

    @property
    def shares(self) -> IntArray:
        """int64[num_shares, 3]: all placements at once, as rows (job, node, GPUs) by ascending job and node."""
        running, shares = self.running, self.state.shares[0]
        count = self._jobs["num_shares"][running]
        rows = np.empty((int(count.sum()), 3), dtype=np.int64)
        at, share = np.cumsum(count) - count, self._jobs["first_share"][running]
        while at.size:  # the first share of every job, then the second of those that have one
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
        """float64[len(jobs)]: samples left, as far as the scenario lets schedulers know."""
        jobs, column = self._known(jobs), self._jobs
        if not self._episode["knows_work"][0]:
            return np.full(len(jobs), np.nan)
        ran = np.maximum(self.time - column["synced"][jobs], 0.0) * column["rate"][jobs]
        done = np.where(self._status[jobs] == RUNNING, ran, 0.0)
        work: FloatArray = np.maximum(column["remaining"][jobs] - done, 0.0) * column["estimate"][jobs]
        return work

    def remaining_time(self, jobs: IntArray) -> FloatArray:
        """float64[len(jobs)]: seconds for the remaining work on the requested GPUs, consolidated, on the fastest type.

        A job that requests more GPUs than the cluster has is counted on all of them.
        """
        jobs = self._known(jobs)
        rate = self.table.requested_speed(self._model[jobs], self._requested[jobs])
        with np.errstate(divide="ignore"):
            time: FloatArray = self.remaining_work(jobs) / rate
        return time

    def speed(self, job: JobId) -> FloatArray:
        """float64[num_gpu_types, largest max_gpus + 1]: samples/s on the fewest nodes."""
        rates: FloatArray = self.table.consolidated()[self._model[self._known_one(job)]]
        return rates

    def throughput(
        self,
        job: JobId,
        gpu_type: int,
        num_gpus: int,
        num_nodes: int = 1,
        *,
        batch_size: int | None = None,
        plan: ExecutionPlan | None = None,
        cpus_per_gpu: float | None = None,
        memory_per_gpu: Gigabytes | None = None,
    ) -> float:
        """Samples/s by the performance model itself."""
        model = int(self._model[self._known_one(job)])
        name = self.table.models[model]
        return self._exact.ask(name, gpu_type, num_gpus, num_nodes, batch_size, plan, cpus_per_gpu, memory_per_gpu)

    def allocation(self, *, keep_running: bool = False) -> Allocation:
        """A builder for the answer: empty, or with everything as it runs now."""
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
            rates = self.table.rates[model, :, 1:].max(axis=(1, 2))
            order = np.argsort(-rates, kind="stable")
            self._per_model[model] = [int(kind) for kind in order if rates[kind] > 0]
        return self._per_model[model]
