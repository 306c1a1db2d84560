"""Batch sizes stay within their range; statistical efficiency falls with them."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from envs.performance import StatisticalEfficiency
from envs.performance.batch_size import batch_sizes
from envs.performance.zoo import model_profile, zoo
from envs.types import PerformanceError

models = st.sampled_from(sorted(zoo()))


@given(models, st.integers(1, 64))
def test_sizes_stay_in_the_range_and_give_every_gpu_a_sample(name, gpus):
    profile = model_profile(name)
    sizes = batch_sizes(name, gpus)
    assert list(sizes) == sorted(set(sizes))
    assert all(max(profile.min_batch, gpus) <= size <= profile.max_batch for size in sizes)
    assert (not sizes) == (gpus > profile.max_batch)


def test_sizes_by_hand():
    assert batch_sizes("bert", 3) == (32, 48, 96, 192, 384, 512)
    assert batch_sizes("bert", 1, 100, 200) == (100, 128, 200)
    assert batch_sizes("yolov3", 600) == ()


@given(st.floats(0, 1e6), st.integers(1, 10_000), st.floats(1, 1e6), st.floats(1, 1e3))
def test_efficiency_falls_with_batch_and_is_one_at_the_reference(noise, reference, batch, more):
    efficiency = StatisticalEfficiency(noise, reference)
    assert efficiency.at(reference) == pytest.approx(1)
    assert efficiency.at(batch + more) < efficiency.at(batch)
    assert efficiency.at(batch) * batch <= efficiency.at(batch + more) * (batch + more) * (1 + 1e-12)


def test_efficiency_by_hand():
    """phi = 300, M0 = 100: at M = 500, (300 + 100) / (300 + 500) = 1/2."""
    assert StatisticalEfficiency(300, 100).at(500) == 0.5


def test_ranges_beyond_the_models_are_refused():
    with pytest.raises(PerformanceError, match="batch_size 31 is out of range; use 32 to 512"):
        batch_sizes("bert", 1, 31)
    with pytest.raises(PerformanceError, match="batch_size 513 is out of range"):
        batch_sizes("bert", 1, 0, 513)
    with pytest.raises(PerformanceError, match="min_batch 200 is above max_batch 100"):
        batch_sizes("bert", 1, 200, 100)


@pytest.mark.parametrize(("noise", "reference"), [(-1, 64), (float("nan"), 64), (10, 0)])
def test_impossible_efficiencies_are_refused(noise, reference):
    with pytest.raises(PerformanceError, match="must be"):
        StatisticalEfficiency(noise, reference)
