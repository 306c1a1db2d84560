"""The environment's decision step in plain Python on the reference engine: what `decide`, `observe` and `masks` mean.

It is the oracle that the compiled environment is compared with, decision by decision, and the yardstick of its speed.
Rules stand in the compiled files' docstrings; here they are told once more, with dicts and lists.
"""

from collections.abc import Sequence

from envs.gpu_cluster.negotiation import Observation
from envs.gpu_cluster.reference_observation import Sight
from envs.gpu_cluster.reference_plan import Plan
from envs.gpu_cluster.spec import DecisionRules, EnvSpec
from envs.simulation.reference import ReferenceSimulator
from envs.types import JobId, NodeId

NOBODY = -1


class ReferenceEnvironment:
    """One episode of servers that decide, as `GpuClusterBatch` plays it.

    Args:
        simulator: the world, at any instant; its scenario has the finite horizon that the environment gives episodes.
        rules: how servers decide.

    Attributes:
        observation: arrays by name as in `GpuClusterBatch.observation`, without the batch axis; empty at first.
        heads: jobs behind the rows of `observation["queue"]`.
        ended: whether the episode has come to its end.
        counters: decisions, claims, conflicts and incomplete gangs so far.
    """

    def __init__(self, simulator: ReferenceSimulator, rules: DecisionRules) -> None:
        self.simulator, self.rules = simulator, rules
        self.spec = EnvSpec.of(simulator.cluster, rules)
        self.plan = Plan(simulator, rules)
        self.sight = Sight(self.plan, self.spec)
        self.observation: Observation = {}
        self.heads: list[JobId] = []
        self.ended = False
        self.decision = 0  # joint decisions taken in this round so far
        self.counters = dict.fromkeys(("decisions", "claims", "conflicts", "incomplete"), 0)

    def look(self) -> bool:
        """Observe the plan as it stands; say whether any server has a choice besides nothing."""
        waiting = self.plan.waiting()
        self.heads = self.sight.head(waiting)
        self.observation = self.sight.observation(self.heads, len(waiting), self.decision)
        return bool(self.observation["mask"][:, 1:].any())

    def proceed(self) -> None:
        """End the round, and let time pass to the next one in which somebody has a choice."""
        while True:
            self.plan.apply()
            self.ended = not self.simulator.advance()
            self.plan.begin()
            if self.look() or self.ended:
                return
            self._drop_incomplete()

    def step(self, actions: Sequence[int]) -> None:
        """Take one joint decision, an action for each server."""
        over = self._decide([self._decoded(action) for action in actions])
        if not over and self.look():
            return
        self._drop_incomplete()
        self.proceed()

    def _decoded(self, action: int) -> tuple[int, int]:
        """Choice and GPUs of an action; `NOBODY` for nothing."""
        amounts = (self.spec.node_gpus + 1) * self.spec.num_levels
        return (action - 1) // amounts, (action - 1) % amounts // self.spec.num_levels

    def _decide(self, choices: list[tuple[int, int]]) -> bool:
        """Let the choices of all servers take effect in the plan; say if the round is over."""
        candidates = self.spec.num_candidates
        in_slots = [self._in_slot(node, choice - candidates) for node, (choice, _) in enumerate(choices)]
        self.decision += 1
        self.counters["decisions"] += 1
        passed = all(choice == NOBODY for choice, _ in choices)
        for node, (choice, gpus) in enumerate(choices):
            if choice >= candidates:
                self._count(self._change(in_slots[node], node, gpus))
        for place, job in enumerate(self.heads):
            self._share_out(job, {node: gpus for node, (choice, gpus) in enumerate(choices) if choice == place})
        return passed or self.decision >= self.rules.max_decisions

    def _in_slot(self, node: NodeId, slot: int) -> JobId:
        """The job in a slot of a server as it was shown."""
        jobs = self.sight.jobs_on(node)
        return jobs[slot] if 0 <= slot < len(jobs) else NOBODY

    def _count(self, granted: bool) -> None:
        self.counters["claims"] += 1
        self.counters["conflicts"] += not granted

    def _change(self, job: JobId, node: NodeId, gpus: int) -> bool:
        """Set the GPUs of a job that runs here; False if that would break it."""
        if job == NOBODY or not self.plan.change_fits(job, node, gpus):
            return False
        self.plan.set(job, node, gpus)
        return True

    def _share_out(self, job: JobId, claims: dict[NodeId, int]) -> None:
        """Give a waiting job to the largest claim, then to where it runs faster, then to the lowest server.

        Others join only while it is below its least GPUs.
        """
        order = sorted(claims, key=lambda node: (-claims[node], -self.plan.speed(job, node, claims[node]), node))
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
        """Jobs below their least GPUs, and mixes of types that do not run, give theirs back; a new round begins."""
        for job, held in self.plan.changed.items():
            if held and (self.plan.gpus(job) < self.plan.least(job) or not self.plan.runs(job)):
                self.plan.clear(job)
                self.counters["incomplete"] += 1
        self.decision = 0
