"""The parameters that are fitted ahead are those that the fit gives."""

import subprocess
import sys

import numpy as np
import pytest

from envs.performance import fitted as module
from envs.performance import measurements as measured
from envs.performance.fitted import fitted, table_of
from envs.performance.measurements import fit_anew, measured_surface, measurements
from envs.performance.refit import refitted


def test_the_table_is_what_the_fit_gives():
    """If this fails after a change of the measurements or of the form: python -m envs.performance.refit."""
    assert set(fitted()) == set(measurements())
    for pair, parameters in fitted().items():
        assert parameters == pytest.approx(fit_anew(*pair).parameters, rel=1e-6, abs=1e-9), pair


@pytest.mark.parametrize("pair", sorted(measurements())[::7])
def test_surfaces_are_the_same_either_way(pair):
    ahead, anew = measured_surface(*pair), fit_anew(*pair)
    counts, nodes, batch = np.array([1.0, 2.0, 8.0, 16.0]), np.array([1.0, 1.0, 1.0, 2.0]), np.full(4, 32.0)
    assert ahead.seconds(counts, nodes, batch) == pytest.approx(anew.seconds(counts, nodes, batch), rel=1e-6)


def test_the_table_is_written_in_full_precision():
    lines = refitted().splitlines()
    assert lines[0] == "model,gpu_type,alpha,beta,kappa_1,kappa_2,kappa_3,kappa_4"
    assert len(lines) == 1 + len(measurements())
    parameters = {("resnet50", "V100"): np.array([0.1, 1 / 3, 0.0, 1e-17, 2.0, 3.0])}
    assert [float(cell) for cell in table_of(parameters).splitlines()[1].split(",")[2:]] == [0.1, 1 / 3, 0, 1e-17, 2, 3]


def test_what_is_not_in_the_table_is_fitted(monkeypatch):
    pair = next(iter(measurements()))
    monkeypatch.setattr(measured, "fitted", dict)
    measured_surface.cache_clear()
    try:
        assert (measured_surface(*pair).parameters == fit_anew(*pair).parameters).all()
    finally:
        measured_surface.cache_clear()
    assert module.fitted() is fitted()


def test_a_start_loads_no_solver():
    """Neither for speeds nor for a simple scheduler."""
    source = (
        "import sys; from baselines import Fifo; from envs.performance import default_model; "
        "default_model().throughput('resnet50', 'V100', 8); print('scipy.optimize' in sys.modules)"
    )
    done = subprocess.run([sys.executable, "-c", source], check=True, capture_output=True, text=True)
    assert done.stdout.strip() == "False"
