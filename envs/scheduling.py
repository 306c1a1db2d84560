"""Who decides: the `Scheduler` protocol and the `ClusterView` that it decides on."""

from typing import Protocol, runtime_checkable

import numpy as np

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
    Placement,
    Seconds,
)


class ClusterView(Protocol):
    """What a scheduler may see at one scheduling round; simulated time stands still meanwhile.

    Jobs are named by their `JobId`, dense from 0 in order of submission. The per-job arrays cover the
    jobs submitted so far, so `view.num_gpus[job]` works for each of them and none from the future.
    """

    @property
    def time(self) -> Seconds:
        """The instant of this round."""
        ...

    @property
    def cluster(self) -> ClusterSpec:
        """The nodes."""
        ...

    @property
    def capacity(self) -> IntArray:
        """int64[num_nodes]: GPUs of each node; 0 while it is down."""
        ...

    @property
    def queued(self) -> IntArray:
        """int64[num_queued]: jobs that wait, in order of submission."""
        ...

    @property
    def running(self) -> IntArray:
        """int64[num_running]: jobs that hold GPUs, in order of submission."""
        ...

    @property
    def free_gpus(self) -> IntArray:
        """int64[num_nodes]: GPUs that no job holds."""
        ...

    @property
    def num_gpus(self) -> IntArray:
        """int64[num_submitted]: GPUs requested."""
        ...

    @property
    def min_gpus(self) -> IntArray:
        """int64[num_submitted]: lower end of the elastic range."""
        ...

    @property
    def max_gpus(self) -> IntArray:
        """int64[num_submitted]: upper end of the elastic range."""
        ...

    @property
    def submit_time(self) -> FloatArray:
        """float64[num_submitted]: when each job came, in seconds."""
        ...

    @property
    def start_delay(self) -> FloatArray:
        """float64[num_submitted]: seconds from a first start to the first sample."""
        ...

    @property
    def restart_delay(self) -> FloatArray:
        """float64[num_submitted]: seconds without progress after a resize, a migration or a preemption."""
        ...

    @property
    def tenant(self) -> IntArray:
        """int64[num_submitted]: whose job it is, as a number."""
        ...

    @property
    def guaranteed(self) -> BoolArray:
        """bool[num_submitted]: whether the job has a service level, as against best effort."""
        ...

    @property
    def quotas(self) -> IntArray:
        """int64[num_tenants]: GPUs guaranteed to each tenant; all of the cluster's where nobody set any."""
        ...

    def job(self, job: JobId) -> JobSpec:
        """The job as submitted; `work` is NaN where the scenario hides it."""
        ...

    def placement(self, job: JobId) -> Placement:
        """Where a running job runs."""
        ...

    @property
    def shares(self) -> IntArray:
        """int64[num_shares, 3]: all placements at once, as rows (job, node, GPUs) by ascending job and node."""
        ...

    def attained_service(self, jobs: IntArray) -> FloatArray:
        """GPU-seconds that each of these jobs has received."""
        ...

    def remaining_work(self, jobs: IntArray) -> FloatArray:
        """Samples left: exact, estimated with noise, or NaN, as the scenario's `information` says."""
        ...

    def remaining_time(self, jobs: IntArray) -> FloatArray:
        """Seconds that the remaining work takes on the requested GPUs, consolidated, on the job's fastest type here."""
        ...

    def speed(self, job: JobId) -> FloatArray:
        """float64[num_gpu_types, most GPUs + 1]: samples/s on the fewest nodes; 0 where the job does not run."""
        ...

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
        """Samples/s of the job's model by the performance model itself; 0 where it does not fit.

        What is None is at its best: usual batch size, fastest plan, saturating cores and memory. `gpu_type` is an
        index into the cluster's; see `envs.performance.PerformanceModel.throughput`.

        Raises:
            PerformanceError: a plan that cannot be laid out on the GPUs, a batch size out of the model's range.
        """
        ...

    def allocation(self, *, keep_running: bool = False) -> Allocation:
        """A builder for the answer: empty, or with everything as it runs now."""
        ...


@runtime_checkable
class Scheduler(Protocol):
    """Anything that allocates: a heuristic, a solver, a trained policy. A user's class imports nothing of ours.

    A scheduler may declare as class attributes what it assumes: `information` (the least that it needs to
    know of remaining work: "none", "estimate"), `preemptive` and `elastic`. They are shown, never branched on.
    """

    def reset(self, cluster: ClusterSpec, rng: np.random.Generator) -> None:
        """Begin an episode on a cluster; all randomness comes from `rng`."""
        ...

    def schedule(self, view: ClusterView) -> Allocation:
        """The whole wish for this round, filled into `view.allocation()`."""
        ...
