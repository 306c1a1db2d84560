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
from envs.performance import IdealModel, find_pair_factor, find_throughput
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
ODD_FACTORS: tuple[Any, ...] = (*ODD, 2.0, -0.1, np.nextafter(1.0, 2.0), "0.5", "a\nb\x1b[2J", [0.5], np.array([0.5]))
POSSIBLE_FACTORS = (0, 1, 0.5, np.float32(0.5), np.int64(1), Fraction(1, 2))
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


@dataclass(frozen=True)
class Sharing(IdealModel):
    """States one value for every pair of jobs on a GPU."""

    value: Any = None

    def pair_factor(self, model: str, other: str, gpu_type: str) -> Any:
        """Return the value."""
        return self.value


@pytest.mark.parametrize("value", ODD_FACTORS, ids=repr)
def test_an_impossible_pair_factor_is_one_line(value):
    with pytest.raises(
        PerformanceError, match=r"^Sharing.pair_factor\('bert', 'lm', 'V100'\) is .*; it must be a"
    ) as error:
        find_pair_factor(Sharing(value=value), "bert", "lm", "V100")
    assert " ".join(repr(value).split())[:80] in str(error.value)
    assert str(error.value).isprintable()
    assert "from 0, where the two do not fit together, to 1" in str(error.value)


@pytest.mark.parametrize("value", POSSIBLE_FACTORS, ids=repr)
def test_any_number_up_to_one_is_a_pair_factor(value):
    found = find_pair_factor(Sharing(value=value), "bert", "lm", "V100")
    assert (type(found), found) == (float, float(value))


def test_a_model_without_pair_factors_is_one_line():
    with pytest.raises(PerformanceError, match=r"^IdealModel does not say how two jobs share a GPU: .*pair_factor"):
        find_pair_factor(IdealModel(), "any", "any", "V100")
