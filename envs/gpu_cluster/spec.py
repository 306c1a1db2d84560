"""Sizes of observation and action, and the rules of deciding: the contract between the environment and a network."""

import math
from dataclasses import dataclass
from typing import Literal

import numpy as np

from envs.episodes.candidates import QUEUE_ORDERS
from envs.gpu_cluster import columns
from envs.types import ClusterSpec, IntArray, MurmurationError


@dataclass(frozen=True, slots=True)
class DecisionRules:
    """Rules of the nodes' decisions within one scheduling round."""

    num_candidates: int = 16  # waiting jobs that every node sees, at least
    candidates_per_node: float = 0.0  # the same, per node of the cluster: with 0.25, 1,000 nodes see 250 jobs
    # Which waiting jobs the nodes see; if work is unknown, "shortest" means the least service.
    queue_order: Literal["shortest", "fifo", "least_service"] = "shortest"
    max_decisions: int = 16  # joint decisions after which a round ends in any case
    preemptive: bool = True  # whether running jobs may be evicted
    elastic: bool = True  # whether numbers of GPUs other than the requested one may be chosen
    # Whether nodes see what each choice and the other jobs on a node do to each other, see `envs.gpu_cluster.effects`.
    effects: bool = False

    def __post_init__(self) -> None:
        if self.num_candidates < 1 or self.max_decisions < 1:
            raise MurmurationError(
                f"env: num_candidates is {self.num_candidates} and max_decisions is {self.max_decisions}; "
                "both must be at least 1"
            )
        if not self.candidates_per_node >= 0:
            raise MurmurationError(f"env: candidates_per_node is {self.candidates_per_node}; it must be 0 or more")
        if self.queue_order not in QUEUE_ORDERS:
            raise MurmurationError(
                f"env: queue_order is {self.queue_order!r}; it must be one of {', '.join(QUEUE_ORDERS)}"
            )


@dataclass(frozen=True, slots=True)
class EnvSpec:
    """Sizes of one environment: all that is needed to build a network."""

    num_nodes: int
    num_gpu_types: int
    node_gpus: int  # GPUs of the largest node: the largest number that a choice can set
    num_candidates: int
    num_slots: int  # jobs running on one node that can be shown
    effects: bool = False  # whether observations have `effects`

    @classmethod
    def of(cls, cluster: ClusterSpec, rules: DecisionRules) -> "EnvSpec":
        """Return the sizes that follow from a cluster and the rules."""
        largest = int(cluster.node_gpus.max())
        candidates = max(rules.num_candidates, math.ceil(rules.candidates_per_node * cluster.num_nodes))
        types = len(cluster.gpu_types)
        return cls(cluster.num_nodes, types, largest, candidates, largest, rules.effects)

    @property
    def num_choices(self) -> int:
        """Choices of one node: waiting jobs, then the slots of its running jobs."""
        return self.num_candidates + self.num_slots

    @property
    def num_actions(self) -> int:
        """1 (pass) + choices x numbers of GPUs (0 to node_gpus)."""
        return columns.FIRST_CHOICE + self.num_choices * (self.node_gpus + 1)

    @property
    def job_columns(self) -> tuple[str, ...]:
        """Names of the features of a waiting job, see `envs.gpu_cluster.columns`."""
        return columns.job_columns(self.num_gpu_types)

    @property
    def slot_columns(self) -> tuple[str, ...]:
        """Names of the features of a job on one node: those of the job, its GPUs there, the number of its nodes."""
        return columns.slot_columns(self.num_gpu_types)

    @property
    def node_columns(self) -> tuple[str, ...]:
        """Names of the features of a node."""
        return columns.node_columns(self.num_gpu_types)

    @property
    def cluster_columns(self) -> tuple[str, ...]:
        """Names of the features that all nodes share."""
        return columns.cluster_columns(self.num_gpu_types)

    @property
    def effect_columns(self) -> tuple[str, ...]:
        """Names of the features of a choice of a node; none without `effects`."""
        return columns.effect_columns() if self.effects else ()

    @property
    def effect_features(self) -> int:
        """Number of features of a choice of a node; 0 without `effects`."""
        return len(self.effect_columns)

    @property
    def job_features(self) -> int:
        """Number of features of a waiting job."""
        return len(self.job_columns)

    @property
    def slot_features(self) -> int:
        """Number of features of a job on one node."""
        return len(self.slot_columns)

    @property
    def node_features(self) -> int:
        """Number of features of a node."""
        return len(self.node_columns)

    @property
    def cluster_features(self) -> int:
        """Number of features that all nodes share."""
        return len(self.cluster_columns)

    def action(self, choice: int, gpus: int) -> int:
        """Return the number of the action that sets the GPUs of a choice."""
        return columns.FIRST_CHOICE + choice * (self.node_gpus + 1) + gpus

    def decode(self, actions: IntArray) -> tuple[IntArray, IntArray]:
        """Return choice and GPUs of each action; choice -1 for passing."""
        choice, gpus = np.divmod(np.asarray(actions) - columns.FIRST_CHOICE, self.node_gpus + 1)
        return choice, gpus
