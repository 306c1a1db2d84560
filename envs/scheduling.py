"""The `Scheduler` protocol, and the `ClusterView` on which a scheduler decides."""

from collections.abc import Mapping, Sequence
from typing import Protocol, runtime_checkable

import numpy as np

from envs.types import (
    Allocation,
    Belief,
    BoolArray,
    ClusterSpec,
    Configuration,
    EstimatedCurve,
    FloatArray,
    IntArray,
    JobFacts,
    JobId,
    JobSpec,
    KnownCurves,
    Placement,
    Seconds,
    SharedResources,
    ThroughputSamples,
)


class ThroughputFit(Protocol):
    """The fit of an estimator to one model of an episode."""

    def estimate(self, samples: ThroughputSamples) -> EstimatedCurve:
        """Return the beliefs after some samples, from one on. Equal samples give equal beliefs."""
        ...


class ThroughputEstimator(Protocol):
    """Forms beliefs about throughputs where schedulers are not told them (`envs.simulation.Information`).

    One estimator serves all schedulers of a comparison. It sees no name of a model, no future and no truth.
    """

    def fit(self, known: KnownCurves) -> ThroughputFit:
        """Begin with one model of an episode.

        Args:
            known: what is known before any sample.
        """
        ...


class WorkPredictor(Protocol):
    """Predicts run times of jobs where schedulers are not told them (`envs.simulation.Information`).

    One predictor serves all schedulers of a comparison. It sees no future. All run times are on the requested GPUs.
    """

    def train(self, episodes: Sequence[JobFacts]) -> None:
        """Learn from the jobs of past episodes, all of which have ended. Called once, before the first prediction.

        Args:
            episodes: the jobs of each, in order of submission; those of training days or training draws.
        """
        ...

    def predict(self, asked: JobFacts, ended: JobFacts) -> FloatArray:
        """Return equally likely run times of jobs, as of their submission: float64[len(asked.submit), NUM_OUTCOMES].

        Each row ascends, in seconds. What a job has run already is ruled out later and need not be considered.

        Args:
            asked: jobs in the system; their `run_time` is that so far.
            ended: jobs of the same episode that have ended.
        """
        ...


class FollowedEpisode(Protocol):
    """The jobs of one episode as a predictor remembers them, numbered in order of submission, from 0."""

    def submit(self, jobs: JobFacts) -> None:
        """Add the next jobs, in order of submission; none has run yet."""
        ...

    def predict(self, asked: IntArray, ended: IntArray, run_time: FloatArray) -> FloatArray:
        """Return what `WorkPredictor.predict` does.

        Args:
            asked: int64[n], jobs in the system.
            ended: int64[m], those that have ended.
            run_time: float64[jobs submitted], seconds, as in `envs.types.JobFacts`.
        """
        ...

    def copy(self) -> "FollowedEpisode":
        """Return a copy that goes on by itself."""
        ...


@runtime_checkable
class FollowingPredictor(WorkPredictor, Protocol):
    """A predictor that looks at each job's attributes once, when it is submitted; others are told all of them anew."""

    def follow(self) -> FollowedEpisode:
        """Begin with an episode that has no jobs yet."""
        ...


class ClusterCopy(Protocol):
    """A private copy of the cluster on which time can pass, see `ClusterView.snapshot`."""

    @property
    def view(self) -> "ClusterView":
        """The copy as schedulers see it at its present time."""
        ...

    def apply(self, allocation: Allocation) -> None:
        """Apply an allocation to the copy.

        Raises:
            AllocationError: it does not fit.
        """
        ...

    def advance(self) -> bool:
        """Advance time to the next round; return False if nothing happens any more."""
        ...


class ClusterView(Protocol):
    """The state that a scheduler may see at one scheduling round. Simulated time does not advance meanwhile.

    A `JobId` is the job's index in order of submission, from 0. The per-job arrays cover the jobs submitted so far, so
    `view.num_gpus[job]` works for each of them and for no future job.
    """

    @property
    def time(self) -> Seconds:
        """The time of this round."""
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
        """float64[num_submitted]: submission times, in seconds."""
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
        """int64[num_submitted]: the tenant of each job, as a number."""
        ...

    @property
    def guaranteed(self) -> BoolArray:
        """bool[num_submitted]: whether the job has a guaranteed service level; best effort otherwise."""
        ...

    @property
    def quotas(self) -> IntArray:
        """int64[num_tenants]: GPUs guaranteed to each tenant; by default all GPUs of the cluster."""
        ...

    @property
    def queue_limits(self) -> Mapping[str, Mapping[str, int]]:
        """Most GPUs that jobs may hold at once, by queue and GPU type; an allocation beyond that is refused.

        A queue is named with all above it, such as research/vision. A job is in the one whose last part is its tenant.
        """
        ...

    @property
    def shares_cpu_memory(self) -> bool:
        """Whether jobs share the cores and memory of nodes, so that a placement may name its amounts."""
        ...

    @property
    def shares_gpus(self) -> bool:
        """Whether two jobs may hold the same GPUs, so that a placement may name the job beside it."""
        ...

    @property
    def pairs(self) -> dict[JobId, JobId]:
        """The jobs that share GPUs: by the job that held them first, the job beside it."""
        ...

    @property
    def pair_factors(self) -> FloatArray:
        """float64[num_gpu_types, num_models, num_models]: what a job keeps of its throughput beside another job.

        By the type of the GPUs that both hold, the job's `model` and the other's; 0 if the two do not fit together.
        Where the scenario hides throughputs, what is believed instead. Empty where jobs may not share GPUs; read only.
        """
        ...

    @property
    def shared_resources(self) -> SharedResources:
        """The effects of shared cores, memory and links on jobs, by model."""
        ...

    @property
    def model(self) -> IntArray:
        """int64[num_submitted]: index of each job's model in `shared_resources`."""
        ...

    @property
    def models(self) -> tuple[str, ...]:
        """Names of these models, as in `shared_resources`, with the constraints of their jobs."""
        ...

    def job(self, job: JobId) -> JobSpec:
        """Return the job as submitted; `work` is NaN if the scenario hides it."""
        ...

    def placement(self, job: JobId) -> Placement:
        """Return the placement of a running job."""
        ...

    @property
    def shares(self) -> IntArray:
        """int64[num_shares, 3]: all placements as rows (job, node, GPUs), by ascending job and node."""
        ...

    def attained_service(self, jobs: IntArray) -> FloatArray:
        """Return the GPU-seconds that each of these jobs has received."""
        ...

    def remaining_work(self, jobs: IntArray) -> FloatArray:
        """Return the remaining samples as the scenario's `information` says.

        Exact, estimated with noise, the mean of a predicted distribution, or NaN.
        """
        ...

    def likely_work(self, jobs: IntArray) -> FloatArray:
        """Return equally likely amounts of remaining samples: float64[len(jobs), any], whose mean is `remaining_work`.

        Where work is predicted, a job has fewer of them the longer it runs; NaN fills its row. Otherwise there is one.
        """
        ...

    def remaining_time(self, jobs: IntArray) -> FloatArray:
        """Return the seconds of remaining work on the requested GPUs, consolidated, of the job's fastest GPU type."""
        ...

    def throughputs(self, job: JobId) -> FloatArray:
        """float64[num_gpu_types, most GPUs + 1]: throughput on the fewest nodes; 0 where the job does not run."""
        ...

    def most_nodes(self, job: JobId) -> IntArray:
        """int64[num_gpu_types, most GPUs + 1]: the most nodes on which so many GPUs of a type run it; 0 for none."""
        ...

    def throughput(self, job: JobId, configuration: Configuration) -> float:
        """Samples/s of the job's model, asked of the performance model; 0 where the job does not fit.

        Where the scenario hides throughputs, the estimator's belief instead; a configuration may then name neither plan
        nor batch size, cores or memory. See `envs.performance.PerformanceModel.throughput`. GPU types are named as in
        `view.cluster.gpu_types`.

        Raises:
            PerformanceError: the plan does not fit the number of GPUs, or the batch size is outside the model's range.
        """
        ...

    def belief(self, job: JobId, configuration: Configuration) -> Belief:
        """Return `throughput` with its spread, and how often it was measured; exact where nothing is hidden.

        Raises:
            PerformanceError: as for `throughput`.
        """
        ...

    @property
    def num_beliefs(self) -> int:
        """How often beliefs about throughputs have changed in this episode; always 0 where nothing is hidden.

        A scheduler that keeps what it derived from `throughputs` or `throughput` must derive it again when this number
        has changed.
        """
        ...

    def efficiency(self, job: JobId, configuration: Configuration) -> float:
        """Progress that a sample makes at the configuration's batch size, relative to the usual one on as many GPUs.

        1 for a batch size of None; see `envs.performance.BatchSizes.efficiency`.
        """
        ...

    def goodput(self, job: JobId, configuration: Configuration) -> float:
        """Useful samples/s: `throughput` x `efficiency`. A job's remaining work falls at this throughput.

        Raises:
            PerformanceError: as for `throughput`, or the batch size is neither in `batch_range` nor the usual one.
        """
        ...

    def batch_range(self, job: JobId, gpu_type: str, num_gpus: int) -> tuple[int, int] | None:
        """Return the least and the largest batch size that a placement may name; None if only the usual one.

        The usual batch size is always offered, unless the job's own range excludes it.
        """
        ...

    def allocation(self, *, keep_running: bool = False) -> Allocation:
        """Return a builder for the scheduler's answer: empty, or with the current placements."""
        ...

    def snapshot(self, remaining: FloatArray | None = None) -> ClusterCopy:
        """Return a private copy of the cluster in this round, on which a planner can try allocations and let time pass.

        No further jobs arrive on it and nodes neither fail nor come back. Jobs have the remaining work that the view
        shows, and endless work if it shows none. Where nothing is hidden and nothing arrives, the copy continues as the
        engine does.

        Args:
            remaining: float64[num_submitted], samples left that the copy assumes instead; NaN for what the view shows.

        Raises:
            MurmurationError: `remaining` is negative or has another shape.
        """
        ...


@runtime_checkable
class Scheduler(Protocol):
    """The protocol of schedulers: heuristics, solvers and trained policies. A user's class needs no import of ours.

    A scheduler may declare its assumptions as class attributes: `information` (the knowledge of remaining work that it
    needs: "none" or "estimate"), `preemptive` and `elastic`. Results show them. Where jobs keep
    what they have (`Scenario.preemption`), only schedulers that are not preemptive are played by compiled code.
    """

    def reset(self, cluster: ClusterSpec, rng: np.random.Generator) -> None:
        """Begin an episode on a cluster. All randomness must come from `rng`."""
        ...

    def schedule(self, view: ClusterView) -> Allocation:
        """Return the complete allocation for this round, built with `view.allocation()`."""
        ...
