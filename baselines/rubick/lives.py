"""What Rubick remembers of jobs: when they began, how often they were changed, since when they wait."""

from envs.scheduling import ClusterView
from envs.types import Allocation, JobId, Placement, Seconds

REPAID = 2.0  # a change has been repaid a little once half of the time since has been work: after 2 restarts


class Lives:
    """The past of the jobs of one episode, and the reconfiguration gate that follows from it.

    Args:
        gate: share of a job's time that must be left after its changes; see `baselines.rubick.scheduler.Rubick`.
    """

    def __init__(self, gate: float) -> None:
        self.gate = gate
        self._begun: dict[JobId, Seconds] = {}
        self._changed: dict[JobId, Seconds] = {}
        self._changes: dict[JobId, int] = {}
        self._stopped: dict[JobId, Seconds] = {}

    def see(self, view: ClusterView) -> None:
        """Notice jobs that went back to the queue by themselves: their node failed, and they wait from now on."""
        for job in view.queued.tolist():
            if job in self._begun:
                self._stopped.setdefault(job, view.time)

    def remember(self, view: ClusterView, wish: Allocation) -> None:
        """Note what a wish changes."""
        running = set(view.running.tolist())
        for job, place in wish.changes.items():
            if place is None:
                if job in running:
                    self._stopped[job] = view.time
                continue
            if job in running and same(view.placement(job), place):
                continue
            self._changes[job] = self._changes.get(job, -1) + 1
            self._begun.setdefault(job, view.time)
            self._changed[job] = view.time
            self._stopped.pop(job, None)

    def waits_since(self, view: ClusterView, job: JobId) -> Seconds:
        """Since when a waiting job waits: its last stop, or its submission."""
        return self._stopped.get(job, float(view.submit_time[job]))

    def changes(self, job: JobId) -> int:
        """Starts but the first, resizes and moves so far."""
        return max(self._changes.get(job, 0), 0)

    def affords(self, view: ClusterView, job: JobId) -> bool:
        """Whether a running job may be changed for others: (T - (N + 1) d) / T at least the gate, T since it began."""
        restart = float(view.restart_delay[job])
        if restart == 0:
            return True
        age = view.time - self._begun[job]
        if view.time - self._changed[job] < REPAID * restart:
            return False
        return age - (self.changes(job) + 1) * restart >= self.gate * age

    def pays(self, view: ClusterView, job: JobId, factor: float) -> bool:
        """Whether a running job may be changed to get faster by a factor: it pays if it runs as long again as it has.

        Half of the processes that have run for a time run for as long again (Harchol-Balter and Downey, "Exploiting
        process lifetime distributions for dynamic load balancing", TOCS 1997).
        """
        since = view.time - self._changed[job]
        return factor * (since - float(view.restart_delay[job])) >= since


def same(one: Placement, other: Placement) -> bool:
    """Whether two placements have the same GPUs and plan, so that going from one to the other is free."""
    return dict(one.gpus) == dict(other.gpus) and one.plan == other.plan
