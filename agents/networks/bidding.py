"""The bidding network: every node looks at its jobs and the candidates, and states its bids for each."""

import math
from collections.abc import Sequence
from typing import Literal, Protocol

import torch
from torch import Tensor, nn

from agents.networks.graph import DenseAttention, GraphAttention, start_at_zero
from envs.bidding import BiddingSpec
from envs.bidding.columns import (
    BID_COLUMNS,
    CLUSTER_COLUMNS,
    EDGE_COLUMNS,
    JOB_CANDIDATE,
    JOB_COLUMNS,
    NODE_COLUMNS,
    PAIR_COLUMNS,
    PAIR_HOLDS,
    PAIR_PRESENT,
)
from envs.types import MurmurationError

MIXINGS = ("graph", "dense", "none")
VOLUMES = ("full", "shared", "learned")
SHARING = (CLUSTER_COLUMNS.index("shares_cpu_memory"), CLUSTER_COLUMNS.index("contention"))


class BidNetwork(Protocol):
    """The method that a network for the bidding environment must have; it must also be a `torch.nn.Module`.

    It is built as `target(spec, **options)`. It must work for any batch size, number of nodes, jobs and edges. To be
    trained by evolution strategies, each of its `torch.nn.Linear` layers must receive inputs whose first axis is B.
    """

    def bids(self, observation: dict[str, Tensor]) -> Tensor:
        """Return bids float32[B, N, P, num_bids] from -1 to 1; 0 for the market's own decision.

        The number of bids is that of the spec for which the network was built.

        Args:
            observation: float32 `jobs` [B, R, F_job], `nodes` [B, N, F_node], `pairs` [B, N, P, F_pair], `cluster`
                [B, F_cluster] and `edge_features` [B, E, F_edge], int32 `pair_jobs` [B, N, P] (row of `jobs`, -1 for
                none), `edges` [B, 2, E] (-1 for none) and `num_edges` [B, 1]; see `envs.bidding.columns`.
        """
        ...


class BiddingPolicy(nn.Module):
    """One network shared by all nodes; it knows no names and no sizes, so it plays on any cluster.

    1. A job's state follows from its features and those of the cluster.
    2. A node's state follows from its features, those of the cluster, and the sum over the jobs that it hosts of what
       each means for it (a message from job state and pair features).
    3. Nodes exchange `rounds` messages along the edges of the coordination graph (`GraphAttention`).
    4. A node's bids on a job follow from its own state, the job's state and the features of the pair, plus a linear
       function of the latter. All output layers start at zero, so a new policy is the market's own scheduler.
    5. All bids are multiplied by the volume: 1, or what the cluster makes of it.

    A reconstruction of MAIFS' policy (TPDS'25: attention between agents and a dynamic coordination graph; equations not
    public) that bids instead of placing: the market turns bids into an allocation.

    Args:
        spec: sizes of the environment; only its number of bids counts.
        width: width of all states.
        mixing: "graph" for attention along the coordination graph, "dense" for attention among all nodes, "none" for
            nodes that do not see each other.
        rounds: rounds of messages between nodes; not used if nodes do not see each other.
        heads: attention heads.
        strength: factor on what the output layers say before it is limited to -1 ... 1. A bid of 1 multiplies by up to
            e^4 (`BID_SCALE`), so that a change of a weight of 0.1 is a strong one without it.
        silent: names of bids (`envs.bidding.columns.BID_COLUMNS`) that stay 0, for ablations.
        volume: "full" for 1; "shared" for 1 where jobs share cores, memory or links, and 0 where they share nothing;
            "learned" for a factor from 0 to 2 on each kind of bid, which follows from the features of the cluster (its
            rules, load and size) by a layer of its own and starts at 1.
        full_affinity_nodes: largest number of nodes at which nodes bid affinities for all jobs that they see. On larger
            clusters they do so for candidates only: no other node can bid for the remaining jobs, so that the market
            would compare their affinities with zeros. None for no limit, the value in older checkpoints.

    Raises:
        MurmurationError: a size is out of range, or `mixing`, `volume` or a name in `silent` is unknown.
    """

    def __init__(
        self,
        spec: BiddingSpec,
        width: int = 16,
        mixing: Literal["graph", "dense", "none"] = "graph",
        rounds: int = 1,
        heads: int = 2,
        strength: float = 0.1,
        silent: Sequence[str] = (),
        volume: Literal["full", "shared", "learned"] = "full",
        full_affinity_nodes: int | None = None,
    ) -> None:
        super().__init__()
        if mixing not in MIXINGS:
            raise MurmurationError(f"network: mixing is {mixing!r}; it must be one of {', '.join(MIXINGS)}")
        if volume not in VOLUMES:
            raise MurmurationError(f"network: volume is {volume!r}; it must be one of {', '.join(VOLUMES)}")
        if width < 1 or rounds < 0:
            raise MurmurationError(f"network: width {width} must be positive, and rounds {rounds} not negative")
        if full_affinity_nodes is not None and full_affinity_nodes < 0:
            raise MurmurationError(
                f"network: full_affinity_nodes is {full_affinity_nodes}; it must be a number, or null for no limit"
            )
        if not strength > 0:
            raise MurmurationError(f"network: strength is {strength}; it must be positive")
        self.strength = strength
        self.heard: Tensor
        self.register_buffer("heard", heard_bids(silent)[: spec.num_bids], persistent=False)
        jobs, nodes, pairs, cluster, edges = map(
            len, (JOB_COLUMNS, NODE_COLUMNS, PAIR_COLUMNS, CLUSTER_COLUMNS, EDGE_COLUMNS)
        )
        self.job = nn.Linear(jobs, width)
        self.node = nn.Linear(nodes, width)
        self.cluster = nn.Linear(cluster, 2 * width, bias=False)
        self.message = nn.Linear(pairs, width)
        self.message_of_job = nn.Linear(width, width, bias=False)
        self.pair = nn.Linear(pairs, width)
        self.pair_of_job = nn.Linear(width, width, bias=False)
        self.pair_of_node = nn.Linear(width, width, bias=False)
        self.rounds = nn.ModuleList(
            GraphAttention(width, edges, heads) if mixing == "graph" else DenseAttention(width, heads)
            for _ in range(0 if mixing == "none" else rounds)
        )
        self.out = nn.Linear(width, spec.num_bids)
        self.direct = nn.Linear(pairs, spec.num_bids, bias=False)
        start_at_zero(self.out)
        start_at_zero(self.direct)
        self.quiet_alone = volume == "shared"
        self.full_affinity_nodes = math.inf if full_affinity_nodes is None else full_affinity_nodes
        self.volume = nn.Linear(cluster, spec.num_bids) if volume == "learned" else None
        if self.volume is not None:
            start_at_zero(self.volume)

    def bids(self, observation: dict[str, Tensor]) -> Tensor:
        """Return bids [B, N, P, num_bids] from -1 to 1."""
        whole = observation["pairs"].shape[2]
        observation = without_empty_rows(observation)
        pairs, pair_jobs = observation["pairs"], observation["pair_jobs"].long()
        for_jobs, for_nodes = self.cluster(observation["cluster"]).chunk(2, -1)
        jobs = torch.tanh(self.job(observation["jobs"]) + for_jobs[:, None])
        nodes = self.node(observation["nodes"]) + for_nodes[:, None]
        message = torch.tanh(self.message(pairs) + at_pairs(self.message_of_job(jobs), pair_jobs))
        nodes = torch.tanh(nodes + (message * pairs[..., PAIR_HOLDS, None]).sum(-2))
        most = max(int(observation["num_edges"].max()), 1)
        for layer in self.rounds:
            nodes = layer(nodes, observation["edges"][:, :, :most], observation["edge_features"][:, :most])
        state = self.pair(pairs) + at_pairs(self.pair_of_job(jobs), pair_jobs) + self.pair_of_node(nodes)[:, :, None]
        bids = torch.tanh(self.strength * (self.out(torch.tanh(state)) + self.direct(pairs)))
        found: Tensor = bids * self.heard * pairs[..., PAIR_PRESENT, None]
        if nodes.shape[1] > self.full_affinity_nodes:
            candidate = at_pairs(observation["jobs"][..., JOB_CANDIDATE, None], pair_jobs)
            found = torch.cat([found[..., :1] * candidate, found[..., 1:]], -1)  # column `BID_AFFINITY` is the first
        if self.quiet_alone:
            shares = (observation["cluster"][:, SHARING] > 0).any(-1)
            found = found * shares[:, None, None, None]
        if self.volume is not None:
            factor = 1.0 + torch.tanh(self.volume(observation["cluster"]))
            found = (found * factor[:, None, None]).clamp(-1.0, 1.0)
        return nn.functional.pad(found, (0, 0, 0, whole - found.shape[2]))


def heard_bids(silent: Sequence[str]) -> Tensor:
    """Return float32[len(BID_COLUMNS)], 0 for the bids in `silent` and 1 for the others.

    Raises:
        MurmurationError: there is no such bid.
    """
    unknown = sorted(set(silent) - set(BID_COLUMNS))
    if unknown:
        raise MurmurationError(f"network: silent has {', '.join(unknown)}; bids are {', '.join(BID_COLUMNS)}")
    return torch.tensor([float(name not in silent) for name in BID_COLUMNS])


def without_empty_rows(observation: dict[str, Tensor]) -> dict[str, Tensor]:
    """Return an observation without the last rows of `pairs`, `pair_jobs` and `jobs` that hold nothing in any world."""
    pair_jobs = observation["pair_jobs"]
    used = (pair_jobs >= 0).flatten(0, 1).any(0).nonzero()
    pairs = int(used[-1]) + 1 if len(used) else 1
    jobs = max(int(pair_jobs.max()) + 1, 1)
    return observation | {
        "pairs": observation["pairs"][:, :, :pairs],
        "pair_jobs": pair_jobs[:, :, :pairs],
        "jobs": observation["jobs"][:, :jobs],
    }


def at_pairs(jobs: Tensor, pair_jobs: Tensor) -> Tensor:
    """Return the state of each pair's job: [B, R, width] and int64[B, N, P] to [B, N, P, width]."""
    batch, nodes, pairs = pair_jobs.shape
    rows = pair_jobs.clamp(min=0).reshape(batch, nodes * pairs, 1).expand(-1, -1, jobs.shape[-1])
    found: Tensor = jobs.gather(1, rows).view(batch, nodes, pairs, jobs.shape[-1])
    return found
