"""Every scheduler on a real cluster, where jobs, models and tenants come that nobody has announced."""

import numpy as np

from deployment.deciding import LocalScheduler
from deployment.mirror import Mirror
from deployment.state import ClusterState, JobState
from envs.performance import default_model
from envs.simulation import Scenario, Setup
from envs.types import ClusterSpec, JobSpec, NodeSpec
from tests.conformance.test_schedulers import SCHEDULERS, every_scheduler

CLUSTER = ClusterSpec(tuple(NodeSpec("V100", 4, 24, 200) for _ in range(3)), "three nodes")
JOBS = [
    JobSpec(0, 0.0, 1, 1e5, "resnet50"),
    JobSpec(1, 10.0, 4, 1e5, "resnet18", max_gpus=8, tenant="b"),
    JobSpec(2, 20.0, 8, 1e5, "transformer", max_gpus=20, tenant="c", user="d"),
]


@every_scheduler
def test_larger_jobs_and_new_models_may_come(name):
    mirror = Mirror(Setup(CLUSTER, default_model(), Scenario()))
    asked = LocalScheduler(SCHEDULERS[name], mirror, np.random.default_rng(0))
    for k, spec in enumerate(JOBS):
        states = tuple(JobState(job, remaining_work=1e5) for job in range(k + 1))
        decision = asked.decide(ClusterState(spec.submit_time, (spec,), jobs=states))
        held = [placement for placement in decision.placements.values() if placement]
        assert sum(placement.num_gpus for placement in held) <= CLUSTER.num_gpus
        assert held
