"""The table of fitted parameters equals what the fit gives."""

import subprocess
import sys

import numpy as np
import pytest

from envs.performance import fitted as module
from envs.performance import measurements as measured
from envs.performance.fitted import fitted_parameters, format_table
from envs.performance.measurements import fit_measured_surface, measured_points, measured_surface
from envs.performance.refit import refit_table


def test_the_table_equals_the_fit():
    """If this fails after a change of the measurements or the form, run python -m envs.performance.refit."""
    assert set(fitted_parameters()) == set(measured_points())
    for pair, parameters in fitted_parameters().items():
        assert parameters == pytest.approx(fit_measured_surface(*pair).parameters, rel=1e-6, abs=1e-9), pair


@pytest.mark.parametrize("pair", sorted(measured_points())[::7])
def test_surfaces_from_table_and_fit_are_equal(pair):
    stored, fitted = measured_surface(*pair), fit_measured_surface(*pair)
    counts, nodes, batch = np.array([1.0, 2.0, 8.0, 16.0]), np.array([1.0, 1.0, 1.0, 2.0]), np.full(4, 32.0)
    assert stored.seconds(counts, nodes, batch) == pytest.approx(fitted.seconds(counts, nodes, batch), rel=1e-6)


def test_the_table_is_written_in_full_precision():
    lines = refit_table().splitlines()
    assert lines[0] == "model,gpu_type,alpha,beta,kappa_1,kappa_2,kappa_3,kappa_4"
    assert len(lines) == 1 + len(measured_points())
    parameters = {("resnet50", "V100"): np.array([0.1, 1 / 3, 0.0, 1e-17, 2.0, 3.0])}
    assert [float(cell) for cell in format_table(parameters).splitlines()[1].split(",")[2:]] == [
        0.1,
        1 / 3,
        0,
        1e-17,
        2,
        3,
    ]


def test_parameters_missing_from_the_table_are_fitted(monkeypatch):
    pair = next(iter(measured_points()))
    monkeypatch.setattr(measured, "fitted_parameters", dict)
    measured_surface.cache_clear()
    try:
        assert (measured_surface(*pair).parameters == fit_measured_surface(*pair).parameters).all()
    finally:
        measured_surface.cache_clear()
    assert module.fitted_parameters() is fitted_parameters()


def test_importing_and_predicting_loads_no_solver():
    """Neither throughputs nor a simple scheduler need scipy.optimize."""
    source = (
        "import sys; from baselines import Fifo; from envs.performance import default_model; "
        "from envs.types import Configuration; "
        "default_model().throughput('resnet50', Configuration('V100', 8)); print('scipy.optimize' in sys.modules)"
    )
    done = subprocess.run([sys.executable, "-c", source], check=True, capture_output=True, text=True)
    assert done.stdout.strip() == "False"
