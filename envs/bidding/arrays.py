"""The arrays that the bidding environment's kernels read and write."""

from typing import NamedTuple

import numpy as np
import numpy.typing as npt

from envs.bidding import columns
from envs.bidding.spec import BiddingRules, BiddingSpec
from envs.episodes.candidates import QUEUE_ORDERS, Features
from envs.simulation import State, ThroughputTable
from envs.simulation.compiled.jit import leaf
from envs.simulation.world.arrays import World, batch_world, episode_of
from envs.types import FloatArray, IntArray

Indices = npt.NDArray[np.int32]

# Columns of `node_sums` behind those of `envs.episodes.coupling`, over the jobs on a node.
(
    SUM_SPANNING,  # jobs that span nodes
    SUM_PROPOSED_FREE,  # free GPUs under the proposal
    SUM_PROPOSED_CHANGE,  # GPUs that the proposal takes or gives
) = range(5, 8)
# Columns of `type_sums`.
TYPE_THROUGHPUT, TYPE_GPUS, TYPE_FREE = range(3)
# Entries of `sizes`.
NUM_LISTED, NUM_WAITING, NUM_EDGES = range(3)


class BiddingArrays(NamedTuple):
    """The engine's arrays, working memory and observations, of one episode or of a batch.

    In a batch every array except the engine's tables and `rules` has a leading axis; `bidding_episode` selects one.

    Attributes:
        world: the engine's arrays.
        rules: int64[2], index into `QUEUE_ORDERS`, and `contenders`.
        sizes: int64[3], rows of `jobs` that are used up to the last candidate or running job, waiting jobs, edges.
        listed: int64[num_job_rows], the job of each row of `jobs`, -1 for an empty row.
        row_of: int64[num_jobs], the row of each job, -1 if it has none.
        keys: float64[num_candidates], sort keys of the candidates.
        first_row: int64[num_jobs], see `envs.simulation.seen.market.gpus_after`.
        node_sums: float64[num_nodes, 8].
        type_sums: float64[num_gpu_types, 3].
        contenders: int64[num_candidates, contenders], best places of each candidate, -1 for none.
        scores: float64[num_candidates, contenders], how good they are.
        first_contest: int64[num_nodes], for each node the first position in `contenders`, flat, at which it stands.
        next_contest: int64[num_candidates * contenders], the next such position, -1 for none.
        before: int64[num_shares], for each share the node of the job's share before it, -1 for none.
        first_partner: int64[num_nodes], head of each node's list of nodes linked by contended links.
        next_partner: int64[2 * num_gpus], the next entry of the list.
        partner: int64[2 * num_gpus], the node.
        seen: int64[num_nodes], the edge from each node to the present target, -1 for none.
        jobs: float32[num_job_rows, F_job].
        nodes: float32[num_nodes, F_node].
        pairs: float32[num_nodes, num_pairs, F_pair].
        pair_jobs: int32[num_nodes, num_pairs], the row of `jobs` of each pair, -1 for an empty one.
        cluster: float32[F_cluster].
        edges: int32[2, most_edges], source and target, grouped by ascending target; -1 behind the last one.
        edge_features: float32[most_edges, F_edge].
        num_edges: int32[1].
    """

    world: World
    rules: IntArray
    sizes: IntArray
    listed: IntArray
    row_of: IntArray
    keys: FloatArray
    first_row: IntArray
    node_sums: FloatArray
    type_sums: FloatArray
    contenders: IntArray
    scores: FloatArray
    first_contest: IntArray
    next_contest: IntArray
    before: IntArray
    first_partner: IntArray
    next_partner: IntArray
    partner: IntArray
    seen: IntArray
    jobs: Features
    nodes: Features
    pairs: Features
    pair_jobs: Indices
    cluster: Features
    edges: Indices
    edge_features: Features
    num_edges: Indices


OBSERVATION_KEYS = ("jobs", "nodes", "pairs", "pair_jobs", "cluster", "edges", "edge_features", "num_edges")


def allocate_bidding(state: State, spec: BiddingSpec, rules: BiddingRules, table: ThroughputTable) -> BiddingArrays:
    """Allocate arrays for all episodes of a state."""
    batch, num_jobs = state.jobs.shape
    nodes, shares, contenders = spec.num_nodes, state.shares.shape[1], spec.contenders

    def features(*shape: int) -> Features:
        return np.zeros((batch, *shape), np.float32)

    def numbers(*shape: int, start: int = -1) -> IntArray:
        return np.full((batch, *shape), start, np.int64)

    return BiddingArrays(
        world=batch_world(state, table),
        rules=np.array([QUEUE_ORDERS.index(rules.queue_order), contenders]),
        sizes=numbers(3, start=0),
        listed=numbers(spec.num_job_rows),
        row_of=numbers(num_jobs),
        keys=np.zeros((batch, spec.num_candidates)),
        first_row=numbers(num_jobs),
        node_sums=np.zeros((batch, nodes, SUM_PROPOSED_CHANGE + 1)),
        type_sums=np.zeros((batch, table.throughputs.shape[1], TYPE_FREE + 1)),
        contenders=numbers(spec.num_candidates, contenders),
        scores=np.zeros((batch, spec.num_candidates, contenders)),
        first_contest=numbers(nodes),
        next_contest=numbers(spec.num_candidates * contenders),
        before=numbers(shares),
        first_partner=numbers(nodes),
        next_partner=numbers(2 * spec.num_gpus),
        partner=numbers(2 * spec.num_gpus),
        seen=numbers(nodes),
        jobs=features(spec.num_job_rows, len(columns.JOB_COLUMNS)),
        nodes=features(nodes, len(columns.NODE_COLUMNS)),
        pairs=features(nodes, spec.num_pairs, len(columns.PAIR_COLUMNS)),
        pair_jobs=np.full((batch, nodes, spec.num_pairs), -1, np.int32),
        cluster=features(len(columns.CLUSTER_COLUMNS)),
        edges=np.full((batch, 2, spec.most_edges), -1, np.int32),
        edge_features=features(spec.most_edges, len(columns.EDGE_COLUMNS)),
        num_edges=np.zeros((batch, 1), np.int32),
    )


@leaf
def bidding_episode(batch: BiddingArrays, b: int) -> BiddingArrays:
    """Return the arrays of one episode of a batch."""
    return BiddingArrays(
        episode_of(batch.world, b),
        batch.rules,
        batch.sizes[b],
        batch.listed[b],
        batch.row_of[b],
        batch.keys[b],
        batch.first_row[b],
        batch.node_sums[b],
        batch.type_sums[b],
        batch.contenders[b],
        batch.scores[b],
        batch.first_contest[b],
        batch.next_contest[b],
        batch.before[b],
        batch.first_partner[b],
        batch.next_partner[b],
        batch.partner[b],
        batch.seen[b],
        batch.jobs[b],
        batch.nodes[b],
        batch.pairs[b],
        batch.pair_jobs[b],
        batch.cluster[b],
        batch.edges[b],
        batch.edge_features[b],
        batch.num_edges[b],
    )
