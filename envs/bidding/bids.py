"""From the nodes' actions to the bids that a market clears.

A node that holds a job, or would under the proposal, counts for more in the job's offsets: each node that sees the job
has the weight 1 + the GPUs that the job holds on it + those that it would get there.
"""

from envs.bidding import columns as c
from envs.bidding.arrays import NUM_LISTED, BiddingArrays
from envs.episodes.candidates import Features
from envs.simulation.jit import leaf
from envs.simulation.market import BidArrays, Changes, gpus_after
from envs.simulation.shares import share_on
from envs.types import FloatArray


@leaf
def average(offsets: FloatArray, j: int, weight: float) -> None:
    """Divide a job's sum by its weight."""
    offsets[j] = offsets[j] / weight


@leaf
def add_statement(bids: BidArrays, b: int, j: int, n: int, said: Features, weight: float) -> None:
    """Add what a node says about a job to the sums."""
    bids.affinity[b, j, n] = c.BID_SCALE[c.BID_AFFINITY] * said[c.BID_AFFINITY]
    bids.growth[b, j] += weight * c.BID_SCALE[c.BID_APPETITE] * said[c.BID_APPETITE]
    bids.priority[b, j] += weight * c.BID_SCALE[c.BID_PRIORITY] * said[c.BID_PRIORITY]
    bids.size[b, j] += weight * c.BID_SCALE[c.BID_SIZE] * said[c.BID_SIZE]
    bids.restart[b, j] += weight * c.BID_SCALE[c.BID_RESTART] * said[c.BID_RESTART]
    bids.cores[b, j] += weight * c.BID_SCALE[c.BID_CORES] * said[c.BID_CORES]
    if len(said) > c.BID_BATCH:
        bids.batch[b, j] += weight * c.BID_SCALE[c.BID_BATCH] * said[c.BID_BATCH]


@leaf
def collect_bids(
    a: BiddingArrays, proposal: Changes, b: int, actions: Features, bids: BidArrays, weights: FloatArray
) -> None:
    """Write the bids of one episode; those of jobs that no node sees stay 0.

    Args:
        a: the episode as it was observed.
        proposal, b: the market's proposal, and the episode's place in it and in the bids.
        actions: float32[num_nodes, num_pairs, num_bids]; a column that is left out counts as 0.
        bids: 0 for this episode; overwritten.
        weights: float64[num_job_rows], working memory.
    """
    for row in range(a.sizes[NUM_LISTED]):
        weights[row] = 0.0
    for n in range(a.pair_jobs.shape[0]):
        for pair in range(a.pair_jobs.shape[1]):
            row = a.pair_jobs[n, pair]
            if row >= 0:
                j = a.listed[row]
                weight = 1.0 + share_on(a.world, j, n) + gpus_after(a.world, proposal, b, a.first_row, j, n)
                weights[row] += weight
                add_statement(bids, b, j, n, actions[n, pair], weight)
    for row in range(a.sizes[NUM_LISTED]):
        j = a.listed[row]
        if j >= 0 and weights[row] > 0:
            average(bids.growth[b], j, weights[row])
            average(bids.priority[b], j, weights[row])
            average(bids.size[b], j, weights[row])
            average(bids.restart[b], j, weights[row])
            average(bids.cores[b], j, weights[row])
            average(bids.batch[b], j, weights[row])


@leaf
def erase_bids(a: BiddingArrays, bids: BidArrays, b: int) -> None:
    """Set the bids of one episode to 0 again: those of the jobs that the nodes saw."""
    for row in range(a.sizes[NUM_LISTED]):
        j = a.listed[row]
        if j >= 0:
            bids.priority[b, j] = 0.0
            bids.size[b, j] = 0.0
            bids.growth[b, j] = 0.0
            bids.restart[b, j] = 0.0
            bids.cores[b, j] = 0.0
            bids.batch[b, j] = 0.0
    for n in range(a.pair_jobs.shape[0]):
        for pair in range(a.pair_jobs.shape[1]):
            row = a.pair_jobs[n, pair]
            if row >= 0:
                bids.affinity[b, a.listed[row], n] = 0.0
