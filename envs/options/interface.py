"""The interface loss: how much of a scheduler's decisions the options of nodes can express."""

from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace

import numpy as np

from envs.metrics import job_completion_times
from envs.options import OptionRound, OptionRules
from envs.options.demonstrate import Demonstration, requested_placements
from envs.scheduling import ClusterView, Scheduler
from envs.simulation import Setup, SimulationView, Simulator, run_episode
from envs.simulation.world.exact import PARTS, whole_parts
from envs.types import Allocation, ClusterSpec, JobId, NodeId, Placement
from envs.workloads import Workload

GrantedPlacements = Mapping[JobId, Placement]


@dataclass
class InterfaceCount:
    """Rounds and jobs of demonstrations, and how many of them came out as the scheduler wanted.

    Attributes:
        rounds, equal_rounds: scheduling rounds, and those with an identical allocation, see `is_same`.
        jobs, equal_jobs: jobs that a round changes, or was asked to change, and those that got what was wanted.
        decisions: options carried out in all rounds, waiting included.
        named_rounds: rounds in which a changed job gets more than GPUs: cores, memory, a batch size or a plan.
        equal_gpus: rounds in which all jobs got the GPUs that were wanted for them.
        reasons: the other jobs by reason, see `reason_of`.
    """

    rounds: int = 0
    equal_rounds: int = 0
    jobs: int = 0
    equal_jobs: int = 0
    decisions: int = 0
    named_rounds: int = 0
    equal_gpus: int = 0
    reasons: Counter[str] = field(default_factory=Counter)

    def add(
        self,
        before: GrantedPlacements,
        wanted: GrantedPlacements,
        found: GrantedPlacements,
        candidates: frozenset[JobId],
    ) -> None:
        """Count a round.

        Args:
            before: placements when the round began.
            wanted: those that the scheduler asked for.
            found: those that options have led to.
            candidates: the waiting jobs that could be started when the round began.
        """
        jobs = before.keys() | wanted.keys() | found.keys()
        changed = {job for job in jobs if not before.get(job) == wanted.get(job) == found.get(job)}
        wrong = [job for job in changed if not is_same(wanted.get(job), found.get(job))]
        reasons = [reason_of(before.get(job), wanted.get(job), found.get(job), job in candidates) for job in wrong]
        self.rounds += 1
        self.named_rounds += any(names_amounts(wanted[job]) for job in changed if job in wanted)
        self.equal_gpus += all(reason.startswith("other ") for reason in reasons)
        self.equal_rounds += not wrong
        self.jobs += len(changed)
        self.equal_jobs += len(changed) - len(wrong)
        self.reasons.update(reasons)


def names_amounts(placement: Placement) -> bool:
    """Whether a placement names more than GPUs."""
    named = (placement.cpus, placement.memory, placement.plan, placement.batch_size)
    return any(part is not None for part in named)


def is_same(one: Placement | None, other: Placement | None) -> bool:
    """Whether placements are equal: GPUs by node, plan, batch size; cores and GB to a 64th for each GPU."""
    if one is None or other is None or one.gpus != other.gpus:
        return one is other
    if (one.plan, one.batch_size) != (other.plan, other.batch_size):
        return False
    for mine, its in ((one.cpus, other.cpus), (one.memory, other.memory)):
        if mine is None or its is None:
            if mine is not its:
                return False
        elif any(abs(mine[node] - its[node]) > gpus / PARTS for node, gpus in one.gpus.items()):
            return False
    return True


def reason_of(before: Placement | None, wanted: Placement | None, found: Placement | None, candidate: bool) -> str:
    """Return in words how a job differs from what the scheduler wanted."""
    if wanted is None:
        return "starts unasked" if before is None else "is not stopped"
    if found is not None and found.gpus == wanted.gpus:
        if found.batch_size != wanted.batch_size:
            return "other batch size"
        return "other plan" if found.plan != wanted.plan else "other cores or memory"
    if before is None:
        if not candidate:
            return "waits, is no candidate"
        return "does not start on several nodes" if len(wanted.gpus) > 1 else "does not start as wanted on one node"
    if found is None:
        return "is stopped"
    if wanted.gpus.keys() - before.gpus.keys():
        return "does not gain a node"
    return "keeps a wrong number of GPUs"


class DemonstratedScheduler:
    """A scheduler whose allocations pass through options.

    Args:
        teacher: decides.
        rules: which options there are.

    Attributes:
        count: rounds and jobs since the beginning, over all episodes.
    """

    def __init__(self, teacher: Scheduler, rules: OptionRules) -> None:
        self.teacher, self.rules = teacher, rules
        self.count = InterfaceCount()
        self._round = OptionRound(rules)

    def reset(self, cluster: ClusterSpec, rng: np.random.Generator) -> None:
        """Begin an episode."""
        self.teacher.reset(cluster, rng)
        self._round = OptionRound(self.rules)

    def schedule(self, view: ClusterView) -> Allocation:
        """Ask the teacher, and carry out the options that lead as near to its allocation as they can."""
        assert isinstance(view, SimulationView), "options are carried out on a snapshot of the compiled engine"
        before = {int(job): view.placement(int(job)) for job in view.running}
        wanted = self.teacher.schedule(view)
        going = self._round.begin(view)
        candidates = frozenset(self._round.arrays.heads.tolist())
        demonstration = Demonstration(requested_placements(wanted), self._round.arrays)
        while going:
            self.count.decisions += 1
            going = not self._round.step(demonstration.choose())
        allocation = self._round.fill(view.allocation(keep_running=True))
        allocation.next_decision = wanted.next_decision
        self.count.add(before, granted_placements(wanted), granted_placements(allocation), candidates)
        return allocation


def granted_placements(allocation: Allocation) -> GrantedPlacements:
    """Return what each job gets under an allocation, with cores and memory rounded as the engine rounds them."""
    found = {job: allocation.placement(job) for job in sorted(allocation.jobs())}
    return {
        job: replace(placement, cpus=_rounded(placement.cpus), memory=_rounded(placement.memory))
        for job, placement in found.items()
        if placement
    }


def _rounded(amounts: Mapping[NodeId, float] | None) -> Mapping[NodeId, float] | None:
    return None if amounts is None else {node: whole_parts(amount) for node, amount in amounts.items()}


@dataclass(frozen=True)
class InterfaceLoss:
    """Difference that it makes for a scheduler to act through options.

    Attributes:
        count: rounds and jobs of all episodes.
        mean_jct: of the scheduler itself, in s, over all finished jobs of all episodes.
        demonstrated_jct: the same through options.
    """

    count: InterfaceCount
    mean_jct: float
    demonstrated_jct: float

    @property
    def equal_rounds(self) -> float:
        """Share of the rounds with an identical allocation."""
        return self.count.equal_rounds / max(self.count.rounds, 1)

    @property
    def equal_gpus(self) -> float:
        """Share of the rounds in which all jobs got the GPUs that were wanted for them."""
        return self.count.equal_gpus / max(self.count.rounds, 1)

    @property
    def named_rounds(self) -> float:
        """Share of the rounds in which a changed job gets more than GPUs."""
        return self.count.named_rounds / max(self.count.rounds, 1)

    @property
    def equal_jobs(self) -> float:
        """Share of the changed jobs that got what the scheduler wanted."""
        return self.count.equal_jobs / max(self.count.jobs, 1)

    @property
    def jct_ratio(self) -> float:
        """Mean JCT through options, relative to the scheduler's own."""
        return self.demonstrated_jct / self.mean_jct


def measure_interface(
    scheduler: Scheduler,
    workloads: Sequence[Workload],
    setup: Setup,
    rules: OptionRules,
    seed: int = 0,
) -> InterfaceLoss:
    """Play workloads under a scheduler, once by itself and once through options.

    Args:
        scheduler: any one.
        workloads: the episodes.
        setup: cluster, performance model and scenario.
        rules: which options there are.
        seed: of the scheduler and of estimates of work; the same for both.
    """
    demonstrated = DemonstratedScheduler(scheduler, rules)
    jct: dict[bool, list[float]] = {False: [], True: []}
    for index, workload in enumerate(workloads):
        for through in (False, True):
            played = demonstrated if through else scheduler
            result = run_episode(played, Simulator(workload, setup, seed + index))
            jct[through].extend(job_completion_times(result.records).tolist())
    return InterfaceLoss(demonstrated.count, float(np.mean(jct[False])), float(np.mean(jct[True])))
