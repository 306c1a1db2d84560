"""A policy acts identically as agents and as a scheduler, since both use one engine."""

from collections.abc import Callable
from typing import Any

import numpy as np
import numpy.typing as npt
import pytest

from envs.gpu_cluster import DecisionRules, EnvSpec, GpuClusterBatch, GpuClusterEnv, NegotiatedRound, Observation
from envs.gpu_cluster.demonstrate import RequestedGpus, demonstrate, requested_gpus
from envs.metrics import job_completion_times
from envs.scheduling import ClusterView, Scheduler
from envs.simulation import (
    EventKind,
    Information,
    Rounds,
    RunResult,
    Scenario,
    Setup,
    SimulationView,
    Simulator,
    run_episode,
)
from envs.types import Allocation, ClusterSpec, IntArray, JobSpec
from envs.workloads import Workload
from tests.conformance.audit import check_run
from tests.conformance.test_schedulers import SCHEDULERS
from tests.conformance.worlds import HETEROGENEOUS, HOMOGENEOUS, Curved
from tests.unit.gpu_cluster.players import Fixed, bursts, chance

Policy = Callable[[Observation, np.random.Generator], IntArray]  # joint actions int64[1, num_nodes]
HORIZON = 1e7  # the same for agents and scheduler


def coin(observation: Observation, rng: np.random.Generator) -> IntArray:
    """Legal actions at random."""
    return chance(observation["mask"], rng)


def linear(observation: Observation, rng: np.random.Generator) -> IntArray:
    """Take the highest of fixed random scores of all features, so that a difference in any last bit shows."""
    weights = np.random.default_rng(0)
    parts = [observation[name].astype(np.float64).ravel() for name in ("nodes", "slots", "queue", "cluster")]
    seen = np.concatenate(parts)
    mask: npt.NDArray[Any] = observation["mask"]
    scores = np.sin(1e3 * (seen @ weights.standard_normal(seen.size)) + weights.uniform(0, 99, mask.shape))
    scores[..., 0] += 0.4  # so that nodes pass sometimes
    actions: IntArray = np.where(mask > 0, scores, -np.inf).argmax(-1)
    return actions


class PolicyAsScheduler:
    """A policy that answers `Scheduler.schedule` by negotiating on a copy of the cluster's state."""

    def __init__(self, policy: Policy, rules: DecisionRules, seed: int) -> None:
        self.policy, self.rules, self.seed = policy, rules, seed

    def reset(self, cluster: ClusterSpec, rng: np.random.Generator) -> None:
        """Draw from the same seed as the agents do."""
        self._rng = np.random.default_rng(self.seed)
        self._negotiated: NegotiatedRound | None = None

    def schedule(self, view: ClusterView) -> Allocation:
        """One round."""
        assert isinstance(view, SimulationView)
        if self._negotiated is None:
            self._negotiated = NegotiatedRound(EnvSpec.of(view.cluster, self.rules), self.rules)
        negotiated = self._negotiated
        negotiated.begin(view)
        while negotiated.observe():
            if negotiated.decide(self.policy(negotiated.observation, self._rng)[0]):
                break
        allocation = negotiated.fill(view.allocation(keep_running=True))
        self.counters = negotiated.counters()
        return allocation


def as_agents(
    policy: Policy, cluster: ClusterSpec, workload: Workload, scenario: Scenario, rules: DecisionRules, seed: int
) -> GpuClusterEnv:
    """The policy rolled out through the PettingZoo environment to the episode's end."""
    return played(policy, GpuClusterEnv(Setup(cluster, Curved(), scenario), Fixed(workload), rules), seed)


def played(policy: Policy, env: GpuClusterEnv, seed: int) -> GpuClusterEnv:
    """The environment after a whole episode."""
    rng = np.random.default_rng(seed)
    env.reset(seed=seed)
    while env.agents:
        actions = policy(env.batch.observation, rng)[0]
        env.step({agent: int(action) for agent, action in zip(env.agents, actions, strict=True)})
    return env


SCENARIOS = {
    "plain": Scenario(restart_delay=2.0, horizon=HORIZON),
    "free": Scenario(restart_delay=0.0, horizon=HORIZON),
    "intervals": Scenario(1.0, 2.0, horizon=HORIZON, rounds=Rounds(on_events=False, interval=10.0)),
    "both": Scenario(0.0, 1.0, horizon=HORIZON, rounds=Rounds(interval=25.0)),
    "hidden": Scenario(restart_delay=2.0, horizon=HORIZON, information=Information("none")),
    "cut off": Scenario(restart_delay=2.0, horizon=45.0),
    "equal shares": Scenario(restart_delay=2.0, horizon=HORIZON, worker_shares="equal"),
}
RULES = {
    "all": DecisionRules(),
    "narrow": DecisionRules(num_candidates=2, max_decisions=3, queue_order="fifo"),
    "patient": DecisionRules(preemptive=False, queue_order="least_service"),
    "rigid": DecisionRules(elastic=False),
}
CLUSTERS = {"homogeneous": HOMOGENEOUS, "three types": HETEROGENEOUS}


@pytest.mark.parametrize("policy", [coin, linear])
@pytest.mark.parametrize("cluster", sorted(CLUSTERS))
@pytest.mark.parametrize("scenario", sorted(SCENARIOS))
@pytest.mark.parametrize("rules", sorted(RULES))
def test_agents_and_scheduler_leave_one_log(policy, cluster, scenario, rules):
    """The same policy as agents and as a scheduler: every event, time and placement is equal, to the bit."""
    for seed in (0, 1):
        workload = bursts(seed, num_jobs=10, models=("any", "large"))
        case = CLUSTERS[cluster], workload, SCENARIOS[scenario], RULES[rules]
        env = as_agents(policy, *case, seed)
        scheduler = PolicyAsScheduler(policy, RULES[rules], seed)
        result = run_episode(scheduler, Simulator(workload, Setup(CLUSTERS[cluster], Curved(), SCENARIOS[scenario])))
        assert env.log == result.log
        assert (env.log.events["kind"] == EventKind.START).sum() >= 2
        assert env.batch.counters() == result.counters
        if SCENARIOS[scenario].worker_shares == "proportional":  # as the audit recomputes it
            check_run(result, Curved(), SCENARIOS[scenario])


def test_a_larger_state_than_the_workload_needs_makes_no_difference():
    """Training allocates arrays for the longest episode; the padding has no effect."""
    workload, scenario, rules = bursts(3, num_jobs=7), SCENARIOS["plain"], RULES["all"]
    env = GpuClusterEnv(Setup(HOMOGENEOUS, Curved(), scenario), Fixed(bursts(4, num_jobs=50)), rules)
    rng = np.random.default_rng(5)
    env.reset(options={"workload": workload})
    while env.agents:
        actions = linear(env.batch.observation, rng)[0]
        env.step({agent: int(action) for agent, action in zip(env.agents, actions, strict=True)})
    assert env.log == as_agents(linear, HOMOGENEOUS, workload, scenario, rules, 5).log


def steady(seed: int, num_jobs: int = 60) -> Workload:
    """Rigid jobs that fit on one node, at a load that keeps a queue."""
    rng = np.random.default_rng(seed)
    times = np.cumsum(rng.exponential(12.0, num_jobs))
    return Workload.of(
        [
            JobSpec(i, float(times[i]), int(rng.choice([1, 1, 2, 4])), float(rng.lognormal(4.5, 0.8)), "any")
            for i in range(num_jobs)
        ]
    )


def taught(scheduler: Scheduler, workload: Workload, scenario: Scenario) -> GpuClusterBatch:
    """Follow a scheduler's allocations through the nodes' choices to the end of the episode."""
    batch = GpuClusterBatch(
        Setup(HOMOGENEOUS, Curved(), scenario), workload.models, len(workload), rules=DecisionRules(num_candidates=32)
    )
    batch.load(0, workload, np.random.default_rng(0))
    scheduler.reset(HOMOGENEOUS, np.random.default_rng(0))
    requested: RequestedGpus = {}
    while not batch.ended[0]:
        if batch.negotiation.arrays.rules[0, 0].decision == 0:
            requested = requested_gpus(scheduler.schedule(batch.view(0)), batch.negotiation)
        batch.step(demonstrate(requested, batch.negotiation)[None])
    return batch


RIGID = sorted(name for name, scheduler in SCHEDULERS.items() if not getattr(scheduler, "elastic", True))


@pytest.mark.parametrize("name", RIGID)
@pytest.mark.parametrize("seed", [0, 1])
def test_demonstrations_are_as_good_as_their_scheduler(name, seed):
    """For rigid jobs on one node, the nodes' choices can express every allocation."""
    scenario = Scenario(restart_delay=5.0, horizon=HORIZON)
    workload = steady(seed)
    result: RunResult = run_episode(SCHEDULERS[name], Simulator(workload, Setup(HOMOGENEOUS, Curved(), scenario)))
    batch = taught(SCHEDULERS[name], workload, scenario)
    jobs = batch.state.jobs[0]
    assert (jobs["status"] == 3).all()
    mean = float((jobs["finish"] - jobs["submit"]).mean())
    assert mean == pytest.approx(job_completion_times(result.records).mean(), rel=0.03)


def test_there_are_schedulers_to_demonstrate():
    assert {"fifo", "srtf", "las", "tiresias"} <= set(RIGID)
