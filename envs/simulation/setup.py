"""The setup of a run: cluster, performance model, scenario, estimator and predictor."""

from dataclasses import dataclass, field

from envs.performance import PerformanceModel
from envs.scheduling import ThroughputEstimator, WorkPredictor
from envs.simulation.mean_curve import MeanCurve
from envs.simulation.pooled_history import PooledHistory
from envs.simulation.scenario import Scenario
from envs.types import ClusterSpec, MurmurationError


@dataclass(frozen=True, slots=True, weakref_slot=True)
class Setup:
    """Everything about a run that is neither workload nor scheduler.

    Args:
        cluster: the nodes.
        performance: the performance model, which gives throughputs.
        scenario: the rules.
        estimator: forms beliefs about throughputs, where the scenario hides them.
        predictor: predicts run times, where the scenario lets them be predicted.

    Raises:
        MurmurationError: an argument has the wrong type.
    """

    cluster: ClusterSpec
    performance: PerformanceModel
    scenario: Scenario = field(default_factory=Scenario)
    estimator: ThroughputEstimator = field(default_factory=MeanCurve)
    predictor: WorkPredictor = field(default_factory=PooledHistory, compare=False)  # it learns

    def __post_init__(self) -> None:
        for name, wanted in (("cluster", ClusterSpec), ("scenario", Scenario)):
            value = getattr(self, name)
            if not isinstance(value, wanted):
                raise MurmurationError(f"setup.{name} is {_described(value)}; it must be a {wanted.__name__}")
        if self.scenario.information.work == "limit_or_predicted":
            raise MurmurationError(
                "scenario.information.work is limit_or_predicted, between which commands choose by a trace; set limit "
                "or predicted"
            )
        if isinstance(self.performance, type) or not callable(getattr(self.performance, "throughput", None)):
            raise MurmurationError(
                f"setup.performance is {_described(self.performance)}; "
                "it must be a performance model, an object with the method throughput"
            )


def _described(value: object) -> str:
    return f"the class {value.__name__}" if isinstance(value, type) else f"of type {type(value).__name__}"
