"""Event sequences calculated by hand, on both engines."""

from dataclasses import replace

import numpy as np
import pytest

from envs.performance import CostByTable
from envs.simulation import Rounds, Scenario, Setup
from envs.types import ClusterSpec, ExecutionPlan, JobSpec, NodeSpec, Placement
from envs.workloads import Workload
from tests.unit.simulation.bench import Bench
from tests.unit.simulation.plays import Acts, Play, cluster_of, jobs_of

FREE_OF_CHARGE = Scenario(restart_delay=0.0, statistical_efficiency="every_sample")
COSTLY = Scenario(start_delay=2.0, restart_delay=3.0)
TWO = cluster_of(4, 4)
HALVES = ExecutionPlan(data=2, tensor=2)


def test_the_first_sample_waits_for_the_start_delay(engine):
    """40 samples on 4 GPUs: 2 s of start, 10 s of work."""
    play = Play(engine, {0.0: {0: {0: 4}}}, jobs_of((0, 4, 40)), TWO, COSTLY)
    assert play.told == [(0, "ARRIVE", 0), (0, "START", 0), (12, "FINISH", 0)]
    assert play.records["attained_service"].tolist() == [48.0]
    assert play.records["num_restarts"].tolist() == [0]


def test_preemption_costs_a_restart(engine):
    """A has done 5 - 2 = 3 s (12 samples) when B takes its node at 5. B: starts 7, done 9. A: restarts at 9, works from
    12, 28 samples are 7 s: done at 19. It held GPUs 0-5 and 9-19.
    """
    acts: Acts = {0.0: {0: {0: 4}}, 5.0: {0: None, 1: {0: 4}}, 9.0: {0: {0: 4}}}
    play = Play(engine, acts, jobs_of((0, 4, 40), (5, 4, 8)), cluster_of(4), COSTLY)
    assert play.told == [
        (0, "ARRIVE", 0),
        (0, "START", 0),
        (5, "ARRIVE", 1),
        (5, "STOP", 0),
        (5, "START", 1),
        (9, "FINISH", 1),
        (9, "START", 0),
        (19, "FINISH", 0),
    ]
    assert play.records["num_preemptions"].tolist() == [1, 0]
    assert play.records["num_restarts"].tolist() == [1, 0]
    assert play.records["attained_service"].tolist() == [60.0, 16.0]
    assert play.records["start_time"].tolist() == [0.0, 5.0]


def test_a_resize_costs_one_restart_and_then_runs_faster(engine):
    """2 GPUs until 5 (3 s of work, 6 of 40 samples); then 4 GPUs, from 8 on: 34 / 4 = 8.5 s, done at 16.5."""
    acts: Acts = {0.0: {0: {0: 2}, 1: {1: 1}}, 5.0: {0: {0: 4}}}
    play = Play(engine, acts, jobs_of((0, 2, 40), (0, 2, 3), elastic=(1, 4)), TWO, COSTLY)
    assert play.told[-3:] == [(5, "FINISH", 1), (5, "RESIZE", 0), (16.5, "FINISH", 0)]
    assert play.records["attained_service"].tolist() == [2 * 5 + 4 * 11.5, 5.0]
    assert play.records["num_restarts"].tolist() == [1, 0]
    assert play.records["num_preemptions"].tolist() == [0, 0]


def test_a_migration_is_a_resize_to_other_nodes(engine):
    """The same number of GPUs on another node costs a restart like any change."""
    acts: Acts = {0.0: {0: {0: 2}}, 4.0: {0: {1: 2}}}
    play = Play(engine, acts, jobs_of((0, 2, 20), (4, 2, 1)), TWO, COSTLY)
    assert play.told[3] == (4, "RESIZE", 0)
    assert dict(play.log.placement(3).gpus) == {1: 2}
    assert play.finish[0] == 4 + 3 + (20 - 2 * 2) / 2


def test_a_second_change_during_a_restart_starts_it_again(engine):
    """Resized at 5 and again at 6: no progress between 5 and 9, since the restart from 5 would have ended at 8."""
    acts: Acts = {0.0: {0: {0: 1}}, 5.0: {0: {0: 2}}, 6.0: {0: {0: 4}}}
    play = Play(engine, acts, jobs_of((0, 1, 43), (5, 1, 1), (6, 1, 1), elastic=(1, 4)), TWO, COSTLY)
    assert play.finish[0] == 9 + (43 - 3) / 4


def test_a_job_stopped_while_it_starts_has_no_progress(engine):
    acts: Acts = {0.0: {0: {0: 4}}, 1.0: {0: None, 1: {0: 4}}, 4.0: {0: {0: 4}}}
    play = Play(engine, acts, jobs_of((0, 4, 4), (1, 4, 4)), cluster_of(4), COSTLY)
    assert play.finish == [4 + 3 + 1, 1 + 2 + 1]
    assert play.records["attained_service"].tolist() == [4.0 + 16.0, 12.0]


def test_an_unchanged_job_continues_without_delay(engine):
    """B arrives at 1; the allocation repeats A's placement in another order: no event and no delay for A."""
    acts: Acts = {0.0: {0: {0: 2, 1: 2}}, 1.0: {0: {1: 2, 0: 2}, 1: {0: 2}}}
    play = Play(engine, acts, jobs_of((0, 4, 20), (1, 2, 2)), TWO, COSTLY)
    assert [kind for _, kind, job in play.told if job == 0] == ["ARRIVE", "START", "FINISH"]
    assert play.finish[0] == 2 + 20 / 2
    assert play.records["num_restarts"].tolist() == [0, 0]


def test_an_allocation_from_scratch_with_the_same_placements_costs_nothing(engine):
    """A complete allocation and one with only the changes are equivalent."""
    simulator = engine(jobs_of((0, 4, 40), (1, 2, 2)), Setup(TWO, Bench(), COSTLY))
    asked = []
    for view in simulator.rounds():
        asked.append(view.time)
        allocation = view.allocation()
        allocation.place(0, {0: 4})
        if 1 in view.queued or 1 in view.running:
            allocation.place(1, {1: 2})
        simulator.apply(allocation)
    assert asked == [0.0, 1.0, 4.0]
    records = simulator.result("").records
    assert records["num_restarts"].tolist() == [0, 0]
    assert records["finish_time"].tolist() == [12.0, 4.0]


def test_a_complete_allocation_stops_the_jobs_that_it_leaves_out(engine):
    simulator = engine(jobs_of((0, 4, 40), (1, 2, 2)), Setup(TWO, Bench(), FREE_OF_CHARGE))
    rounds = simulator.rounds()
    view = next(rounds)
    allocation = view.allocation()
    allocation.place(0, {0: 4})
    simulator.apply(allocation)
    view = next(rounds)
    simulator.apply(view.allocation())
    assert view.running.tolist() == []
    assert view.queued.tolist() == [0, 1]
    assert view.remaining_work(np.array([0, 1])).tolist() == [36.0, 2.0]


def test_events_of_one_instant_have_a_fixed_order(engine):
    """At 10 A and B end (by id), two jobs arrive (by submission), then decisions act: stops, starts, resizes."""
    acts: Acts = {
        0.0: {0: {0: 4}, 1: {1: 1}, 2: {1: 1}, 3: {1: 2}},
        10.0: {2: None, 3: {1: 3}, 5: {0: 2}, 4: {0: 2}},
        12.0: {2: {0: 1}},
    }
    workload = jobs_of((0, 1, 40), (0, 1, 10), (0, 1, 100), (0, 1, 100), (10, 1, 4), (10, 1, 4), elastic=(1, 4))
    play = Play(engine, acts, workload, TWO, FREE_OF_CHARGE)
    assert [(kind, job) for time, kind, job in play.told if time == 10] == [
        ("FINISH", 0),
        ("FINISH", 1),
        ("ARRIVE", 4),
        ("ARRIVE", 5),
        ("STOP", 2),
        ("START", 4),
        ("START", 5),
        ("RESIZE", 3),
    ]


def test_two_jobs_swap_nodes_in_one_round(engine):
    """Neither has room until the other is gone: the allocation is checked as a whole."""
    acts: Acts = {0.0: {0: {0: 4}, 1: {1: 4}}, 2.0: {0: {1: 4}, 1: {0: 4}}}
    play = Play(engine, acts, jobs_of((0, 4, 40), (0, 4, 40), (2, 1, 1)), TWO, Scenario(restart_delay=1.0))
    assert [(time, kind) for time, kind, job in play.told if job < 2][-4:] == [
        (2, "RESIZE"),
        (2, "RESIZE"),
        (11, "FINISH"),
        (11, "FINISH"),
    ]
    assert [dict(play.placement("RESIZE", job).gpus) for job in (0, 1)] == [{1: 4}, {0: 4}]


@pytest.mark.parametrize(("shares", "throughput"), [("proportional", 5.0), ("equal", 2.0)])
def test_unequal_gpus_divide_the_batch_by_throughput_or_equally(engine, shares, throughput):
    """3 fast GPUs (3/s) and 1 slow (1/s) over two nodes (factor 1/2): 10 / 2 = 5, or 4 times the slowest / 2 = 2."""
    mixed = ClusterSpec((NodeSpec("fast", 3), NodeSpec("slow", 1)))
    play = Play(engine, {0.0: {0: {0: 3, 1: 1}}}, jobs_of((0, 4, 60)), mixed, Scenario(worker_shares=shares))
    assert play.finish == [60 / throughput]


@pytest.mark.parametrize(("placement", "finish"), [({0: 4}, 10.0), ({0: 2, 1: 2}, 20.0)])
def test_a_gang_over_nodes_has_the_throughput_of_its_node_count(engine, placement, finish):
    """4 GPUs at one sample a second each: on one node 4/s, on two 2/s."""
    assert Play(engine, {0.0: {0: placement}}, jobs_of((0, 4, 40)), TWO, FREE_OF_CHARGE).finish == [finish]


def test_decisions_take_no_simulated_time(engine):
    """The scheduler decides at every event and at no other time."""
    acts: Acts = {0.0: {0: {0: 4}}, 3.0: {1: {1: 4}}}
    play = Play(engine, acts, jobs_of((0, 4, 40), (3, 4, 40)), TWO, Scenario(rounds=Rounds()))
    assert play.asked == [0.0, 3.0, 10.0]
    assert play.result.num_rounds == 3
    assert play.result.end_time == 13.0


def test_delays_by_model(engine):
    """Restarts of vgg16 take 10 s, of other models 30; first starts take no time."""
    cost = CostByTable({"vgg16": 10.0}, 30.0)
    acts: Acts = {0.0: {0: {0: 4}}, 2.0: {0: {1: 4}, 1: {0: 4}}}
    jobs = Workload.of([JobSpec(0, 0, 4, 40, "vgg16"), JobSpec(1, 2, 4, 4, "resnet50")])
    play = Play(engine, acts, jobs, TWO, Scenario(reconfiguration=cost, start_delay=99.0, restart_delay=99.0))
    assert play.finish == [2 + 10 + (40 - 8) / 4, 3.0]
    assert play.engine.view.restart_delay.tolist() == [10.0, 30.0]
    assert play.engine.view.start_delay.tolist() == [0.0, 0.0]


def test_a_plan_and_a_batch_size_get_their_exact_throughput_and_are_logged(engine):
    """4 GPUs, doubled by the plan, doubled by the batch size: 16 samples/s."""
    placement = Placement({0: 4}, plan=HALVES, batch_size=128)
    play = Play(engine, {0.0: {0: placement}}, jobs_of((0, 4, 64)), TWO, FREE_OF_CHARGE)
    assert play.finish == [4.0]
    assert play.log.plans == (HALVES,)
    assert play.log.events["plan"].tolist() == [-1, 0, -1]
    assert play.log.events["batch_size"].tolist() == [0, 128, 0]
    assert play.placement("START", 0) == placement


def test_another_plan_or_batch_size_costs_a_restart_and_the_same_does_not(engine):
    """4 samples/s until 2; 3 s of restart for the batch size, 8 samples/s until 7, unchanged at 6; then the plan."""
    batch = Placement({0: 4}, batch_size=128)
    acts: Acts = {0.0: {0: {0: 4}}, 2.0: {0: batch}, 6.0: {0: batch}, 7.0: {0: replace(batch, plan=HALVES)}}
    jobs = jobs_of((0, 4, 56), (2, 1, 1), (6, 1, 1), (7, 1, 1))
    play = Play(engine, acts, jobs, TWO, Scenario(restart_delay=3.0, statistical_efficiency="every_sample"))
    assert [(time, kind) for time, kind, job in play.told if job == 0][2:-1] == [(2, "RESIZE"), (7, "RESIZE")]
    assert play.finish[0] == 10 + (56 - 8 - 16) / 16
    assert play.records["num_restarts"][0] == 2
