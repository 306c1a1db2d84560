"""Jobs beside others on the same GPUs, around any scheduler."""

from dataclasses import dataclass, replace

import numpy as np
import pytest

from baselines import Fifo, Packing, Sia, Srtf, Starling, Tiresias
from baselines.parts.linear_gaussian import LinearGaussian
from envs.evaluation.audit import Audit
from envs.performance import IdealModel
from envs.simulation import EventKind, Information, RunResult, Scenario, Setup, Simulator, run_episode
from envs.types import ClusterSpec, JobSpec, MurmurationError, NodeSpec
from envs.workloads import Workload
from tests.conformance.random_worlds import random_world
from tests.unit.simulation.test_sharing import Together

INNER = {"fifo": Fifo, "srtf": Srtf, "tiresias": Tiresias, "starling": Starling, "sia": Sia}


def played(scheduler, *jobs: tuple[str, float, int], gpus: int = 1, **rules) -> RunResult:
    """Jobs (model, work, GPUs), all submitted at once, on one node."""
    specs = [
        JobSpec(id=i, submit_time=0.0, num_gpus=count, work=work, model=model)
        for i, (model, work, count) in enumerate(jobs)
    ]
    scenario = Scenario(**{"sharing": "pairs", "restart_delay": 0.0, **rules})
    setup = Setup(ClusterSpec((NodeSpec("V100", gpus),), "one"), Together(), scenario)
    result = run_episode(scheduler, Simulator(Workload.of(specs, "few"), setup))
    Audit(setup).check(result)
    return result


def test_a_pair_that_gains_is_made():
    """Two light jobs keep 0.75 each: 1.5 samples/s together, where one after the other does 1."""
    result = played(Packing(Fifo()), ("light", 90.0, 1), ("light", 90.0, 1))
    assert result.records["finish_time"].tolist() == [120.0, 120.0]
    alone = played(Fifo(), ("light", 90.0, 1), ("light", 90.0, 1))
    assert alone.records["finish_time"].tolist() == [90.0, 180.0]


@pytest.mark.parametrize("options", [{"least_gain": 0.6, "urgency": 0.0}, {"least_kept": 0.8}], ids=["gain", "kept"])
def test_a_pair_that_gains_too_little_is_not(options):
    result = played(Packing(Fifo(), **options), ("light", 90.0, 1), ("light", 90.0, 1))
    assert result.records["finish_time"].tolist() == [90.0, 180.0]


def test_jobs_that_do_not_fit_together_and_of_other_sizes_wait():
    result = played(Packing(Fifo()), ("huge", 90.0, 2), ("huge", 90.0, 2), ("light", 90.0, 1), gpus=2)
    assert (result.log.events["beside"] < 0).all()


def test_urgency_lets_a_short_job_cost_a_long_one_more():
    """Beside a long heavy job that keeps half, a short heavy one gains 0.5 - 0.5 in throughput: nothing."""
    jobs = (("heavy", 1000.0, 1), ("heavy", 10.0, 1))
    assert played(Packing(Fifo(), urgency=0.0), *jobs).records["finish_time"][1] > 1000
    assert played(Packing(Fifo(), urgency=1.0), *jobs).records["finish_time"][1] == 20.0


def test_where_work_is_hidden_the_least_attained_service_comes_first():
    result = played(Packing(Fifo()), ("light", 90.0, 1), ("light", 90.0, 1), information=Information("none"))
    assert result.records["finish_time"].tolist() == [120.0, 120.0]


def test_the_inner_scheduler_gives_a_guest_gpus_of_its_own_when_they_are_free():
    """Job 2 is beside the long job 0 until job 1 ends at 12; then FIFO starts it on the GPU of job 1."""
    result = played(Packing(Fifo()), ("light", 100.0, 1), ("heavy", 12.0, 1), ("light", 50.0, 1), gpus=2)
    own = (result.log.events["job"] == 2) & (result.log.events["beside"] < 0) & (result.log.events["num_shares"] > 0)
    assert own.any() or (result.log.events["beside"] == 1).any()
    assert result.finished.all()


@dataclass(frozen=True)
class Deceptive(IdealModel):
    """Pairs keep 0.9 each, except for "a" and "b", which keep 0.3 each."""

    models: tuple[str, ...] = ("a", "b", "c", "d", "e", "f")

    def pair_factor(self, model: str, other: str, gpu_type: str) -> float:
        return 0.3 if {model, other} == {"a", "b"} else 0.9


@pytest.mark.parametrize("parted_below", [0.0, 1.0])
def test_a_pair_that_turns_out_to_lose_is_parted_at_the_next_round(parted_below):
    """At 10, when the third job comes, the first two have shown what they keep; the third takes the guest's place."""
    jobs = [JobSpec(i, 10.0 * (i == 2), 1, 100.0, model) for i, model in enumerate("abc")]
    scenario = Scenario(
        restart_delay=0.0,
        sharing="pairs",
        batch_sizes="usual",
        information=Information(throughput="observed", stated_error=0.0, sample_error=0.0),
    )
    setup = Setup(ClusterSpec((NodeSpec("V100", 1),), "one"), Deceptive(), scenario, LinearGaussian())
    result = run_episode(Packing(Fifo(), parted_below=parted_below), Simulator(Workload.of(jobs, "few"), setup))
    shared = result.log.events[(result.log.events["beside"] >= 0) & (result.log.events["time"] <= 10.0)]
    stopped = result.log.events[result.log.events["kind"] == EventKind.STOP]
    if parted_below:
        assert shared[["time", "job", "beside"]].tolist() == [(0.0, 1, 0), (10.0, 2, 0)]
        assert stopped[["time", "job"]].tolist() == [(10.0, 1)]
    else:
        assert shared[["time", "job", "beside"]].tolist() == [(0.0, 1, 0)]
        assert not stopped.size
    assert result.finished.all()


def test_without_sharing_it_is_the_inner_scheduler():
    for seed in range(12):
        world = random_world(seed)
        world = replace(world, setup=replace(world.setup, scenario=replace(world.setup.scenario, failures=None)))
        logs = []
        for scheduler in (Fifo(), Packing(Fifo())):
            simulator = Simulator(world.workload, world.setup, seed)
            scheduler.reset(world.setup.cluster, simulator.rng)
            for view in simulator.rounds():
                simulator.apply(scheduler.schedule(view))
            logs.append(simulator.result("").log)
        assert logs[0] == logs[1]


@pytest.mark.parametrize("name", INNER)
def test_it_plays_random_worlds_with_pairs(name):
    """No allocation is refused, and what comes out can be, with failures, contention and hidden work."""
    pairs = 0
    for seed in range(30):
        world = random_world(seed, plain=seed % 2 == 0, pairs=True)
        scheduler = Packing(INNER[name](), least_gain=-0.5)
        information = Information("exact" if name == "srtf" else world.setup.scenario.information.work)
        setup = replace(world.setup, scenario=replace(world.setup.scenario, information=information))
        result = run_episode(scheduler, Simulator(world.workload, setup, seed))
        Audit(setup).check(result)
        pairs += int((result.log.events["beside"] >= 0).sum())
    assert pairs > 30


def test_settings_out_of_range_are_refused():
    with pytest.raises(MurmurationError, match=r"Packing: least_gain is nan, urgency 0\.5, least_kept 0\.0"):
        Packing(Fifo(), least_gain=float("nan"))
    with pytest.raises(MurmurationError, match=r"Packing: parted_below is 3; it must be from 0 to 2"):
        Packing(Fifo(), parted_below=3)
    assert np.isfinite(Packing(Fifo()).rule.least_gain)
