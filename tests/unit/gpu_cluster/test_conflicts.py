"""How simultaneous choices become one plan: worked by hand."""

import pytest

from envs.gpu_cluster import DecisionRules, GpuClusterBatch
from envs.gpu_cluster.kernels import observe_episode
from envs.simulation import Scenario
from envs.types import ClusterSpec, JobSpec, NodeSpec
from envs.workloads import Workload
from tests.conformance.worlds import Curved
from tests.golden.playground import TwoThroughputs, fast_and_slow
from tests.unit.gpu_cluster.players import PATIENT, act, amounts, jobs_like, plan, slots, table_top
from tests.unit.simulation.plays import cluster_of


def refused(batch: GpuClusterBatch) -> int:
    """Claims refused so far."""
    return batch.counters()["conflicts"]


def test_the_largest_claim_wins():
    batch = table_top(cluster_of(4, 4), jobs_like((0, 2, 40, 1, 4)))
    act(batch, {0: ("claim", 0, 2), 1: ("claim", 0, 4)})
    assert plan(batch) == {0: {1: 4}}
    assert batch.counters() == {"decisions": 1, "claims": 2, "conflicts": 1, "incomplete": 0}


def test_equal_claims_go_to_the_faster_gpus():
    batch = table_top(fast_and_slow(), jobs_like((0, 2, 40, 1, 4)), performance=TwoThroughputs())
    act(batch, {0: ("claim", 0, 2), 1: ("claim", 0, 2)})
    assert plan(batch) == {0: {1: 2}}


def test_a_larger_claim_beats_faster_gpus():
    batch = table_top(fast_and_slow(), jobs_like((0, 2, 40, 1, 4)), performance=TwoThroughputs())
    act(batch, {0: ("claim", 0, 3), 1: ("claim", 0, 2)})
    assert plan(batch) == {0: {0: 3}}


def test_equal_claims_on_equal_gpus_go_to_the_lower_index():
    batch = table_top(cluster_of(4, 4, 4), jobs_like((0, 2, 40)))
    act(batch, {1: ("claim", 0, 2), 2: ("claim", 0, 2)})
    assert plan(batch) == {0: {1: 2}}
    assert refused(batch) == 1


def test_who_lost_may_choose_again():
    batch = table_top(cluster_of(4, 4), jobs_like((0, 2, 40), (0, 2, 40)))
    act(batch, {0: ("claim", 0, 2), 1: ("claim", 0, 2)})
    act(batch, {1: ("claim", 1, 2)})
    act(batch)
    assert plan(batch) == {}  # both done at 20
    assert batch.time.tolist() == [20.0]
    assert refused(batch) == 1


def test_claims_on_different_jobs_do_not_conflict():
    batch = table_top(cluster_of(4, 4), jobs_like((0, 2, 40), (0, 3, 40)))
    act(batch, {0: ("claim", 1, 3), 1: ("claim", 0, 2)})
    assert plan(batch) == {1: {0: 3}, 0: {1: 2}}
    assert refused(batch) == 0


GANG = jobs_like((0, 8, 80))


def test_a_gang_over_two_nodes_comes_together_in_one_decision():
    batch = table_top(cluster_of(4, 4), GANG)
    act(batch, {0: ("claim", 0, 4), 1: ("claim", 0, 4)})
    assert plan(batch) == {0: {0: 4, 1: 4}}
    act(batch)
    assert batch.time.tolist() == [10.0]
    assert batch.ended.all()
    assert batch.counters()["incomplete"] == refused(batch) == 0


def test_a_gang_comes_together_over_two_decisions():
    batch = table_top(cluster_of(4, 4), GANG)
    act(batch, {0: ("claim", 0, 4)})
    assert amounts(batch, 1, "claim", 0) == [1, 2, 3, 4]
    assert amounts(batch, 0, "claim", 0) == []  # it has its part
    act(batch, {1: ("claim", 0, 4)})
    act(batch)
    assert batch.time.tolist() == [10.0]
    assert batch.state.log(0).events["kind"].tolist() == [4, 6, 0]


def test_a_gang_that_did_not_come_together_is_dropped_and_counted():
    """Its part goes back at the end of the round; the job waits on."""
    batch = table_top(cluster_of(4, 4), GANG, scenario=PATIENT)
    act(batch, {0: ("claim", 0, 4)})
    act(batch)
    assert plan(batch) == {}
    assert batch.counters()["incomplete"] == 1
    assert batch.time.tolist() == [60.0]  # nothing runs: asked again after the stall interval
    assert batch.state.nodes[0]["free"].tolist() == [4, 4]
    assert batch.state.log(0).events["kind"].tolist() == [4]


def test_a_gang_takes_no_more_than_its_range():
    """6 to 6 GPUs: two whole claims of 4 would make 8; the second is refused."""
    batch = table_top(cluster_of(4, 4, 4), jobs_like((0, 6, 60)))
    act(batch, {0: ("claim", 0, 4), 1: ("claim", 0, 4), 2: ("claim", 0, 2)})
    assert plan(batch) == {0: {0: 4, 2: 2}}
    assert refused(batch) == 1


def test_parts_are_for_gangs_only():
    """A job that one node could hold is claimed whole; a larger one in parts, if enough is free for the rest."""
    batch = table_top(cluster_of(4, 4), jobs_like((0, 3, 30), (0, 6, 60)))
    assert amounts(batch, 0, "claim", 0) == [3]
    assert amounts(batch, 0, "claim", 1) == [1, 2, 3, 4]
    act(batch, {0: ("claim", 0, 3)})
    assert amounts(batch, 1, "claim", 1) == []  # five GPUs are left


def test_where_only_smaller_nodes_can_run_a_job_it_is_a_gang():
    """The one node of four is of a type on which the model does not run: two nodes of two must do."""
    cluster = ClusterSpec((NodeSpec("small", 4), NodeSpec("new", 2), NodeSpec("new", 2)))
    batch = table_top(cluster, Workload.of([JobSpec(0, 0, 4, 10, "large")]), performance=Curved())
    assert amounts(batch, 0, "claim", 0) == []
    assert amounts(batch, 1, "claim", 0) == [1, 2]
    act(batch, {1: ("claim", 0, 2), 2: ("claim", 0, 2)})
    act(batch)
    assert batch.ended.all()
    assert batch.state.jobs[0, 0].status == 3


def running(rules: DecisionRules | None = None, elastic: bool = True) -> GpuClusterBatch:
    """At 1: job 0 (2 requested, 1 to 4) runs with 2 on node 0, job 1 (the same) has just come."""
    row = (2, 400, 1, 4) if elastic else (2, 400)
    batch = table_top(cluster_of(4, 4), jobs_like((0, *row), (1, *row)), rules, Scenario(restart_delay=0.0))
    act(batch, {0: ("claim", 0, 2)})
    act(batch)
    assert batch.time.tolist() == [1.0]
    return batch


def test_a_node_sets_the_gpus_of_its_jobs():
    batch = running()
    assert amounts(batch, 0, "set", 0) == [0, 1, 3, 4]
    act(batch, {0: ("set", 0, 4)})
    assert plan(batch) == {0: {0: 4}}
    act(batch, {0: ("set", 0, 0)})
    assert plan(batch) == {}
    assert amounts(batch, 1, "claim", 0) == [1, 2, 3, 4]  # it waits in the plan, so all may claim it
    act(batch, {1: ("claim", 0, 2)})
    act(batch, {0: ("claim", 1, 2)})
    act(batch)
    event_kinds = batch.state.log(0).events["kind"].tolist()
    assert event_kinds[3:5] == [6, 7]  # job 1 starts, job 0 moves: one resize


def test_back_where_it_was_is_no_change():
    batch = running()
    act(batch, {0: ("set", 0, 0)})
    act(batch, {0: ("claim", 0, 2), 1: ("claim", 1, 4)})
    act(batch)
    assert batch.state.jobs[0, 0].num_restarts == batch.state.jobs[0, 0].num_preemptions == 0


def test_evicted_jobs_are_preempted():
    batch = running()
    act(batch, {0: ("set", 0, 0), 1: ("claim", 1, 4)})
    act(batch)
    assert batch.state.log(0).events["kind"].tolist()[3:5] == [5, 6]
    assert batch.state.jobs[0, 0].num_preemptions == 1
    assert batch.state.jobs[0, 0].service == 2.0  # two GPUs for one second


def test_without_preemption_no_job_is_evicted_not_even_after_a_resize():
    batch = running(DecisionRules(preemptive=False))
    assert amounts(batch, 0, "set", 0) == [1, 3, 4]
    act(batch, {0: ("set", 0, 1)})
    assert amounts(batch, 0, "set", 0) == [2, 3, 4]


def test_without_preemption_a_claim_of_this_round_can_be_taken_back():
    batch = running(DecisionRules(preemptive=False))
    act(batch, {1: ("claim", 1, 2)})
    assert amounts(batch, 1, "set", 1) == [0, 1, 3, 4]
    act(batch, {1: ("set", 1, 0)})
    assert plan(batch) == {0: {0: 2}}


def test_without_elasticity_only_the_requested_amount_is_claimed_or_kept():
    batch = running(DecisionRules(elastic=False))
    assert amounts(batch, 0, "set", 0) == [0]
    assert amounts(batch, 1, "claim", 1) == [2]
    assert amounts(batch, 0, "claim", 1) == [2]


def test_without_elasticity_a_gang_is_complete_at_its_requested_gpus_only():
    """2 to 8, 6 requested, nodes of 4: three GPUs would be in range but are not what was asked for."""
    rules, workload = DecisionRules(elastic=False), jobs_like((0, 6, 60, 2, 8))
    batch = table_top(cluster_of(4, 4), workload, rules, PATIENT)
    act(batch, {0: ("claim", 0, 3)})
    act(batch)
    assert batch.counters()["incomplete"] == 1
    assert batch.state.jobs[0, 0].status == 1
    act(batch, {0: ("claim", 0, 4), 1: ("claim", 0, 2)})
    assert plan(batch) == {0: {0: 4, 1: 2}}
    act(batch)
    assert batch.ended.all()
    assert batch.time.tolist() == [70.0]


def test_changes_that_together_break_the_range_are_refused_in_part():
    """Job 0 (5 to 8) has 4 + 4. Both nodes go down to 2: the first may (6), the second may not (4)."""
    batch = table_top(cluster_of(4, 4), jobs_like((0, 8, 800, 5, 8), (1, 1, 1)))
    act(batch, {0: ("claim", 0, 4), 1: ("claim", 0, 4)})
    act(batch)
    act(batch, {0: ("set", 0, 2), 1: ("set", 0, 2)})
    assert plan(batch) == {0: {0: 2, 1: 4}}
    assert refused(batch) == 1


def test_a_part_taken_away_leaves_a_gang_that_can_be_completed_elsewhere():
    batch = table_top(cluster_of(4, 4, 4), jobs_like((0, 8, 800), (1, 1, 1)))
    act(batch, {0: ("claim", 0, 4), 1: ("claim", 0, 4)})
    act(batch)
    act(batch, {1: ("set", 0, 0)})
    assert amounts(batch, 2, "claim", 0) == [1, 2, 3, 4]
    act(batch, {2: ("claim", 0, 4)})
    assert plan(batch) == {0: {0: 4, 2: 4}}
    act(batch)
    assert batch.state.jobs[0, 0].num_restarts == 1
    assert batch.state.jobs[0, 0].num_preemptions == 0


def test_a_part_taken_away_and_not_replaced_stops_the_job():
    batch = table_top(cluster_of(4, 4, 4), jobs_like((0, 8, 800), (1, 1, 1)))
    act(batch, {0: ("claim", 0, 4), 1: ("claim", 0, 4)})
    act(batch)
    act(batch, {1: ("set", 0, 0), 2: ("claim", 1, 1)})
    act(batch)
    assert batch.state.jobs[0, 0].num_preemptions == 1
    assert batch.counters()["incomplete"] == 1


class SmallNeedsRoom(Curved):
    """As `Curved`, but "large" runs on "old" GPUs only from six on: less does not fit their memory."""

    def throughput(self, model, configuration):
        fits = model != "large" or configuration.gpu_type != "old" or configuration.num_gpus >= 6
        return super().throughput(model, configuration) if fits else 0.0


@pytest.mark.parametrize("node", [0, 1])
def test_a_resize_may_not_push_a_mixed_gang_off_the_types_that_it_runs_on(node):
    """4 new + 4 old, 2 to 8 in range: with 5 in all the old ones could not run, whichever node gives up three."""
    cluster = ClusterSpec((NodeSpec("new", 4), NodeSpec("old", 4)))
    jobs = [JobSpec(0, 0, 8, 800, "large", min_gpus=6, max_gpus=8), JobSpec(1, 1, 1, 1, "any")]
    batch = table_top(cluster, Workload.of(jobs), performance=SmallNeedsRoom())
    act(batch, {0: ("claim", 0, 4), 1: ("claim", 0, 4)})
    act(batch)
    batch.state.jobs[0, 0].min_gpus = 2  # the range alone would allow it
    observe_episode(batch.negotiation.arrays, 0)
    assert amounts(batch, node, "set", 0) == [0, 2, 3]


def test_an_idle_cluster_may_not_pass():
    batch = table_top(cluster_of(4, 4), jobs_like((0, 2, 40)))
    assert batch.observation["mask"][0, :, 0].tolist() == [0, 0]
    act(batch, {0: ("claim", 0, 2)})
    assert batch.observation["mask"][0, :, 0].tolist() == [1, 1]


def test_a_node_that_cannot_claim_may_pass_an_idle_cluster():
    batch = table_top(cluster_of(4, 2), jobs_like((0, 4, 40)))
    assert batch.observation["mask"][0, :, 0].tolist() == [0, 1]


def test_a_round_ends_after_the_most_decisions():
    """Claimed and taken back for ever: the third decision ends the round with its plan at that time."""
    batch = table_top(cluster_of(4, 4), jobs_like((0, 2, 40)), DecisionRules(max_decisions=3))
    act(batch, {0: ("claim", 0, 2)})
    act(batch, {0: ("set", 0, 0)})
    assert batch.time.tolist() == [0.0]
    act(batch, {1: ("claim", 0, 2)})
    assert batch.time.tolist() == [20.0]
    assert batch.state.log(0).placement(1).gpus == {1: 2}


def test_slots_are_in_order_of_jobs():
    batch = table_top(cluster_of(4), jobs_like((0, 1, 40), (0, 1, 40), (0, 1, 40)))
    for job in (2, 0, 1):
        act(batch, {0: ("claim", job, 1)})
    assert slots(batch, 0) == [0, 1, 2]
    act(batch, {0: ("set", 1, 0)})
    assert slots(batch, 0) == [0, 2]


@pytest.mark.parametrize(
    ("order", "first"), [("shortest", [1, 2, 0]), ("fifo", [0, 1, 2]), ("least_service", [0, 1, 2])]
)
def test_candidates_are_the_head_of_the_queue(order, first):
    """At 5 all three wait; by remaining time 1, 2, 0 (ties would go by id)."""
    workload = jobs_like((0, 4, 400), (5, 4, 40), (5, 4, 80))
    batch = table_top(cluster_of(4), workload, DecisionRules(queue_order=order, num_candidates=3))
    act(batch, {0: ("claim", 0, 4)})
    act(batch)
    act(batch, {0: ("set", 0, 0)})
    heads = batch.negotiation.arrays.heads[0].tolist()
    assert heads == ([1, 2, 0] if order == "least_service" else first)
    few = table_top(cluster_of(4), workload, DecisionRules(queue_order=order, num_candidates=1))
    assert few.negotiation.arrays.heads[0].tolist() == [0]
