"""Both engines, side by side."""

import pytest

from envs.simulation import Simulator
from envs.simulation.reference import ReferenceSimulator
from tests.unit.simulation.plays import Build


@pytest.fixture(params=[Simulator, ReferenceSimulator], ids=["compiled", "reference"])
def engine(request: pytest.FixtureRequest) -> Build:
    """What builds an engine. A test that asks for it runs on both, so what it says holds for both."""
    build: Build = request.param
    return build
