"""The cluster as a scheduler sees it, on the reference engine."""

import math
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import replace
from types import MappingProxyType
from typing import Protocol

import numpy as np

from envs.performance import without_draw
from envs.scheduling import ClusterCopy
from envs.simulation.reference.beliefs import ReferenceBeliefs, Sighting
from envs.simulation.reference.constraints import limits_of
from envs.simulation.reference.objects import Job, JobStatus, Node
from envs.simulation.reference.predictions import ReferencePredictions, believed_alone
from envs.simulation.reference.rules import ReferenceRules
from envs.simulation.scenario import Scenario
from envs.types import (
    NUM_OUTCOMES,
    Allocation,
    Belief,
    BoolArray,
    ClusterSpec,
    Configuration,
    FloatArray,
    IntArray,
    JobId,
    JobSpec,
    MurmurationError,
    Placement,
    Seconds,
    SharedResources,
)
from envs.workloads import Workload

LEAST_LEFT = 1e-3  # seconds that a time limit is said to leave at least


class ReferenceState(Protocol):
    """The parts of a reference engine that a view reads."""

    workload: Workload
    cluster: ClusterSpec
    scenario: Scenario
    rules: ReferenceRules  # of the world
    shown: ReferenceRules  # with the throughputs that views show
    beliefs: ReferenceBeliefs | None
    predictions: ReferencePredictions | None
    jobs: list[Job]
    nodes: list[Node]
    active: list[Job]
    time: Seconds
    num_submitted: int

    def snapshot(self, remaining: FloatArray | None = None) -> ClusterCopy:
        """Return a private copy."""
        ...


class Placements(Mapping[JobId, Placement]):
    """Current placements."""

    def __init__(self, engine: ReferenceState) -> None:
        self._engine = engine

    def __getitem__(self, job: JobId) -> Placement:
        if not 0 <= job < self._engine.num_submitted or self._engine.jobs[job].status is not JobStatus.RUNNING:
            raise KeyError(f"job {job} is not running")
        return self._engine.jobs[job].placement()

    def __iter__(self) -> Iterator[JobId]:
        return (job.id for job in self._engine.active if job.status is JobStatus.RUNNING)

    def __len__(self) -> int:
        return len(list(iter(self)))


class ReferenceView:
    """`envs.scheduling.ClusterView` over a reference engine. Valid until the round ends; read only."""

    def __init__(self, engine: ReferenceState) -> None:
        self._engine = engine
        self.cluster = engine.cluster
        self._placements = Placements(engine)
        columns = engine.workload.jobs
        self._num_gpus, self._min_gpus, self._max_gpus, self._submit, self._tenant, self._guaranteed = (
            _read_only(columns[name])
            for name in ("num_gpus", "min_gpus", "max_gpus", "submit_time", "tenant", "guaranteed")
        )
        self._start_delay = _read_only(np.array([job.start_delay for job in engine.jobs]))
        self._restart_delay = _read_only(np.array([job.restart_delay for job in engine.jobs]))

    @property
    def time(self) -> Seconds:
        """Time of this round, in seconds."""
        return self._engine.time

    @property
    def queued(self) -> IntArray:
        """int64[num_queued]: jobs that wait, in order of submission."""
        return self._active(JobStatus.QUEUED)

    @property
    def running(self) -> IntArray:
        """int64[num_running]: jobs that hold GPUs, in order of submission."""
        return self._active(JobStatus.RUNNING)

    def _active(self, status: JobStatus) -> IntArray:
        return np.array([job.id for job in self._engine.active if job.status is status], dtype=np.int64)

    @property
    def free_gpus(self) -> IntArray:
        """int64[num_nodes]: GPUs that no job holds; 0 while a node is down or held by an exclusive job."""
        return np.array([node.free_gpus for node in self._engine.nodes], dtype=np.int64)

    @property
    def capacity(self) -> IntArray:
        """int64[num_nodes]: GPUs of each node that is up; 0 while it is down."""
        return np.array([node.capacity for node in self._engine.nodes], dtype=np.int64)

    @property
    def num_gpus(self) -> IntArray:
        """int64[num_submitted]: GPUs requested."""
        return self._num_gpus[: self._engine.num_submitted]

    @property
    def min_gpus(self) -> IntArray:
        """int64[num_submitted]: lower end of the elastic range."""
        return self._min_gpus[: self._engine.num_submitted]

    @property
    def max_gpus(self) -> IntArray:
        """int64[num_submitted]: upper end of the elastic range."""
        return self._max_gpus[: self._engine.num_submitted]

    @property
    def submit_time(self) -> FloatArray:
        """float64[num_submitted]: submission time of each job, in seconds."""
        return self._submit[: self._engine.num_submitted]

    @property
    def start_delay(self) -> FloatArray:
        """float64[num_submitted]: seconds without progress after the first start."""
        return self._start_delay[: self._engine.num_submitted]

    @property
    def restart_delay(self) -> FloatArray:
        """float64[num_submitted]: seconds without progress after a resize, a migration or a preemption."""
        return self._restart_delay[: self._engine.num_submitted]

    @property
    def tenant(self) -> IntArray:
        """int64[num_submitted]: index into the workload's tenants."""
        return self._tenant[: self._engine.num_submitted]

    @property
    def guaranteed(self) -> BoolArray:
        """bool[num_submitted]: whether a job has a service level, as against best effort."""
        return self._guaranteed[: self._engine.num_submitted]

    @property
    def quotas(self) -> IntArray:
        """int64[num_tenants]: GPUs guaranteed to each tenant; all of the cluster's where the scenario sets none."""
        quotas, tenants = self._engine.scenario.quotas, self._engine.workload.tenants
        return np.array([quotas.get(tenant, self.cluster.num_gpus) for tenant in tenants], dtype=np.int64)

    @property
    def queue_limits(self) -> Mapping[str, Mapping[str, int]]:
        """Most GPUs that jobs may hold, by queue and GPU type; see `Scenario.queue_limits`."""
        return MappingProxyType(self._engine.scenario.queue_limits)

    @property
    def shares_cpu_memory(self) -> bool:
        """Whether jobs share the cores and memory of nodes, so that a placement may name its amounts."""
        return self._engine.shown.shared

    @property
    def shared_resources(self) -> SharedResources:
        """The effects of shared cores, memory and links on jobs, by model; read only."""
        return self._engine.shown.table.shared_resources()

    @property
    def models(self) -> tuple[str, ...]:
        """Names of the models, with the constraints of their jobs."""
        return self._engine.shown.table.models

    @property
    def model(self) -> IntArray:
        """int64[num_submitted]: index of each job's model in `shared_resources`."""
        return np.array([job.model for job in self._engine.jobs[: self._engine.num_submitted]], dtype=np.int64)

    def _known(self, job: JobId) -> Job:
        if not 0 <= job < self._engine.num_submitted:
            raise MurmurationError(
                f"job {job} is not submitted at t = {self.time:g} s; "
                f"the view shows jobs 0 to {self._engine.num_submitted - 1}"
            )
        return self._engine.jobs[job]

    def job(self, job: JobId) -> JobSpec:
        """The job as submitted; `work` is NaN unless the scenario lets schedulers know it exactly."""
        known = self._known(job)
        exact = self._engine.scenario.information.work != "none" and known.estimate == 1.0
        spec = replace(known.spec, model=without_draw(known.spec.model))
        return spec if exact else replace(spec, work=float("nan"))

    def placement(self, job: JobId) -> Placement:
        """Placement of a running job."""
        return self._placements[job]

    @property
    def shares(self) -> IntArray:
        """int64[num_shares, 3]: all placements at once, as rows (job, node, GPUs) by ascending job and node."""
        rows = [(job, *share) for job in sorted(self._placements) for share in sorted(self.placement(job).gpus.items())]
        return np.array(rows, dtype=np.int64).reshape(-1, 3)

    def attained_service(self, jobs: IntArray) -> FloatArray:
        """float64[len(jobs)]: GPU-seconds received."""
        return self._each(jobs, lambda job: job.service_at(self.time))

    def remaining_work(self, jobs: IntArray) -> FloatArray:
        """float64[len(jobs)]: samples left: exact, estimated, predicted or NaN, by the scenario's `information`."""
        if self._engine.scenario.information.work == "none":
            return self._each(jobs, lambda job: float("nan"))
        return self._each(jobs, lambda job: job.remaining_at(self.time) * job.estimate)

    def likely_work(self, jobs: IntArray) -> FloatArray:
        """float64[len(jobs), any]: equally likely samples left; NaN where a row has fewer, or nothing is known."""
        predictions = self._engine.predictions
        if predictions is None:
            return self.remaining_work(jobs)[:, None]
        rows = [
            predictions.outcomes_left(job.id, job.spec.work - job.remaining_at(self.time))
            for job in map(self._known, np.asarray(jobs).tolist())
        ]
        return np.array(rows, np.float64).reshape(len(rows), NUM_OUTCOMES)

    def remaining_time(self, jobs: IntArray) -> FloatArray:
        """float64[len(jobs)]: seconds for the remaining work on the requested GPUs, consolidated, on the best type."""
        with np.errstate(divide="ignore", invalid="ignore"):
            return self.remaining_work(jobs) / self._each(jobs, self._engine.shown.requested_throughput)

    def _each(self, jobs: IntArray, value: Callable[[Job], float]) -> FloatArray:
        return np.array([value(self._known(int(job))) for job in jobs], dtype=np.float64)

    def throughputs(self, job: JobId) -> FloatArray:
        """float64[num_gpu_types, largest max_gpus + 1]: samples/s on the fewest nodes."""
        throughput: FloatArray = self._engine.shown.table.consolidated()[self._known(job).model]
        return throughput

    def most_nodes(self, job: JobId) -> IntArray:
        """int64[num_gpu_types, largest max_gpus + 1]: the most nodes on which so many GPUs of a type run the job."""
        most: IntArray = self._engine.shown.table.most_nodes()[self._known(job).model]
        return most

    def throughput(self, job: JobId, configuration: Configuration) -> float:
        """Samples/s from the performance model; see `PerformanceModel.throughput`."""
        return self._engine.shown.configured_throughput(self._known(job).model, configuration)

    def _model_name(self, job: JobId) -> str:
        return self._engine.shown.table.models[self._known(job).model]

    def belief(self, job: JobId, configuration: Configuration) -> Belief:
        """`throughput`, its spread, and how often it was measured; exact where nothing is hidden."""
        if self._engine.beliefs is None:
            return Belief(self.throughput(job, configuration), 0.0, 0)
        about = self._known(job).model, self._engine.shown.cell(configuration)
        beliefs = self._engine.beliefs
        return Belief(self.throughput(job, configuration), beliefs.spread(*about), beliefs.num_samples(*about))

    @property
    def num_beliefs(self) -> int:
        """How often beliefs about throughputs have changed in this episode; 0 where nothing is hidden."""
        return self._engine.beliefs.num_beliefs if self._engine.beliefs else 0

    def efficiency(self, job: JobId, configuration: Configuration) -> float:
        """Progress per sample relative to the usual batch size."""
        model = self._model_name(job)
        return self._engine.shown.efficiency(model, configuration.num_gpus, configuration.batch_size)

    def goodput(self, job: JobId, configuration: Configuration) -> float:
        """Useful samples/s: throughput x efficiency."""
        model = self._model_name(job)
        self._engine.shown.check_batch(
            model, [configuration.gpu_type], configuration.num_gpus, configuration.batch_size
        )
        return self.throughput(job, configuration) * self.efficiency(job, configuration)

    def batch_range(self, job: JobId, gpu_type: str, num_gpus: int) -> tuple[int, int] | None:
        """Both ends of the batch sizes that a placement may name; None if only the usual one is offered."""
        spec, model = self._known(job).spec, self._model_name(job)
        return self._engine.shown.batches.offered(model, gpu_type, num_gpus, spec.min_batch, spec.max_batch)

    @property
    def shares_gpus(self) -> bool:
        """Whether two jobs may hold the same GPUs."""
        return self._engine.scenario.sharing == "pairs"

    @property
    def pairs(self) -> dict[JobId, JobId]:
        """The jobs that share GPUs: by the job that held them first, the job beside it."""
        return {job.owner: job.id for job in self._engine.active if job.owner is not None}

    @property
    def pair_factors(self) -> FloatArray:
        """float64[num_gpu_types, num_models, num_models]: see `ClusterView.pair_factors`."""
        return self._engine.shown.table.pair_factors

    def allocation(self, *, keep_running: bool = False) -> Allocation:
        """An allocation to fill: empty, or with all current placements."""
        return Allocation(
            self.cluster,
            self._placements,
            self.free_gpus,
            prefer=self._fastest_types,
            num_gpus=lambda job: self._known(job).spec.num_gpus,
            keep_running=keep_running,
            capacity=self.capacity,
            pairs=self.pairs if keep_running else None,
            limits=lambda job: limits_of(self._known(job), self._engine.nodes),
        )

    def snapshot(self, remaining: FloatArray | None = None) -> ClusterCopy:
        """A private copy of the cluster, on which time can pass; see `envs.scheduling.ClusterView.snapshot`."""
        return self._engine.snapshot(remaining)

    def _fastest_types(self, job: JobId) -> Sequence[int]:
        """GPU types on which a job runs, fastest per GPU first."""
        best = self._engine.shown.table.throughputs[self._known(job).model, :, 1:].max(axis=(1, 2)).tolist()
        return sorted(
            (gpu_type for gpu_type in range(len(best)) if best[gpu_type] > 0), key=lambda gpu_type: -best[gpu_type]
        )


def look(engine: ReferenceState) -> None:
    """See at the beginning of a round what can be learnt about throughputs and work."""
    _take_samples(engine)
    _predict_work(engine)
    if engine.scenario.information.work == "limit":
        for job in engine.jobs[: engine.num_submitted]:
            if job.status is not JobStatus.DONE:
                _show_limit(engine, job)


def _take_samples(engine: ReferenceState) -> None:
    """Take samples of the running jobs that have made progress in a placement on GPUs of one type."""
    if engine.beliefs is None:
        return
    found: list[Sighting] = []
    for job in engine.active:
        types = {engine.rules.node_types[share.node.id] for share in job.shares}
        if job.status is JobStatus.RUNNING and job.segment < engine.time and len(types) == 1:
            other = job.partner
            beside = other.id if other is not None and other.segment < engine.time else None
            found.append(Sighting(job.id, types.pop(), job.gpus, len(job.shares), beside))
    engine.beliefs.look(engine.num_submitted, found)
    engine.shown = engine.rules.showing(engine.beliefs.table)


def _predict_work(engine: ReferenceState) -> None:
    """Predict the work of the jobs in the system, and set what views show of it."""
    if engine.predictions is None:
        return
    if engine.beliefs is not None:
        table = engine.beliefs.table
        engine.predictions.throughputs = [believed_alone(table, job.model, job.spec.num_gpus) for job in engine.jobs]
    known = [job for job in engine.jobs[: engine.num_submitted] if job.status is not JobStatus.DONE or job.never_ran]
    done = {job.id: 0.0 if job.never_ran else job.spec.work - job.remaining_at(engine.time) for job in known}
    engine.predictions.look(engine.num_submitted, done)
    for job in known:
        left = engine.predictions.left(job.id, done[job.id])
        total = 0.0
        for amount in left:
            total += amount
        if job.remaining_at(engine.time) > 0:
            job.estimate = total / len(left) / job.remaining_at(engine.time)
            if job.estimate == 1.0:  # exact, for views
                job.estimate = math.nextafter(1.0, 2.0)


def _show_limit(engine: ReferenceState, job: Job) -> None:
    """Set what views show of a job's work to what its time limit leaves, at its requested size."""
    throughputs = engine.rules.table.reference()[job.model]
    size = min(job.spec.num_gpus, len(throughputs) - 1)
    while size > 1 and throughputs[size] == 0:
        size -= 1
    seconds = job.deadline - engine.time if job.status is JobStatus.RUNNING else job.spec.time_limit
    left = job.remaining_at(engine.time)
    if left > 0:
        job.estimate = max(seconds, LEAST_LEFT) * (throughputs[size] or 1.0) / left
        if job.estimate == 1.0:  # exact, for views
            job.estimate = math.nextafter(1.0, 2.0)


def _read_only(column: np.ndarray) -> np.ndarray:
    """Make a read-only copy of a column."""
    copy = column.copy()
    copy.flags.writeable = False
    return copy
