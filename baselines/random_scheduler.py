"""Random: the floor that every scheduler should beat."""

import numpy as np

from baselines.parts.placing import pack
from envs.scheduling import ClusterView
from envs.types import Allocation, ClusterSpec, IntArray, JobId


class Random:
    """Waiting jobs in random order, each on random free GPUs of a random type; nothing is ever preempted.

    An elastic job gets a random size among those of its range that are free and on which it runs. Nodes are drawn one
    by one and emptied, so gangs end up scattered: the cost of placement without thought is part of the floor. A job
    that fits nowhere is skipped; no GPU idles that some waiting job could use.
    """

    information = "none"
    preemptive = False
    elastic = True

    def reset(self, cluster: ClusterSpec, rng: np.random.Generator) -> None:
        """Draw from `rng` from now on."""
        self._rng = rng

    def schedule(self, view: ClusterView) -> Allocation:
        """What runs goes on; waiting jobs start wherever chance puts them."""
        wish = view.allocation(keep_running=True)
        waiting = self._rng.permutation(view.queued)
        # Free GPUs only become fewer: who is like one that found no room need not try.
        hopeless: set[tuple[int, int, bytes]] = set()
        while waiting.size:
            waiting = waiting[view.min_gpus[waiting] <= wish.free_gpus.sum()]
            looked_at = 0
            for job in waiting.tolist():
                looked_at += 1
                like = int(view.min_gpus[job]), int(view.max_gpus[job]), view.speed(job).tobytes()
                if like not in hopeless and not self._start(view, wish, job):
                    hopeless.add(like)
                    break
            waiting = waiting[looked_at:]
        return wish

    def _start(self, view: ClusterView, wish: Allocation, job: JobId) -> bool:
        """Start a job with a size and on GPUs that chance chooses; say whether there was room."""
        sizes = _sizes(view, wish, job)
        if not sizes:
            return pack(view, wish, job, int(view.min_gpus[job]), ())  # a gang over several types, if it is none of one
        kind = list(sizes)[self._rng.integers(len(sizes))]
        wish.place(job, self._scatter(wish, kind, int(self._rng.choice(sizes[kind]))))
        return True

    def _scatter(self, wish: Allocation, gpu_type: int, size: int) -> dict[int, int]:
        """GPUs by node: nodes of the type in random order, each emptied before the next."""
        nodes = np.flatnonzero((wish.cluster.node_types == gpu_type) & (wish.free_gpus > 0))
        placed: dict[int, int] = {}
        left = size
        for node in self._rng.permutation(nodes).tolist():
            take = min(left, int(wish.free_gpus[node]))
            placed[node] = take
            left -= take
            if left == 0:
                break
        return placed


def _sizes(view: ClusterView, wish: Allocation, job: JobId) -> dict[int, IntArray]:
    """For each GPU type with room, the sizes within the job's range that are free there and on which it runs."""
    least, most = int(view.min_gpus[job]), int(view.max_gpus[job])
    found: dict[int, IntArray] = {}
    for kind in range(len(wish.cluster.gpu_types)):
        free = int(wish.free_gpus[wish.cluster.node_types == kind].sum())
        sizes = np.arange(least, min(most, free) + 1)
        sizes = sizes[view.speed(job)[kind, sizes] > 0]
        if sizes.size:
            found[kind] = sizes
    return found
