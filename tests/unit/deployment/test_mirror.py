"""Beliefs about hidden throughputs in a mirror: they follow from the reports of jobs."""

import numpy as np
import pytest

from baselines import Starling
from deployment.bridge import LocalScheduler
from deployment.mirror import Mirror
from deployment.state import ClusterState, JobState
from envs.performance import default_model
from envs.simulation import Information, Scenario, Setup
from envs.types import ClusterSpec, Configuration, JobSpec, NodeSpec, Placement

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
