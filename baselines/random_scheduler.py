"""Random: the lower bound that every scheduler should beat."""

import numpy as np

from baselines.parts.placing import best_fit, constraints_at, pack
from envs.scheduling import ClusterView
from envs.simulation.world.shapes import shapes_of
from envs.types import Allocation, ClusterSpec, IntArray, JobId
from envs.types.limits import find_shaped


class Random:
    """Waiting jobs in random order, each on random free GPUs of a random type; nothing is ever preempted.

    An elastic job gets a random size among those of its range that are free and on which it runs. Nodes are drawn one
    by one, and all their free GPUs are used before the next is drawn. So gangs are scattered, and the lower bound
    includes the cost of careless placement. A job that fits nowhere is skipped; no GPU idles that a waiting job could
    use. A job whose constraints limit its nodes tries types and sizes in random order, on random nodes if allowed.
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
        waiting, models, shapes = self._rng.permutation(view.queued), view.model, shapes_of(view.models)
        self._shaped = set(np.flatnonzero(shapes.any(axis=1)).tolist())
        # The number of free GPUs only falls, so a job equal to one that found no room need not be tried.
        hopeless: set[tuple[int, int, int, bytes]] = set()
        while waiting.size:
            waiting = waiting[view.min_gpus[waiting] <= allocation.free_gpus.sum()]
            looked_at = 0
            for job in waiting.tolist():
                looked_at += 1
                least, most = int(view.min_gpus[job]), int(view.max_gpus[job])
                like = least, most, int(models[job]), view.throughputs(job).tobytes()
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
        if self._shaped and int(view.model[job]) in self._shaped:
            return self._start_within(view, allocation, job, sizes)
        gpu_type = list(sizes)[self._rng.integers(len(sizes))]
        size = int(self._rng.choice(sizes[gpu_type]))
        allocation.place(job, self._scatter(allocation.free_gpus, allocation.cluster, size, gpu_type))
        return True

    def _start_within(self, view: ClusterView, allocation: Allocation, job: JobId, sizes: dict[int, IntArray]) -> bool:
        """Start a job as its constraints allow; return whether there was room."""
        pairs = [(gpu_type, size) for gpu_type, able in sizes.items() for size in able.tolist()]
        free, cluster, asked = allocation.free_gpus, allocation.cluster, constraints_at(view, job)
        for gpu_type, size in self._rng.permutation(np.array(pairs)).tolist():
            found = find_shaped(asked, free, cluster, size, gpu_type, self._scatter)
            found = found or best_fit(view, free, job, size, (gpu_type,))
            if found:
                allocation.place(job, found)
                return True
        return False

    def _scatter(self, free: IntArray, cluster: ClusterSpec, size: int, gpu_type: int) -> dict[int, int]:
        """Choose GPUs by node: nodes of the type in random order, each used up before the next; empty if too few."""
        nodes = np.flatnonzero((cluster.node_types == gpu_type) & (free > 0))
        placed: dict[int, int] = {}
        left = size
        for node in self._rng.permutation(nodes).tolist():
            take = min(left, int(free[node]))
            placed[node] = take
            left -= take
            if left == 0:
                return placed
        return {}


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
