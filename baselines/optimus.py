"""Optimus: each GPU goes to the job that gains most from it."""

import math
from collections.abc import Callable
from dataclasses import dataclass
from functools import cached_property

import numpy as np

from baselines.parts.estimates import remaining_time, require_remaining_work
from baselines.parts.placing import pack
from baselines.parts.priority import jobs_present, place_in_order
from baselines.parts.sharing import admissible, share_out_arrays
from baselines.parts.submitted import SubmittedJobs
from envs.scheduling import ClusterView
from envs.types import Allocation, ClusterSpec, FloatArray, IntArray, MurmurationError, Seconds


@dataclass(frozen=True)
class Demands:
    """Seconds to the end of each present job by number of GPUs, for all jobs at once, as arrays.

    Attributes:
        jobs: int64[num_jobs], ascending.
        work: float64[num_jobs], samples left.
        weight: float64[num_jobs], importance of a job's seconds.
        least: int64[num_jobs, num_gpu_types], fewest GPUs on which a job runs; 0 where it does not.
        throughput_at_least: float64[num_jobs, num_gpu_types], samples/s on these GPUs.
        throughput: float64[len(places), num_gpu_types, sizes] for some places in `jobs`: samples/s within the job's
            range.
        present_type: int64[num_jobs], GPU type that a job holds; -1 if it waits.
        present_gpus: int64[num_jobs], GPUs that it holds.
        restart: float64[num_jobs], seconds that every allocation except the present one costs.
    """

    jobs: IntArray
    work: FloatArray
    weight: FloatArray
    least: IntArray
    throughput_at_least: FloatArray
    throughput: Callable[[IntArray], FloatArray]
    present_type: IntArray
    present_gpus: IntArray
    restart: FloatArray

    @cached_property
    def need(self) -> IntArray:
        """int64[num_jobs]: fewest GPUs of any type on which a job runs; 0 if it runs on no one type."""
        need = np.where(self.least > 0, self.least, np.iinfo(np.int64).max).min(axis=1)
        return np.where((self.least > 0).any(axis=1), need, 0)

    @cached_property
    def order(self) -> IntArray:
        """int64[num_jobs]: places in `jobs`, in order of the GPU-seconds to the end on the least size."""
        cost = _seconds(self.work[:, None], self.throughput_at_least) + self.restart[:, None]
        here = np.arange(self.least.shape[1]) == self.present_type[:, None]
        cost -= np.where(here & (self.least == self.present_gpus[:, None]), self.restart[:, None], 0.0)
        gpu_time = (cost * np.maximum(self.least, 1)).min(axis=1)
        return np.lexsort((self.jobs, gpu_time))

    def cost(self, places: IntArray) -> FloatArray:
        """float64[len(places), num_gpu_types, sizes]: seconds to the end, infinite where a job cannot run."""
        restart = self.restart[places]
        cost = _seconds(self.work[places, None, None], self.throughput(places)) + restart[:, None, None]
        runs = np.flatnonzero(self.present_type[places] >= 0)
        cost[runs, self.present_type[places[runs]], self.present_gpus[places[runs]]] -= restart[runs]
        return cost


def _seconds(work: FloatArray, throughput: FloatArray) -> FloatArray:
    """Divide work by throughput, with broadcasting; infinite where the throughput is 0."""
    seconds = np.full(np.broadcast_shapes(work.shape, throughput.shape), np.inf)
    np.divide(work, throughput, out=seconds, where=throughput > 0)
    return seconds


class Optimus:
    """Elastic jobs sized by marginal gain (Peng et al., EuroSys'18, section 4), as strong as the idea allows.

    The cost of a job on some GPUs of a type is its remaining time there, from the view's throughputs. Each job first
    gets its least size, in order of the GPU-seconds that it needs. Then GPUs go, a step at a time, to the job whose
    cost falls most per GPU. Parameter servers, which the paper counts beside workers, do not exist here.

    Additions to the paper, so that it competes fairly in this world:
    - GPU types: a job has its own cost on each type. When no job gains by growing, jobs move to idle GPUs of another
      type.
    - Restarts: every allocation except the present one costs `restart_cost` more, so a resize, a move or a preemption
      happens only if it pays. Unchanged jobs keep their GPUs.
    - Steps: a step may take several GPUs at once where one alone gains nothing (the lower convex hull of the cost).
    - Weights: gains are divided by the job's remaining time on its requested GPUs, to the power `shortness`.
    - Jobs that are not elastic are allowed; among them this is shortest GPU-time first.

    With `shortness=0` and `restart_cost=0` it is the policy as published, plus types, steps and rigid jobs: the entry
    `optimus_literal` of conf/scheduler.

    Args:
        restart_cost: seconds that a resize, a migration or a restart costs; None takes the view's `restart_delay`.
        shortness: 0 is the paper's objective, the sum of remaining times; larger values serve short jobs first.
    """

    information = "estimate"
    preemptive = True
    elastic = True

    def __init__(self, restart_cost: Seconds | None = None, shortness: float = 1.0) -> None:
        if restart_cost is not None and not (restart_cost >= 0 and math.isfinite(restart_cost)):
            raise MurmurationError(
                f"Optimus: restart_cost is {restart_cost} s; it must be finite and not negative, or null"
            )
        if not (shortness >= 0 and math.isfinite(shortness)):
            raise MurmurationError(f"Optimus: shortness is {shortness}; it must be finite and not negative")
        self.restart_cost = restart_cost
        self.shortness = shortness
        self._submitted = SubmittedJobs()

    def reset(self, cluster: ClusterSpec, rng: np.random.Generator) -> None:
        """Forget the jobs of the last episode."""
        self._submitted = SubmittedJobs()

    def schedule(self, view: ClusterView) -> Allocation:
        """Choose sizes and types by marginal gain, then nodes; unchanged jobs keep theirs.

        Raises:
            MurmurationError: the scenario hides remaining work.
        """
        self._submitted.look_up(view)
        demands = self._demands(view)
        allocation = view.allocation(keep_running=True)
        if demands.jobs.size:
            _place(view, allocation, demands, *_grants(demands, _capacity(view, demands)))
        return allocation

    def _demands(self, view: ClusterView) -> Demands:
        """Collect the demands of the jobs present."""
        jobs = jobs_present(view)
        work = require_remaining_work(view, jobs, "Optimus")
        present_type, present_gpus = np.full(len(jobs), -1, np.int64), np.zeros(len(jobs), np.int64)
        if view.running.size:
            at = np.searchsorted(jobs, view.running)
            held = [view.placement(job).gpus for job in view.running.tolist()]
            present_type[at] = view.cluster.node_types[[min(gpus) for gpus in held]]
            present_gpus[at] = [sum(gpus.values()) for gpus in held]
        return Demands(
            jobs=jobs,
            work=work,
            weight=np.maximum(remaining_time(view, jobs, "Optimus"), 1.0) ** -self.shortness,
            least=self._submitted.least[jobs],
            throughput_at_least=self._submitted.throughput_at_least[jobs],
            throughput=lambda places: self._submitted.throughput(view, jobs[places]),
            present_type=present_type,
            present_gpus=present_gpus,
            restart=view.restart_delay[jobs] if self.restart_cost is None else np.full(len(jobs), self.restart_cost),
        )


def _capacity(view: ClusterView, demands: Demands) -> IntArray:
    """int64[num_gpu_types]: GPUs to share out: all except those of running gangs over several types."""
    gpus = view.capacity
    for job in demands.jobs[(demands.present_type >= 0) & (demands.need == 0)].tolist():
        for node, count in view.placement(job).gpus.items():
            gpus[node] -= count
    return np.bincount(view.cluster.node_types, gpus, len(view.cluster.gpu_types)).astype(np.int64)


def _grants(demands: Demands, capacity: IntArray) -> tuple[IntArray, IntArray]:
    """Share out GPUs among the jobs that can get GPUs; costs of the other jobs are not computed.

    Returns:
        int64[num_jobs] twice, GPU type and GPUs of each of `demands.jobs`; -1 and 0 for jobs that get none.
    """
    chosen = demands.order[admissible(demands.need[demands.order], int(capacity.sum()))]
    running_first = np.argsort(demands.present_type[chosen] < 0, kind="stable")
    places = np.sort(chosen)
    gpu_types, sizes = np.full(len(demands.jobs), -1, np.int64), np.zeros(len(demands.jobs), np.int64)
    gpu_types[places], sizes[places] = share_out_arrays(
        demands.cost(places),
        demands.weight[places],
        demands.present_type[places],
        demands.least[places],
        np.searchsorted(places, chosen[running_first]),
        capacity,
    )
    return gpu_types, sizes


def _place(view: ClusterView, allocation: Allocation, demands: Demands, gpu_types: IntArray, sizes: IntArray) -> None:
    """Place the grants; a job whose grant fits nowhere in one piece gets a smaller size where there is room."""
    changed = (gpu_types != demands.present_type) | (sizes != demands.present_gpus)
    for job in demands.jobs[(demands.present_type >= 0) & (demands.need > 0) & changed].tolist():
        allocation.stop(job)
    order = demands.order[sizes[demands.order] > 0]
    granted = demands.jobs[order].tolist()
    types = [(gpu_type,) for gpu_type in gpu_types[order].tolist()]
    place_in_order(
        view,
        allocation,
        granted,
        dict(zip(granted, sizes[order].tolist(), strict=True)),
        dict(zip(granted, types, strict=True)),
    )
    if allocation.free_gpus.any():
        _squeeze_in(view, allocation, demands, sizes)


def _squeeze_in(view: ClusterView, allocation: Allocation, demands: Demands, sizes: IntArray) -> None:
    """Give each job not placed yet the cheapest free place, at most as large as its grant, or else its least size."""
    runs = allocation.jobs()
    full: set[tuple[int, int]] = set()  # (type, size) for which no room was found
    for place, job in zip(demands.order.tolist(), demands.jobs[demands.order].tolist(), strict=True):
        if job in runs:
            continue
        need, grant = int(demands.need[place]), int(sizes[place])
        if need == 0:
            pack(view, allocation, job, int(view.min_gpus[job]))
            continue
        if not grant and all(
            (gpu_type, need) in full for gpu_type in np.flatnonzero(demands.least[place] == need).tolist()
        ):
            continue
        cost = demands.cost(np.array([place]))[0]
        options = [
            (gpu_type, size) for gpu_type, size in np.argwhere(np.isfinite(cost[:, : (grant or need) + 1])).tolist()
        ]
        for gpu_type, size in sorted(options, key=lambda option: float(cost[option])):
            if (gpu_type, size) in full:
                continue
            if pack(view, allocation, job, size, (gpu_type,)):
                break
            full.add((gpu_type, size))
