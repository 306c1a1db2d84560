"""Amendments of a round's plan, worked by hand, and the rounds that begin with a proposal."""

from dataclasses import dataclass

import numpy as np
import pytest

from baselines.synergy import Synergy
from envs.cluster import NodeGroup, build_cluster
from envs.gpu_cluster import DecisionRules, EnvSpec, GpuClusterBatch, NegotiatedRound
from envs.gpu_cluster.levels import level_table
from envs.performance import IdealModel, default_model
from envs.scheduling import ClusterView, Scheduler
from envs.simulation import (
    FifoMarket,
    Scenario,
    Setup,
    SimulationView,
    Simulator,
    ThroughputTable,
    run_episode,
)
from envs.simulation.advised_market import AdvisedMarket
from envs.types import Allocation, AllocationError, ClusterSpec, JobSpec, MurmurationError, NodeSpec
from envs.workloads import Workload
from tests.conformance.random_worlds import Whims, random_world
from tests.golden.playground import TwoThroughputs, fast_and_slow
from tests.unit.gpu_cluster.players import act, amounts, bursts, jobs_like, plan, table_top
from tests.unit.simulation.plays import cluster_of

RULES = DecisionRules(amendments=True)
PATIENT = Scenario(restart_delay=0.0, horizon=1e4)


def refused(batch: GpuClusterBatch) -> tuple[int, int]:
    """Amendments without effect, and jobs that did not run at the end of a round, so far."""
    counters = batch.counters()
    return counters["conflicts"], counters["incomplete"]


def test_a_job_that_fits_one_node_may_spread():
    """Two nodes of 4 GPUs; a rigid job of 4 gets 2 on each and runs its 40 samples in 10 s."""
    batch = table_top(cluster_of(4, 4), jobs_like((0, 4, 40)), RULES)
    act(batch, {0: ("claim", 0, 2), 1: ("claim", 0, 2)})
    assert plan(batch) == {0: {0: 2, 1: 2}}
    act(batch)
    assert batch.time.tolist() == [10.0]
    assert refused(batch) == (0, 0)


def test_a_running_job_gains_and_loses_nodes():
    """It holds 2 GPUs on node 0 until job 1 comes at 4; then it gets 2 more on node 1, and leaves node 0."""
    batch = table_top(cluster_of(4, 4), jobs_like((0, 2, 80, 1, 4), (4, 4, 40)), RULES)
    act(batch, {0: ("claim", 0, 2)})
    act(batch)
    assert amounts(batch, 1, "claim", 0) == [1, 2, 3, 4]
    act(batch, {1: ("claim", 0, 2)})
    assert plan(batch) == {0: {0: 2, 1: 2}}
    act(batch, {0: ("claim", 1, 4)})  # more than is free: job 0 shrinks here to nothing, and runs on the rest
    assert plan(batch) == {0: {1: 2}, 1: {0: 4}}
    assert batch.counters()["decisions"] == 4
    assert refused(batch) == (0, 0)


def test_an_eviction_and_the_claim_for_which_it_makes_room_are_one_decision():
    batch = table_top(cluster_of(4), jobs_like((0, 4, 400), (4, 3, 30)), RULES)
    act(batch, {0: ("claim", 0, 4)})
    act(batch)
    act(batch, {0: ("claim", 1, 3)})
    assert plan(batch) == {1: {0: 3}}  # job 0 is rigid and cannot run on the GPU that is left
    act(batch)
    assert batch.time.tolist() == [14.0]


def test_the_job_that_is_last_in_queue_order_makes_room_and_shrinks_if_it_can():
    """Job 0 has 400 samples left, job 1 20; job 2 needs a GPU."""
    batch = table_top(cluster_of(4), jobs_like((0, 2, 400, 1, 2), (0, 2, 20, 1, 2), (0, 1, 10)), RULES)
    act(batch, {0: ("claim", 0, 2)})
    act(batch, {0: ("claim", 1, 2)})
    act(batch, {0: ("claim", 2, 1)})
    assert plan(batch) == {0: {0: 1}, 1: {0: 2}, 2: {0: 1}}


def test_no_order_of_amendments_blocks_another():
    """Two rigid jobs of 4 swap their nodes: each leaves its node in one decision and enters the other in the next."""
    batch = table_top(cluster_of(4, 4), jobs_like((0, 4, 400), (0, 4, 400), (8, 1, 1)), RULES)
    act(batch, {0: ("claim", 0, 4), 1: ("claim", 1, 4)})
    act(batch)
    act(batch, {0: ("set", 0, 0), 1: ("set", 1, 0)})
    act(batch, {0: ("claim", 1, 4), 1: ("claim", 0, 4)})
    assert plan(batch) == {0: {1: 4}, 1: {0: 4}}


def test_a_job_that_would_not_run_gets_back_what_it_held():
    batch = table_top(cluster_of(4, 4), jobs_like((0, 4, 400), (4, 1, 10)), RULES)
    act(batch, {0: ("claim", 0, 4)})
    act(batch)
    act(batch, {0: ("set", 0, 3)})  # a rigid job of 4 does not run on 3
    assert plan(batch) == {0: {0: 3}}
    act(batch, {1: ("claim", 1, 1)})
    act(batch)
    assert plan(batch) == {0: {0: 4}}
    assert batch.time.tolist() == [14.0]
    assert refused(batch) == (0, 1)


def test_a_job_that_would_not_run_waits_if_its_gpus_are_taken():
    batch = table_top(cluster_of(4), jobs_like((0, 4, 40), (4, 1, 10)), RULES, PATIENT)
    act(batch, {0: ("claim", 0, 4)})
    act(batch)
    act(batch, {0: ("set", 0, 3)})
    act(batch, {0: ("claim", 1, 1)})
    act(batch)
    assert plan(batch) == {}
    assert batch.time.tolist() == [14.0]
    assert refused(batch) == (0, 1)


def test_the_later_node_decides_about_a_job_that_two_nodes_amend():
    """Node 0 needs the GPUs of job 0; node 1 gives it a place in the same decision."""
    batch = table_top(cluster_of(4, 4), jobs_like((0, 4, 400), (4, 4, 40)), RULES)
    act(batch, {0: ("claim", 0, 4)})
    act(batch)
    act(batch, {0: ("claim", 1, 4), 1: ("claim", 0, 4)})
    assert plan(batch) == {0: {1: 4}, 1: {0: 4}}


def test_candidates_are_waiting_jobs_then_running_jobs_each_in_queue_order():
    rules = DecisionRules(amendments=True, num_candidates=3)
    batch = table_top(cluster_of(4, 4), jobs_like((0, 2, 400), (0, 2, 40), (2, 1, 90), (2, 1, 30)), rules)
    act(batch, {0: ("claim", 0, 2), 1: ("claim", 1, 2)})
    act(batch)
    assert batch.negotiation.arrays.heads[0].tolist() == [3, 2, 1]


def test_running_jobs_that_may_not_be_evicted_lose_nothing():
    rules = DecisionRules(amendments=True, preemptive=False)
    batch = table_top(cluster_of(4), jobs_like((0, 3, 400), (4, 3, 30)), rules)
    act(batch, {0: ("claim", 0, 3)})
    act(batch)
    assert amounts(batch, 0, "set", 0) == [1, 2]  # it may move GPUs to another node, but not leave
    assert amounts(batch, 0, "claim", 1) == [1]


def test_numbers_of_gpus_on_which_a_type_never_runs_a_job_are_masked():
    batch = table_top(fast_and_slow(), jobs_like((0, 2, 40, 1, 2)), RULES, performance=TwoThroughputs())
    assert [amounts(batch, node, "claim", 0) for node in range(2)] == [[1, 2], [1, 2]]


def test_a_proposal_needs_amendments():
    with pytest.raises(MurmurationError, match="set amendments to true"):
        GpuClusterBatch(Setup(cluster_of(4), IdealModel()), ("any",), 4, market=FifoMarket())


def test_several_levels_need_amendments():
    with pytest.raises(MurmurationError, match="num_levels is 4; it must be 1, or with amendments=true at least 1"):
        DecisionRules(num_levels=4)


@dataclass
class Fitting(Whims):
    """Random allocations that name GPUs only; where one does not fit, all jobs keep what they hold."""

    names: float = 0.0
    from_scratch: float = 0.3
    early: float = 0.0

    def schedule(self, view: ClusterView) -> Allocation:
        """Try the allocation on a copy of the cluster."""
        allocation = super().schedule(view)
        try:
            view.snapshot().apply(allocation)
        except AllocationError:
            return view.allocation(keep_running=True)
        return allocation


class AllPass:
    """A scheduler whose nodes all pass in every round."""

    def __init__(self, market: AdvisedMarket, rules: DecisionRules) -> None:
        self.market, self.rules = market, rules

    def reset(self, cluster: ClusterSpec, rng: np.random.Generator) -> None:
        """Begin an episode."""
        self._negotiated = NegotiatedRound(EnvSpec.of(cluster, self.rules), self.rules, self.market)
        self.named = 0  # shares of proposals that name cores or memory

    def schedule(self, view: ClusterView) -> Allocation:
        """Return the proposal."""
        assert isinstance(view, SimulationView)
        self._negotiated.begin(view)
        proposal = self._negotiated.negotiation.proposals[0]
        assert proposal is not None
        self.named += int((proposal.rows["named"] > 0).sum())
        if self._negotiated.observe():
            assert self._negotiated.decide(np.zeros(self._negotiated.spec.num_nodes, np.int64))
        return self._negotiated.fill(view.allocation(keep_running=True))


class Seeded:
    """A scheduler with a random generator of its own."""

    def __init__(self, scheduler: Scheduler, seed: int) -> None:
        self.scheduler, self.seed = scheduler, seed

    def reset(self, cluster: ClusterSpec, rng: np.random.Generator) -> None:
        """Begin an episode, always with the same generator."""
        self.scheduler.reset(cluster, np.random.default_rng(self.seed))

    def schedule(self, view: ClusterView) -> Allocation:
        """Ask the scheduler."""
        return self.scheduler.schedule(view)


@pytest.mark.parametrize("seed", range(20))
def test_if_all_pass_the_proposal_takes_place_to_the_bit(seed):
    """In random worlds with random advisers, that also ask for rounds at certain instants: equal event logs."""
    world = random_world(seed, plain=bool(seed % 2))
    adviser = Fitting(early=0.3)
    passing = AllPass(AdvisedMarket(FifoMarket(), adviser, seed), RULES)
    found = run_episode(passing, Simulator(world.workload, world.setup, world.seed))
    alone = run_episode(Seeded(adviser, seed), Simulator(world.workload, world.setup, world.seed))
    assert found.log == alone.log
    assert len(found.log.events) > 3


SHARED = Scenario(restart_delay=5.0, cpu_memory="shared", horizon=1e6)
ADAPTED = Setup(build_cluster("small", [NodeGroup("V100", 2, 4), NodeGroup("P100", 1, 4)]), default_model(), SHARED)
LEVELS = DecisionRules(amendments=True, num_candidates=25, max_decisions=17, num_levels=18)


def named_jobs(seed: int) -> Workload:
    """Jobs that need cores, memory or neither."""
    return bursts(seed, num_jobs=40, most_gpus=4, models=("resnet18", "m5", "bert"))


@pytest.mark.parametrize("mechanism", ["tune", "proportional"])
def test_cores_and_memory_that_a_proposal_names_take_place_to_the_bit(mechanism):
    adviser = Synergy(mechanism=mechanism)
    passing = AllPass(AdvisedMarket(FifoMarket(), adviser), LEVELS)
    found = run_episode(passing, Simulator(named_jobs(1), ADAPTED))
    assert found.log == run_episode(adviser, Simulator(named_jobs(1), ADAPTED)).log
    assert passing.named > 12


def test_the_amounts_of_the_job_that_was_amended_last_are_cut():
    """On 24 cores two jobs of 2 GPUs name 9 cores for each GPU: the first gets 18 cores, the second 6."""
    cluster = ClusterSpec((NodeSpec("V100", 4, 24.0, 500.0),), "one")
    batch = GpuClusterBatch(Setup(cluster, default_model(), SHARED), ("resnet18",), 2, rules=LEVELS, logging=True)
    jobs = Workload.of([JobSpec(i, 0.0, 2, 1e5, "resnet18") for i in range(2)])
    batch.load(0, jobs, np.random.default_rng(0))
    level = int(np.nanargmax(batch.negotiation.arrays.level_cpus[0, 0, 2]))
    assert batch.negotiation.arrays.level_cpus[0, 0, 2, level] == 9.0
    for choice in range(2):
        action = batch.spec.action(choice, 2, level)
        assert batch.legal([action])[0]
        batch.step(np.array([[action]]))
    assert (batch.state.jobs[0]["exact"] == 0.0).all()
    batch.step(np.zeros((1, 1), np.int64))
    shares = batch.state.log(0).shares
    assert shares["cpus"][:2].tolist() == [18.0, 6.0]
    assert shares["memory"][:2].tolist() == [125.0, 125.0]


def test_levels_are_useful_and_ascend():
    """No pair of a model is as fast as a smaller one; a model that needs neither has one level besides the first."""
    table = ThroughputTable.build(ADAPTED, ("resnet18", "bert"), 4)
    levels = level_table(ADAPTED, table, 4, 18)
    assert np.isnan(levels.cpus[:, :, :, 0]).all()
    count = (~np.isnan(levels.cpus)).sum(axis=3)
    assert (count[1, :, 1:] == 1).all()
    assert (count[0, :, 1:] >= 2).all()
    assert (np.isnan(levels.cpus) == np.isnan(levels.memory)).all()
    few = level_table(ADAPTED, table, 4, 2)
    assert few.cpus[0, 0, 1, 1] == levels.cpus[0, 0, 1, count[0, 0, 1]]  # the fastest is kept


def test_levels_name_nothing_where_cores_are_not_shared():
    setup = Setup(ADAPTED.cluster, default_model(), Scenario())
    table = ThroughputTable.build(setup, ("resnet18",), 4)
    assert np.isnan(level_table(setup, table, 4, 8).cpus).all()
