"""The policy that Rubick's public artifact runs, shrinking off: what its published results come from."""

from collections.abc import Collection, Mapping, Sequence
from types import MappingProxyType

import numpy as np

from baselines.parts.placing import Gpus
from baselines.rubick.curves import Curves, Planner, Trust, meets
from baselines.rubick.draft import Draft, Held
from baselines.rubick.lives import Lives
from baselines.rubick.round import as_wish, held_now, place_spanning
from envs.scheduling import ClusterView
from envs.types import Allocation, ClusterSpec, IntArray, JobId, MurmurationError, NodeId

PATTERNS: Mapping[str, tuple[tuple[int, ...], ...]] = MappingProxyType(
    {
        "llama7b": ((8,) * 2, (4,) * 4, (2,) * 8, (8,) * 8, (8,) * 4, (4,) * 8, (8,), (4,), (2,), (1,)),
        "llama30b": ((8,) * 6, (8,) * 5, (8,) * 4, (4,) * 6),
    }
)
"""GPUs on each node: the placements that the artifact tries for its LLaMA models, in its order (sched/models/*.py).

Its plan for each is the fastest that was measured there.
"""

LARGE = 32  # GPUs from which a LLaMA job is placed anew in every round,
MOST_RESTARTS = 7  # until it was restarted so often,
MANY_GUARANTEED = 12  # unless more guaranteed jobs than this are in the system
OLD = 200_000.0  # seconds after which a job starves: longer than the artifact's trace
OLD_SLOPE = 1e9


class RubickArtifact:
    """What the public artifact does (AlibabaPAI/reconfigurable-dl-scheduler, policy "morphling"), as it is published.

    Rebuilt from a reading of the code. In its condition `if "llama" or "3B" in job` the first operand is always true,
    so that jobs are never shrunk for others: the mechanism that gives the paper its idea does not run, and with the
    condition mended the artifact aborts on its own capacity check. `Rubick` has the mechanism. A round:

    1. All jobs, guaranteed ones first, each class by *ascending* slope of one more GPU, as a share of the model's speed
       on a whole node. LLaMA jobs of 32 GPUs or more give theirs up first.
    2. A job takes all free GPUs of a node, up to eight in all: a running one on its own, a waiting one on the node with
       most of them. Guaranteed ones only if that makes 1 / `slack` of their level. LLaMA jobs take the first placement
       of their list (`PATTERNS`) for which there is room, nodes with few free GPUs first.
    3. Left-overs of a node go to its job with the steepest slope.
    4. LLaMA jobs move to the largest placement for which there is room.

    Different from it: what loses its GPUs stops (in the artifact's simulator it goes on, on GPUs that others hold); a
    LLaMA job that keeps its placement keeps its nodes (the artifact moves it free of charge while the GPUs on each node
    stay the same); models without a list that need more than a node run as they asked.

    Args:
        planner: names plans; see `Rubick`.
        slack: a guaranteed job is promised 1 / slack of its users' speed.
        trust: whose speeds decide; see `Rubick`.

    Raises:
        MurmurationError: slack below 1, or a planner to trust is missing.
    """

    information = "none"
    preemptive = True
    elastic = True

    def __init__(self, planner: Planner | None = None, *, slack: float = 1.5, trust: Trust = "view") -> None:
        if not slack >= 1.0:
            raise MurmurationError(f"RubickArtifact: slack is {slack}; it must be at least 1")
        if trust == "planner" and planner is None:
            raise MurmurationError(
                "RubickArtifact: trust is planner, but there is none; name a planner or trust the view"
            )
        self.planner, self.slack = planner, slack
        self.trust: Trust = trust
        self._curves: Curves
        self._lives: Lives

    def reset(self, cluster: ClusterSpec, rng: np.random.Generator) -> None:
        """Forget the jobs of the last episode."""
        self._curves = Curves(cluster, self.planner, slack=self.slack, trust=self.trust)
        self._lives = Lives(gate=0.0)

    def schedule(self, view: ClusterView) -> Allocation:
        """Every job in turn, left-overs, moves to larger placements; see the class."""
        self._lives.see(view)
        running = held_now(view, self._curves)
        draft = Draft.of(view, self._curves, running, ())
        jobs = np.sort(np.concatenate([view.queued, view.running])).tolist()
        slopes = {job: self._slope(draft, job) for job in jobs}
        order = sorted(jobs, key=lambda job: (not view.guaranteed[job], slopes[job], job))
        many = int(view.guaranteed[jobs].sum()) > MANY_GUARANTEED if jobs else False
        cleared: set[NodeId] = set()
        for job, now in running.items():
            often = self._lives.changes(job) >= MOST_RESTARTS
            if self._patterns(view, job) and now.num_gpus >= LARGE and (many or not often):
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
        place_spanning(draft, (job for job in order if job not in draft.held and not draft.kinds(job)))
        self._large_unknown(draft, order)
        wish = as_wish(draft, running)
        self._lives.remember(view, wish)
        return wish

    def _patterns(self, view: ClusterView, job: JobId) -> list[tuple[int, ...]]:
        """The placements of a LLaMA job that its range allows; none for other jobs."""
        spec = self._curves.spec(view, job)
        least, most = spec.min_gpus, spec.max_gpus
        return [one for one in PATTERNS.get(spec.model, ()) if least <= sum(one) <= most]

    def _slope(self, draft: Draft, job: JobId, more: int = 1) -> float:
        """|T(g + more) - T(g)| as a share of the speed on a whole node, per GPU; on a node at most."""
        view = draft.view
        if view.time - view.submit_time[job] > OLD:
            return OLD_SLOPE
        held = draft.held.get(job)
        kinds = draft.kinds(job)
        if not kinds:
            return 0.0
        kind = held.kind if held else kinds[0]
        node, curve = self._curves.node_size[kind], draft.curve(job, kind)
        now = held.num_gpus if held else 0
        then = min(now + more, node)
        # What does not run has the speed -1 in the artifact.
        speeds = [curve.at(gpus).speed or -1.0 for gpus in (now, then)] if held else [0.0, curve.at(then).speed or -1.0]
        original = curve.at(node).speed or curve.least.speed
        return abs(speeds[0] - speeds[1]) / original / more

    def _fill_node(self, draft: Draft, job: JobId, cleared: Collection[NodeId] = ()) -> None:
        """Step 2 for a job that fits a node: all that is free there, up to what makes it faster.

        Of nodes with as many free GPUs those of LLaMA jobs that gave theirs up come last.
        """
        held = draft.held.get(job)
        if len(held.gpus) > 1 if held else draft.idle == 0:
            return
        for kind in [held.kind] if held else draft.kinds(job):
            curve = draft.curve(job, kind)
            nodes = sorted(draft.nodes(kind), key=lambda node: (-int(draft.free[node]), node in cleared, node))
            for node in list(held.gpus) if held else nodes:
                own = held.num_gpus if held else 0
                choice = curve.at(min(int(draft.free[node]) + own, self._curves.node_size[kind]))
                if choice.num_gpus in (0, own) or choice.num_nodes > 1 or not meets(choice.speed, curve.level):
                    continue
                draft.give(job, Held({node: choice.num_gpus}, kind, choice))
                return

    def _left_overs(self, draft: Draft) -> None:
        """Step 3: what is free on a node to its steepest job."""
        for node in np.flatnonzero(draft.free > 0).tolist():
            here = [job for job in draft.on(node) if len(draft.held[job].gpus) == 1]
            here = [job for job in here if not self._patterns(draft.view, job) and draft.kinds(job)]
            free = int(draft.free[node])
            for job in sorted(here, key=lambda job: (-self._slope(draft, job, free), job)):
                self._fill_node(draft, job)

    def _place_pattern(self, draft: Draft, running: Mapping[JobId, Held], job: JobId, *, at_least: int) -> None:
        """Steps 2 and 4 for a LLaMA job: the first placement with room, or the largest of at least so many GPUs."""
        patterns = self._patterns(draft.view, job)
        if at_least:
            patterns = sorted((one for one in patterns if sum(one) >= at_least), key=lambda one: -sum(one))
        before = draft.held.get(job)
        draft.take(job)
        for kind in draft.kinds(job):
            for pattern in patterns:
                choice = self._curves.exactly(draft.view, job, kind, sum(pattern), len(pattern))
                gpus = self._room(draft, kind, pattern, running.get(job)) if choice.speed > 0 else {}
                if gpus:
                    draft.give(job, self._unchanged(running.get(job), Held(gpus, kind, choice)))
                    return
        if before is not None:
            draft.give(job, before)

    def _room(self, draft: Draft, kind: int, pattern: Sequence[int], now: Held | None) -> Gpus:
        """Nodes for a placement: those it has if it is the same, else those with fewest free GPUs that suffice."""
        alike = now is not None and sorted(now.gpus.values()) == sorted(pattern)
        if now is not None and alike and all(draft.free[node] >= count for node, count in now.gpus.items()):
            return dict(now.gpus)
        free: IntArray = draft.free
        gpus: Gpus = {}
        for node in sorted(draft.nodes(kind), key=lambda node: (int(free[node]), node)):
            if len(gpus) < len(pattern) and free[node] >= pattern[len(gpus)]:
                gpus[node] = pattern[len(gpus)]
        return gpus if len(gpus) == len(pattern) else {}

    @staticmethod
    def _unchanged(now: Held | None, held: Held) -> Held:
        """What runs already, if it is the same."""
        return now if now is not None and dict(now.gpus) == dict(held.gpus) and now.choice == held.choice else held

    def _large_unknown(self, draft: Draft, order: Sequence[JobId]) -> None:
        """Jobs of more than a node for which the artifact has no placements: their least size, if there is room."""
        for job in order:
            if draft.idle == 0:
                return
            if job in draft.held:
                continue
            for kind in draft.kinds(job):
                held = draft.find(job, kind, draft.curve(job, kind).least.num_gpus, draft.free)
                if held is not None:
                    draft.give(job, held)
                    break
