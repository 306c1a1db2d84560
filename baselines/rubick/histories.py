"""History of jobs for Rubick: how long they ran, how often they were changed, since when they wait."""

from envs.scheduling import ClusterView
from envs.types import Allocation, JobId, Placement, Seconds

REPAID = 2.0  # restarts between two changes: after 2 restarts half of the time since a change was work


class JobHistories:
    """History of the jobs of one episode, and the reconfiguration gate computed from it.

    Args:
        gate: share of a job's time that must be left after its changes; see `baselines.rubick.scheduler.Rubick`.
    """

    def __init__(self, gate: float) -> None:
        self.gate = gate
        self._ran: dict[JobId, Seconds] = {}  # run time before the present start
        self._started: dict[JobId, Seconds] = {}  # present start of running jobs
        self._changed: dict[JobId, Seconds] = {}
        self._changes: dict[JobId, int] = {}
        self._stopped: dict[JobId, Seconds] = {}

    def see(self, view: ClusterView) -> None:
        """Record changes that this scheduler did not make.

        Jobs whose node failed are back in the queue and wait from now on. The history of running jobs that were not
        started by this scheduler begins now.
        """
        for job in view.queued.tolist():
            if job in self._started:
                self._stop(job, view.time)
        for job in view.running.tolist():
            if job not in self._started:
                self._started[job] = self._changed[job] = view.time
                self._changes[job] = 0

    def remember(self, view: ClusterView, allocation: Allocation) -> None:
        """Record the changes of an allocation."""
        running = set(view.running.tolist())
        for job, place in allocation.changes.items():
            if place is None:
                if job in running:
                    self._stop(job, view.time)
                continue
            if job in running and same(view.placement(job), place):
                continue
            self._changes[job] = self._changes.get(job, -1) + 1
            self._started.setdefault(job, view.time)
            self._changed[job] = view.time
            self._stopped.pop(job, None)

    def waits_since(self, view: ClusterView, job: JobId) -> Seconds:
        """Time since which a job waits: its last stop, or its submission."""
        return self._stopped.get(job, float(view.submit_time[job]))

    def changes(self, job: JobId) -> int:
        """Number of resizes, moves and starts so far, without the first start."""
        return max(self._changes.get(job, 0), 0)

    def ran(self, view: ClusterView, job: JobId) -> Seconds:
        """Seconds for which a job has held GPUs so far, including restarts, without waiting."""
        now = view.time - self._started[job] if job in self._started else 0.0
        return self._ran.get(job, 0.0) + now

    def passes_gate(self, view: ClusterView, job: JobId) -> bool:
        """Whether a running job passes the gate: (T - (N + 1) d) / T is at least the gate, with T from `ran`.

        If T included waiting, a job that is stopped repeatedly would become ever easier to change.
        """
        restart = float(view.restart_delay[job])
        if restart == 0:
            return True
        age = self.ran(view, job)
        if view.time - self._changed[job] < REPAID * restart:
            return False
        return age - (self.changes(job) + 1) * restart >= self.gate * age

    def pays_off(self, view: ClusterView, job: JobId, factor: float) -> bool:
        """Whether a change that makes a running job faster by a factor pays off if it runs as long again.

        Half of the processes that have run for some time run for as long again (Harchol-Balter and Downey, "Exploiting
        process lifetime distributions for dynamic load balancing", TOCS 1997).
        """
        since = view.time - self._changed[job]
        return factor * (since - float(view.restart_delay[job])) >= since

    def _stop(self, job: JobId, time: Seconds) -> None:
        self._ran[job] = self._ran.get(job, 0.0) + time - self._started.pop(job, time)
        self._stopped[job] = time


def same(one: Placement, other: Placement) -> bool:
    """Whether two placements have the same GPUs and plan, so that changing between them is free."""
    return dict(one.gpus) == dict(other.gpus) and one.plan == other.plan
