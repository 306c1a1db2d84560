"""Random: the lower bound that every scheduler should beat."""

import numpy as np

from baselines.parts.placing import pack
from envs.scheduling import ClusterView
from envs.types import Allocation, ClusterSpec, IntArray, JobId


class Random:
    """Waiting jobs in random order, each on random free GPUs of a random type; nothing is ever preempted.

    An elastic job gets a random size among those of its range that are free and on which it runs. Nodes are drawn one
    by one, and all their free GPUs are used before the next is drawn. So gangs are scattered, and the lower bound
    includes the cost of careless placement. A job that fits nowhere is skipped; no GPU idles that a waiting job could
    use.
    """

    information = "none"
    preemptive = False
    elastic = True

    def reset(self, cluster: ClusterSpec, rng: np.random.Generator) -> None:
        """Take the generator of this episode."""
        self._rng = rng

    def schedule(self, view: ClusterView) -> Allocation:
        """Keep running jobs; start waiting ones on random GPUs."""
        allocation = view.allocation(keep_running=True)
        waiting = self._rng.permutation(view.queued)
        # The number of free GPUs only falls, so a job equal to one that found no room need not be tried.
        hopeless: set[tuple[int, int, bytes]] = set()
        while waiting.size:
            waiting = waiting[view.min_gpus[waiting] <= allocation.free_gpus.sum()]
            looked_at = 0
            for job in waiting.tolist():
                looked_at += 1
                like = int(view.min_gpus[job]), int(view.max_gpus[job]), view.throughputs(job).tobytes()
                if like not in hopeless and not self._start(view, allocation, job):
                    hopeless.add(like)
                    break
            waiting = waiting[looked_at:]
        return allocation

    def _start(self, view: ClusterView, allocation: Allocation, job: JobId) -> bool:
        """Start a job with a random size on random GPUs; return whether there was room."""
        sizes = _sizes(view, allocation, job)
        if not sizes:
            return pack(view, allocation, job, int(view.min_gpus[job]), ())  # it may still be a gang over several types
        gpu_type = list(sizes)[self._rng.integers(len(sizes))]
        allocation.place(job, self._scatter(allocation, gpu_type, int(self._rng.choice(sizes[gpu_type]))))
        return True

    def _scatter(self, allocation: Allocation, gpu_type: int, size: int) -> dict[int, int]:
        """Choose GPUs by node: nodes of the type in random order, each used up before the next."""
        nodes = np.flatnonzero((allocation.cluster.node_types == gpu_type) & (allocation.free_gpus > 0))
        placed: dict[int, int] = {}
        left = size
        for node in self._rng.permutation(nodes).tolist():
            take = min(left, int(allocation.free_gpus[node]))
            placed[node] = take
            left -= take
            if left == 0:
                break
        return placed


def _sizes(view: ClusterView, allocation: Allocation, job: JobId) -> dict[int, IntArray]:
    """List, for each GPU type with room, the sizes of the job's range that are free there and on which it runs."""
    least, most = int(view.min_gpus[job]), int(view.max_gpus[job])
    found: dict[int, IntArray] = {}
    for gpu_type in range(len(allocation.cluster.gpu_types)):
        free = int(allocation.free_gpus[allocation.cluster.node_types == gpu_type].sum())
        sizes = np.arange(least, min(most, free) + 1)
        sizes = sizes[view.throughputs(job)[gpu_type, sizes] > 0]
        if sizes.size:
            found[gpu_type] = sizes
    return found
