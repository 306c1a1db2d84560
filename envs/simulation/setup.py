"""The setup of a run: cluster, performance model, scenario and estimator."""

from dataclasses import dataclass, field

from envs.performance import PerformanceModel
from envs.scheduling import ThroughputEstimator
from envs.simulation.mean_curve import MeanCurve
from envs.simulation.scenario import Scenario
from envs.types import ClusterSpec, MurmurationError


@dataclass(frozen=True, slots=True, weakref_slot=True)
class Setup:
    """Cluster, performance model, scenario, estimator: everything about a run that is neither workload nor scheduler.

    Args:
        cluster: the nodes.
        performance: the performance model, which gives throughputs.
        scenario: the rules.
        estimator: forms beliefs about throughputs, where the scenario hides them.

    Raises:
        MurmurationError: an argument has the wrong type.
    """

    cluster: ClusterSpec
    performance: PerformanceModel
    scenario: Scenario = field(default_factory=Scenario)
    estimator: ThroughputEstimator = field(default_factory=MeanCurve)

    def __post_init__(self) -> None:
        for name, wanted in (("cluster", ClusterSpec), ("scenario", Scenario)):
            value = getattr(self, name)
            if not isinstance(value, wanted):
                raise MurmurationError(f"setup.{name} is {_described(value)}; it must be a {wanted.__name__}")
        if isinstance(self.performance, type) or not callable(getattr(self.performance, "throughput", None)):
            raise MurmurationError(
                f"setup.performance is {_described(self.performance)}; "
                "it must be a performance model, an object with the method throughput"
            )


def _described(value: object) -> str:
    return f"the class {value.__name__}" if isinstance(value, type) else f"of type {type(value).__name__}"
