"""The cluster as a scheduler sees it at one round: a window on the simulator's state."""

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import replace
from typing import Any, NoReturn

import numpy as np

from envs.simulation.kernels import QUEUED, RUNNING
from envs.simulation.speed import SpeedTable
from envs.simulation.state import State
from envs.types import (
    Allocation,
    ClusterSpec,
    FloatArray,
    IntArray,
    JobId,
    JobSpec,
    MurmurationError,
    Placement,
    Seconds,
)
from envs.workloads import Workload


class RunningPlacements(Mapping[JobId, Placement]):
    """Placements now in force, read from the state when asked for."""

    def __init__(self, state: State) -> None:
        # Columns are windows on the state; reading one number from a column is far cheaper than through a record.
        jobs, shares = state.jobs[0], state.shares[0]
        self._episode, self._active = state.episode[0], state.active[0]
        self._status, self._first_share = jobs["status"], jobs["first_share"]
        self._node, self._gpus, self._next = shares["node"], shares["gpus"], shares["next_of_job"]

    def __contains__(self, job: object) -> bool:
        return isinstance(job, (int, np.integer)) and self._runs(int(job))

    def _runs(self, job: JobId) -> bool:
        return 0 <= job < len(self._status) and bool(self._status[job] == RUNNING)

    def __getitem__(self, job: JobId) -> Placement:
        if not self._runs(job):
            raise KeyError(f"job {job} is not running")
        gpus: dict[int, int] = {}
        share = self._first_share[job]
        while share >= 0:
            gpus[int(self._node[share])] = int(self._gpus[share])
            share = self._next[share]
        return Placement(gpus)

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
        active = self._active[: self._episode["num_active"][0]]
        running: IntArray = active[self._status[active] == RUNNING]
        return running


class SimulationView:
    """`envs.scheduling.ClusterView` over episode 0 of a `State`. Valid until the round ends; read only.

    Attributes:
        restart_delay: what a resize, migration or preemption costs, in seconds.
        state: the engine's own arrays, for schedulers that plan on a copy of them (a trained policy does).
        table: speeds of all models in the workload.
    """

    def __init__(
        self, state: State, cluster: ClusterSpec, workload: Workload, table: SpeedTable, restart_delay: Seconds
    ) -> None:
        self.state = state
        self.cluster = cluster
        self.restart_delay = restart_delay
        self._workload = workload
        self.table = table
        self._jobs = state.jobs[0]
        self._status, self._model, self._requested = (self._jobs[name] for name in ("status", "model", "num_gpus"))
        self._next_job, self._num_active = state.episode[0]["next_job"], state.episode[0]["num_active"]
        self._placements = RunningPlacements(state)
        self._per_model: dict[int, Sequence[int]] = {}

    @property
    def _episode(self) -> Any:
        return self.state.episode[0, 0]

    def _submitted(self, field: str) -> Any:
        column = self._jobs[field][: self._next_job[0]]
        column.flags.writeable = False
        return column

    @property
    def time(self) -> Seconds:
        """The instant of this round."""
        return float(self._episode.time)

    def _active(self, status: int) -> IntArray:
        active = self.state.active[0, : self._num_active[0]]
        chosen: IntArray = active[self._status[active] == status]
        return chosen

    @property
    def queued(self) -> IntArray:
        """int64[num_queued]: jobs that wait, in order of submission."""
        return self._active(QUEUED)

    @property
    def running(self) -> IntArray:
        """int64[num_running]: jobs that hold GPUs, in order of submission."""
        return self._active(RUNNING)

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
        exact = self._episode.knows_work and self._jobs["estimate"][job] == 1.0
        return spec if exact else replace(spec, work=float("nan"))

    def placement(self, job: JobId) -> Placement:
        """Where a running job runs."""
        return self._placements[job]

    def attained_service(self, jobs: IntArray) -> FloatArray:
        """float64[len(jobs)]: GPU-seconds received."""
        jobs, column = self._known(jobs), self._jobs
        since = np.where(self._status[jobs] == RUNNING, self.time - column["served"][jobs], 0.0)
        service: FloatArray = column["service"][jobs] + column["gpus"][jobs] * since
        return service

    def remaining_work(self, jobs: IntArray) -> FloatArray:
        """float64[len(jobs)]: samples left, as far as the scenario lets schedulers know."""
        jobs, column = self._known(jobs), self._jobs
        if not self._episode.knows_work:
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

    def allocation(self, *, keep_running: bool = False) -> Allocation:
        """A builder for the answer: empty, or with everything as it runs now."""
        return Allocation(
            self.cluster,
            self._placements,
            self.state.nodes[0]["free"],
            prefer=self._fastest_types,
            num_gpus=lambda job: int(self._requested[self._known_one(job)]),
            keep_running=keep_running,
        )

    def _fastest_types(self, job: JobId) -> Sequence[int]:
        """GPU types on which a job runs, fastest per GPU first."""
        model = int(self._model[self._known_one(job)])
        if model not in self._per_model:
            rates = self.table.rates[model, :, 1:].max(axis=(1, 2))
            order = np.argsort(-rates, kind="stable")
            self._per_model[model] = [int(kind) for kind in order if rates[kind] > 0]
        return self._per_model[model]
