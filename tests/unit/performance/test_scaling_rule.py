"""The rule that carries speeds between GPU types: what it does, and the error that leaving a type out shows."""

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from envs.performance.gpus import gpu_type, gpu_types
from envs.performance.measurements import measured_surface, measured_types
from envs.performance.scaling import (
    common_exponent,
    leave_one_type_out,
    log_index,
    model_exponent,
    nearest_type,
    one_gpu_speed,
    speed_ratio,
    surface,
)
from envs.performance.zoo import model_profile, zoo

models = st.sampled_from(sorted(zoo()))
types = st.sampled_from(sorted(gpu_types()))


def test_the_index_by_hand():
    """V100: sqrt(15.7 TFLOPS x 900 GB/s)."""
    assert gpu_type("V100").speed_index == pytest.approx((15.7 * 900) ** 0.5)
    assert log_index("V100") == pytest.approx(0.5 * np.log(15.7 * 900))


def test_leaving_a_type_out_errs_as_stated():
    """The package says: 22 % in the median, a factor of about four at worst; 28 (model, type) pairs."""
    errors = np.array([abs(error.relative) for error in leave_one_type_out()])
    assert len(errors) == sum(len(measured_types(name)) for name in zoo() if len(measured_types(name)) > 1)
    assert np.median(errors) < 0.25
    assert 1 < errors.max() < 3.5


def test_the_held_out_type_is_not_seen():
    """The exponents of a prediction are those without the type."""
    for error in leave_one_type_out():
        nearest = nearest_type(error.model, error.gpu_type, without=error.gpu_type)
        assert nearest != error.gpu_type
        share = model_profile(error.model).gpu_share
        ratio = speed_ratio(error.model, error.gpu_type, nearest, without=error.gpu_type)
        slower = (1 - share) + share / ratio
        assert error.predicted == pytest.approx(one_gpu_speed(error.model, nearest) / slower)
        assert error.measured == pytest.approx(one_gpu_speed(error.model, error.gpu_type))


def test_leaving_out_changes_the_exponent_it_should():
    assert common_exponent("K80") != pytest.approx(common_exponent(), abs=1e-3)
    assert model_exponent("resnet50", "K80") != pytest.approx(model_exponent("resnet50"), abs=1e-3)


def test_a_model_measured_on_one_type_has_the_common_exponent():
    assert model_exponent("bert") == pytest.approx(common_exponent())


def test_a_host_bound_model_has_a_small_exponent():
    """Gavel's recommendation model is slower on V100 than on P100."""
    assert model_exponent("recommendation") < 0.6 < model_exponent("cyclegan")


@given(models, types, types)
def test_ratios_are_consistent_and_ordered(name, first, second):
    ratio = speed_ratio(name, first, second)
    assert ratio * speed_ratio(name, second, first) == pytest.approx(1)
    assert (ratio >= 1) == (gpu_type(first).speed_index >= gpu_type(second).speed_index) or model_exponent(name) == 0


@given(models, types)
def test_a_measured_type_is_its_own_nearest(name, kind):
    nearest = nearest_type(name, kind)
    assert nearest in measured_types(name)
    if kind in measured_types(name):
        assert nearest == kind
        assert surface(model_profile(name), kind) is measured_surface(name, kind)


@given(models, types)
def test_scaling_changes_computation_only(name, kind):
    profile = model_profile(name)
    own, base = surface(profile, kind), measured_surface(name, nearest_type(name, kind))
    assert own.parameters[2:] == pytest.approx(base.parameters[2:])
    if kind not in measured_types(name):
        slower = (1 - profile.gpu_share) + profile.gpu_share / speed_ratio(name, kind, nearest_type(name, kind))
        assert own.parameters[:2] == pytest.approx(base.parameters[:2] * slower)
