"""Shapes and meanings of observation and action: the contract between the world and any network."""

import math
from dataclasses import dataclass
from typing import Literal

import numpy as np

from envs.types import ClusterSpec, IntArray, MurmurationError

QUEUE_ORDERS = ("shortest", "fifo", "least_service")
SCALING_POINTS = (1, 2, 4, 8)  # GPU counts at which a job's scaling efficiency is shown


@dataclass(frozen=True, slots=True)
class DecisionRules:
    """How servers decide within one scheduling round."""

    num_candidates: int = 16  # waiting jobs that are shown to every server, at least
    candidates_per_server: float = 0.0  # so that the list grows with the cluster: 0.25 shows 1,000 servers 250 jobs
    queue_order: Literal["shortest", "fifo", "least_service"] = (
        "shortest"  # which ones; unknown work falls back to service
    )
    max_decisions: int = 16  # joint decisions in one round, after which it ends anyway
    preemptive: bool = True  # whether running jobs may be evicted
    elastic: bool = True  # whether GPU amounts other than the requested one may be chosen

    def __post_init__(self) -> None:
        if self.num_candidates < 1 or self.max_decisions < 1:
            raise MurmurationError(
                f"env: num_candidates is {self.num_candidates} and max_decisions is {self.max_decisions}; "
                "both must be at least 1"
            )
        if not self.candidates_per_server >= 0:
            raise MurmurationError(f"env: candidates_per_server is {self.candidates_per_server}; it must be 0 or more")
        if self.queue_order not in QUEUE_ORDERS:
            raise MurmurationError(
                f"env: queue_order is {self.queue_order!r}; it must be one of {', '.join(QUEUE_ORDERS)}"
            )


@dataclass(frozen=True, slots=True)
class EnvSpec:
    """Sizes of one environment, all that a network needs to be built."""

    num_servers: int
    num_gpu_types: int
    node_gpus: int  # GPUs of the largest node: the largest amount that a choice can set
    num_candidates: int
    num_slots: int  # jobs running on one server that can be shown
    num_levels: int = 1  # CPU and memory levels of a choice; one until they are decided on

    @classmethod
    def of(cls, cluster: ClusterSpec, rules: DecisionRules) -> "EnvSpec":
        """The sizes that follow from a cluster and the rules."""
        largest = int(cluster.node_gpus.max())
        candidates = max(rules.num_candidates, math.ceil(rules.candidates_per_server * cluster.num_nodes))
        return cls(cluster.num_nodes, len(cluster.gpu_types), largest, candidates, largest)

    @property
    def num_choices(self) -> int:
        """Candidates of one server: waiting jobs, then the slots of its running jobs."""
        return self.num_candidates + self.num_slots

    @property
    def num_actions(self) -> int:
        """1 (nothing) + choices x amounts (0 to node_gpus) x levels."""
        return 1 + self.num_choices * (self.node_gpus + 1) * self.num_levels

    @property
    def job_features(self) -> int:
        """Features of one job; see `envs.gpu_cluster.observe.job_features`."""
        return 13 + self.num_gpu_types + len(SCALING_POINTS)

    @property
    def slot_features(self) -> int:
        """A running job's features on one server: the job's, GPUs here, number of its servers."""
        return self.job_features + 2

    @property
    def server_features(self) -> int:
        """Free GPUs, GPUs, jobs, place in the cluster, place among equals, and the GPU type one-hot."""
        return 5 + self.num_gpu_types

    @property
    def cluster_features(self) -> int:
        """Shared by all servers: queue, load, decision count, free GPUs by type."""
        return 6 + self.num_gpu_types

    def action(self, choice: int, gpus: int, level: int = 0) -> int:
        """The number of the action that sets the GPUs of a choice."""
        return 1 + (choice * (self.node_gpus + 1) + gpus) * self.num_levels + level

    def decode(self, actions: IntArray) -> tuple[IntArray, IntArray, IntArray]:
        """Choice, GPUs and level of each action; choice -1 for nothing."""
        index = np.asarray(actions) - 1
        choice, rest = np.divmod(index, (self.node_gpus + 1) * self.num_levels)
        gpus, level = np.divmod(rest, self.num_levels)
        return choice, gpus, level
