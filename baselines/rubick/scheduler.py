"""Rubick: GPUs and execution plans chosen together, by the slopes of resource sensitivity curves."""

import math
from collections.abc import Sequence

import numpy as np

from baselines.parts.ties import merge_ties
from baselines.rubick.curves import Planner, SensitivityCurves, Trust
from baselines.rubick.draft import Claim, DraftAllocation
from baselines.rubick.histories import JobHistories
from baselines.rubick.round import build_allocation, grow_jobs, place_minimum, place_spanning, read_held, within_quota
from envs.scheduling import ClusterView
from envs.types import Allocation, ClusterSpec, JobId, MurmurationError, Seconds


class Rubick:
    """Resize and replan jobs where a GPU is worth most (Zhang et al., MLSys'25, sections 5 and 6).

    A *reconstruction* from names and comments in the public artifact and from public text. In the artifact itself jobs
    are never shrunk (`RubickArtifact` does what the artifact does). A round:

    1. Guaranteed jobs, the longest waiting first, get their minimum: the fewest GPUs whose best plan is as fast as the
       user's plan on the requested GPUs. These minima count against their tenant's quota. If too few GPUs are free,
       other jobs shrink: on the node with the most free GPUs, one step at a time, the job that loses the least
       throughput per needed GPU (the slope, as a share of the throughput on the requested GPUs). Best-effort jobs may
       shrink to nothing, guaranteed jobs to their minimum.
    2. Best-effort jobs, and guaranteed jobs beyond quotas, get their minimum, the steepest slope first. Jobs with a
       lower slope shrink for those with a higher one, but do not stop. A job that has waited for `patience` is
       *starved*: it goes before all others, the longest waiting first, and may stop them. A starved guaranteed job may
       stop another guaranteed job. Each running guaranteed job has its level.
    3. Stopped jobs look for another place. Jobs that fit no single GPU type start as requested.
    4. Free GPUs go to the job that gains most per GPU, on the same node or elsewhere.

    Among slopes that are equal up to rounding, the job with fewer GPUs grows first, then the one submitted first.

    Every changed job gets the best plan for the GPUs that it then holds, and holds no useless GPUs.

    Reconfiguration gate. With restarts of d seconds, a job that has run for T seconds and was changed N times gives
    GPUs to best-effort jobs only if (T - (N + 1) d) / T >= `gate` and its last change was at least 2 d ago. A change
    that makes a job faster by a factor f, t seconds after its last change, needs f (t - d) >= t: it pays off if the job
    runs as long again. The paper's threshold is remembered as 0.97 at d = 78 s (unconfirmed), one change per 2,600 s;
    this equals 0.9 at the artifact's 260 s. Starvation, the rule that only starved jobs stop others, and the rule of
    growth are ours. `gate` and `patience` are the best of nine pairs, gate 0.8 to 0.95 and patience 600 s to 3,600 s,
    on random workloads without the public traces (`papers.rubick.choice` at commit 5b54fac).

    Args:
        planner: proposes plans, for example `envs.performance.RubickModel`; where it is None or does not know a job's
            model, the world chooses the fastest plan that fits.
        plans: whether plans are changed; else jobs keep their users' plans.
        resources: whether GPUs are changed; else jobs have the requested GPUs. The paper's ablations change only one of
            the two, or neither.
        slack: a guaranteed job is promised 1 / slack of its user plan's throughput; the artifact uses 1.5.
        gate: threshold of the reconfiguration gate.
        patience: seconds of waiting after which a job is starved.
        trust: whose throughputs decide: the view's, which are the world's, or the planner's own predictions.

    Raises:
        MurmurationError: slack is below 1, gate is outside 0 to 1, patience is negative, or trust is "planner" without
            a planner.
    """

    information = "none"
    preemptive = True
    elastic = True

    def __init__(
        self,
        planner: Planner | None = None,
        *,
        plans: bool = True,
        resources: bool = True,
        slack: float = 1.0,
        gate: float = 0.8,
        patience: Seconds = 1800.0,
        trust: Trust = "view",
    ) -> None:
        if not 1.0 <= slack < math.inf:
            raise MurmurationError(f"Rubick: slack is {slack}; it must be a finite factor of at least 1")
        if not 0.0 <= gate < 1.0:
            raise MurmurationError(f"Rubick: gate is {gate}; it must be at least 0 and below 1")
        if not patience >= 0:
            raise MurmurationError(f"Rubick: patience is {patience} s; it must not be negative")
        if trust not in ("view", "planner") or (trust == "planner" and planner is None):
            raise MurmurationError(f"Rubick: trust is {trust!r}; it must be view, or planner if a planner is given")
        self.planner, self.plans, self.resources = planner, plans, resources
        self.slack, self.gate, self.patience = slack, gate, patience
        self.trust: Trust = trust
        self._histories: JobHistories
        self._curves: SensitivityCurves

    def reset(self, cluster: ClusterSpec, rng: np.random.Generator) -> None:
        """Forget the jobs of the last episode."""
        self._histories = JobHistories(self.gate)
        self._curves = SensitivityCurves(
            cluster, self.planner, plans=self.plans, resources=self.resources, slack=self.slack, trust=self.trust
        )

    def schedule(self, view: ClusterView) -> Allocation:
        """Place guaranteed jobs, then others by slope, then grow jobs; see the class."""
        self._histories.see(view)
        running = read_held(view, self._curves)
        movable = [job for job in running if self._histories.passes_gate(view, job)]
        draft = DraftAllocation.of(view, self._curves, running, movable)
        draft.kept = within_quota(draft, running)
        waiting = view.queued.tolist()
        others = self._guarantee(draft, [job for job in waiting if view.guaranteed[job]])
        left = self._serve(draft, [*others, *(job for job in waiting if not view.guaranteed[job])])
        for job in running:
            if job not in draft.held:
                place_minimum(draft, Claim(job, 0.0))
        place_spanning(draft, (job for job in left if not draft.gpu_types(job)))
        grow_jobs(draft, running, lambda job, factor: self._histories.pays_off(view, job, factor))
        allocation = build_allocation(draft, running)
        self._histories.remember(view, allocation)
        return allocation

    def _guarantee(self, draft: DraftAllocation, jobs: Sequence[JobId]) -> list[JobId]:
        """Give guaranteed jobs their minimum within their tenants' quotas; return the jobs left without."""
        without = []
        for job in self._by_waiting(draft.view, jobs):
            before, kept = draft.mark(), draft.kept
            if place_minimum(draft, Claim(job, math.inf, guaranteed=True, starving=self._starves(draft.view, job))):
                draft.kept = within_quota(draft, draft.in_order())
                if job in draft.kept:
                    draft.movable.discard(job)  # no later job of this round may take GPUs from it
                    continue
                draft.undo(before)
                draft.kept = kept
            without.append(job)
        return without

    def _serve(self, draft: DraftAllocation, jobs: Sequence[JobId]) -> list[JobId]:
        """Start jobs on their minimum, starved jobs first, then by slope; return the jobs that do not fit."""
        view = draft.view
        starving = self._by_waiting(view, [job for job in jobs if self._starves(view, job)])
        left = []
        for job in starving:
            if place_minimum(draft, Claim(job, math.inf)):
                draft.movable.discard(job)
            else:
                left.append(job)
        others = set(jobs) - set(starving)
        rest = [job for job in jobs if job in others]
        steepness = merge_ties(np.array([self._curves.first_slope(view, job) for job in rest]))
        slopes = dict(zip(rest, steepness.tolist(), strict=True))
        for job in sorted(slopes, key=lambda job: (-slopes[job], job)):
            if not place_minimum(draft, Claim(job, slopes[job])):
                left.append(job)
        return left

    def _by_waiting(self, view: ClusterView, jobs: Sequence[JobId]) -> list[JobId]:
        """Sort jobs by waiting time, the longest first."""
        return sorted(jobs, key=lambda job: (self._histories.waits_since(view, job), job))

    def _starves(self, view: ClusterView, job: JobId) -> bool:
        return view.time - self._histories.waits_since(view, job) >= self.patience
