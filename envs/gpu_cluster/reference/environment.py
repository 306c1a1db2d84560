"""Reference implementation of the environment's decision step, in plain Python on the reference engine.

Tests compare the compiled environment with it, decision by decision; benchmarks compare their CPU time. The rules are
documented in `decide`, `observe`, `effects` and `masks`, which this module repeats with dicts and lists.
"""

from collections.abc import Sequence

from envs.gpu_cluster.columns import FIRST_CHOICE
from envs.gpu_cluster.negotiation import Observation
from envs.gpu_cluster.reference.observation import ReferenceObserver
from envs.gpu_cluster.reference.plan import JointPlan
from envs.gpu_cluster.spec import DecisionRules, EnvSpec
from envs.simulation.reference import ReferenceSimulator
from envs.types import JobId, NodeId

NONE = -1  # no choice, or no job


class ReferenceEnvironment:
    """One episode in which nodes decide by the rules of `GpuClusterBatch`.

    Args:
        simulator: the engine, at any instant; its scenario has the finite horizon that the environment sets.
        rules: how nodes decide.

    Attributes:
        observation: arrays by name as in `GpuClusterBatch.observation`, without the batch axis; empty at first.
        heads: jobs behind the rows of `observation["queue"]`.
        ended: whether the episode has ended.
        counters: decisions, claims, conflicts and incomplete gangs so far.
    """

    def __init__(self, simulator: ReferenceSimulator, rules: DecisionRules) -> None:
        self.simulator, self.rules = simulator, rules
        self.spec = EnvSpec.of(simulator.cluster, rules)
        self.plan = JointPlan(simulator, rules)
        self.observer = ReferenceObserver(self.plan, self.spec)
        self.observation: Observation = {}
        self.heads: list[JobId] = []
        self.ended = False
        self.decision = 0  # joint decisions in this round so far
        self.counters = dict.fromkeys(("decisions", "claims", "conflicts", "incomplete"), 0)

    def look(self) -> bool:
        """Observe the present plan; return whether any node has a choice other than passing."""
        waiting = self.plan.waiting()
        self.heads = self.observer.head(waiting)
        self.observation = self.observer.observation(self.heads, len(waiting), self.decision)
        return bool(self.observation["mask"][:, 1:].any())

    def proceed(self) -> None:
        """End the round and advance time to the next round in which some node has a choice."""
        while True:
            self.plan.apply()
            self.ended = not self.simulator.advance()
            self.plan.begin()
            if self.look() or self.ended:
                return
            self._drop_incomplete()

    def step(self, actions: Sequence[int]) -> None:
        """Apply one joint decision, an action for each node."""
        over = self._decide([self._decoded(action) for action in actions])
        if not over and self.look():
            return
        self._drop_incomplete()
        self.proceed()

    def _decoded(self, action: int) -> tuple[int, int]:
        """Return choice and GPUs of an action; choice `NONE` for passing."""
        return divmod(action - FIRST_CHOICE, self.spec.node_gpus + 1)

    def _decide(self, choices: list[tuple[int, int]]) -> bool:
        """Apply the choices of all nodes to the plan; return whether the round is over."""
        candidates = self.spec.num_candidates
        in_slots = [self._in_slot(node, choice - candidates) for node, (choice, _) in enumerate(choices)]
        self.decision += 1
        self.counters["decisions"] += 1
        passed = all(choice == NONE for choice, _ in choices)
        over = passed or self.decision >= self.rules.max_decisions
        for node, (choice, gpus) in enumerate(choices):
            if choice >= candidates:
                self._count(self._change(in_slots[node], node, gpus))
        for place, job in enumerate(self.heads):
            self._share_out(job, {node: gpus for node, (choice, gpus) in enumerate(choices) if choice == place})
        return over

    def _in_slot(self, node: NodeId, slot: int) -> JobId:
        """Return the job in a slot of a node, as the observation shows it."""
        jobs = self.observer.jobs_on(node)
        return jobs[slot] if 0 <= slot < len(jobs) else NONE

    def _count(self, granted: bool) -> None:
        self.counters["claims"] += 1
        self.counters["conflicts"] += not granted

    def _change(self, job: JobId, node: NodeId, gpus: int) -> bool:
        """Set the GPUs of a job that runs here; return False if the change is refused."""
        if job == NONE or not self.plan.change_fits(job, node, gpus):
            return False
        self.plan.set(job, node, gpus)
        return True

    def _share_out(self, job: JobId, claims: dict[NodeId, int]) -> None:
        """Grant a waiting job to the largest claim; ties go to the higher throughput, then to the lowest node.

        Further claims join only while the job has fewer than its minimum GPUs.
        """
        order = sorted(claims, key=lambda node: (-claims[node], -self.plan.throughput(job, node, claims[node]), node))
        for node in order:
            gpus = claims[node]
            granted = (
                self.plan.gpus(job) < self.plan.least(job)
                and node not in self.plan.held(job)
                and 1 <= gpus <= self.plan.free(node)
                and self.plan.gpus(job) + gpus <= self.plan.most(job)
            )
            if granted:
                self.plan.set(job, node, gpus)
            self._count(granted)

    def _drop_incomplete(self) -> None:
        """Free the GPUs of jobs below their minimum and of mixes that do not run; begin a new round."""
        for job, held in self.plan.changed.items():
            if held and (self.plan.gpus(job) < self.plan.least(job) or not self.plan.runs(job)):
                self.plan.clear(job)
                self.counters["incomplete"] += 1
        self.decision = 0
