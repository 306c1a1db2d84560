"""`Configuration`: what the throughput of a model depends on, as one value."""

import pickle
from dataclasses import FrozenInstanceError, replace

import pytest

from envs.types import Configuration, ExecutionPlan


def test_all_but_the_gpus_may_stay_open():
    left = Configuration("V100", 4)
    assert left.num_nodes == 1
    assert (left.batch_size, left.plan, left.cpus_per_gpu, left.memory_per_gpu) == (None, None, None, None)


def test_equal_values_are_one_key():
    plan = ExecutionPlan(data=2, tensor=2)
    known = {("bert", Configuration("V100", 4, 2, batch_size=32, plan=plan, cpus_per_gpu=3.0)): 1.0}
    again = Configuration("V100", 4, 2, batch_size=32, plan=ExecutionPlan(data=2, tensor=2), cpus_per_gpu=3.0)
    assert known["bert", again] == 1.0
    changes = (
        {"gpu_type": "A100"}, {"num_gpus": 8}, {"num_nodes": 1}, {"batch_size": None},
        {"plan": None}, {"cpus_per_gpu": None}, {"memory_per_gpu": 8.0},
    )  # fmt: skip
    for change in changes:
        assert ("bert", replace(again, **change)) not in known


def test_it_cannot_be_changed():
    configuration = Configuration("V100", 4)
    with pytest.raises(FrozenInstanceError):
        configuration.num_gpus = 8  # type: ignore[misc]
    assert not hasattr(configuration, "__dict__")
    assert pickle.loads(pickle.dumps(configuration)) == configuration


def test_what_may_stay_open_is_named():
    with pytest.raises(TypeError):
        Configuration("V100", 4, 1, 32)  # type: ignore[call-arg]
