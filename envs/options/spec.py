"""Sizes of the feature rows: all that is needed to build a network for options."""

from dataclasses import dataclass

from envs.options.columns import (
    NUM_BELIEF_JOB_COLUMNS,
    NUM_BELIEF_OPTION_COLUMNS,
    NUM_CLUSTER_COLUMNS,
    NUM_JOB_COLUMNS,
    NUM_NODE_COLUMNS,
    NUM_OPTION_COLUMNS,
    NUM_PREDICTED_JOB_COLUMNS,
    NUM_SHARED_JOB_COLUMNS,
    NUM_SHARED_OPTION_COLUMNS,
    NUM_TUNED_JOB_COLUMNS,
    NUM_TUNED_OPTION_COLUMNS,
)
from envs.options.rules import OptionRules


@dataclass(frozen=True, slots=True)
class OptionSpec:
    """Number of features of each kind of row; they are the same for every cluster and workload."""

    option_features: int = NUM_OPTION_COLUMNS
    job_features: int = NUM_JOB_COLUMNS
    node_features: int = NUM_NODE_COLUMNS
    cluster_features: int = NUM_CLUSTER_COLUMNS

    @classmethod
    def of(cls, rules: OptionRules) -> "OptionSpec":
        """Return the sizes under these rules: more columns for tuning, sharing, beliefs, predictions."""
        if rules.tune:
            return cls(NUM_TUNED_OPTION_COLUMNS, NUM_TUNED_JOB_COLUMNS)
        if rules.share:
            return cls(NUM_SHARED_OPTION_COLUMNS, NUM_SHARED_JOB_COLUMNS)
        if rules.predictions:
            return cls(NUM_OPTION_COLUMNS, NUM_PREDICTED_JOB_COLUMNS)
        return cls(NUM_BELIEF_OPTION_COLUMNS, NUM_BELIEF_JOB_COLUMNS) if rules.beliefs else cls()
