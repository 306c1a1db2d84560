"""The rule of thumb for memory, by hand at its edges."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from envs.performance.gpus import USABLE_MEMORY, gpu_type, gpu_types
from envs.performance.memory_fit import OFFLOAD_BYTES, SHARDED_CAPABILITY, fits
from envs.performance.zoo import model_profile, zoo

models = st.sampled_from(sorted(zoo()))
types = st.sampled_from(sorted(gpu_types()))


def test_usable_memory():
    assert gpu_type("V100").usable_gb == pytest.approx(16 * USABLE_MEMORY)


def test_replicas_hold_everything_on_each_gpu():
    """Transformers of 1.24 G parameters hold 19.9 GB with Adam: more GPUs of 12 GB do not help without sharding."""
    assert model_profile("t5").state_gb == pytest.approx(1.2408 * 16)
    assert not fits(model_profile("t5"), "K80", 1)
    assert not fits(model_profile("t5"), "K80", 1024)


def test_sharded_states_fit_where_enough_gpus_share_them():
    """LLaMA-7B on V100: 14.72 GB usable less 5 GB of work leave 9.72; 107.8 / 9.72 = 11.1, so 12 GPUs."""
    assert not fits(model_profile("llama7b"), "V100", 11)
    assert fits(model_profile("llama7b"), "V100", 12)


def test_offload_leaves_half_precision_weights():
    """LLaMA-7B on one A800: 2 x 6.738 = 13.5 GB of 68.6; Rubick ran it so."""
    profile = model_profile("llama7b")
    assert OFFLOAD_BYTES * profile.params_millions / 1000 == pytest.approx(13.476)
    assert fits(profile, "A800", 1)


def test_a_sources_smallest_placement_is_kept_in_memory():
    """LLaMA-30B ran on 24 A800 of 80 GB and on no fewer; 16 GB GPUs need five times as many."""
    profile = model_profile("llama30b")
    assert [fits(profile, "A800", gpus) for gpus in (23, 24)] == [False, True]
    assert [fits(profile, "V100", gpus) for gpus in (119, 120)] == [False, True]


@given(models, types)
def test_small_models_fit_everywhere(name, kind):
    profile = model_profile(name)
    if profile.state_gb + profile.working_gb <= gpu_type(kind).usable_gb and profile.min_gpus == 1:
        assert fits(profile, kind, 1)


@given(models, types, st.integers(1, 256))
def test_sharding_needs_tensor_cores(name, kind, gpus):
    profile, gpu = model_profile(name), gpu_type(kind)
    if gpu.capability < SHARDED_CAPABILITY:
        assert fits(profile, kind, gpus) == fits(profile, kind, 1)
        assert fits(profile, kind, 1) == (profile.state_gb + profile.working_gb <= gpu.usable_gb)


@given(models, st.integers(1, 256))
def test_a_larger_memory_of_the_same_generation_holds_no_less(name, gpus):
    profile = model_profile(name)
    assert fits(profile, "A800", gpus) or not fits(profile, "V100", gpus)
