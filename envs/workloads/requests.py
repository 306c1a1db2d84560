"""What users ask of a cluster with partitions for their jobs: an assumption about synthetic jobs."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field

import numpy as np

from envs.types import BoolArray, ClusterSpec, FloatArray, IntArray, Seconds, TraceError, plain_type, pools_of
from envs.workloads.mix import ModelThroughputs, node_sizes

HOUR = 3600.0
# Round times that users write; of the traces of the paper named below, some twenty values are 90 % of all estimates.
ROUND = HOUR * np.array(
    [1 / 12, 1 / 6, 0.25, 0.5, 1, 2, 3, 4, 6, 8, 10, 12, 16, 20, 24, 36, 48, 72, 96, 120, 168, 240, 336, 504, 720]
)


@dataclass(frozen=True)
class Requests:
    """Partitions that users choose, and time limits that they overstate.

    Limits are as in Tsafrir, Etsion and Feitelson, "Modeling User Runtime Estimates" (JSSPP 2005): a few round values,
    of which the partition's limit is the most popular one, of any accuracy. The shares are choices of ours.

    Args:
        partitions: pools of the cluster's nodes, each with the share of jobs that are submitted to it.
        longest: the limit of each partition, in seconds; jobs do not run longer.
        at_longest: share of jobs that ask for the limit of their partition.
        least_accuracy: the run times of other jobs are a uniform share of their limits from this one to 1, before
            limits are rounded up to a round time.
        too_short: share of jobs that reach a limit, the round time below their run time.
    """

    partitions: Mapping[str, float]
    longest: Mapping[str, Seconds] = field(default_factory=dict)
    at_longest: float = 0.15
    least_accuracy: float = 0.1
    too_short: float = 0.03

    def __post_init__(self) -> None:
        if not self.partitions or not all(share > 0 for share in self.partitions.values()):
            raise TraceError(
                f"workload.requests.partitions is {dict(self.partitions)}; give each partition a positive share of jobs"
            )
        if unknown := sorted(set(self.longest) - set(self.partitions)):
            raise TraceError(
                f"workload.requests.longest names {', '.join(unknown)}; partitions are {', '.join(self.partitions)}"
            )
        for name, value in self.longest.items():
            if not ROUND[0] <= value < np.inf:
                raise TraceError(f"workload.requests.longest.{name} is {value} s; it must be at least {ROUND[0]:g} s")
        for name in ("at_longest", "too_short"):
            if not 0 <= getattr(self, name) <= 1:
                raise TraceError(f"workload.requests.{name} is {getattr(self, name)}; it must be a share from 0 to 1")
        if not 0 < self.least_accuracy <= 1:
            raise TraceError(
                f"workload.requests.least_accuracy is {self.least_accuracy}; it must be above 0, at most 1"
            )

    def check_goes_with(self, curves: str, exact_load: bool) -> None:
        """Assert that jobs have measured throughputs and offer exactly a load.

        Raises:
            TraceError: they do not.
        """
        if curves != "measured" or not exact_load:
            raise TraceError(
                f"workload.requests is given with curves={curves}, exact_load={exact_load}; set curves=measured, "
                "exact_load=true"
            )

    def find_partitions(
        self, cluster: ClusterSpec, throughputs: ModelThroughputs, jobs: Sequence[tuple[str, int]]
    ) -> FloatArray:
        """Return the samples/s of jobs on the slowest GPUs of each partition; 0 where they do not run.

        Args:
            cluster: the nodes.
            throughputs: of models.
            jobs: the model and the number of GPUs of each.

        Returns:
            float64[num_jobs, num_partitions].

        Raises:
            TraceError: the cluster has no nodes in a partition, or a job runs in none.
        """
        per_node = node_sizes(cluster)
        found = np.zeros((len(jobs), len(self.partitions)))
        for column, pool in enumerate(self.partitions):
            types = [name for name in cluster.gpu_types if pool in pools_of(name)]
            if not types:
                raise TraceError(
                    f"workload.requests.partitions names {pool}, which is no pool of cluster {cluster.name}; name it "
                    "in pools of a group of nodes"
                )
            for row, (model, size) in enumerate(jobs):
                each = [
                    throughputs.of(model, name, size, per_node[name])
                    for name in types
                    if cluster.gpus_by_type[name] >= size
                ]
                found[row, column] = min((value for value in each if value > 0), default=0.0)
        for row in np.flatnonzero((found == 0).all(axis=1)).tolist():
            model, size = jobs[row]
            raise TraceError(
                f"workload.requests.partitions: no partition runs {model} on {size} GPUs; add one that does, or set "
                f"workload.max_gpus={size - 1}"
            )
        return found

    def draw_partitions(self, rng: np.random.Generator, runs: BoolArray) -> IntArray:
        """Draw a partition for each job from those in which it runs: int64[num_jobs], places in `partitions`.

        Args:
            rng: of the workload.
            runs: bool[num_jobs, num_partitions].
        """
        edges = np.cumsum(runs * np.array(list(self.partitions.values())), axis=1)
        drawn: IntArray = (rng.random(len(runs))[:, None] * edges[:, -1:] >= edges).sum(axis=1)
        return drawn

    def draw_limits(self, rng: np.random.Generator, seconds: FloatArray, partition: IntArray) -> FloatArray:
        """Draw time limits: float64[num_jobs], in seconds.

        Args:
            rng: of the workload.
            seconds: float64[num_jobs], run times on the slowest GPUs of the jobs' partitions.
            partition: int64[num_jobs], places in `partitions`.
        """
        count = len(seconds)
        longest = np.array([self.longest.get(name, ROUND[-1]) for name in self.partitions])[partition]
        asked = seconds / rng.uniform(self.least_accuracy, 1, count)
        limits = ROUND[np.minimum(np.searchsorted(ROUND, asked), len(ROUND) - 1)]
        below = ROUND[np.maximum(np.searchsorted(ROUND, seconds) - 1, 0)]
        limits = np.where(rng.random(count) < self.at_longest, longest, limits)
        limits = np.where((rng.random(count) < self.too_short) & (below < seconds), below, limits)
        stated: FloatArray = np.minimum(limits, longest)
        return stated

    def notes(self, cluster: ClusterSpec) -> Sequence[str]:
        """Say where jobs may run and what limits are."""
        total = sum(self.partitions.values())
        of_pool = {
            pool: "+".join(plain_type(name) for name in cluster.gpu_types if pool in pools_of(name))
            for pool in self.partitions
        }
        shares = ", ".join(
            f"{name} ({of_pool[name]}): {share / total:.0%} of the jobs" for name, share in self.partitions.items()
        )
        return (
            f"users choose partitions, {shares}; run times are drawn for the slowest GPUs of a partition",
            f"users state round time limits: {self.at_longest:.0%} that of the partition, the others overstate by up "
            f"to {1 / self.least_accuracy:g} times, and {self.too_short:.0%} are too short (after Tsafrir et al., "
            "JSSPP 2005)",
        )
