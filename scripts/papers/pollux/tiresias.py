"""Tiresias as Pollux's simulator has it (`simulator/tiresias.py` of the OSDI'21 artifact)."""

import itertools
from typing import Literal

import numpy as np

from baselines import Tiresias
from baselines.parts.priority import jobs_present
from envs.scheduling import ClusterView
from envs.types import Allocation, ClusterSpec, GpuSeconds, JobId
from envs.types.allocation import scattered

LIMIT: GpuSeconds = 16 * 3600.0  # of the first of two queues


class ArtifactTiresias(Tiresias):
    """Our Tiresias with two rules of the artifact.

    - A queue is in order of entry, by arrival or by a fall, and not of first start. So a job that waits for many GPUs
      stops jobs of its own queue that came after it.
    - Free GPUs are counted in the whole cluster. A job that starts takes them from the nodes that have most of them.

    Args:
        placement: "spread" is the artifact's rule. "consolidated" uses the fewest nodes wherever they have room.
    """

    def __init__(self, placement: Literal["spread", "consolidated"] = "spread") -> None:
        super().__init__(limits=(LIMIT,))
        self.placement = placement

    def reset(self, cluster: ClusterSpec, rng: np.random.Generator) -> None:
        """Forget the jobs of the last episode."""
        super().reset(cluster, rng)
        self._entered: dict[JobId, tuple[int, int]] = {}  # queue, and place among all entries into queues
        self._entries = itertools.count()

    def schedule(self, view: ClusterView) -> Allocation:
        """Run the first jobs, by queue and entry, whose GPUs fit into the cluster's together."""
        jobs = jobs_present(view)
        for job, queue in zip(jobs.tolist(), self.queues(view, jobs).tolist(), strict=True):
            if self._entered.get(job, (-1, 0))[0] != queue:
                self._entered[job] = queue, next(self._entries)
        room, chosen = int(view.capacity.sum()), []
        for job in sorted(jobs.tolist(), key=lambda job: self._entered[job]):
            if view.num_gpus[job] <= room:
                room -= int(view.num_gpus[job])
                chosen.append(job)
        allocation, running = view.allocation(keep_running=True), set(view.running.tolist())
        for job in running.difference(chosen):
            allocation.stop(job)
        for job in (job for job in chosen if job not in running):
            self._start(view, allocation, job)
        return allocation

    def _start(self, view: ClusterView, allocation: Allocation, job: JobId) -> None:
        if self.placement == "consolidated":
            allocation.pack(job, scatter=True)
        else:
            gpus = scattered(allocation.free_gpus, view.cluster, int(view.num_gpus[job]), gpu_type=0)
            assert gpus, f"job {job}: too few free GPUs, though they were counted"
            allocation.place(job, gpus)
