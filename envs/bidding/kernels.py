"""Compiled steps of a batch of episodes: list the jobs that nodes see, observe them, collect bids, advance time.

A node that holds a job, or would under the proposal, counts for more in the job's offsets: each node that sees the job
has the weight 1 + the GPUs that the job holds on it + those that it would get there.
"""

from envs.bidding import columns as c
from envs.bidding.arrays import NUM_LISTED, NUM_WAITING, BiddingArrays, bidding_episode
from envs.bidding.graph import observe_graph
from envs.bidding.observe import observe_job, observe_node, observe_pairs, observe_whole, sum_nodes, sum_types
from envs.episodes.candidates import Features, enter_sorted, queue_key
from envs.episodes.physics import size_of
from envs.simulation.compiled.jit import kernel, leaf, part
from envs.simulation.seen.market import BidArrays, Changes, gpus_after, in_round, index_changes
from envs.simulation.world.clock import advance
from envs.simulation.world.kernels import LOG_FULL, ROUND, settle
from envs.simulation.world.ordered_set import next_member
from envs.simulation.world.shares import share_on
from envs.types import FloatArray, IntArray


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


@leaf
def forget_rows(a: BiddingArrays) -> None:
    """Empty the rows of the last observation."""
    for row in range(a.sizes[NUM_LISTED]):
        if a.listed[row] >= 0:
            a.row_of[a.listed[row]] = -1
        a.listed[row] = -1
        for column in range(a.jobs.shape[1]):
            a.jobs[row, column] = 0.0
    a.sizes[NUM_LISTED] = 0


@leaf
def list_candidates(a: BiddingArrays) -> int:
    """Write the candidates into the first rows of `listed`; return their number.

    First the waiting jobs in queue order, then running jobs: first the one with the smallest fraction of its best
    throughput, which has most to gain from a change. Ties by job.
    """
    world = a.world
    capacity = len(a.keys)
    count = 0
    waiting = 0
    j = next_member(world.queued, len(world.jobs), 0)
    while j >= 0:
        waiting += 1
        count = enter_sorted(a.listed, a.keys, capacity, count, j, queue_key(world, a.rules[0], world.jobs[j]))
        j = next_member(world.queued, len(world.jobs), j + 1)
    a.sizes[NUM_WAITING] = waiting
    left = capacity - count
    moving = 0
    j = next_member(world.running, len(world.jobs), 0)
    while j >= 0 and left > 0:
        job = world.jobs[j]
        best = world.reference[job.model, size_of(world, job)]
        key = job.throughput / best if best > 0 else 0.0
        moving = enter_sorted(a.listed[count:], a.keys[count:], left, moving, j, key)
        j = next_member(world.running, len(world.jobs), j + 1)
    return count + moving


@leaf
def list_jobs(a: BiddingArrays) -> None:
    """Write `listed` and `row_of`: the candidates, then all other running jobs in ascending order."""
    world = a.world
    forget_rows(a)
    count = list_candidates(a)
    for row in range(count):
        a.row_of[a.listed[row]] = row
    row = len(a.keys)
    j = next_member(world.running, len(world.jobs), 0)
    while j >= 0:
        if a.row_of[j] < 0:
            a.listed[row] = j
            a.row_of[j] = row
            row += 1
        j = next_member(world.running, len(world.jobs), j + 1)
    a.sizes[NUM_LISTED] = row


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
    observe_whole(a)


@kernel
def observe_batch(batch: BiddingArrays, proposal: Changes) -> None:
    """Write the observation of every episode that has begun, with the market's proposal unless it has ended."""
    for b in range(len(batch.sizes)):
        a = bidding_episode(batch, b)
        if a.world.episode[0].num_gpus == 0:  # nothing has been loaded yet
            continue
        active = in_round(a.world)
        if active:
            index_changes(proposal, b, a.first_row, 1)
        observe_features(a, proposal, b)
        observe_graph(a)
        if active:
            index_changes(proposal, b, a.first_row, -1)


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
            index_changes(proposal, b, a.first_row, 1)
            collect_bids(a, proposal, b, actions[b], bids, weights)
            index_changes(proposal, b, a.first_row, -1)


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
