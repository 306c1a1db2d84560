"""Sizes of the bidding environment's observations and actions, and its settings."""

import math
from dataclasses import dataclass
from typing import Literal

from envs.bidding import columns
from envs.episodes.candidates import QUEUE_ORDERS
from envs.simulation import Scenario
from envs.types import ClusterSpec, MurmurationError


@dataclass(frozen=True, slots=True)
class BiddingRules:
    """What nodes see of the jobs, and which nodes the coordination graph links."""

    num_candidates: int = 32  # jobs that every node sees, at least
    candidates_per_node: float = 0.0  # the same, per node of the cluster: with 0.25, 1,000 nodes see 250 jobs
    # Which waiting jobs are candidates; if work is unknown, "shortest" means the least service.
    queue_order: Literal["shortest", "fifo", "least_service"] = "shortest"
    contenders: int = 4  # best places of a candidate, which the coordination graph links to each other

    def __post_init__(self) -> None:
        for name, least in (("num_candidates", 1), ("candidates_per_node", 0), ("contenders", 0)):
            if not getattr(self, name) >= least:
                raise MurmurationError(f"bidding: {name} is {getattr(self, name)}; it must be {least} or more")
        if self.queue_order not in QUEUE_ORDERS:
            raise MurmurationError(
                f"bidding: queue_order is {self.queue_order!r}; it must be one of {', '.join(QUEUE_ORDERS)}"
            )


@dataclass(frozen=True, slots=True)
class BiddingSpec:
    """Sizes of one environment. Numbers of features do not depend on the cluster; see `envs.bidding.columns`."""

    num_nodes: int
    num_gpus: int
    num_slots: int  # jobs on one node that are shown: GPUs of the largest node
    num_candidates: int
    contenders: int
    num_bids: int = len(columns.BID_COLUMNS)  # numbers that a node states about each job that it sees

    @classmethod
    def of(cls, cluster: ClusterSpec, rules: BiddingRules, scenario: Scenario) -> "BiddingSpec":
        """Return the sizes that follow from a cluster, the rules, and whether batch sizes may be chosen.

        Raises:
            MurmurationError: running jobs keep what they have; an auction places all jobs anew.
        """
        if scenario.preemption == "never":
            raise MurmurationError(
                "scenario.preemption is never, and an auction places running jobs anew; let nodes choose options "
                "(env=options), or set scenario.preemption=allowed"
            )
        candidates = max(rules.num_candidates, math.ceil(rules.candidates_per_node * cluster.num_nodes))
        return cls(
            cluster.num_nodes,
            cluster.num_gpus,
            int(cluster.node_gpus.max()),
            candidates,
            min(rules.contenders, cluster.num_nodes),
            columns.BID_BATCH if scenario.batch_sizes == "usual" else len(columns.BID_COLUMNS),
        )

    @property
    def num_pairs(self) -> int:
        """Rows of a node: first its slots, the jobs on it in ascending order; then the candidates."""
        return self.num_slots + self.num_candidates

    @property
    def num_job_rows(self) -> int:
        """Rows of `jobs`: first the candidates, then the other running jobs in ascending order."""
        return self.num_candidates + self.num_gpus

    @property
    def most_edges(self) -> int:
        """Bound on the directed edges of the coordination graph, see `envs.bidding.graph`.

        A candidate links `contenders` nodes to each other. A share of a job that spans nodes adds at most 4 edges (to
        and from the next node and the job's first node) and as many for a contended link.
        """
        linked = self.num_candidates * self.contenders * (self.contenders - 1) + 8 * self.num_gpus
        return max(min(linked, self.num_nodes * (self.num_nodes - 1)), 1)
