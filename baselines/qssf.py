"""Quasi-shortest service first, the scheduler of Helios."""

import numpy as np

from baselines.parts.arrays import gang_sizes
from baselines.parts.estimates import remaining_time
from baselines.parts.placing import best_fit, types_by_throughput
from baselines.parts.priority import ranked
from envs.scheduling import ClusterView
from envs.types import Allocation, ClusterSpec


class Qssf:
    """Gangs in order of expected GPU time on their requested GPUs; nothing is ever preempted.

    Hu, Sun, Yan, Wen, Zhang, "Characterization and prediction of deep learning workloads in large-scale GPU
    datacenters", SC'21, section 4.2 (QSSF service). As in the published simulator, no job passes one that does not fit,
    and jobs are consolidated. Run times are those that the view shows; the paper predicts them from the users' earlier
    jobs of similar names and by gradient boosting; here that is the predictor's part (`predictor=helios`). The
    published one keeps the priority that a waiting job got at first; here it follows the view. Ties are broken by
    submission.
    """

    information = "estimate"
    preemptive = False
    elastic = False

    def reset(self, cluster: ClusterSpec, rng: np.random.Generator) -> None:
        """Do nothing: no state is kept between rounds."""

    def schedule(self, view: ClusterView) -> Allocation:
        """Keep running jobs and start waiting ones in order of GPU time, up to the first that does not fit.

        Raises:
            MurmurationError: the scenario hides remaining work.
        """
        allocation = view.allocation(keep_running=True)
        waiting = view.queued
        sizes = gang_sizes(view, waiting)
        for job in ranked(waiting, remaining_time(view, waiting, "Qssf") * view.num_gpus[waiting]):
            size = int(sizes[np.flatnonzero(waiting == job)[0]])
            found = best_fit(view, allocation.free_gpus, job, size, types_by_throughput(view, job, size))
            if not found:
                break
            allocation.place(job, found)
        return allocation
