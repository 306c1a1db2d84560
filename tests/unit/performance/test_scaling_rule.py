"""The rule that scales throughputs between GPU types, and its error when one type is left out."""

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from envs.performance.gpus import gpu_types
from envs.performance.measurements import measured_surface, measured_types
from envs.performance.scaling import (
    common_exponent,
    leave_one_type_out,
    log_index,
    model_exponent,
    nearest_type,
    one_gpu_throughput,
    surface,
    throughput_ratio,
)
from envs.performance.zoo import model_profile, zoo

models = st.sampled_from(sorted(zoo()))
types = st.sampled_from(sorted(gpu_types()))


def test_the_index_by_hand():
    """V100: sqrt(15.7 TFLOPS x 900 GB/s); A100 has 312 / 125 of its tensor peak and 2039 / 900 of its bandwidth."""
    assert log_index("V100") == pytest.approx(0.5 * np.log(15.7 * 900))
    assert log_index("P100") == pytest.approx(0.5 * np.log(10.6 * 732))
    assert log_index("A100") - log_index("V100") == pytest.approx(0.5 * np.log(312 / 125 * 2039 / 900))


def test_errors_of_leaving_a_type_out_are_as_documented():
    """Half of the predictions are within a quarter, and the largest error is a factor of about four."""
    errors = np.array([abs(error.relative) for error in leave_one_type_out()])
    assert len(errors) == sum(len(measured_types(name)) for name in zoo() if len(measured_types(name)) > 1)
    assert np.median(errors) < 0.25
    assert 1 < errors.max() < 3.0


def test_the_held_out_type_is_not_seen():
    """A prediction uses exponents without the held-out type."""
    for error in leave_one_type_out():
        nearest = nearest_type(error.model, error.gpu_type, without=error.gpu_type)
        assert nearest != error.gpu_type
        share = model_profile(error.model).gpu_share
        ratio = throughput_ratio(error.model, error.gpu_type, nearest, without=error.gpu_type)
        slower = (1 - share) + share / ratio
        assert error.predicted == pytest.approx(one_gpu_throughput(error.model, nearest) / slower)
        assert error.measured == pytest.approx(one_gpu_throughput(error.model, error.gpu_type))


def test_leaving_a_type_out_changes_the_exponent():
    assert common_exponent("K80") != pytest.approx(common_exponent(), abs=1e-3)
    assert model_exponent("resnet50", "K80") != pytest.approx(model_exponent("resnet50"), abs=1e-3)


def test_a_model_measured_on_one_type_has_the_common_exponent():
    assert model_exponent("bert") == pytest.approx(common_exponent())


def test_a_cpu_bound_model_has_a_small_exponent():
    """Gavel's recommendation model is slower on V100 than on P100."""
    assert model_exponent("recommendation") < 0.6 < model_exponent("cyclegan")


@given(models, types, types)
def test_ratios_are_consistent_and_ordered(name, first, second):
    ratio = throughput_ratio(name, first, second)
    assert ratio * throughput_ratio(name, second, first) == pytest.approx(1)
    assert (ratio >= 1) == (log_index(first) >= log_index(second)) or model_exponent(name) == 0


@given(models, types)
def test_a_measured_type_is_its_own_nearest(name, gpu_type):
    nearest = nearest_type(name, gpu_type)
    assert nearest in measured_types(name)
    if gpu_type in measured_types(name):
        assert nearest == gpu_type
        assert surface(model_profile(name), gpu_type) is measured_surface(name, gpu_type)


@given(models, types)
def test_scaling_changes_computation_only(name, gpu_type):
    profile = model_profile(name)
    own, base = surface(profile, gpu_type), measured_surface(name, nearest_type(name, gpu_type))
    assert own.parameters[2:] == pytest.approx(base.parameters[2:])
    if gpu_type not in measured_types(name):
        slower = (1 - profile.gpu_share) + profile.gpu_share / throughput_ratio(
            name, gpu_type, nearest_type(name, gpu_type)
        )
        assert own.parameters[:2] == pytest.approx(base.parameters[:2] * slower)
