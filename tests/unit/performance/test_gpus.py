"""Datasheet figures of GPU types."""

import pytest

from envs.performance.gpus import find_gpu_type, gpu_types
from envs.performance.scaling import log_index
from envs.types import PerformanceError


def test_the_types_of_the_traces_exist():
    assert set(gpu_types()) == {"K80", "P100", "V100", "T4", "A100", "A800", "H100", "H200", "B200"}


@pytest.mark.parametrize("name", gpu_types())
def test_every_entry_has_its_name_plausible_figures_and_a_source(name):
    facts = find_gpu_type(name)
    assert facts.name == name
    assert facts.memory_gb in (12.0, 16.0, 80.0, 141.0, 180.0)
    assert facts.fp32_tflops > 0
    assert facts.bandwidth_gb_s >= 240
    assert facts.intra_node_gb_s > 0
    assert "NVIDIA" in facts.source


@pytest.mark.parametrize("name", gpu_types())
def test_tensor_cores_came_with_compute_capability_seven(name):
    """K80 and P100 have no tensor cores; the P100's 21.2 TFLOPS in half precision come from its ordinary cores."""
    facts = find_gpu_type(name)
    assert (facts.tensor_tflops > facts.fp32_tflops) if facts.capability >= 7 else facts.tensor_tflops == 0


def test_the_a800_differs_from_the_a100_in_its_links_only():
    a100, a800 = find_gpu_type("A100"), find_gpu_type("A800")
    assert (a100.memory_gb, a100.fp32_tflops, a100.tensor_tflops) == (
        a800.memory_gb,
        a800.fp32_tflops,
        a800.tensor_tflops,
    )
    assert a100.intra_node_gb_s > a800.intra_node_gb_s


def test_training_generations_get_faster():
    peaks = [log_index(name) for name in ("K80", "P100", "V100", "A100", "H100")]
    assert peaks == sorted(peaks)
    assert len(set(peaks)) == len(peaks)


def test_the_error_of_an_unknown_type_lists_all_types():
    with pytest.raises(PerformanceError, match="known: K80, P100, V100") as error:
        find_gpu_type("abacus")
    assert "did you mean" not in str(error.value)


def test_the_table_cannot_be_written_to():
    with pytest.raises(TypeError):
        gpu_types()["K80"] = gpu_types()["V100"]  # type: ignore[index]
