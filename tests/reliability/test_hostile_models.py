"""Performance models that return anything: one line that names model, configuration and value, or a possible run."""

import math
from dataclasses import dataclass
from fractions import Fraction
from typing import Any

import numpy as np
import pytest

from baselines import Fifo
from envs.evaluation import compare_schedulers
from envs.metrics.bounds import Relaxation
from envs.performance import find_throughput
from envs.simulation import Scenario, Setup
from envs.types import Configuration, PerformanceError
from tests.unit.simulation.plays import cluster_of, jobs_of

ODD: tuple[Any, ...] = (
    math.inf,
    -math.inf,
    math.nan,
    -1.0,
    1e300,
    "fast",
    "",
    None,
    True,
    False,
    [1.0],
    {},
    1 + 0j,
    np.array([1.0, 2.0]),
)
POSSIBLE = (0, 2, 2.5, np.float32(2.5), np.int64(3), Fraction(5, 2))


@dataclass
class Stating:
    """States one value on so many GPUs, and one sample per second for each GPU otherwise."""

    value: Any
    on: int

    models = ("vgg16",)

    def throughput(self, model: str, configuration: Configuration) -> float:
        """Return the value or the number of GPUs."""
        return self.value if configuration.num_gpus == self.on else float(configuration.num_gpus)


@pytest.mark.parametrize("value", ODD, ids=repr)
def test_an_impossible_throughput_is_one_line(value):
    on = Configuration("V100", 2)
    with pytest.raises(PerformanceError, match=r"^Stating.throughput\('vgg16', Configuration\(") as error:
        find_throughput(Stating(value, 2), "vgg16", on)
    text = " ".join(repr(value).split())
    assert f"is {text}; it must be a number of samples/s from 0, where the job does not fit, to 1e+15" in str(
        error.value
    )
    assert "\n" not in str(error.value)


@pytest.mark.parametrize("value", POSSIBLE, ids=repr)
def test_any_number_is_a_throughput(value):
    found = find_throughput(Stating(value, 2), "vgg16", Configuration("V100", 2))
    assert (type(found), found) == (float, float(value))


@pytest.mark.parametrize("shared", [False, True])
@pytest.mark.parametrize("value", [math.inf, "fast", True], ids=repr)
def test_whatever_asks_first_says_so(value, shared):
    """The simulator, the lower bound, and what a comparison prints."""
    setup = Setup(cluster_of(4, 4), Stating(value, 2), Scenario(cpu_memory="shared" if shared else "unlimited"))
    workload = jobs_of((0, 4, 40), (3, 2, 40), model="vgg16")
    for ask in (
        lambda: compare_schedulers({"fifo": Fifo()}, [workload], setup),
        lambda: Relaxation.of(workload, setup),
        lambda: workload.offered_load(setup.cluster, setup.performance),
    ):
        with pytest.raises(
            PerformanceError, match=r"^Stating.throughput\('vgg16', Configuration\(.*it must be a number"
        ):
            ask()
