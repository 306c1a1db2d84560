"""Optimus: one GPU at a time to the job that gains most from it."""

import math
from collections.abc import Mapping, Sequence

import numpy as np

from baselines.estimates import remaining_time, remaining_work, restart_delay
from baselines.marginal_gain import Demand, Grant, share_out
from baselines.placing import pack
from baselines.priority import jobs_present, place_in_order
from envs.scheduling import ClusterView
from envs.types import Allocation, ClusterSpec, FloatArray, IntArray, JobId, MurmurationError, Samples, Seconds


class Optimus:
    """Elastic jobs sized by marginal gain (Peng et al., EuroSys'18, section 4), as strong as the idea allows.

    A job's cost is its remaining time on so many GPUs of a type, from the view's speeds. Every job first gets the
    least that it runs on, those that need the fewest GPU-seconds first; then GPUs go, a step at a time, to the job
    whose cost falls most per GPU. Parameter servers, which the paper counts beside workers, do not exist here.

    Beyond the paper, so that it competes honestly in this world:
    - GPU types: a job has its own cost on each; when nobody gains by growing, jobs move to idle GPUs of another type.
    - Restarts: every allocation but the present one costs `restart_cost` more, so that a resize, a move or a
      preemption happens only if it pays; unchanged jobs keep their GPUs.
    - Steps: a step may take several GPUs at once where one alone gains nothing (the lower convex hull of the cost).
    - Weights: gains are divided by the job's remaining time on its requested GPUs, to the power `shortness`.
    - Jobs that are not elastic are allowed; between them this is shortest GPU-time first.

    Args:
        restart_cost: seconds that a resize, a migration or a restart costs; if None, what the view says in
            `restart_delay` (nothing, if it does not say).
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

    def reset(self, cluster: ClusterSpec, rng: np.random.Generator) -> None:
        """Nothing to remember."""

    def schedule(self, view: ClusterView) -> Allocation:
        """Sizes and types by marginal gain, then places: the present ones where nothing changed.

        Raises:
            MurmurationError: the scenario hides remaining work.
        """
        jobs = jobs_present(view)
        demands = self._demands(view, jobs)
        grants = share_out(demands, _capacity(view, demands))
        order = sorted(demands, key=lambda job: (demands[job].least_gpu_time, job))
        return _place(view, order, demands, grants)

    def _demands(self, view: ClusterView, jobs: IntArray) -> dict[JobId, Demand]:
        work = remaining_work(view, jobs, "Optimus")
        weights = np.maximum(remaining_time(view, jobs, "Optimus"), 1.0) ** -self.shortness
        restart = restart_delay(view) if self.restart_cost is None else self.restart_cost
        present = {job: _grant(view, job) for job in view.running.tolist()}
        return {
            job: Demand(self._cost(view, job, float(left), present.get(job), restart), float(weight), present.get(job))
            for job, left, weight in zip(jobs.tolist(), work, weights, strict=True)
        }

    def _cost(
        self, view: ClusterView, job: JobId, work: Samples, present: Grant | None, restart: Seconds
    ) -> FloatArray:
        """float64[num_gpu_types, max_gpus + 1]: seconds to the end, restart included; infinite where it cannot run."""
        least, most = int(view.min_gpus[job]), int(view.max_gpus[job])
        speed = view.speed(job)[:, : most + 1]
        cost = np.full(speed.shape, np.inf)
        np.divide(work, speed, out=cost, where=speed > 0)
        cost[:, :least] = np.inf
        cost += restart
        if present is not None and least <= present.num_gpus <= most:
            cost[present.gpu_type, present.num_gpus] -= restart
        return cost


def _capacity(view: ClusterView, demands: Mapping[JobId, Demand]) -> IntArray:
    """int64[num_gpu_types]: GPUs to share out: all but those of running gangs over several types."""
    gpus = view.cluster.node_gpus.copy()
    for job, demand in demands.items():
        if demand.present and not demand.sizable:
            for node, count in view.placement(job).gpus.items():
                gpus[node] -= count
    return np.bincount(view.cluster.node_types, gpus, len(view.cluster.gpu_types)).astype(np.int64)


def _grant(view: ClusterView, job: JobId) -> Grant:
    placement = view.placement(job)
    return Grant(int(view.cluster.node_types[min(placement.gpus)]), placement.num_gpus)


def _place(
    view: ClusterView, order: Sequence[JobId], demands: Mapping[JobId, Demand], grants: Mapping[JobId, Grant]
) -> Allocation:
    """Nodes for the grants; then, for jobs whose grant is nowhere in one piece, a smaller size where there is room."""
    wish = view.allocation(keep_running=True)
    for job, demand in demands.items():
        if demand.present and demand.sizable and grants.get(job) != demand.present:
            wish.stop(job)
    granted = [job for job in order if job in grants]
    sizes = {job: grants[job].num_gpus for job in granted}
    place_in_order(view, wish, granted, sizes, {job: [grants[job].gpu_type] for job in granted})
    for job in order:
        if not wish.placement(job):
            _squeeze_in(view, wish, job, demands[job], grants.get(job))
    return wish


def _squeeze_in(view: ClusterView, wish: Allocation, job: JobId, demand: Demand, grant: Grant | None) -> None:
    """The cheapest placement in what is left, no larger than the grant, or else than the job's least size."""
    if not demand.sizable:
        pack(view, wish, job, int(view.min_gpus[job]))
        return
    most = grant.num_gpus if grant else int(np.isfinite(demand.cost).any(axis=0).argmax())
    options = np.argwhere(np.isfinite(demand.cost[:, : most + 1])).tolist()
    for kind, size in sorted(options, key=lambda option: float(demand.cost[option[0], option[1]])):
        if pack(view, wish, job, size, [kind]):
            return
