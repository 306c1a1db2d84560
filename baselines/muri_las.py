"""Two-dimensional least attained service with the queues of Muri's simulator."""

import math
from collections.abc import Sequence

import numpy as np

from baselines.parts.priority import jobs_present
from envs.scheduling import ClusterView
from envs.types import Allocation, ClusterSpec, GpuSeconds, JobId, MurmurationError, Seconds

_ROUNDING = 1e-9  # relative; a job within rounding of a limit has reached it
_SHORTEST: Seconds = 1e-6  # a shorter wait is rounding: the limit is reached


class MuriLas:
    """Least attained service in a few queues, as Muri's simulator implements it (Zhao et al., SIGCOMM'22, artifact).

    The simulator names the policy after Tiresias, but its rules differ from those of the Tiresias paper, which
    `Tiresias` follows:

    - A job falls when its attained service in GPU-seconds reaches the limit of its queue, by one queue in a decision.
    - A queue is in order of entry, by arrival or by demotion. After every decision the jobs of a queue that do not run
      move behind those that run.
    - Jobs are taken in the order of queues while enough GPUs are free in the whole cluster; nodes do not matter. A job
      that does not fit is skipped. Here it takes the fewest nodes that have room, or else any free GPUs of one type.
    - Besides arrivals and completions, there is a decision when a running job has executed for `ceil(limit / GPUs)`
      seconds, whole seconds as in the simulator.

    The rules are reconstructed from the simulator's output and behaviour; on its traces they give every printed digit.

    Args:
        limits: GPU-seconds at which a job falls to the next queue, ascending; there is one queue more than limits. The
            default is that of Muri's simulator, whose third limit is never reached.
    """

    information = "none"
    preemptive = True
    elastic = False

    def __init__(self, limits: Sequence[GpuSeconds] = (3250.0, 7200.0)) -> None:
        self.limits = [float(limit) for limit in limits]
        if not self.limits or not (np.diff(self.limits, prepend=0.0) > 0).all():
            raise MurmurationError(
                f"MuriLas: limits are {list(limits)} GPU-seconds; give at least one, positive and ascending"
            )
        self._queues: list[list[JobId]] = []

    def reset(self, cluster: ClusterSpec, rng: np.random.Generator) -> None:
        """Forget the jobs of the last episode."""
        self._queues = [[] for _ in range(len(self.limits) + 1)]

    def schedule(self, view: ClusterView) -> Allocation:
        """Run as many jobs as the free GPUs allow, earlier queues first, and name the next demotion as an instant."""
        service = self._update_queues(view)
        chosen = self._choose(view)
        allocation = view.allocation(keep_running=True)
        running = set(view.running.tolist())
        for job in running - set(chosen):
            allocation.stop(job)
        for job in chosen:
            if job not in running:
                allocation.pack(job, scatter=True)
        runs = allocation.jobs()
        self._queues = [sorted(queue, key=lambda job: job not in runs) for queue in self._queues]  # a stable sort
        allocation.next_decision = self._next_demotion(view, service, runs)
        return allocation

    def _update_queues(self, view: ClusterView) -> dict[JobId, GpuSeconds]:
        """Remove jobs that ended, add new ones, demote; return the attained service of all jobs present."""
        jobs = jobs_present(view)
        service = dict(zip(jobs.tolist(), view.attained_service(jobs).tolist(), strict=True))
        self._queues = [[job for job in queue if job in service] for queue in self._queues]
        known = {job for queue in self._queues for job in queue}
        self._queues[0] += [job for job in jobs.tolist() if job not in known]
        for index in reversed(range(len(self.limits))):  # from the last queue, so that no job falls twice
            falls = [job for job in self._queues[index] if service[job] * (1 + _ROUNDING) >= self.limits[index]]
            self._queues[index] = [job for job in self._queues[index] if job not in falls]
            self._queues[index + 1] += falls
        return service

    def _choose(self, view: ClusterView) -> list[JobId]:
        """Return the jobs that fit into the cluster's GPUs together, in the order of queues."""
        free, chosen = int(view.capacity.sum()), []
        for job in (job for queue in self._queues for job in queue):
            if view.num_gpus[job] <= free:
                free -= int(view.num_gpus[job])
                chosen.append(job)
        return chosen

    def _next_demotion(self, view: ClusterView, service: dict[JobId, GpuSeconds], runs: set[JobId]) -> Seconds:
        """Return the instant at which the next running job has executed long enough to fall; infinite if none will."""
        waits = [math.inf]
        for limit, queue in zip(self.limits, self._queues, strict=False):
            for job in runs.intersection(queue):
                gpus = int(view.num_gpus[job])
                waits.append(math.ceil(limit / gpus) - service[job] / gpus)
        return view.time + min((wait for wait in waits if wait > _SHORTEST), default=math.inf)
