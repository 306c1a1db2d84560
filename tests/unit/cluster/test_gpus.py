"""The data sheets of GPU types."""

import pytest

from envs.cluster import GPUS, gpu
from envs.performance.gpus import gpu_types
from envs.types import ClusterError


def test_the_types_of_the_traces_are_there():
    assert set(GPUS) == {"K80", "P100", "V100", "T4", "A100", "A800", "H100"}


def test_every_entry_is_filed_under_its_name_with_sound_figures_and_a_source():
    for name, facts in GPUS.items():
        assert facts.name == name
        assert 2014 <= facts.year <= 2023
        assert facts.memory in (12.0, 16.0, 80.0)
        assert 0 < facts.fp32_tflops <= facts.tensor_tflops
        assert facts.memory_bandwidth >= 240
        assert "NVIDIA" in facts.source


def test_the_a800_differs_from_the_a100_in_its_links_only():
    a100, a800 = gpu("A100"), gpu("A800")
    assert (a100.memory, a100.fp32_tflops, a100.tensor_tflops) == (a800.memory, a800.fp32_tflops, a800.tensor_tflops)


def test_training_generations_get_faster():
    peaks = [gpu(name).tensor_tflops for name in ("K80", "P100", "V100", "A100", "H100")]
    assert peaks == sorted(peaks)
    assert len(set(peaks)) == len(peaks)


def test_an_unknown_type_names_the_nearest():
    with pytest.raises(ClusterError, match=r"GPU type 'v10O' has no data sheet here; .* did you mean V100\?"):
        gpu("v10O")


def test_an_unheard_of_type_lists_what_there_is():
    with pytest.raises(ClusterError, match="known: K80, P100, V100") as error:
        gpu("abacus")
    assert "did you mean" not in str(error.value)


def test_the_table_cannot_be_written_to():
    with pytest.raises(TypeError):
        GPUS["K80"] = GPUS["V100"]  # type: ignore[index]


def test_the_performance_model_is_of_the_same_opinion():
    """Both floors hold data sheets, because neither imports the other; the figures must not drift apart."""
    assert set(gpu_types()) == set(GPUS)
    for name, ours in GPUS.items():
        theirs = gpu_types()[name]
        assert (ours.memory, ours.fp32_tflops, ours.memory_bandwidth) == (
            theirs.memory_gb,
            theirs.fp32_tflops,
            theirs.bandwidth_gb_s,
        )
        # Theirs is 0 without tensor cores, ours then the peak of the ordinary ones at 16 bits.
        assert theirs.tensor_tflops in (0, ours.tensor_tflops)
