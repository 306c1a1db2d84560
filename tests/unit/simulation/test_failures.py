"""Nodes that go down and come back, calculated by hand."""

import math
from dataclasses import replace

import numpy as np
import pytest

from envs.performance import Contention
from envs.simulation import EventKind, Rounds, Scenario, Setup
from envs.simulation.scenario import OUTAGES, Failures
from envs.types import AllocationError, ClusterSpec, NodeSpec, Placement
from envs.workloads import Workload
from tests.unit.simulation.bench import FULL_THROUGHPUT, VGG_GB, Bench, alone, outages
from tests.unit.simulation.plays import Acts, Play, cluster_of, jobs_of, words

TWO = cluster_of(4, 4)
RESTART = Scenario(restart_delay=3.0)


@pytest.mark.parametrize(("every", "left"), [(4.0, 60 - 32), (0.0, 60 - 40), (math.inf, 60.0), (10.0, 60 - 40)])
def test_a_job_resumes_from_its_last_checkpoint(engine, every, left):
    """4 samples/s from 0 on; node 0 is down from 10 to 15. The job starts again at 15, runs from 18 on."""
    acts: Acts = {0.0: {0: {0: 4}}, 15.0: {0: {0: 4}}}
    scenario = replace(RESTART, failures=outages((10.0, 5.0), every=every))
    play = Play(engine, acts, jobs_of((0, 4, 60)), TWO, scenario)
    assert play.told == [
        (0, "ARRIVE", 0),
        (0, "START", 0),
        (10, "DOWN", -1),
        (10, "INTERRUPT", 0),
        (15, "UP", -1),
        (15, "START", 0),
        (18 + left / 4, "FINISH", 0),
    ]
    assert play.asked == [0.0, 10.0, 15.0]
    assert play.records["num_interruptions"].tolist() == [1]
    assert play.records["num_preemptions"].tolist() == [0]
    assert play.records["num_restarts"].tolist() == [1]
    assert play.records["attained_service"].tolist() == [40.0 + 4 * (3 + left / 4)]


def test_the_log_names_the_node_and_its_gpus(engine):
    play = Play(
        engine, {0.0: {0: {1: 2}}}, jobs_of((0, 2, 60)), cluster_of(3, 4), Scenario(failures=outages((10.0, 5.0)))
    )
    for event in (2, 3):
        assert play.log.events["num_shares"][event] == 1
        share = play.log.shares[play.log.events["first_share"][event]]
        assert share.tolist() == (0, 3, 0.0, 0.0)


def test_checkpoints_count_from_the_first_sample(engine):
    """Start delay 3: checkpoints at 3, 7, 11. Down at 10: back to 7, 4 s of work. Down while restarting: no loss."""
    acts: Acts = {0.0: {0: {0: 4}}, 10.0: {0: {1: 4}}, 12.0: {0: {0: 4}}}
    scenario = Scenario(start_delay=3.0, restart_delay=3.0, failures=outages((10.0, 1.0), (12.0, 50.0), every=4.0))
    play = Play(engine, acts, jobs_of((0, 4, 60)), TWO, scenario)
    assert play.finish == [12 + 3 + (60 - 16) / 4]
    assert play.records["num_interruptions"].tolist() == [2]


def test_an_interrupted_job_loses_its_shares_everywhere(engine):
    """Three jobs: one on both nodes, one on the failing node, one on the other. The last continues."""
    acts: Acts = {0.0: {0: {0: 1, 1: 1}, 1: {0: 2}, 2: {1: 2}}}
    workload = jobs_of((0, 2, 99), (0, 2, 99), (0, 2, 99))
    play = Play(engine, acts, workload, TWO, Scenario(failures=outages((10.0, 1e6)), horizon=12.0))
    assert play.told[-3:] == [(10, "DOWN", -1), (10, "INTERRUPT", 0), (10, "INTERRUPT", 1)]
    view = play.engine.view
    assert view.capacity.tolist() == [0, 4]
    assert view.free_gpus.tolist() == [0, 2]
    assert (view.queued.tolist(), view.running.tolist()) == ([0, 1], [2])


def test_no_job_starts_on_a_node_that_is_down(engine):
    simulator = engine(jobs_of((5, 2, 9)), Setup(TWO, Bench(), Scenario(failures=outages((2.0, 9.0)))))
    assert simulator.advance()
    allocation = simulator.view.allocation()
    assert allocation.free_gpus.tolist() == [0, 4]
    assert not allocation.pack(0, gpu_types=[])
    assert allocation.pack(0)
    allocation.changes[0] = Placement({0: 2})
    says = words(
        engine, "job 0: asks for 2 GPUs on node 0, where 0 are free", "node 0: 2 GPUs are asked for, 0 are free"
    )
    with pytest.raises(AllocationError, match=says):
        simulator.apply(allocation)


def test_nodes_change_in_order_between_completions_and_arrivals(engine):
    """At 10: A ends, nodes 0 and 1 go down together, B arrives."""
    acts: Acts = {0.0: {0: {0: 4}}}
    scenario = Scenario(failures=outages((10.0, 1.0), (10.0, 2.0)), horizon=10.5)
    play = Play(engine, acts, jobs_of((0, 4, 40), (10, 4, 40)), TWO, scenario)
    assert play.told[2:] == [(10, "FINISH", 0), (10, "DOWN", -1), (10, "DOWN", -1), (10, "ARRIVE", 1)]
    assert play.log.shares["node"].tolist() == [0, 0, 1]


def test_a_failure_frees_the_link_and_checkpoints_follow_the_new_throughput(engine):
    """Jobs 0 (nodes 0, 1) and 1 (nodes 1, 2) share node 1's link: 128 samples/s each.

    At 4 node 2 fails and interrupts job 1; job 0 continues at 256. Node 0 fails at 7.5: the checkpoints of job 0 were
    at 3, before the change, and at 6, two seconds after it.
    """
    nodes = ClusterSpec(tuple(NodeSpec("plain", 4, inter_node_bandwidth=VGG_GB) for _ in range(3)))
    jobs = Workload.of([alone("vgg16", 2, 2048), alone("vgg16", 2, 2048)])
    failures = outages((7.5, 1.5), (1e9, 1.0), (4.0, 1e6), every=3.0)
    scenario = Scenario(restart_delay=0.0, contention=Contention("measured"), failures=failures, horizon=100.0)
    acts: Acts = {0.0: {0: {0: 1, 1: 1}, 1: {1: 1, 2: 1}}, 9.0: {0: {0: 1, 1: 1}}}
    play = Play(engine, acts, jobs, nodes, scenario, FULL_THROUGHPUT)
    assert play.finish[0] == 9 + (2048 - 4 * 128 - 2 * 256) / 256


def test_a_checkpoint_before_a_change_of_throughput_is_kept(engine):
    """As above, but node 0 fails at 5: the last checkpoint is that of 3, though the throughput changed at 4."""
    nodes = ClusterSpec(tuple(NodeSpec("plain", 4, inter_node_bandwidth=VGG_GB) for _ in range(3)))
    jobs = Workload.of([alone("vgg16", 2, 2048), alone("vgg16", 2, 2048)])
    failures = outages((5.0, 4.0), (1e9, 1.0), (4.0, 1e6), every=3.0)
    scenario = Scenario(restart_delay=0.0, contention=Contention("measured"), failures=failures, horizon=100.0)
    acts: Acts = {0.0: {0: {0: 1, 1: 1}, 1: {1: 1, 2: 1}}, 9.0: {0: {0: 1, 1: 1}}}
    play = Play(engine, acts, jobs, nodes, scenario, FULL_THROUGHPUT)
    assert play.finish[0] == 9 + (2048 - 3 * 128) / 256


def test_the_engine_waits_for_a_node_change_while_no_job_runs(engine):
    """Jobs wait at 5. Rounds at 12 (stall), at 15 and 18 (node 0 goes down and comes back), then every 7 s again."""
    rounds = Rounds(stall_interval=7.0, max_stalls=4)
    play = Play(engine, {}, jobs_of((5, 4, 40)), TWO, Scenario(rounds=rounds, failures=outages((15.0, 3.0))))
    assert play.asked == [5.0, 12.0, 15.0, 18.0, 25.0]
    assert play.result.end_time == 25.0


def test_the_engine_waits_for_a_failed_node_to_come_back(engine):
    """No stalls between 2 and 900, though no job runs; the job that starts at 900 finishes."""
    rounds = Rounds(stall_interval=7.0, max_stalls=2)
    scenario = Scenario(rounds=rounds, failures=outages((2.0, 898.0)))
    play = Play(engine, {900.0: {0: {0: 4}}}, jobs_of((5, 4, 40)), cluster_of(4), scenario)
    assert play.asked == [5.0, 900.0]
    assert play.finish == [910.0]


def test_after_all_outages_the_draws_repeat(engine):
    """Node 1 is up for 1, 2, ... 32 s and down for 1 s each time, then again from the beginning; node 0 stays up."""
    draws = tuple(second for i in range(OUTAGES) for second in (float(i + 1), 1.0))
    total = sum(draws)
    scenario = Scenario(failures=outages((1e6, 1.0), draws), rounds=Rounds(on_events=False, interval=1000.0))
    play = Play(engine, {0.0: {0: {0: 4}}}, jobs_of((0, 4, 4 * (total + 4))), TWO, scenario)
    downs = [time for time, kind, _ in play.told if kind == "DOWN"]
    assert downs[:3] == [1.0, 1 + 1 + 2, 1 + 1 + 2 + 1 + 3]
    assert downs[OUTAGES:] == [total + 1.0, total + 4.0]


def test_outages_depend_on_the_seed(engine):
    """No job is placed; the first failure of each node is the first draw from the third child of the seed."""
    failures = Failures(mtbf=50.0, repair_time=5.0)
    scenario = Scenario(failures=failures, rounds=Rounds(max_stalls=1000), horizon=2000.0)
    plays = [Play(engine, {}, jobs_of((0, 1, 9)), TWO, scenario, seed=seed) for seed in (1, 1, 2)]
    first = [first_failures(play) for play in plays]
    assert first[0] == first[1] != first[2]
    rng = np.random.default_rng(np.random.SeedSequence(2).spawn(3)[2])
    assert first_failures(plays[2]) == dict(enumerate(failures.draw(2, rng)[:, 0, 0].tolist()))


def first_failures(play: Play) -> dict[int, float]:
    """Time of the first failure of each node."""
    times: dict[int, float] = {}
    for event in play.log.events[play.log.events["kind"] == EventKind.DOWN]:
        times.setdefault(int(play.log.shares["node"][event["first_share"]]), float(event["time"]))
    return times
