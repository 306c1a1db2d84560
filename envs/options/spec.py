"""Sizes of the feature rows: all that is needed to build a network for options."""

from dataclasses import dataclass

from envs.options.columns import NUM_CLUSTER_COLUMNS, NUM_JOB_COLUMNS, NUM_NODE_COLUMNS, NUM_OPTION_COLUMNS


@dataclass(frozen=True, slots=True)
class OptionSpec:
    """Number of features of each kind of row; they are the same for every cluster, workload and rule."""

    option_features: int = NUM_OPTION_COLUMNS
    job_features: int = NUM_JOB_COLUMNS
    node_features: int = NUM_NODE_COLUMNS
    cluster_features: int = NUM_CLUSTER_COLUMNS
