"""Figures of validation: means over workloads, baselines that refuse, mistakes that are not swallowed."""

import math
from dataclasses import replace

import numpy as np
import pytest

from agents.validation import best_of, validate, validate_baselines
from baselines.fifo import Fifo
from baselines.srtf import Srtf
from envs.simulation import Information, Scenario, Simulator, run_episode
from envs.types import AllocationError, ClusterError, ClusterSpec, JobSpec, MurmurationError, NodeSpec
from envs.workloads import Workload
from tests.unit.agents.worlds import small_world


def listened():
    told = []
    return told, lambda name, refusal: told.append((name, refusal))


def test_figures_are_means_over_workloads():
    world = small_world(num_evaluation=3)
    workloads = world.source.evaluation("validation")
    mean_jct, makespans = [], []
    for workload in workloads:
        result = run_episode(Fifo(), Simulator(workload, world.cluster, world.performance, world.scenario))
        mean_jct.append((result.records["finish_time"] - result.records["submit_time"]).mean())
        makespans.append(result.records["finish_time"].max() - result.records["submit_time"].min())
    found = validate(Fifo(), world, workloads)
    assert found["mean_jct"] == pytest.approx(np.mean(mean_jct))
    assert found["makespan"] == pytest.approx(np.mean(makespans))
    assert found["num_unfinished"] == 0
    assert "mean_jct_censored" not in found


def test_jobs_cut_off_count_up_to_the_end():
    """One job of ten hours, cut off after one: nothing finished, and no warning for that."""
    world = replace(small_world(), scenario=Scenario(horizon=3600.0))
    model = world.source.models[0]
    rate = world.performance.throughput(model, "V100", 1, 1)
    found = validate(Fifo(), world, [Workload.of([JobSpec(0, 0.0, 1, 36_000.0 * rate, model)])])
    assert found["mean_jct"] == pytest.approx(3600.0)
    assert found["num_unfinished"] == 1
    assert math.isnan(found["p99_jct"])


def test_a_baseline_that_needs_to_know_more_is_left_out_and_told():
    world = replace(small_world(), scenario=Scenario(information=Information("none")))
    told, tell = listened()
    found = validate_baselines({"fifo": Fifo, "srtf": Srtf}, world, world.source.evaluation("validation"), tell)
    assert set(found) == {"fifo"}
    assert told[0] == ("fifo", "")
    assert told[1][0] == "srtf"
    assert "needs remaining work" in told[1][1]


def test_a_job_that_never_fits_is_the_users_mistake_and_not_the_baselines():
    world = small_world()
    narrow = replace(world, cluster=ClusterSpec((NodeSpec("V100", 2),), "narrow"))
    wide = Workload.of([JobSpec(0, 0.0, 4, 10.0, world.source.models[0])])
    with pytest.raises(ClusterError, match="needs 4 GPUs, cluster narrow has 2"):
        validate_baselines({"fifo": Fifo}, narrow, [wide], listened()[1])


class Greedy:
    """Puts every job on a node that does not exist."""

    def reset(self, cluster, rng):
        pass

    def schedule(self, view):
        wish = view.allocation()
        wish.place(int(view.queued[0]), {99: 1})
        return wish


def test_a_baseline_that_is_wrong_is_not_left_out_in_silence():
    world = small_world()
    with pytest.raises(AllocationError, match="node 99 does not exist"):
        validate_baselines({"greedy": Greedy}, world, world.source.evaluation("validation"), listened()[1])


def test_the_best_has_the_lowest_mean_jct():
    assert best_of({"a": {"mean_jct": 3.0}, "b": {"mean_jct": 2.0}, "c": {"mean_jct": 2.5}}) == "b"
    with pytest.raises(MurmurationError, match="choose baselines that need less information"):
        best_of({})
