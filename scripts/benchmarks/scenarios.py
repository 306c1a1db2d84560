"""The two models of the world that are timed."""

from dataclasses import replace

from envs.performance import Contention, CostBySize
from envs.simulation import Rounds, Scenario
from envs.simulation.scenario import Failures
from envs.types import Seconds

PLAIN = Scenario()  # GPUs are all that counts
FULL = Scenario(
    cpu_memory="shared",
    contention=Contention("measured"),
    reconfiguration=CostBySize(),
    failures=Failures(mtbf=30 * 86400.0),
)


def in_rounds(scenario: Scenario, interval: Seconds) -> Scenario:
    """The same with decisions at fixed intervals alone."""
    return replace(scenario, rounds=Rounds(on_events=False, interval=interval))
