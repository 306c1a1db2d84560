"""Figures of validation: means over workloads, baselines that refuse, mistakes that are not swallowed."""

import math
from dataclasses import replace
from functools import partial

import numpy as np
import pytest

from agents.goal import Goal
from agents.validation import (
    best_of,
    costs_of,
    ratio_to_best,
    validate_baselines,
    validate_in_worlds,
    validate_scheduler,
    validation_workloads,
    with_ratios,
)
from baselines.fifo import Fifo
from baselines.srtf import Srtf
from envs.evaluation.outcome import Outcome
from envs.simulation import Failures, Information, Scenario, Simulator, run_episode
from envs.types import AllocationError, ClusterError, ClusterSpec, Configuration, JobSpec, MurmurationError, NodeSpec
from envs.workloads import Workload
from tests.unit.agents.worlds import small_world


class Starver:
    """First come, first served with backfilling, but jobs of more than `most` seconds never start."""

    def __init__(self, most):
        self.most = most

    def reset(self, cluster, rng):
        pass

    def schedule(self, view):
        allocation = view.allocation(keep_running=True)
        for job in view.queued[view.remaining_time(view.queued) <= self.most]:
            allocation.pack(int(job))
        return allocation


def listened():
    told = []
    return told, lambda name, refusal: told.append((name, refusal))


def test_figures_are_means_over_workloads():
    world = small_world(num_evaluation=3)
    workloads = world.source.evaluation("validation")
    mean_jct, makespans = [], []
    for workload in workloads:
        result = run_episode(Fifo(), Simulator(workload, world.setup))
        mean_jct.append((result.records["finish_time"] - result.records["submit_time"]).mean())
        makespans.append(result.records["finish_time"].max() - result.records["submit_time"].min())
    found = validate_scheduler(Fifo(), world.setup, workloads)
    assert found["mean_jct"] == pytest.approx(np.mean(mean_jct))
    assert found["makespan"] == pytest.approx(np.mean(makespans))
    assert found["num_unfinished"] == 0
    assert "mean_jct_censored" not in found


def test_jobs_cut_off_count_up_to_the_end():
    """One job of ten hours, cut off after one: nothing finished, and no warning for that."""
    world = small_world(scenario=Scenario(horizon=3600.0))
    model = world.source.models[0]
    throughput = world.setup.performance.throughput(model, Configuration("V100", 1, 1))
    found = validate_scheduler(Fifo(), world.setup, [Workload.of([JobSpec(0, 0.0, 1, 36_000.0 * throughput, model)])])
    assert found["mean_jct"] == pytest.approx(3600.0)
    assert found["num_unfinished"] == 1
    assert found["num_starved"] == 0  # time was up
    assert math.isnan(found["p99_jct"])


def test_who_starves_a_job_is_not_the_best_although_its_mean_is_lower():
    world = small_world()
    workloads = validation_workloads(world.source, 8)
    makers = {"starver": partial(Starver, 14_400.0), "fair": partial(Starver, math.inf)}
    found = validate_baselines(makers, world.setup, workloads, listened()[1])
    assert found["starver"]["mean_jct"] < 0.9 * found["fair"]["mean_jct"]
    assert found["starver"]["num_unfinished"] == found["starver"]["num_starved"] > 0
    assert found["fair"]["num_starved"] == 0
    assert best_of(found, Goal()) == "fair"


@pytest.mark.parametrize(
    "scenario",
    [Scenario(failures=Failures(mtbf=86_400.0)), Scenario(information=Information("estimate", error=1.0))],
    ids=["failures", "estimates"],
)
def test_every_scheduler_is_validated_with_the_same_seed(scenario):
    """As a baseline and as a policy: to the last digit; and another seed would make a difference here."""
    world = small_world(scenario=scenario)
    workloads = validation_workloads(world.source, 2)
    as_baseline = validate_baselines({"srtf": Srtf}, world.setup, workloads, listened()[1])["srtf"]
    assert validate_scheduler(Srtf(), world.setup, workloads) == as_baseline
    others = [
        run_episode(Srtf(), Simulator(workload, world.setup, 7 + index)) for index, workload in enumerate(workloads)
    ]
    assert np.mean([Outcome.of(other, scenario).mean_jct for other in others]) != as_baseline["mean_jct"]


def test_each_validation_workload_has_its_own_seed():
    """Two equal workloads differ by their outages alone."""
    world = small_world(scenario=Scenario(failures=Failures(mtbf=20_000.0)))
    workload = validation_workloads(world.source, 1)[0]
    once, twice = (validate_scheduler(Fifo(), world.setup, [workload] * count)["makespan"] for count in (1, 2))
    assert once != twice


def test_validation_workloads_are_the_same_in_every_run_and_all_different():
    world = small_world()
    first, again, fewer = (validation_workloads(world.source, count) for count in (4, 4, 2))
    drawn = [workload.jobs["work"].tolist() for workload in first]
    assert drawn == [workload.jobs["work"].tolist() for workload in again]
    assert drawn[:2] == [workload.jobs["work"].tolist() for workload in fewer]
    assert len({tuple(work) for work in drawn}) == 4


class Repeating:
    """A source with `different` validation episodes, drawn with repetitions."""

    name, num_jobs = "repeating", 12

    def __init__(self, different):
        self.pool = [small_world().source.episode(np.random.default_rng(i), "validation") for i in range(different)]
        self.models = self.pool[0].models

    def episode(self, rng, split="train"):
        return self.pool[int(rng.integers(len(self.pool)))]

    def evaluation(self, split=None):
        return tuple(self.pool)


@pytest.mark.parametrize(("different", "found"), [(1, 1), (3, 3), (20, 8)])
def test_a_split_that_holds_fewer_gives_fewer(different, found):
    """Eight draws from three would have counted some of them twice."""
    workloads = validation_workloads(Repeating(different), 8)
    assert len(workloads) == len({workload.jobs["work"].tobytes() for workload in workloads}) == found


def test_a_baseline_that_needs_to_know_more_is_left_out_and_told():
    world = small_world(scenario=Scenario(information=Information("none")))
    told, tell = listened()
    found = validate_baselines({"fifo": Fifo, "srtf": Srtf}, world.setup, world.source.evaluation("validation"), tell)
    assert set(found) == {"fifo"}
    assert told[0] == ("fifo", "")
    assert told[1][0] == "srtf"
    assert "needs remaining work" in told[1][1]


def test_a_job_that_never_fits_is_the_users_mistake_and_not_the_baselines():
    world = small_world()
    narrow = replace(world.setup, cluster=ClusterSpec((NodeSpec("V100", 2),), "narrow"))
    wide = Workload.of([JobSpec(0, 0.0, 4, 10.0, world.source.models[0])])
    with pytest.raises(ClusterError, match="needs 4 GPUs, cluster narrow has 2"):
        validate_baselines({"fifo": Fifo}, narrow, [wide], listened()[1])


class Greedy:
    """Puts every job on a node that does not exist."""

    def reset(self, cluster, rng):
        pass

    def schedule(self, view):
        allocation = view.allocation()
        allocation.place(int(view.queued[0]), {99: 1})
        return allocation


def test_a_baseline_that_is_wrong_is_not_left_out_in_silence():
    world = small_world()
    with pytest.raises(AllocationError, match="node 99 does not exist"):
        validate_baselines({"greedy": Greedy}, world.setup, world.source.evaluation("validation"), listened()[1])


def test_the_best_starves_fewest_jobs_and_among_those_has_the_lowest_mean_jct():
    figures = {name: {"num_starved": 0.0, "mean_jct": mean} for name, mean in (("a", 3.0), ("b", 2.0), ("c", 2.5))}
    assert best_of(figures, Goal()) == "b"
    figures["b"]["num_starved"] = 0.125  # one job of one workload of eight
    assert best_of(figures, Goal()) == "c"
    with pytest.raises(MurmurationError, match="choose baselines that need less information"):
        best_of({}, Goal())


def test_over_many_worlds_a_baseline_counts_by_its_ratio_to_the_best_of_each():
    """FIFO plays in both, SRTF only where run times are known: one ratio in the one world, its own best elsewhere."""
    known, hidden = small_world(), small_world(scenario=Scenario(information=Information("none")))
    workloads = validation_workloads(known.source, 8)
    worlds = {"known": (known.setup, workloads), "hidden": (hidden.setup, workloads)}
    told, tell = listened()
    found = with_ratios(validate_in_worlds({"fifo": Fifo, "srtf": Srtf}, worlds, Goal(), tell))
    fifo, srtf = (validate_scheduler(each(), known.setup, workloads)["mean_jct"] for each in (Fifo, Srtf))
    assert costs_of(found["srtf"]) == {"known": srtf}
    assert costs_of(found["fifo"]) == {"known": fifo, "hidden": fifo}
    assert found["srtf"]["ratio"] == pytest.approx(srtf / min(fifo, srtf))
    assert found["fifo"]["ratio"] == pytest.approx(math.sqrt(fifo / min(fifo, srtf)))
    assert best_of(found, Goal(relative=True)) == "srtf"
    assert ratio_to_best({"known": 2.0 * srtf, "hidden": fifo / 2.0}, found) == pytest.approx(1.0)
    assert told[0] == ("fifo", "")
    assert told[1][1].startswith("in 1 of 2 worlds: ")
    with pytest.raises(MurmurationError, match="other: no baseline can run there"):
        ratio_to_best({"other": 1.0}, found)
