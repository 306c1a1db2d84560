"""Synthetic users: run times depend on users and names, and are distributed as without them."""

import numpy as np
import pytest
from scipy.stats import ks_2samp

from envs.performance import IdealModel
from envs.types import TraceError
from envs.workloads import Habits, SyntheticSource
from tests.unit.simulation.plays import cluster_of


def source(habits, num_jobs=400):
    """Jobs of one GPU, so that all run times have one distribution."""
    return SyntheticSource(
        cluster_of(4), IdealModel(("one", "two")), num_jobs=num_jobs, max_gpus=1, habits=habits, name="users"
    )


def drawn(habits, count=60, num_jobs=400):
    """Logarithms of run times, users and names of some training workloads, joined."""
    rng = np.random.default_rng(3)
    workloads = [source(habits, num_jobs).episode(rng) for _ in range(count)]
    return (
        np.log(np.concatenate([workload.jobs["duration"] for workload in workloads])),
        np.concatenate([workload.users for workload in workloads]),
        np.concatenate([workload.names for workload in workloads]),
    )


def test_a_name_and_its_user_leave_the_stated_spread():
    logarithms, users, names = drawn(Habits(users=5, names=3, fresh=0.0, residual=0.5, of_user=0.5))
    groups = [logarithms[(users == user) & (names == name)] for user in set(users) for name in set(names)]
    assert len(groups) == 15
    assert np.sqrt(np.mean([group.var() for group in groups])) == pytest.approx(0.5, abs=0.1)
    assert np.std([group.mean() for group in groups]) > 0.5


def test_run_times_are_distributed_as_without_habits():
    """Over many users; the statistic of 3,000 independent draws would be below 0.05."""
    logarithms, _, _ = drawn(Habits(users=2000, sweep=1.0), count=8)
    rng = np.random.default_rng(5)
    plain = np.concatenate([np.log(source(None).episode(rng).jobs["duration"]) for _ in range(8)])
    assert ks_2samp(logarithms, plain).statistic < 0.06


def test_a_sweep_has_one_user_name_model_and_size():
    workload = SyntheticSource(
        cluster_of(4, 4), IdealModel(("one", "two")), num_jobs=200, max_gpus=4, habits=Habits(fresh=1.0, sweep=5.0)
    ).episode(np.random.default_rng(0))
    sweeps = set(zip(workload.users, workload.names, workload.jobs["model"], workload.jobs["num_gpus"], strict=True))
    assert len(sweeps) == len(set(workload.names))
    assert 200 / len(sweeps) == pytest.approx(5.0, rel=0.4)
    assert workload.spec(0).user == workload.users[0]
    assert workload.slice(50, 60).users == workload.users[50:60]


def test_workloads_of_one_source_have_the_same_users():
    """The mean run time of a user in one half of the workloads tells that in the other half."""
    logarithms, users, _ = drawn(Habits(users=6, residual=0.5, of_user=1.0), count=40)
    half = len(users) // 2
    means = [
        [logarithms[part][users[part] == user].mean() for user in sorted(set(users))]
        for part in (slice(half), slice(half, None))
    ]
    assert np.corrcoef(means)[0, 1] > 0.9


@pytest.mark.parametrize(
    ("name", "value"),
    [("users", 0), ("names", 0), ("fresh", 1.5), ("sweep", 0.5), ("residual", -1.0), ("of_user", 2.0)],
)
def test_wrong_habits_are_refused(name, value):
    with pytest.raises(TraceError, match=f"workload.habits.{name} is {value}"):
        Habits(**{name: value})
