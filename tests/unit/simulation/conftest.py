"""A fixture for both engines."""

import pytest

from envs.simulation import Simulator
from envs.simulation.reference import ReferenceSimulator
from tests.unit.simulation.plays import Build


@pytest.fixture(params=[Simulator, ReferenceSimulator], ids=["compiled", "reference"])
def engine(request: pytest.FixtureRequest) -> Build:
    """The class of an engine; a test that uses it runs on both engines."""
    build: Build = request.param
    return build
