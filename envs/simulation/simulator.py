"""The engine's driver: rounds out, allocations in."""

import time
from collections.abc import Iterator

import numpy as np

from envs.performance import PerformanceModel
from envs.scheduling import ClusterView, Scheduler
from envs.simulation import kernels
from envs.simulation.result import RECORD, RunResult
from envs.simulation.scenario import Scenario
from envs.simulation.speed import SpeedTable
from envs.simulation.state import State
from envs.simulation.view import RunningPlacements, SimulationView
from envs.types import Allocation, AllocationError, ClusterError, ClusterSpec, JobId, Placement
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
        seed: of the scheduler's randomness and of noisy estimates.

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
    ) -> None:
        self.workload = workload
        self.cluster = cluster
        self.scenario = scenario or Scenario()
        noise, self._scheduler_seed = np.random.SeedSequence(seed).spawn(2)
        self.table = SpeedTable.build(cluster, performance, workload.models, int(workload.jobs["max_gpus"].max()))
        check_runnable(workload, cluster, self.table)
        self.state = State.allocate(cluster, len(workload))
        self.state.grow_log()
        self.state.load(0, workload, self.scenario, self.table, np.random.default_rng(noise))

    @property
    def rng(self) -> np.random.Generator:
        """A fresh generator for the scheduler, the same for every scheduler on the same seed."""
        return np.random.default_rng(self._scheduler_seed)

    @property
    def view(self) -> ClusterView:
        """The cluster as it stands."""
        return SimulationView(self.state, self.cluster, self.workload, self.table, self.scenario.restart_delay)

    def rounds(self) -> Iterator[ClusterView]:
        """Views at which a decision is due, until the episode ends."""
        view = self.view
        while self.advance():
            yield view

    def advance(self) -> bool:
        """Let time pass until a decision is due; False at the end of the episode."""
        state = self.state
        while True:
            outcome = kernels.advance(
                state.episode[0],
                state.jobs[0],
                state.nodes[0],
                state.shares[0],
                state.heap[0],
                state.active[0],
                state.events[0],
                state.log_shares[0],
            )
            if outcome != kernels.LOG_FULL:
                return outcome == kernels.ROUND
            state.grow_log()

    def apply(self, allocation: Allocation) -> None:
        """Let an allocation take effect at the present instant.

        Raises:
            AllocationError: it does not fit; nothing has changed then. Names job, node and resource.
        """
        changes = dict(allocation.changes)
        if not allocation.keep_running:
            active = self.state.active[0, : self.state.episode[0, 0].num_active]
            for job in active[self.state.jobs[0]["status"][active] == kernels.RUNNING].tolist():
                changes.setdefault(job, None)
        self._check(changes)
        status = self.state.jobs[0]["status"]
        arrays = (self.state.episode[0], self.state.jobs[0], self.state.nodes[0], self.state.shares[0])
        for job, placement in changes.items():
            if placement is not None or status[job] == kernels.RUNNING:
                kernels.clear_job(*arrays, self.state.touched[0], job)
        for job, placement in changes.items():
            for node, gpus in placement.gpus.items() if placement else ():
                kernels.new_share(*arrays, job, node, gpus)
        self.settle()

    def settle(self) -> None:
        """End the round: whatever the plan has changed takes effect."""
        state = self.state
        while (
            state.events.shape[1] - state.episode[0, 0].log_events < state.episode[0, 0].num_touched
            or state.log_shares.shape[1] - state.episode[0, 0].log_shares < self.cluster.num_gpus
        ):
            state.grow_log()
        kernels.settle(
            state.episode[0],
            state.jobs[0],
            state.nodes[0],
            state.shares[0],
            state.heap[0],
            state.touched[0],
            self.table.rates,
            state.events[0],
            state.log_shares[0],
        )

    def _check(self, changes: dict[JobId, Placement | None]) -> None:
        status = self.state.jobs[0]["status"]
        submitted = int(self.state.episode[0, 0].next_job)
        free = self.state.nodes[0]["free"].copy()
        running = RunningPlacements(self.state)
        for job, placement in changes.items():
            if not 0 <= job < submitted or status[job] not in (kernels.QUEUED, kernels.RUNNING):
                raise AllocationError(
                    f"job {job} is not in the system at t = {self.state.episode[0, 0].time:g} s; "
                    "place queued or running jobs"
                )
            if status[job] == kernels.RUNNING:
                for node, gpus in running[job].gpus.items():
                    free[node] += gpus
            if placement:
                self._check_job(job, placement)
        for job, placement in changes.items():
            for node, gpus in placement.gpus.items() if placement else ():
                free[node] -= gpus
                if free[node] < 0:
                    raise AllocationError(
                        f"job {job}: asks for {gpus} GPUs on node {node}, where {free[node] + gpus} are free"
                    )

    def _check_job(self, job: JobId, placement: Placement) -> None:
        for name in ("cpus", "memory", "plan", "batch_size"):  # the world's rule decides them for every job so far
            if getattr(placement, name) is not None:
                raise AllocationError(
                    f"job {job}: its placement sets {name}, which the engine does not model; leave it None"
                )
        record = self.state.jobs[0][job]
        if not record.min_gpus <= placement.num_gpus <= record.max_gpus:
            raise AllocationError(
                f"job {job}: is given {placement.num_gpus} GPUs; its range is {record.min_gpus} to {record.max_gpus}"
            )
        level = min((len(placement.gpus) - 1).bit_length(), self.table.rates.shape[3] - 1)
        for node in placement.gpus:
            kind = self.cluster.node_types[node]
            if not self.table.rates[record.model, kind, placement.num_gpus, level] > 0:
                raise AllocationError(
                    f"job {job}: {self.table.models[record.model]} does not run on {placement.num_gpus} GPUs with node "
                    f"{node} ({self.cluster.gpu_types[kind]}) among them; place it elsewhere"
                )

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
        view = SimulationView(self.state, self.cluster, self.workload, self.table, 0.0)
        records = np.zeros(count, RECORD)
        records["job"] = np.arange(count)
        records["submit_time"] = jobs["submit"]
        records["start_time"] = jobs["start"]
        records["finish_time"] = np.where(done, jobs["finish"], np.nan)
        records["attained_service"] = view.attained_service(records["job"])
        for field in ("num_restarts", "num_preemptions", "num_gpus"):
            records[field] = jobs[field]
        with np.errstate(divide="ignore"):  # infinite for a gang that no one type holds
            records["ideal_duration"] = jobs["work"] / self.table.requested_speed(jobs["model"], jobs["num_gpus"])
        records["measured"] = self.workload.measured[:count]
        result = RunResult(
            scheduler,
            self.workload,
            self.cluster,
            records,
            self.state.log(0),
            float(episode.time),
            int(episode.num_rounds),
            decision_seconds,
            counters or {},
        )
        result.check_conservation(count)
        return result


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


def run_episode(scheduler: Scheduler, simulator: Simulator, name: str = "") -> RunResult:
    """Play one workload to the end under one scheduler; FIFO and a trained net go through the same loop."""
    scheduler.reset(simulator.cluster, simulator.rng)
    thought = 0.0
    for view in simulator.rounds():
        began = time.perf_counter()
        allocation = scheduler.schedule(view)
        thought += time.perf_counter() - began
        simulator.apply(allocation)
    counters = dict(getattr(scheduler, "counters", {}))
    return simulator.result(name or type(scheduler).__name__, thought, counters)
