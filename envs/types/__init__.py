"""The vocabulary of the simulation as plain immutable types. This package imports no other package of ours."""

from envs.types.allocation import Allocation, Placement
from envs.types.beliefs import Belief, EstimatedCurve, KnownCurves, ThroughputSamples
from envs.types.cluster import MAX_NODES, ClusterSpec, NodeSpec
from envs.types.configuration import Configuration
from envs.types.constraints import (
    Constraints,
    constrain,
    constraints_of,
    features_of,
    name_of_nodes,
    plain_type,
    pools_of,
    without_constraints,
)
from envs.types.errors import (
    AllocationError,
    CheckpointError,
    ClusterError,
    ConservationError,
    ImpossibleResultError,
    MurmurationError,
    PerformanceError,
    PreemptionError,
    TraceError,
    as_line,
    did_you_mean,
)
from envs.types.facts import NUM_OUTCOMES, JobFacts
from envs.types.job import LATEST_SUBMISSION, JobRecord, JobSpec
from envs.types.limits import PlacementLimits
from envs.types.plan import ExecutionPlan
from envs.types.sealed import SealedColumn, seal
from envs.types.shared_resources import ResourceTables, SharedResources
from envs.types.units import BoolArray, FloatArray, Gigabytes, GpuSeconds, IntArray, JobId, NodeId, Samples, Seconds

__all__ = ["LATEST_SUBMISSION", "MAX_NODES", "NUM_OUTCOMES", "Allocation", "AllocationError", "Belief", "BoolArray"]
__all__ += ["CheckpointError", "ClusterError", "ClusterSpec", "Configuration", "ConservationError", "Constraints"]
__all__ += ["EstimatedCurve", "ExecutionPlan", "FloatArray", "Gigabytes", "GpuSeconds", "ImpossibleResultError"]
__all__ += ["IntArray", "JobFacts", "JobId", "JobRecord", "JobSpec", "KnownCurves", "MurmurationError", "NodeId"]
__all__ += ["NodeSpec", "PerformanceError", "Placement", "PlacementLimits", "PreemptionError", "ResourceTables"]
__all__ += ["Samples", "SealedColumn", "Seconds", "SharedResources", "ThroughputSamples", "TraceError", "as_line"]
__all__ += ["constrain", "constraints_of", "did_you_mean", "features_of", "name_of_nodes", "plain_type", "pools_of"]
__all__ += ["seal", "without_constraints"]
