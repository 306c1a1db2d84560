"""What limits running jobs, worked out by hand on both engines; and the metrics made of it."""

from dataclasses import replace

import numpy as np
import pytest

from envs.metrics import LimitShares, limit_shares, queue_share, summarise
from envs.performance import Contention
from envs.simulation import LimitedTime, Scenario
from envs.types import ClusterSpec, JobSpec, NodeSpec, Placement
from envs.workloads import Workload
from tests.unit.simulation.bench import FULL_THROUGHPUT, alone
from tests.unit.simulation.plays import Acts, Play, cluster_of

SHARED = Scenario(restart_delay=0.0, cpu_memory="shared")


def two_demanding_jobs(window: tuple[float, float] = (0.0, np.inf)) -> Workload:
    """See test_rules: job 0 from 0 to 11, short of cores from 1 to 4, while job 1 runs; 8 GPUs, 32 cores."""
    jobs = [alone("vgg16", 4, 40), JobSpec(1, 1.0, 4, 8.0, "vgg16")]
    return replace(Workload.of(jobs), window=window)


@pytest.mark.parametrize(
    ("window", "limited"),
    [
        ((0.0, np.inf), LimitedTime(11 + 3, 3 + 3, 0, 0, 3, 0)),  # rounds at 0, 1 and 4; none when the last job ends
        ((2.0, 6.0), LimitedTime(2 * 2 + 2, 2 * 2, 0, 0, 1, 0)),
        ((11.0, 20.0), LimitedTime(0, 0, 0, 0, 0, 0)),
    ],
)
def test_jobs_limited_by_cores(engine, window, limited):
    play = Play(engine, {0.0: {0: {0: 4}}, 1.0: {1: {0: 4}}}, two_demanding_jobs(window), cluster_of(8), SHARED)
    found = play.result.limited
    assert found is not None
    assert found == replace(limited, running=pytest.approx(limited.running), cpus=pytest.approx(limited.cpus))


def test_jobs_limited_by_memory_or_by_amounts_that_they_name(engine):
    """Three jobs that run for 10 s. 0 and 1 have 10 GB each, and by the table less than 20.83 GB slow a GPU down.

    vgg16 names 1 of its 6 cores and is limited by that (1/6 is less than 10 / 20.83), resnet50 by memory. 2 is on
    another node and limited by nothing.
    """
    cluster = ClusterSpec((NodeSpec("plain", 2, 16.0, 20.0), NodeSpec("plain", 1, 16.0, 64.0)))
    jobs = Workload.of([JobSpec(i, 0.0, 1, 1000.0, model) for i, model in enumerate(("vgg16", "resnet50", "bert"))])
    acts: Acts = {0.0: {0: Placement({0: 1}, cpus={0: 1.0}), 1: {0: 1}, 2: {1: 1}}}
    play = Play(engine, acts, jobs, cluster, replace(SHARED, horizon=10.0))
    assert play.result.limited == LimitedTime(30.0, 10.0, 10.0, 0.0, 1, 0)
    shares = limit_shares(play.result)
    assert (shares.gpus, shares.cpus, shares.memory, shares.network) == pytest.approx((1 / 3, 1 / 3, 1 / 3, 0))
    summary = summarise(play.result)
    assert (summary.limited_by_gpus, summary.limited_by_memory) == (shares.gpus, shares.memory)


def test_jobs_limited_by_the_network(engine):
    """Two jobs on the same two nodes want 0.55 GB/s each of 0.8; a third on one node is limited by its GPU.

    The fourth finds no GPU: the only round leaves it in the queue.
    """
    nodes = tuple(NodeSpec("plain", gpus, inter_node_bandwidth=0.8) for gpus in (3, 2))
    jobs = Workload.of([JobSpec(i, 0.0, gpus, 1e9, "vgg16") for i, gpus in enumerate((2, 2, 1, 1))])
    acts = {0.0: {0: {0: 1, 1: 1}, 1: {0: 1, 1: 1}, 2: {0: 1}}}
    scenario = Scenario(restart_delay=0.0, contention=Contention("measured"), horizon=8.0)
    play = Play(engine, acts, jobs, ClusterSpec(nodes), scenario, FULL_THROUGHPUT)
    assert play.result.limited == LimitedTime(24.0, 0.0, 0.0, 16.0, 1, 1)
    assert limit_shares(play.result).network == pytest.approx(2 / 3)
    assert queue_share(play.result) == 1.0


def test_where_nothing_but_gpus_is_shared_they_limit_every_job(engine):
    play = Play(engine, {0.0: {0: {0: 4}}}, two_demanding_jobs(), cluster_of(8))
    assert play.result.limited is not None
    assert np.isnan(play.result.limited.running)
    assert limit_shares(play.result) == LimitShares(1.0, 0.0, 0.0, 0.0)


def test_a_run_that_measured_nothing_has_no_shares(engine):
    play = Play(engine, {0.0: {0: {0: 4}}}, two_demanding_jobs((11.0, 20.0)), cluster_of(8), SHARED)
    for result in (play.result, replace(play.result, limited=None)):
        assert np.isnan([limit_shares(result).gpus, limit_shares(result).network, queue_share(result)]).all()
