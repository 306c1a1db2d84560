"""What a user can do wrong, each as an exception with a one-line message: thing, value, what is allowed, the fix."""


class MurmurationError(ValueError):
    """A mistake in what the user gave; scripts print its message without a stack trace."""


class TraceError(MurmurationError):
    """A trace file, or a row of it, that cannot be read as what it claims to be."""


class ClusterError(MurmurationError):
    """A cluster that cannot exist, or one that cannot hold the workload."""


class AllocationError(MurmurationError):
    """An allocation that does not fit: names job, node and resource."""


class PerformanceError(MurmurationError):
    """An unknown model or GPU type, or figures from which no speed follows."""


class CheckpointError(MurmurationError):
    """A checkpoint that is missing, corrupt, or made for another network or cluster."""


class ConservationError(AssertionError):
    """Jobs were lost: submitted differs from finished plus declared unfinished. Always a fault of the simulator."""
