"""Batch sizes stay within their range, and the best one has the highest throughput or goodput."""

import pytest
from hypothesis import assume, given
from hypothesis import strategies as st

from envs.performance import IdealModel, StatisticalEfficiency, best_batch, default_model
from envs.performance.batch_size import batch_sizes
from envs.performance.zoo import model_profile, zoo
from envs.types import Configuration, PerformanceError

MODEL = default_model()
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


@given(models, st.sampled_from(["V100", "A800"]), st.integers(1, 16))
def test_the_best_is_at_least_as_fast_as_any_size(name, gpu_type, gpus):
    choice = best_batch(MODEL, name, gpu_type, gpus)
    for size in batch_sizes(name, gpus):
        assert MODEL.throughput(name, Configuration(gpu_type, gpus, batch_size=size)) <= choice.throughput * (1 + 1e-9)
    if choice.throughput:
        assert choice.goodput == choice.throughput
        again = MODEL.throughput(name, Configuration(gpu_type, gpus, batch_size=choice.batch_size))
        assert again == pytest.approx(choice.throughput)


@given(st.integers(1, 16), st.floats(1, 1e5))
def test_goodput_never_needs_a_larger_batch_than_throughput(gpus, noise):
    fastest = best_batch(MODEL, "resnet50", "V100", gpus)
    useful = best_batch(MODEL, "resnet50", "V100", gpus, efficiency=StatisticalEfficiency(noise, 64))
    assert useful.batch_size <= fastest.batch_size
    assert useful.throughput <= fastest.throughput


def test_much_noise_makes_goodput_agree_with_throughput():
    """phi is far above all batch sizes, so the efficiency is 1 for all of them."""
    wide = best_batch(MODEL, "resnet50", "V100", 8, efficiency=StatisticalEfficiency(1e12, 64))
    assert wide.batch_size == best_batch(MODEL, "resnet50", "V100", 8).batch_size


def test_no_noise_makes_the_smallest_batch_best_unless_steps_get_faster_in_proportion():
    """phi = 0: goodput is in proportion to steps per second, and larger batches never take shorter steps."""
    choice = best_batch(MODEL, "bert", "A100", 1, efficiency=StatisticalEfficiency(0, 32))
    assert choice.batch_size == 32


def test_the_smallest_of_equal_batch_sizes_is_chosen():
    class Flat(IdealModel):
        models = ("bert",)

    assert best_batch(Flat(models=("bert",)), "bert", "A100", 2).batch_size == 32


@given(models, st.integers(1, 64))
def test_a_narrower_range_is_never_better(name, gpus):
    profile = model_profile(name)
    assume(gpus <= profile.max_batch)
    middle = (profile.min_batch + profile.max_batch) // 2
    narrow = best_batch(MODEL, name, "V100", gpus, max_batch=max(middle, profile.min_batch))
    assert narrow.throughput <= best_batch(MODEL, name, "V100", gpus).throughput * (1 + 1e-9)


def test_models_that_do_not_fit_have_throughput_zero():
    assert best_batch(MODEL, "llama7b", "K80", 8).throughput == 0
    assert best_batch(MODEL, "yolov3", "V100", 600).throughput == 0


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
