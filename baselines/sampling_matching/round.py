"""One scheduling round of a cluster as a matching problem: admitted jobs, and throughputs of GPUs by type.

Workers are GPUs, and worker types are GPU types. Within a category, where a job's number of GPUs is given, its
throughput is a sum over its GPUs, as in the paper: workers of unequal throughput share the mini-batch in proportion.
The cost of communication depends on the number of GPUs alone and is already part of the throughputs.
"""

import math
from dataclasses import dataclass, field, replace

import numpy as np

from baselines.parts.estimates import remaining_time, require_remaining_work
from baselines.parts.priority import jobs_present
from baselines.parts.sharing import admissible
from baselines.parts.submitted import SubmittedJobs
from baselines.parts.ties import merge_ties
from baselines.sampling_matching.descent import start_least
from baselines.sampling_matching.problem import Problem, of_jobs, problem
from envs.scheduling import ClusterView
from envs.types import Configuration, FloatArray, IntArray, JobId, Seconds

LEAST_WORK = 1e-9  # samples: keeps the work of a job at its very end positive


@dataclass(frozen=True)
class MatchingRound:
    """A matching problem and its jobs.

    Attributes:
        jobs: int64[num_admitted], the problem's jobs, ascending.
        problem: the matching problem; None if no job is admitted.
        order: int64[num_present], all jobs that run or wait, by needed GPU-seconds, the fewest first.
        known: the episode's results of `gang_throughput`, by model and placement.
    """

    jobs: IntArray
    problem: Problem | None
    order: IntArray
    known: dict[tuple[object, ...], float] = field(default_factory=dict)

    def gang_throughput(self, view: ClusterView, job: JobId, gpus: dict[int, int]) -> float:
        """Return `compute_gang_throughput`, which is computed once for each model and placement."""
        key = (int(view.model[job]), *gpus.items())
        if key not in self.known:
            self.known[key] = compute_gang_throughput(view, job, gpus)
        return self.known[key]


class GangThroughputs:
    """Throughput that one GPU adds to a gang, by its type and the gang's size, for one episode.

    For a gang of one type it is the view's throughput over the size. A gang of several types is on at least two nodes;
    for it, it is the performance model's throughput for that many nodes, over the size.
    """

    def __init__(self) -> None:
        self.submitted = SubmittedJobs()
        self.of_gangs: dict[tuple[object, ...], float] = {}  # see `MatchingRound.known`
        self._mixed: dict[int, FloatArray] = {}
        self._num_beliefs = 0

    def look_up(self, view: ClusterView) -> None:
        """Add the jobs submitted since the last call; forget gangs if beliefs about throughputs have changed."""
        self.submitted.look_up(view)
        if view.num_beliefs != self._num_beliefs:
            self._mixed, self._num_beliefs = {}, view.num_beliefs

    def throughputs(self, view: ClusterView, jobs: IntArray) -> FloatArray:
        """float64[len(jobs), mixes, sizes, num_gpu_types]: samples/s of a GPU, as `Problem.throughputs`."""
        throughput = self.submitted.throughput(view, jobs)
        size = np.maximum(np.arange(throughput.shape[2]), 1)
        alone = np.moveaxis(throughput / size, 1, 2)[:, None]
        if throughput.shape[1] == 1:
            return alone
        mixed = np.array([self.mixed(view, job) for job in jobs.tolist()])
        mixed = self.submitted.within_range(np.moveaxis(mixed, 1, 2), view.min_gpus[jobs], view.max_gpus[jobs])
        return np.concatenate([alone, np.moveaxis(mixed, 1, 2)[:, None]], axis=1)

    def mixed(self, view: ClusterView, job: JobId) -> FloatArray:
        """float64[sizes, num_gpu_types]: samples/s of a GPU in a gang of several types, for the job's model."""
        model = int(view.model[job])
        if model not in self._mixed:
            sizes, num_types = view.throughputs(job).shape[1], len(view.cluster.gpu_types)
            largest = int(view.cluster.node_gpus.max())
            throughputs = np.zeros((sizes, num_types))
            for size in range(2, sizes):
                nodes = rounded_nodes(max(2, -(-size // largest)), size)
                for gpu_type, name in enumerate(view.cluster.gpu_types):
                    throughputs[size, gpu_type] = view.throughput(job, Configuration(name, size, nodes)) / size
            self._mixed[model] = throughputs
        return self._mixed[model]


def rounded_nodes(num_nodes: int, num_gpus: int) -> int:
    """The node count for which the engine has a throughput: the next power of two, at most one node per GPU."""
    return min(1 << (num_nodes - 1).bit_length(), num_gpus)


def compute_gang_throughput(view: ClusterView, job: JobId, gpus: dict[int, int]) -> float:
    """Compute samples/s of a job on GPUs by node, with batch shares proportional to throughput; 0 if it cannot run."""
    size = sum(gpus.values())
    nodes = rounded_nodes(len(gpus), size)
    gpu_types = [view.cluster.nodes[node].gpu_type for node in gpus]
    by_type = {name: view.throughput(job, Configuration(name, size, nodes)) for name in dict.fromkeys(gpu_types)}
    by_node = [by_type[gpu_type] for gpu_type in gpu_types]
    if min(by_node) <= 0:
        return 0.0
    return sum(count * throughput for count, throughput in zip(gpus.values(), by_node, strict=True)) / size


def round_of(
    view: ClusterView, gang_throughputs: GangThroughputs, name: str, shortness: float, restart: Seconds | None
) -> MatchingRound:
    """Build the matching problem of a round.

    If there are more jobs than workers, the jobs that need the fewest GPU-seconds on their least size are admitted, as
    long as all least sizes fit. A job that would have to restart includes the restart. The other jobs wait.

    Args:
        view: the round.
        gang_throughputs: the episode's throughputs, with this round's jobs looked up.
        name: the scheduler's name, for error messages.
        shortness: a job's weight is its remaining time on requested GPUs to the power of minus `shortness`.
        restart: seconds of a restart; if None, the view's value for each job.

    Raises:
        MurmurationError: the scenario hides remaining work.
    """
    jobs = jobs_present(view)
    work = np.maximum(require_remaining_work(view, jobs, name), LEAST_WORK)
    cost = view.restart_delay[jobs] if restart is None else np.full(len(jobs), restart)
    supply = np.bincount(view.cluster.node_types, view.capacity, len(view.cluster.gpu_types)).astype(np.int64)
    runs = np.isin(jobs, view.running)
    need, gpu_time = _least_gpu_time(view, gang_throughputs, jobs, work, np.where(runs, 0.0, cost))
    order = np.lexsort((jobs, merge_ties(gpu_time)))
    chosen: IntArray = np.sort(order[admissible(need[order], int(supply.sum()))])
    if not chosen.size:
        return MatchingRound(jobs[chosen], None, jobs[order], gang_throughputs.of_gangs)
    inside = jobs[chosen]
    alone = remaining_time(view, inside, name)  # infinite for a gang that fits no single type
    throughputs = gang_throughputs.throughputs(view, inside)
    able = np.asarray((throughputs > 0).any(axis=(1, 3)))
    largest = able.shape[1] - 1 - able[:, ::-1].argmax(axis=1)
    made = problem(
        throughputs,
        work[chosen],
        supply=supply,
        weight=np.maximum(np.where(np.isfinite(alone), alone, gpu_time[chosen] / need[chosen]), 1.0) ** -shortness,
        least=need[chosen],
        most=np.maximum(np.minimum(largest, supply.sum()), need[chosen]),
        present=_present(view, inside, len(supply)),
        restart=np.where(runs, cost, 0.0)[chosen],
        may_idle=True,
    )
    return MatchingRound(inside, made, jobs[order], gang_throughputs.of_gangs)


def drop_unplaceable(this: MatchingRound) -> MatchingRound:
    """The round without jobs for which earlier jobs leave no GPUs of a type on which they run."""
    assert this.problem is not None
    chosen: list[int] = []
    place = {job: at for at, job in enumerate(this.jobs.tolist())}
    for at in [place[job] for job in this.order.tolist() if job in place]:
        among = of_jobs(this.problem, sorted([*chosen, at]))
        if start_least(among, np.zeros(among.present.shape, np.int64)):
            chosen.append(at)
    chosen.sort()
    return replace(this, jobs=this.jobs[chosen], problem=of_jobs(this.problem, chosen) if chosen else None)


def _least_gpu_time(
    view: ClusterView, gang_throughputs: GangThroughputs, jobs: IntArray, work: FloatArray, delay: FloatArray
) -> tuple[IntArray, FloatArray]:
    """Fewest GPUs on which each job runs (0: none), and its GPU-seconds there on its cheapest type."""
    least, throughput = gang_throughputs.submitted.least[jobs], gang_throughputs.submitted.throughput_at_least[jobs]
    need = np.where(least > 0, least, np.iinfo(np.int64).max).min(axis=1)
    seconds = np.full(throughput.shape, np.inf)
    np.divide(work[:, None], throughput, out=seconds, where=throughput > 0)
    gpu_time = ((seconds + delay[:, None]) * np.maximum(least, 1)).min(axis=1)
    for at in np.flatnonzero((least == 0).all(axis=1)).tolist():  # fits no single type: a gang over several, or none
        size = int(view.min_gpus[jobs[at]])
        throughputs = gang_throughputs.mixed(view, int(jobs[at]))
        best = float(throughputs[size].max()) if size < len(throughputs) else 0.0
        need[at] = size if best > 0 else 0
        gpu_time[at] = work[at] / best + delay[at] * size if best > 0 else math.inf
    return need, gpu_time


def _present(view: ClusterView, jobs: IntArray, num_types: int) -> IntArray:
    """int64[len(jobs), num_kinds]: GPUs of each type that jobs hold."""
    held = np.zeros((len(jobs), num_types), np.int64)
    rows = view.shares
    rows = rows[np.isin(rows[:, 0], jobs)]
    np.add.at(held, (np.searchsorted(jobs, rows[:, 0]), view.cluster.node_types[rows[:, 1]]), rows[:, 2])
    return held
