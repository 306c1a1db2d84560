"""Synergy's sensitivity: every grid point is reproduced, interpolation is monotone, and demands are Synergy's."""

import pandas as pd
import pytest
from hypothesis import given
from hypothesis import strategies as st

from envs.performance.cpu_memory import (
    INSENSITIVE,
    PROPORTIONAL_CPUS,
    PROPORTIONAL_MEMORY,
    sensitivity_of,
    stand_in,
)
from envs.performance.zoo import zoo, zoo_name
from envs.types import PerformanceError

SENSITIVE = ("alexnet", "shufflenet", "resnet18", "mobilenet", "resnet50", "m5", "deepspeech2")
models = st.sampled_from(sorted(zoo()))
counts = st.sampled_from([1, 2, 3, 4, 8])
cpus = st.floats(0, 40)
memory = st.floats(0, 400)


@pytest.fixture
def matrices(real_data):
    table = pd.read_csv(real_data("profiles/synergy/synergy_tput_matrix.csv.gz"))
    return table[table["norm_tput"] > 0]  # 0 stands for "not available"


def test_every_available_grid_point_is_reproduced(matrices):
    """Covers all profile sets, models and GPU counts: the one-GPU matrices and those for 2, 4 and 12 GPUs."""
    assert len(matrices) > 2000
    for row in matrices.to_dict("records"):
        found = sensitivity_of(zoo_name(row["model"]), row["num_gpus"]).relative(
            row["cpus_per_gpu"], row["mem_gb_per_gpu"]
        )
        assert found == pytest.approx(row["norm_tput"]), row


def test_demands_are_synergys(real_data):
    """Synergy's one-GPU files state the fewest cores and the least memory that saturate a model.

    For language models they state 20 GB, but the grid's first column is 20.83.
    """
    table = pd.read_csv(real_data("profiles/synergy/synergy_model_info.csv"))
    base = table[(table["profile_set"] == "models") & (table["num_gpus"] == 1)]
    assert len(base) == 12
    for row in base.to_dict("records"):
        cores, gigabytes = sensitivity_of(zoo_name(row["model"])).saturating
        assert cores == row["cpus"], row["model"]
        assert gigabytes == pytest.approx(20.83 if row["mem"] == 20 else row["mem"]), row["model"]


@given(models, counts, cpus, cpus, memory, memory)
def test_interpolation_is_monotone(name, gpus, c, more_c, m, more_m):
    table = sensitivity_of(name, gpus)
    assert table.relative(c, m) <= table.relative(c + more_c, m) + 1e-12
    assert table.relative(c, m) <= table.relative(c, m + more_m) + 1e-12


@given(models, counts, cpus, memory)
def test_factors_are_shares_of_the_saturated_throughput(name, gpus, c, m):
    table = sensitivity_of(name, gpus)
    assert 0 <= table.factor(c, m) <= 1
    assert table.factor() == 1
    assert table.factor(*table.saturating) == pytest.approx(1)


@given(models, counts)
def test_saturation_is_the_least_that_saturates(name, gpus):
    table = sensitivity_of(name, gpus)
    cores, gigabytes = table.saturating
    assert table.factor(cores * 0.99, gigabytes) < 1
    assert table.factor(cores, gigabytes * 0.99) < 1


def test_throughput_is_bilinear_between_grid_points():
    """ResNet-18 at 62.5 GB: 1.75 at 6 cores, 2.4 at 9, so 2.075 halfway; below one core in proportion."""
    table = sensitivity_of("resnet18")
    assert table.relative(7.5, 62.5) == pytest.approx((1.75 + 2.4) / 2)
    assert table.relative(0.5, 62.5) == pytest.approx(0.37 / 2)
    assert table.relative(9, (20.83 + 62.5) / 2) == pytest.approx((0.1 + 2.4) / 2)


def test_throughput_is_constant_beyond_the_grid_and_zero_at_zero():
    table = sensitivity_of("alexnet")
    assert table.relative(1000, 1000) == table.relative(24, 250) == pytest.approx(2.94)
    assert table.relative(0, 250) == table.relative(24, 0) == 0


@given(models)
def test_the_proportional_share_has_relative_throughput_one(name):
    assert sensitivity_of(name).relative(PROPORTIONAL_CPUS, PROPORTIONAL_MEMORY) == pytest.approx(1)


@given(models, cpus, memory)
def test_more_gpus_on_a_node_never_lose_a_larger_share(name, c, m):
    """The job's GPUs share the node's cores, so its highest throughput per GPU is lower and saturates earlier."""
    shares = [sensitivity_of(name, gpus).factor(c, m) for gpus in (1, 2, 4)]
    assert shares == sorted(shares)


def test_measured_models_and_stand_ins():
    assert all(sensitivity_of(name).measured for name in (*SENSITIVE, *INSENSITIVE))
    assert stand_in("vgg16") == "resnet50"
    assert not sensitivity_of("vgg16").measured
    assert stand_in("llama7b") == ""
    assert not sensitivity_of("llama7b").measured
    assert {zoo_name(name) for name in SENSITIVE} == set(SENSITIVE)


@pytest.mark.parametrize(("c", "m"), [(-1, 10), (1, -10), (float("nan"), 10), (1, float("nan"))])
def test_invalid_amounts_are_refused(c, m):
    with pytest.raises(PerformanceError, match="model resnet50: .* both must be numbers of at least 0"):
        sensitivity_of("resnet50").relative(c, m)
