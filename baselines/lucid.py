"""Lucid: jobs in order of GPU time, and light ones beside others on the same GPUs; nothing is ever preempted."""

import numpy as np

from baselines.packing import Owners
from baselines.parts.arrays import gang_sizes
from baselines.parts.estimates import remaining_time
from baselines.parts.pairing import place_beside, type_of
from baselines.parts.placing import best_fit, start_waiting
from baselines.parts.priority import ranked
from envs.scheduling import ClusterView
from envs.types import Allocation, ClusterSpec, FloatArray, IntArray, MurmurationError

TINY, MEDIUM, JUMBO = 0, 1, 2  # scores of jobs; those of two that share add up to at most `MOST_TOGETHER`
MOST_TOGETHER = 2


class Lucid:
    """Non-intrusive sharing by scores of jobs (Hu et al., ASPLOS'23, sections 3.2 and 3.4): a reconstruction.

    Waiting jobs are in order of GPU time left; one that does not fit is passed. As in the artifact, a job joins another
    one, the first in order of submission, if both have equally many GPUs, on one node, and fit into their memory, if
    their scores (Tiny 0, Medium 1, Jumbo 2) add up to at most 2, and if its GPU time is at most `patience` times the
    other's. A pair stays until one of the two ends.

    Simplified:

    - A score follows from what a job of the model keeps of its throughput beside another one, as the mean over the
      models of the episode and those pairs that fit, by GPU type. So the artifact's analyzer labels its measured
      models, and trains a tree on GPU use and memory for others; views do not have these.
    - A job shares only if no GPUs of its own are free. Lucid shares whenever it predicts a busy cluster.
    - Times are those that the view shows; the paper predicts them. Jobs are not profiled first.

    With measured pairs of whole GPUs most models keep less than 0.85, and count as Jumbo.

    Args:
        medium: a job of a model that keeps less than this is Medium.
        jumbo: one that keeps less than this is Jumbo; at most `medium`.
        patience: see above.

    Raises:
        MurmurationError: a setting is out of range.
    """

    information = "estimate"
    preemptive = False
    elastic = False

    def __init__(self, medium: float = 0.95, jumbo: float = 0.85, patience: float = 2.0) -> None:
        if not (0 <= jumbo <= medium <= 1 and patience > 0):
            raise MurmurationError(
                f"Lucid: medium is {medium}, jumbo {jumbo}, patience {patience}; the first two must be from 0 to 1, "
                "medium not below jumbo, and patience positive"
            )
        self.medium, self.jumbo, self.patience = medium, jumbo, patience

    def reset(self, cluster: ClusterSpec, rng: np.random.Generator) -> None:
        """Do nothing: no state is kept between rounds."""

    def schedule(self, view: ClusterView) -> Allocation:
        """Keep running jobs, start waiting ones where GPUs are free, and place others beside running ones.

        Raises:
            MurmurationError: the scenario hides remaining work.
        """
        allocation = view.allocation(keep_running=True)
        waiting = view.queued
        order = ranked(waiting, remaining_time(view, waiting, "Lucid") * view.num_gpus[waiting])
        start_waiting(view, allocation, order, best_fit)
        if view.shares_gpus:
            runs = allocation.jobs()
            self._share(view, allocation, np.array([job for job in order if job not in runs], np.int64))
        return allocation

    def _share(self, view: ClusterView, allocation: Allocation, waiting: IntArray) -> None:
        """Place waiting jobs, in order, beside running ones."""
        owners = Owners.of(view, allocation)
        if not len(waiting) or not len(owners.jobs):
            return
        types = np.array([type_of(view, place) for place in owners.placements])
        scores = self.scores(view.pair_factors)
        beside = scores[types, view.model[owners.jobs]]
        left = remaining_time(view, np.arange(len(view.num_gpus)), "Lucid") * view.num_gpus
        free = owners.num_nodes == 1
        for job, size in zip(waiting.tolist(), gang_sizes(view, waiting).tolist(), strict=True):
            model = view.model[job]
            able = free & (owners.num_gpus == size) & (left[job] <= self.patience * left[owners.jobs])
            able &= scores[types, model] + beside <= MOST_TOGETHER
            able &= (view.throughputs(job)[types, size] > 0) & (
                view.pair_factors[types, model, view.model[owners.jobs]] > 0
            )
            if able.any():
                row = int(able.argmax())
                place_beside(view, allocation, {job: int(owners.jobs[row])})
                free[row] = False

    def scores(self, pair_factors: FloatArray) -> IntArray:
        """int64[num_gpu_types, num_models]: TINY, MEDIUM or JUMBO; JUMBO also for a model that fits beside none.

        Args:
            pair_factors: float64[num_gpu_types, num_models, num_models], what a job keeps beside another one.
        """
        fits = pair_factors > 0
        kept = pair_factors.sum(axis=2) / np.maximum(fits.sum(axis=2), 1)
        return np.select([kept < self.jumbo, kept < self.medium], [JUMBO, MEDIUM], TINY)
