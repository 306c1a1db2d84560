"""One scheduling round of a cluster as a matching problem: who is let in, and what a GPU of each type is worth to whom.

Workers are GPUs, kinds are GPU types. Within a category, where a job's number of GPUs is given, its speed is a sum over
its GPUs, as in the paper: workers of unequal speed share the mini-batch in proportion, and what communication
costs depends on the number alone and is in the speeds already.
"""

import math
from dataclasses import dataclass

import numpy as np

from baselines.parts.estimates import remaining_time, remaining_work
from baselines.parts.priority import jobs_present
from baselines.parts.sharing import admissible
from baselines.parts.submitted import SubmittedJobs
from baselines.sampling_matching.descent import start_least
from baselines.sampling_matching.problem import Problem, of_jobs, problem
from envs.scheduling import ClusterView
from envs.types import FloatArray, IntArray, JobId, Seconds

LEAST_WORK = 1e-9  # samples: a job at its very end still has a place in the problem


@dataclass(frozen=True)
class Round:
    """A matching problem and whose it is.

    Attributes:
        jobs: int64[num_admitted], the problem's jobs, ascending.
        problem: what is to be matched; None if nobody is let in.
        order: int64[num_present], all jobs that run or wait, those first that need the fewest GPU-seconds.
    """

    jobs: IntArray
    problem: Problem | None
    order: IntArray


class GangSpeeds:
    """What one GPU adds to a gang, by its type and the gang's size; belongs to one episode.

    Where all are of one type, that is the view's speed over the size. A gang of several types stands on two nodes at
    least, and there it is the performance model's speed for so many nodes, over the size.
    """

    def __init__(self) -> None:
        self.submitted = SubmittedJobs()
        self._mixed: dict[str, FloatArray] = {}

    def look_up(self, view: ClusterView) -> None:
        """Add the jobs that have come since the last time."""
        self.submitted.look_up(view)

    def rates(self, view: ClusterView, jobs: IntArray) -> FloatArray:
        """float64[len(jobs), mixes, sizes, num_gpu_types]: samples/s of a GPU, as `Problem.rates`."""
        speed = self.submitted.speed(view, jobs)
        size = np.maximum(np.arange(speed.shape[2]), 1)
        alone = np.moveaxis(speed / size, 1, 2)[:, None]
        if speed.shape[1] == 1:
            return alone
        mixed = np.array([self.mixed(view, job) for job in jobs.tolist()])
        mixed = self.submitted.within_range(np.moveaxis(mixed, 1, 2), view.min_gpus[jobs], view.max_gpus[jobs])
        return np.concatenate([alone, np.moveaxis(mixed, 1, 2)[:, None]], axis=1)

    def mixed(self, view: ClusterView, job: JobId) -> FloatArray:
        """float64[sizes, num_gpu_types]: samples/s of a GPU in a gang of several types of the job's model."""
        model = view.job(job).model
        if model not in self._mixed:
            sizes, kinds = view.speed(job).shape[1], len(view.cluster.gpu_types)
            largest = int(view.cluster.node_gpus.max())
            rates = np.zeros((sizes, kinds))
            for size in range(2, sizes):
                nodes = rounded_nodes(max(2, -(-size // largest)), size)
                for kind in range(kinds):
                    rates[size, kind] = view.throughput(job, kind, size, nodes) / size
            self._mixed[model] = rates
        return self._mixed[model]


def rounded_nodes(num_nodes: int, num_gpus: int) -> int:
    """The node count for which the engine has a speed: the next power of two, at most one node for each GPU."""
    return min(1 << (num_nodes - 1).bit_length(), num_gpus)


def speed_on(view: ClusterView, job: JobId, gpus: dict[int, int]) -> float:
    """Samples/s of a job on GPUs by node, shares of the batch proportional to speed; 0 where it does not run."""
    size = sum(gpus.values())
    nodes = rounded_nodes(len(gpus), size)
    kinds = view.cluster.node_types
    by_node = [view.throughput(job, int(kinds[node]), size, nodes) for node in gpus]
    if min(by_node) <= 0:
        return 0.0
    return sum(count * speed for count, speed in zip(gpus.values(), by_node, strict=True)) / size


def round_of(view: ClusterView, speeds: GangSpeeds, name: str, shortness: float, restart: Seconds | None) -> Round:
    """The matching problem of a round.

    More jobs than workers: those get in that need the fewest GPU-seconds on their least size, as long as everybody's
    least fits; a job that would have to restart counts the restart. The others wait.

    Args:
        view: the round.
        speeds: the episode's speeds, looked up.
        name: the scheduler's, for complaints.
        shortness: a job's seconds weigh its remaining time on requested GPUs to the power of minus this.
        restart: seconds of a restart; if None, what the view says for each job.

    Raises:
        MurmurationError: the scenario hides remaining work.
    """
    jobs = jobs_present(view)
    work = np.maximum(remaining_work(view, jobs, name), LEAST_WORK)
    cost = view.restart_delay[jobs] if restart is None else np.full(len(jobs), restart)
    supply = np.bincount(view.cluster.node_types, view.capacity, len(view.cluster.gpu_types)).astype(np.int64)
    runs = np.isin(jobs, view.running)
    need, gpu_time = _least_gpu_time(view, speeds, jobs, work, np.where(runs, 0.0, cost))
    order = np.lexsort((jobs, gpu_time))
    chosen: IntArray = np.sort(order[admissible(need[order], int(supply.sum()))])
    if not chosen.size:
        return Round(jobs[chosen], None, jobs[order])
    inside = jobs[chosen]
    alone = remaining_time(view, inside, name)  # infinite for a gang that no one type holds
    rates = speeds.rates(view, inside)
    able = np.asarray((rates > 0).any(axis=(1, 3)))
    largest = able.shape[1] - 1 - able[:, ::-1].argmax(axis=1)
    made = problem(
        rates,
        work[chosen],
        supply=supply,
        weight=np.maximum(np.where(np.isfinite(alone), alone, gpu_time[chosen] / need[chosen]), 1.0) ** -shortness,
        least=need[chosen],
        most=np.maximum(np.minimum(largest, supply.sum()), need[chosen]),
        present=_present(view, inside, len(supply)),
        restart=np.where(runs, cost, 0.0)[chosen],
        may_idle=True,
    )
    return Round(inside, made, jobs[order])


def those_that_fit(this: Round) -> Round:
    """The round without those for whom earlier ones in its order leave no GPUs of a type on which they run."""
    assert this.problem is not None
    chosen: list[int] = []
    place = {job: at for at, job in enumerate(this.jobs.tolist())}
    for at in [place[job] for job in this.order.tolist() if job in place]:
        among = of_jobs(this.problem, sorted([*chosen, at]))
        if start_least(among, np.zeros(among.present.shape, np.int64)):
            chosen.append(at)
    chosen.sort()
    return Round(this.jobs[chosen], of_jobs(this.problem, chosen) if chosen else None, this.order)


def _least_gpu_time(
    view: ClusterView, speeds: GangSpeeds, jobs: IntArray, work: FloatArray, delay: FloatArray
) -> tuple[IntArray, FloatArray]:
    """Fewest GPUs on which each job runs (0: none), and the GPU-seconds that it takes there on its cheapest type."""
    least, speed = speeds.submitted.least[jobs], speeds.submitted.speed_at_least[jobs]
    need = np.where(least > 0, least, np.iinfo(np.int64).max).min(axis=1)
    seconds = np.full(speed.shape, np.inf)
    np.divide(work[:, None], speed, out=seconds, where=speed > 0)
    gpu_time = ((seconds + delay[:, None]) * np.maximum(least, 1)).min(axis=1)
    for at in np.flatnonzero((least == 0).all(axis=1)).tolist():  # runs on no one type: a gang over several, or nowhere
        size = int(view.min_gpus[jobs[at]])
        rates = speeds.mixed(view, int(jobs[at]))
        best = float(rates[size].max()) if size < len(rates) else 0.0
        need[at] = size if best > 0 else 0
        gpu_time[at] = work[at] / best + delay[at] * size if best > 0 else math.inf
    return need, gpu_time


def _present(view: ClusterView, jobs: IntArray, num_kinds: int) -> IntArray:
    """int64[len(jobs), num_kinds]: GPUs of each type that jobs hold."""
    held = np.zeros((len(jobs), num_kinds), np.int64)
    running = view.running
    at = np.searchsorted(jobs, running)
    for job, row in zip(running.tolist(), at.tolist(), strict=True):
        if row < len(jobs) and jobs[row] == job:
            for node, gpus in view.placement(job).gpus.items():
                held[row, view.cluster.node_types[node]] += gpus
    return held
