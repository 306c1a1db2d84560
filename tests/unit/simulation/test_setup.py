"""`Setup`: cluster, performance model and scenario in one value."""

import pickle
from dataclasses import FrozenInstanceError, replace

import pytest

from baselines import Fifo
from envs.performance import IdealModel
from envs.simulation import Scenario, Setup, Simulator, run_episode
from envs.types import MurmurationError
from tests.unit.simulation.plays import cluster_of, jobs_of

SETUP = Setup(cluster_of(4), IdealModel())


def test_the_scenario_is_the_default_one_unless_given():
    assert SETUP.scenario == Scenario()
    assert Setup(SETUP.cluster, IdealModel(), Scenario(restart_delay=2.0)).scenario.restart_delay == 2.0


def test_it_cannot_be_changed():
    with pytest.raises(FrozenInstanceError):
        SETUP.scenario = Scenario(restart_delay=2.0)  # type: ignore[misc]
    assert not hasattr(SETUP, "__dict__")


def test_a_copy_may_differ_in_one_part():
    other = replace(SETUP, cluster=cluster_of(8))
    assert (other.cluster.num_gpus, other.performance) == (8, SETUP.performance)
    assert SETUP.cluster.num_gpus == 4


def test_it_can_be_pickled():
    assert pickle.loads(pickle.dumps(SETUP)) == SETUP


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (("homogeneous", IdealModel()), "setup.cluster is of type str; it must be a ClusterSpec"),
        ((cluster_of(4), Scenario()), "setup.performance is of type Scenario; it must be a performance model"),
        ((cluster_of(4), IdealModel), "setup.performance is the class IdealModel; it must be a performance model"),
        ((cluster_of(4), IdealModel(), None), "setup.scenario is of type NoneType; it must be a Scenario"),
        ((cluster_of(4), IdealModel(), Scenario), "setup.scenario is the class Scenario; it must be a Scenario"),
    ],
)
def test_a_wrong_type_is_refused_with_its_name(arguments, message):
    with pytest.raises(MurmurationError, match=message) as error:
        Setup(*arguments)
    assert "\n" not in str(error.value)


def test_one_setup_serves_many_runs():
    finish = [
        run_episode(Fifo(), Simulator(jobs_of((0, 4, 10)), SETUP, seed)).records["finish_time"].tolist()
        for seed in (0, 1)
    ]
    assert finish == [[2.5], [2.5]]
