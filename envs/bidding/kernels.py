"""Compiled steps of a batch of episodes: observe, collect bids, take effect, advance time."""

from envs.bidding.arrays import BiddingArrays, bidding_episode
from envs.bidding.bids import collect_bids, erase_bids
from envs.bidding.graph import observe_graph
from envs.bidding.listing import list_jobs
from envs.bidding.observe import observe_job, observe_node, observe_pairs, observe_whole, sum_nodes, sum_types
from envs.episodes.candidates import Features
from envs.simulation.clock import advance
from envs.simulation.jit import kernel, part
from envs.simulation.kernels import LOG_FULL, ROUND, settle
from envs.simulation.market import BidArrays, Changes, in_round, index_changes
from envs.types import FloatArray, IntArray


@part
def observe_features(a: BiddingArrays, proposal: Changes, b: int) -> None:
    """List the jobs of one episode and write the features of jobs, nodes, pairs and cluster."""
    list_jobs(a)
    sum_types(a)
    sum_nodes(a, proposal, b)
    for row in range(len(a.listed)):
        if a.listed[row] >= 0:
            observe_job(a, proposal, b, row)
        elif row >= len(a.keys):
            break
    for n in range(len(a.nodes)):
        observe_node(a, n)
        observe_pairs(a, proposal, b, n)
    observe_whole(a, proposal, b)


@kernel
def observe_batch(batch: BiddingArrays, proposal: Changes) -> None:
    """Write the observation of every episode that has begun, with the market's proposal unless it has ended."""
    for b in range(len(batch.sizes)):
        a = bidding_episode(batch, b)
        if a.world.episode[0].num_gpus == 0:  # nothing has been loaded yet
            continue
        active = in_round(a.world)
        if active:
            index_changes(a.world, proposal, b, a.first_row, 1)
        observe_features(a, proposal, b)
        observe_graph(a)
        if active:
            index_changes(a.world, proposal, b, a.first_row, -1)


@kernel
def collect_batch(
    batch: BiddingArrays, proposal: Changes, actions: Features, bids: BidArrays, weights: FloatArray
) -> None:
    """Write the bids of every episode that is in a round.

    Args:
        batch: the episodes as they were observed.
        proposal: the market's.
        actions: float32[B, num_nodes, num_pairs, num_bids].
        bids: all 0; overwritten.
        weights: float64[num_job_rows], working memory.
    """
    for b in range(len(batch.sizes)):
        a = bidding_episode(batch, b)
        if in_round(a.world):
            index_changes(a.world, proposal, b, a.first_row, 1)
            collect_bids(a, proposal, b, actions[b], bids, weights)
            index_changes(a.world, proposal, b, a.first_row, -1)


@kernel
def erase_batch(batch: BiddingArrays, bids: BidArrays) -> None:
    """Set the bids of all jobs that were observed to 0 again."""
    for b in range(len(batch.sizes)):
        erase_bids(bidding_episode(batch, b), bids, b)


@kernel
def proceed_all(batch: BiddingArrays, first: int, last: int, outcomes: IntArray) -> None:
    """End the round of episodes `first` to `last` - 1 and advance time to the next round, the end or a full log.

    Args:
        batch: the episodes, with planned changes.
        first, last: which of them.
        outcomes: int64[B], overwritten by ROUND, END or LOG_FULL.
    """
    for b in range(first, last):
        world = bidding_episode(batch, b).world
        outcomes[b] = ROUND
        if settle(world) < 0:
            outcomes[b] = LOG_FULL
        else:
            outcomes[b] = advance(world)
