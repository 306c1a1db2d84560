"""The policy behind Rubick's published results, as its public artifact runs it: without shrinking jobs."""

from collections.abc import Collection, Mapping, Sequence
from types import MappingProxyType

import numpy as np

from baselines.parts.placing import Gpus
from baselines.rubick.curves import Planner, SensitivityCurves, Trust, meets
from baselines.rubick.draft import DraftAllocation, Held
from baselines.rubick.histories import JobHistories
from baselines.rubick.round import build_allocation, place_spanning, read_held
from envs.scheduling import ClusterView
from envs.types import Allocation, ClusterSpec, IntArray, JobId, MurmurationError, NodeId

PATTERNS: Mapping[str, tuple[tuple[int, ...], ...]] = MappingProxyType(
    {
        "llama7b": ((8,) * 2, (4,) * 4, (2,) * 8, (8,) * 8, (8,) * 4, (4,) * 8, (8,), (4,), (2,), (1,)),
        "llama30b": ((8,) * 6, (8,) * 5, (8,) * 4, (4,) * 6),
    }
)
"""GPUs per node of the placements that the artifact tries for its LLaMA models, in its order (sched/models/*.py).

The artifact's plan for each placement is the fastest one measured there.
"""

LARGE_LLAMA_JOB = 32  # a LLaMA job with at least this many GPUs is placed again in every round,
MOST_RESTARTS = 7  # until it has been restarted this often,
MANY_GUARANTEED = 12  # unless there are more guaranteed jobs than this
OLD = 200_000.0  # seconds after which a job counts as starved: longer than the artifact's trace
OLD_SLOPE = 1e9


class RubickArtifact:
    """The policy "morphling" of the public artifact (AlibabaPAI/reconfigurable-dl-scheduler), as published.

    Rebuilt from a reading of the code. In the artifact's condition `if "llama" or "3B" in job` the first operand is
    always true, so jobs are never shrunk for others: the paper's main mechanism does not run. With the condition fixed,
    the artifact aborts on its own capacity check. `Rubick` has the mechanism. A round:

    1. Order all jobs: guaranteed ones first, each class by *ascending* slope of one more GPU, as a share of the model's
       throughput on a whole node. LLaMA jobs with at least 32 GPUs give up their GPUs first.
    2. Each job takes all free GPUs of one node, up to eight in all: a running job on its own node, a waiting job on the
       node with the most free GPUs. A guaranteed job does so only if it reaches 1 / `slack` of its level. A LLaMA job
       takes the first placement of its list (`PATTERNS`) that fits, on the nodes with the fewest free GPUs.
    3. GPUs left on a node go to its job with the steepest slope.
    4. LLaMA jobs move to the largest placement that fits.

    Differences: a job that loses its GPUs stops (in the artifact's simulator it continues on GPUs that others hold). A
    LLaMA job that keeps its placement keeps its nodes (the artifact moves it free of charge while the GPUs per node
    stay the same). Models without a list that need more than one node run on the GPUs that they requested.

    Args:
        planner: proposes plans; see `Rubick`.
        slack: a guaranteed job is promised 1 / slack of the throughput of its user's plan.
        trust: whose throughputs decide; see `Rubick`.

    Raises:
        MurmurationError: slack is below 1, or trust is "planner" without a planner.
    """

    information = "none"
    preemptive = True
    elastic = True

    def __init__(self, planner: Planner | None = None, *, slack: float = 1.5, trust: Trust = "view") -> None:
        if not slack >= 1.0:
            raise MurmurationError(f"RubickArtifact: slack is {slack}; it must be at least 1")
        if trust == "planner" and planner is None:
            raise MurmurationError(
                "RubickArtifact: trust is planner, but no planner is given; name a planner or trust the view"
            )
        self.planner, self.slack = planner, slack
        self.trust: Trust = trust
        self._curves: SensitivityCurves
        self._histories: JobHistories

    def reset(self, cluster: ClusterSpec, rng: np.random.Generator) -> None:
        """Forget the jobs of the last episode."""
        self._curves = SensitivityCurves(cluster, self.planner, slack=self.slack, trust=self.trust)
        self._histories = JobHistories(gate=0.0)

    def schedule(self, view: ClusterView) -> Allocation:
        """Place each job, assign left-over GPUs, move jobs to larger placements; see the class."""
        self._histories.see(view)
        running = read_held(view, self._curves)
        draft = DraftAllocation.of(view, self._curves, running, ())
        jobs = np.sort(np.concatenate([view.queued, view.running])).tolist()
        slopes = {job: self._slope(draft, job) for job in jobs}
        order = sorted(jobs, key=lambda job: (not view.guaranteed[job], slopes[job], job))
        many = int(view.guaranteed[jobs].sum()) > MANY_GUARANTEED if jobs else False
        cleared: set[NodeId] = set()
        for job, now in running.items():
            often = self._histories.changes(job) >= MOST_RESTARTS
            if self._patterns(view, job) and now.num_gpus >= LARGE_LLAMA_JOB and (many or not often):
                draft.take(job)
                cleared.update(now.gpus)
        for job in order:
            if self._patterns(view, job):
                if job not in draft.held:
                    self._place_pattern(draft, running, job, at_least=0)
            else:
                self._fill_node(draft, job, cleared)
        self._left_overs(draft)
        for job in sorted(jobs, key=lambda job: (slopes[job], job)):
            if self._patterns(view, job):
                held = draft.held.get(job)
                self._place_pattern(draft, running, job, at_least=held.num_gpus if held else 1)
        place_spanning(draft, (job for job in order if job not in draft.held and not draft.gpu_types(job)))
        self._large_unknown(draft, order)
        allocation = build_allocation(draft, running)
        self._histories.remember(view, allocation)
        return allocation

    def _patterns(self, view: ClusterView, job: JobId) -> list[tuple[int, ...]]:
        """The listed placements that the job's range allows; empty for models without a list."""
        spec = self._curves.spec(view, job)
        least, most = spec.min_gpus, spec.max_gpus
        return [one for one in PATTERNS.get(spec.model, ()) if least <= sum(one) <= most]

    def _slope(self, draft: DraftAllocation, job: JobId, more: int = 1) -> float:
        """|T(g + more) - T(g)| per GPU, as a share of the throughput on a whole node; at most one node."""
        view = draft.view
        if view.time - view.submit_time[job] > OLD:
            return OLD_SLOPE
        held = draft.held.get(job)
        gpu_types = draft.gpu_types(job)
        if not gpu_types:
            return 0.0
        gpu_type = held.gpu_type if held else gpu_types[0]
        node, curve = self._curves.node_size[gpu_type], draft.curve(job, gpu_type)
        now = held.num_gpus if held else 0
        then = min(now + more, node)
        # In the artifact a job that cannot run has throughput -1.
        before = (curve.at(now).throughput or -1.0) if held else 0.0
        after = curve.at(then).throughput or -1.0
        original = curve.at(node).throughput or curve.minimum.throughput
        return abs(before - after) / original / more

    def _fill_node(self, draft: DraftAllocation, job: JobId, cleared: Collection[NodeId] = ()) -> None:
        """Step 2 for a job that fits on one node: take its free GPUs, as many as make the job faster.

        Among nodes with equally many free GPUs, those that LLaMA jobs gave up come last.
        """
        held = draft.held.get(job)
        if len(held.gpus) > 1 if held else draft.idle == 0:
            return
        for gpu_type in [held.gpu_type] if held else draft.gpu_types(job):
            curve = draft.curve(job, gpu_type)
            nodes = sorted(draft.nodes(gpu_type), key=lambda node: (-int(draft.free[node]), node in cleared, node))
            for node in list(held.gpus) if held else nodes:
                own = held.num_gpus if held else 0
                point = curve.at(min(int(draft.free[node]) + own, self._curves.node_size[gpu_type]))
                if point.num_gpus in (0, own) or point.num_nodes > 1 or not meets(point.throughput, curve.level):
                    continue
                draft.give(job, Held({node: point.num_gpus}, gpu_type, point))
                return

    def _left_overs(self, draft: DraftAllocation) -> None:
        """Step 3: give the free GPUs of each node to its job with the steepest slope."""
        for node in np.flatnonzero(draft.free > 0).tolist():
            here = [job for job in draft.on(node) if len(draft.held[job].gpus) == 1]
            here = [job for job in here if not self._patterns(draft.view, job) and draft.gpu_types(job)]
            free = int(draft.free[node])
            for job in sorted(here, key=lambda job: (-self._slope(draft, job, free), job)):
                self._fill_node(draft, job)

    def _place_pattern(
        self, draft: DraftAllocation, running: Mapping[JobId, Held], job: JobId, *, at_least: int
    ) -> None:
        """Steps 2 and 4 for a LLaMA job: take the first placement that fits, or the largest with `at_least` GPUs."""
        patterns = self._patterns(draft.view, job)
        if at_least:
            patterns = sorted((one for one in patterns if sum(one) >= at_least), key=lambda one: -sum(one))
        before = draft.held.get(job)
        draft.take(job)
        for gpu_type in draft.gpu_types(job):
            for pattern in patterns:
                point = self._curves.exactly(draft.view, job, gpu_type, sum(pattern), len(pattern))
                gpus = self._room(draft, gpu_type, pattern, running.get(job)) if point.throughput > 0 else {}
                if gpus:
                    draft.give(job, self._unchanged(running.get(job), Held(gpus, gpu_type, point)))
                    return
        if before is not None:
            draft.give(job, before)

    def _room(self, draft: DraftAllocation, gpu_type: int, pattern: Sequence[int], now: Held | None) -> Gpus:
        """Nodes for a placement: the present ones if it is the same, else those with the fewest GPUs that suffice."""
        alike = now is not None and sorted(now.gpus.values()) == sorted(pattern)
        if now is not None and alike and all(draft.free[node] >= count for node, count in now.gpus.items()):
            return dict(now.gpus)
        free: IntArray = draft.free
        gpus: Gpus = {}
        for node in sorted(draft.nodes(gpu_type), key=lambda node: (int(free[node]), node)):
            if len(gpus) < len(pattern) and free[node] >= pattern[len(gpus)]:
                gpus[node] = pattern[len(gpus)]
        return gpus if len(gpus) == len(pattern) else {}

    @staticmethod
    def _unchanged(now: Held | None, held: Held) -> Held:
        """Return `now` if GPUs and plan are the same, else `held`."""
        return now if now is not None and dict(now.gpus) == dict(held.gpus) and now.point == held.point else held

    def _large_unknown(self, draft: DraftAllocation, order: Sequence[JobId]) -> None:
        """Place jobs of several nodes without a list on their minimum size, if it fits."""
        for job in order:
            if draft.idle == 0:
                return
            if job in draft.held:
                continue
            for gpu_type in draft.gpu_types(job):
                held = draft.find(job, gpu_type, draft.curve(job, gpu_type).minimum.num_gpus, draft.free)
                if held is not None:
                    draft.give(job, held)
                    break
