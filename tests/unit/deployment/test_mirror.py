"""Beliefs about hidden throughputs and predictions of hidden work in a mirror: they follow from the reports of jobs."""

from dataclasses import replace

import numpy as np
import pytest

from baselines import Srtf, Starling
from baselines.parts.group_history import GroupHistory
from deployment.deciding import LocalScheduler
from deployment.mirror import Mirror, Watched
from deployment.state import ClusterState, JobState
from envs.performance import default_model
from envs.simulation import Information, PooledHistory, Scenario, Setup, Simulator, train_predictor
from envs.types import ClusterSpec, Configuration, JobSpec, NodeSpec, Placement
from envs.workloads import Habits, SyntheticSource

CLUSTER = ClusterSpec(tuple(NodeSpec(name, 4, 24, 500) for name in ("V100", "V100", "P100")), "three nodes")
HIDDEN = Scenario(batch_sizes="usual", information=Information("none", throughput="observed"))
TWO, FOUR = (Configuration("V100", count, 1) for count in (2, 4))
JOB = JobSpec(0, 0.0, 2, 1e6, "resnet50", max_gpus=4)


def mirror():
    return Mirror(Setup(CLUSTER, default_model(), HIDDEN), ["resnet50"], most_gpus=4)


def alone(configuration):
    return default_model().throughput("resnet50", configuration)


def test_before_a_job_has_run_its_throughput_is_the_models_with_a_spread():
    view = mirror().observe(ClusterState(0.0, (JOB,), jobs=(JobState(0),)))
    belief = view.belief(0, TWO)
    assert belief.num_samples == 0
    assert belief.spread > 0.05
    assert belief.mean == pytest.approx(alone(TWO), rel=0.5)


def test_what_a_job_reports_is_believed_of_its_placement_and_changes_what_is_believed_of_others():
    """It runs three times as fast as the performance model says; a job of the same model profits from that too."""
    found, other = mirror(), JobSpec(1, 20.0, 4, 1e6, "resnet50")
    state = ClusterState(0.0, (JOB,), jobs=(JobState(0),))
    first = found.observe(state)
    before = {each: first.belief(0, each) for each in (TWO, FOUR)}
    runs = JobState(0, Placement({0: 2}), 20.0, throughput=3.0 * alone(TWO))
    view = found.observe(ClusterState(20.0, (other,), jobs=(runs, JobState(1))))
    belief = view.belief(0, TWO)
    assert belief.num_samples == 1
    assert 1.2 * before[TWO].mean < belief.mean <= 3.0 * alone(TWO)
    assert belief.spread < before[TWO].spread
    assert view.throughput(1, TWO) == belief.mean
    assert view.belief(1, FOUR).mean > 1.2 * before[FOUR].mean
    later = found.observe(ClusterState(40.0, completed={0: 60.0}, jobs=(JobState(1),)))
    assert later.belief(1, TWO).num_samples == 1  # remembered though the job is gone


def test_gpus_of_several_types_show_nothing():
    found = mirror()
    runs = JobState(0, Placement({0: 1, 2: 1}), 20.0, throughput=100.0)
    view = found.observe(ClusterState(20.0, (JOB,), jobs=(runs,)))
    assert view.belief(0, TWO).num_samples == 0


def test_a_scheduler_decides_on_beliefs_about_a_real_cluster():
    asked = LocalScheduler(Starling(), mirror(), np.random.default_rng(0))
    placement = asked.decide(ClusterState(0.0, (JOB,), jobs=(JobState(0),))).placements[0]
    assert placement is not None
    assert placement.num_gpus >= 1


def predicted(predictor, throughput="exact"):
    """A setup whose work is predicted, and an episode of jobs of two users."""
    rules = Scenario(batch_sizes="usual", information=Information("predicted", throughput=throughput))
    setup = Setup(CLUSTER, default_model(), rules, predictor=predictor)
    source = SyntheticSource(CLUSTER, setup.performance, num_jobs=30, load=1.5, max_gpus=4, habits=Habits(users=2))
    train_predictor(setup, source)
    return setup, source.episode(np.random.default_rng(1), "validation")


@pytest.mark.parametrize("predictor", [GroupHistory(), PooledHistory()])
def test_a_mirror_predicts_from_reports_what_the_engine_predicts(predictor):
    """It is told the samples that jobs have processed, and of no job how many there will be."""
    setup, workload = predicted(predictor)
    simulator, watched = Simulator(workload, setup, 0), Watched()
    mirror, scheduler = Mirror(setup, workload.models, workload.tenants, 4), Srtf()
    scheduler.reset(setup.cluster, simulator.rng)
    rounds = 0
    while simulator.advance():
        view = simulator.view
        state, _ = watched.read(view)
        left = view.remaining_work(np.array([each.job for each in state.jobs])) / [
            float(simulator.state.jobs[0]["estimate"][each.job]) for each in state.jobs
        ]
        work = workload.jobs["work"]
        jobs = tuple(
            replace(each, remaining_work=np.nan, likely_work=(), work_done=float(work[each.job] - truly))
            for each, truly in zip(state.jobs, left, strict=True)
        )
        hidden = tuple(replace(spec, work=np.nan) for spec in state.submitted)
        worked = {job: float(work[job]) for job in state.completed}
        seen = mirror.observe(replace(state, submitted=hidden, jobs=jobs, completed_work=worked))
        asked = np.array([each.job for each in jobs])
        assert seen.remaining_work(asked) == pytest.approx(view.remaining_work(asked), rel=1e-6)
        wide, narrow = view.likely_work(asked), seen.likely_work(asked)
        for row, found in zip(wide, narrow, strict=True):
            assert found[~np.isnan(found)] == pytest.approx(row[~np.isnan(row)], rel=1e-6, abs=1e-3)
        simulator.apply(scheduler.schedule(view))
        rounds += 1
    assert rounds > 30


def test_where_throughputs_are_hidden_too_predicted_seconds_are_those_of_what_is_believed():
    """The job runs three times as fast as the performance model says; what it has left takes no longer for that."""
    setup, _ = predicted(PooledHistory(), "observed")
    mirror = Mirror(setup, ["resnet50"], most_gpus=4)
    job = JobSpec(0, 0.0, 2, np.nan, "resnet50")
    first = mirror.observe(ClusterState(0.0, (job,), jobs=(JobState(0),)))
    before = first.likely_work(np.array([0]))[0] / first.throughput(0, TWO)
    runs = JobState(0, Placement({0: 2}), 2.0, throughput=3.0 * alone(TWO), work_done=3.0 * alone(TWO))
    view = mirror.observe(ClusterState(1.0, jobs=(runs,)))
    assert view.throughput(0, TWO) > 1.2 * alone(TWO)
    after = view.likely_work(np.array([0]))[0] / view.throughput(0, TWO)
    ran = 3.0 * alone(TWO) / view.throughput(0, TWO)
    np.testing.assert_allclose(after, before - ran, rtol=1e-9)


def test_where_no_samples_are_reported_the_service_of_jobs_stands_for_them():
    """Two GPUs for 100 s are all that a job of two GPUs needed; a longer one of the same user must outlive that."""
    setup, _ = predicted(PooledHistory())
    mirror = Mirror(setup, ["resnet50"], most_gpus=4)
    first, second = JobSpec(0, 0.0, 2, np.nan, "resnet50"), JobSpec(1, 0.0, 2, np.nan, "resnet50")
    runs = JobState(1, Placement({0: 2}), 200.0)
    mirror.observe(ClusterState(0.0, (first, second), jobs=(JobState(0), JobState(1))))
    view = mirror.observe(ClusterState(100.0, completed={0: 200.0}, jobs=(runs,)))
    throughput = view.throughput(1, TWO)
    likely = view.likely_work(np.array([1]))
    reported = replace(runs, work_done=100.0 * throughput)
    again = mirror.observe(ClusterState(100.0, jobs=(reported,))).likely_work(np.array([1]))
    assert likely == pytest.approx(again, rel=1e-6)
    assert np.nanmin(likely) > 0
