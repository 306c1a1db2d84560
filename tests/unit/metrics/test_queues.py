"""Figures by queue of a run worked by hand."""

import numpy as np
import pytest

from baselines import Fifo, Kueue
from baselines.kueue import QueueSettings
from envs.metrics import figures_of_queues, shares_of_queues
from envs.performance import IdealModel
from envs.simulation import Scenario, Setup, Simulator, run_episode
from tests.golden.playground import two_nodes
from tests.golden.test_kueue import TEAMS, of_teams


def test_figures_of_a_reclaimed_quota():
    """b borrows all 8 GPUs at 0; a claims its 4 at 3, and b's second job goes on from 13 to 32, 2 s of it restarting.

    a: no wait, one preemption caused. b: 10 s of waiting in its second job, one preemption, 4 GPUs lost for 2 s.
    """
    rows = (0, 4, 20, "a-less"), (0, 4, 20, "b"), (0, 4, 20, "b"), (3, 4, 10, "a")
    scenario = Scenario(restart_delay=2.0)
    setup = Setup(two_nodes(), IdealModel(), scenario)
    run = run_episode(Kueue(Fifo(), TEAMS), Simulator(of_teams(*rows[1:]), setup, 0))
    found = dict(zip(run.workload.tenants, figures_of_queues(run, scenario), strict=True))
    a, b = found["a"], found["b"]
    assert (a["jobs"], b["jobs"], b["unfinished"], b["never_started"]) == (1, 2, 0, 0)
    assert (a["suffered"], a["caused"], b["suffered"], b["caused"]) == (0, 1, 1, 0)
    assert (a["mean_wait"], b["mean_wait"]) == (0, 5)
    assert (a["mean_jct"], b["mean_jct"]) == (10, (20 + 32) / 2)
    assert (a["lost_gpu_hours"], b["lost_gpu_hours"]) == pytest.approx((0, 4 * 2 / 3600))
    assert (a["gpu_share"], b["gpu_share"]) == pytest.approx((40 / (8 * 32), (80 + 12 + 19 * 4) / (8 * 32)))
    times, parts = shares_of_queues(run)
    assert times.tolist() == [0, 3, 13, 20, 32]
    order = [run.workload.tenants.index(name) for name in ("a", "b")]
    assert parts[:, order].tolist() == [[0, 1], [0.5, 0.5], [0, 1], [0, 0.5], [0, 0]]


def test_a_preemption_is_shared_by_those_that_take_its_gpus():
    """One job of 8 GPUs of c stops at 1 for 4 GPUs of a and 4 of b; it goes on at 11, and never gets a pause to run in
    before it is stopped again: of a delay of 50 s it loses the 9 s that it holds GPUs."""
    queues = [*TEAMS, QueueSettings("c", "all")]
    rows = (0, 8, 100, "c"), (1, 4, 10, "a"), (1, 4, 10, "b"), (20, 4, 10, "a")
    scenario = Scenario(restart_delay=50.0)
    run = run_episode(Kueue(Fifo(), queues), Simulator(of_teams(*rows), Setup(two_nodes(), IdealModel(), scenario), 0))
    found = dict(zip(run.workload.tenants, figures_of_queues(run, scenario), strict=True))
    assert [found[name]["suffered"] for name in "abc"] == [0, 0, 2]
    assert [found[name]["caused"] for name in "abc"] == [1.5, 0.5, 0]
    assert found["c"]["lost_gpu_hours"] == pytest.approx((8 * 9 + 8 * 50) / 3600)
    assert np.isnan(found["c"]["mean_wait"]) == (run.num_unfinished == 1)
