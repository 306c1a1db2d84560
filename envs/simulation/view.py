"""The cluster as a scheduler sees it at one round: a window on the simulator's state."""

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import replace
from typing import Any

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
        self._jobs, self._shares = state.jobs[0], state.shares[0]
        self._active = state.active[0, : state.episode[0, 0].num_active]

    def __getitem__(self, job: JobId) -> Placement:
        if not 0 <= job < len(self._jobs) or self._jobs[job].status != RUNNING:
            raise KeyError(f"job {job} is not running")
        record = self._jobs[job]
        gpus: dict[int, int] = {}
        share = record.first_share
        while share >= 0:
            gpus[int(self._shares[share].node)] = int(self._shares[share].gpus)
            share = self._shares[share].next_of_job
        return Placement(gpus)

    def __iter__(self) -> Iterator[JobId]:
        return iter(self._active[self._jobs["status"][self._active] == RUNNING].tolist())

    def __len__(self) -> int:
        return int((self._jobs["status"][self._active] == RUNNING).sum())


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
        self._consolidated = table.consolidated()
        self._per_model: dict[int, Sequence[int]] = {}

    @property
    def _episode(self) -> Any:
        return self.state.episode[0, 0]

    def _submitted(self, field: str) -> Any:
        column = self.state.jobs[0][field][: self._episode.next_job]
        column.flags.writeable = False
        return column

    @property
    def time(self) -> Seconds:
        """The instant of this round."""
        return float(self._episode.time)

    def _active(self, status: int) -> IntArray:
        active = self.state.active[0, : self._episode.num_active]
        chosen: IntArray = active[self.state.jobs[0]["status"][active] == status]
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

    def _records(self, jobs: IntArray) -> Any:
        """Records of submitted jobs, copied; a question about the future is a mistake of the scheduler."""
        jobs = np.asarray(jobs, dtype=np.int64)
        submitted = int(self._episode.next_job)
        unknown = jobs[(jobs < 0) | (jobs >= submitted)]
        if unknown.size:
            raise MurmurationError(
                f"job {unknown[0]} is not submitted at t = {self.time:g} s; a view knows jobs 0 to {submitted - 1}"
            )
        return self.state.jobs[0][jobs]

    def job(self, job: JobId) -> JobSpec:
        """The job as submitted; `work` is NaN unless the scenario lets schedulers know it exactly."""
        record = self._records(np.array([job]))[0]
        spec = self._workload.spec(job)
        exact = self._episode.knows_work and record.estimate == 1.0
        return spec if exact else replace(spec, work=float("nan"))

    def placement(self, job: JobId) -> Placement:
        """Where a running job runs."""
        return RunningPlacements(self.state)[job]

    def attained_service(self, jobs: IntArray) -> FloatArray:
        """float64[len(jobs)]: GPU-seconds received."""
        records = self._records(jobs)
        since = np.where(records["status"] == RUNNING, self.time - records["served"], 0.0)
        service: FloatArray = records["service"] + records["gpus"] * since
        return service

    def remaining_work(self, jobs: IntArray) -> FloatArray:
        """float64[len(jobs)]: samples left, as far as the scenario lets schedulers know."""
        records = self._records(jobs)
        if not self._episode.knows_work:
            return np.full(len(jobs), np.nan)
        ran = np.maximum(self.time - records["synced"], 0.0) * records["rate"]
        done = np.where(records["status"] == RUNNING, ran, 0.0)
        work: FloatArray = np.maximum(records["remaining"] - done, 0.0) * records["estimate"]
        return work

    def remaining_time(self, jobs: IntArray) -> FloatArray:
        """float64[len(jobs)]: seconds for the remaining work on the requested GPUs, consolidated, on the fastest type.

        A job that requests more GPUs than the cluster has is counted on all of them.
        """
        records = self._records(jobs)
        rate = self.table.requested_speed(records["model"], records["num_gpus"])
        with np.errstate(divide="ignore"):
            time: FloatArray = self.remaining_work(jobs) / rate
        return time

    def speed(self, job: JobId) -> FloatArray:
        """float64[num_gpu_types, largest max_gpus + 1]: samples/s on the fewest nodes."""
        rates: FloatArray = self._consolidated[self._records(np.array([job]))[0].model]
        return rates

    def allocation(self, *, keep_running: bool = False) -> Allocation:
        """A builder for the answer: empty, or with everything as it runs now."""
        return Allocation(
            self.cluster,
            RunningPlacements(self.state),
            self.state.nodes[0]["free"],
            prefer=self._fastest_types,
            num_gpus=lambda job: int(self._records(np.array([job]))[0].num_gpus),
            keep_running=keep_running,
        )

    def _fastest_types(self, job: JobId) -> Sequence[int]:
        """GPU types on which a job runs, fastest per GPU first."""
        record = self._records(np.array([job]))[0]
        if record.model not in self._per_model:
            rates = self.table.rates[record.model, :, 1:].max(axis=(1, 2))
            order = np.argsort(-rates, kind="stable")
            self._per_model[int(record.model)] = [int(kind) for kind in order if rates[kind] > 0]
        return self._per_model[int(record.model)]
