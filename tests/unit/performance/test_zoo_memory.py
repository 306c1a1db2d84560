"""The rule of thumb for memory, computed by hand at its limits."""

from dataclasses import replace

import pytest
from hypothesis import given
from hypothesis import strategies as st

from envs.performance.gpus import USABLE_MEMORY, find_gpu_type, gpu_types
from envs.performance.memory_fit import OFFLOAD_BYTES, SHARDED_CAPABILITY, fits_memory
from envs.performance.zoo import model_profile, zoo

models = st.sampled_from(sorted(zoo()))
types = st.sampled_from(sorted(gpu_types()))


def test_usable_memory():
    assert find_gpu_type("V100").usable_gb == pytest.approx(16 * USABLE_MEMORY)


def test_replicas_hold_everything_on_each_gpu():
    """Transformers of 1.24 G parameters hold 19.9 GB with Adam: more GPUs of 12 GB do not help without sharding."""
    assert model_profile("t5").state_gb == pytest.approx(1.2408 * 16)
    assert not fits_memory(model_profile("t5"), "K80", 1)
    assert not fits_memory(model_profile("t5"), "K80", 1024)


def test_sharded_states_fit_on_enough_gpus():
    """A model like LLaMA-7B on V100: 14.72 GB usable minus 5 GB working memory is 9.72; 107.8 / 9.72 = 11.1 GPUs.

    Without offload, which a fewest number of GPUs of 2 rules out; the 2 GPUs of 80 GB are 10 of 16 GB.
    """
    profile = replace(model_profile("llama7b"), min_gpus=2)
    assert [fits_memory(profile, "V100", gpus) for gpus in (11, 12)] == [False, True]


def test_offload_leaves_half_precision_weights():
    """A model like LLaMA-7B on one A800 needs 2 x 6.738 = 13.5 GB of 68.6; Rubick ran this."""
    profile = replace(model_profile("llama7b"), min_gpus=1)
    assert OFFLOAD_BYTES * profile.params_millions / 1000 == pytest.approx(13.476)
    assert fits_memory(profile, "A800", 1)


def test_the_sources_smallest_placement_sets_the_fewest_gpus():
    """LLaMA-30B ran on 24 A800 of 80 GB and not on fewer; GPUs with 16 GB need five times as many."""
    profile = model_profile("llama30b")
    assert [fits_memory(profile, "A800", gpus) for gpus in (23, 24)] == [False, True]
    assert [fits_memory(profile, "V100", gpus) for gpus in (119, 120)] == [False, True]


@given(models, types)
def test_small_models_fit_everywhere(name, gpu_type):
    profile = model_profile(name)
    if profile.state_gb + profile.working_gb <= find_gpu_type(gpu_type).usable_gb and profile.min_gpus == 1:
        assert fits_memory(profile, gpu_type, 1)


@given(models, types, st.integers(1, 256))
def test_sharding_needs_tensor_cores(name, gpu_type, gpus):
    profile, gpu = model_profile(name), find_gpu_type(gpu_type)
    if gpu.capability < SHARDED_CAPABILITY:
        assert fits_memory(profile, gpu_type, gpus) == fits_memory(profile, gpu_type, 1)
        assert fits_memory(profile, gpu_type, 1) == (profile.state_gb + profile.working_gb <= gpu.usable_gb)


@given(models, st.integers(1, 256))
def test_a_larger_memory_of_the_same_generation_holds_no_less(name, gpus):
    profile = model_profile(name)
    assert fits_memory(profile, "A800", gpus) or not fits_memory(profile, "V100", gpus)
