"""Synergy's sensitivity: every grid point, monotone between them, and the demands that follow."""

import pandas as pd
import pytest
from hypothesis import given
from hypothesis import strategies as st

from envs.performance.cpu_memory import (
    INSENSITIVE,
    PROPORTIONAL_CPUS,
    PROPORTIONAL_MEMORY,
    proportional,
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
    """All profile sets, models and GPU counts of jobs: the one-GPU matrices and those for 2, 4 and 12 GPUs."""
    assert len(matrices) > 2000
    for row in matrices.to_dict("records"):
        found = sensitivity_of(zoo_name(row["model"]), row["num_gpus"]).relative(
            row["cpus_per_gpu"], row["mem_gb_per_gpu"]
        )
        assert found == pytest.approx(row["norm_tput"]), row


def test_demands_are_synergys(real_data):
    """The demand vectors of Synergy's one-GPU files: fewest cores and least memory that saturate the model.

    Language models' 20 GB stands beside a grid whose first column is 20.83.
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
def test_factors_are_shares_of_the_saturated_speed(name, gpus, c, m):
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


def test_between_grid_points_speed_is_bilinear():
    """ResNet-18 at 62.5 GB: 1.75 at 6 cores, 2.4 at 9, so 2.075 halfway; below one core in proportion."""
    table = sensitivity_of("resnet18")
    assert table.relative(7.5, 62.5) == pytest.approx((1.75 + 2.4) / 2)
    assert table.relative(0.5, 62.5) == pytest.approx(0.37 / 2)
    assert table.relative(9, (20.83 + 62.5) / 2) == pytest.approx((0.1 + 2.4) / 2)


def test_beyond_the_grid_nothing_is_gained_and_nothing_runs_on_nothing():
    table = sensitivity_of("alexnet")
    assert table.relative(1000, 1000) == table.relative(24, 250) == pytest.approx(2.94)
    assert table.relative(0, 250) == table.relative(24, 0) == 0


@given(models)
def test_the_proportional_share_reads_one(name):
    assert sensitivity_of(name).relative(PROPORTIONAL_CPUS, PROPORTIONAL_MEMORY) == pytest.approx(1)


@given(models, cpus, memory)
def test_more_gpus_on_a_server_never_lose_a_larger_share(name, c, m):
    """A server's cores are split among a job's GPUs, so its top speed per GPU is lower and saturates earlier."""
    shares = [sensitivity_of(name, gpus).factor(c, m) for gpus in (1, 2, 4)]
    assert shares == sorted(shares)


def test_what_is_measured_and_what_stands_in():
    assert all(sensitivity_of(name).measured for name in (*SENSITIVE, *INSENSITIVE))
    assert stand_in("vgg16") == "resnet50"
    assert not sensitivity_of("vgg16").measured
    assert stand_in("llama7b") == ""
    assert not sensitivity_of("llama7b").measured
    assert {zoo_name(name) for name in SENSITIVE} == set(SENSITIVE)


def test_a_nodes_proportional_share():
    """Synergy's servers: 24 cores and 500 GB for 8 GPUs."""
    assert proportional(24, 500, 8) == (PROPORTIONAL_CPUS, PROPORTIONAL_MEMORY)
    with pytest.raises(PerformanceError, match="a node of 0 GPUs"):
        proportional(24, 500, 0)


@pytest.mark.parametrize(("c", "m"), [(-1, 10), (1, -10), (float("nan"), 10), (1, float("nan"))])
def test_amounts_that_are_none_are_refused(c, m):
    with pytest.raises(PerformanceError, match="model resnet50: .* both must be numbers of at least 0"):
        sensitivity_of("resnet50").relative(c, m)
