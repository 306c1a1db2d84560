"""Defaults of the environments, and the options that all of them share."""

from typing import Literal

from envs.cluster import NodeGroup, build_cluster
from envs.performance import default_model
from envs.simulation import Setup
from envs.types import MurmurationError
from envs.workloads import SyntheticSource, WorkloadSource

Illegal = Literal["nothing", "raise"]  # what becomes of an action that is not allowed


def default_setup() -> Setup:
    """Return the setup of an environment that is given none: 8 nodes with 8 V100 each, the measured tables."""
    return Setup(build_cluster("homogeneous_64", [NodeGroup("V100", num_nodes=8, num_gpus=8)]), default_model())


def default_source(setup: Setup) -> WorkloadSource:
    """Return the source of episodes of environments that are given none: synthetic jobs for the cluster of a setup."""
    return SyntheticSource(cluster=setup.cluster, performance=setup.performance)


def check_illegal(illegal: str, penalty: float) -> None:
    """Check the options about actions that are not allowed.

    Raises:
        MurmurationError: there is no such option, or the penalty is negative.
    """
    if illegal not in ("nothing", "raise"):
        raise MurmurationError(f"illegal is {illegal!r}; it must be nothing or raise")
    if not penalty >= 0:
        raise MurmurationError(f"illegal_penalty is {penalty}; it must not be negative")
