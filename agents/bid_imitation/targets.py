"""Bids on which a market decides as a teacher does, found round by round.

A teacher's allocation does not say which bids lead to it. They are found by trial: the market clears bids of 0, and
wherever its answer differs from the teacher's, the bids that speak for the difference are raised by one step; this is
repeated. The bids with the fewest jobs that differ are kept, of equal ones the smallest. Some rounds remain different:
a market cannot express every allocation.
"""

from collections.abc import Sequence

import numpy as np
import numpy.typing as npt

from envs.bidding import Auction, columns
from envs.episodes.candidates import Features
from envs.simulation import SimulationView
from envs.simulation.market import Changes
from envs.types import Allocation, IntArray

Grid = IntArray  # int64[num_submitted, num_nodes], GPUs of each job on each node


def grid_held(view: SimulationView) -> Grid:
    """Return the GPUs that each submitted job holds on each node."""
    held = np.zeros((len(view.num_gpus), view.cluster.num_nodes), np.int64)
    job, node, gpus = view.shares.T
    held[job, node] = gpus
    return held


def gpus_allocated(held: Grid, allocation: Allocation) -> Grid:
    """Return the GPUs that each job holds under an allocation; cores, memory and batch sizes do not count."""
    found = held.copy() if allocation.keep_running else np.zeros_like(held)
    for job, placement in allocation.changes.items():
        found[job] = 0
        for node, gpus in placement.gpus.items() if placement else ():
            found[job, node] = gpus
    return found


def gpus_cleared(held: Grid, changes: Changes, b: int) -> Grid:
    """Return the GPUs that each job holds under the changes of one episode."""
    found = held.copy()
    rows = changes.rows[b, : changes.num_rows[b]]
    found[changes.stopped[b, : changes.num_stopped[b]]] = 0
    found[rows["job"]] = 0
    found[rows["job"], rows["node"]] = rows["gpus"]
    return found


def differing(one: Grid, other: Grid) -> npt.NDArray[np.bool_]:
    """bool[num_submitted]: jobs with other GPUs."""
    differs: npt.NDArray[np.bool_] = (one != other).any(axis=1)
    return differs


def correct(held: Grid, taught: Grid, cleared: Grid, listed: IntArray, pair_jobs: npt.NDArray[np.int32]) -> Features:
    """Return the directions, -1, 0 or 1, in which bids speak for the teacher's allocation and against the market's.

    Affinity follows the GPUs on the node. Appetite and size follow the GPUs of a job that both run. Priority is the key
    of the order, so that it falls for a job that only the teacher runs and rises for one that only the market runs.
    The restart bid falls where only the teacher changes a running job and rises where only the market does.

    Args:
        held: before the round.
        taught: under the teacher's allocation.
        cleared: under the market's.
        listed: int64[num_job_rows], the job of each row of the observation, -1 for none.
        pair_jobs: int32[num_nodes, num_pairs], the row of each pair, -1 for none.

    Returns:
        float32[num_nodes, num_pairs, len(BID_COLUMNS)].
    """
    wanted, given, running = taught.sum(axis=1), cleared.sum(axis=1), held.any(axis=1)
    by_job = np.zeros((len(held), len(columns.BID_COLUMNS)), np.float32)
    more = np.sign(wanted - given) * ((wanted > 0) & (given > 0))
    by_job[:, columns.BID_APPETITE] = by_job[:, columns.BID_SIZE] = more
    by_job[:, columns.BID_PRIORITY] = 1 * ((wanted == 0) & (given > 0)) - 1 * ((wanted > 0) & (given == 0))
    by_job[:, columns.BID_RESTART] = running * (1 * differing(cleared, held) - 1 * differing(taught, held))
    present = pair_jobs >= 0
    jobs = np.where(present, listed[pair_jobs], 0)
    found = by_job[jobs]
    found[..., columns.BID_AFFINITY] = np.sign(taught - cleared)[jobs, np.arange(len(pair_jobs))[:, None]]
    return np.where(present[..., None], found, np.float32(0.0))


def find_bids(
    auction: Auction, held: Sequence[Grid], taught: Sequence[Grid], corrections: int, start: Features | None = None
) -> Features:
    """Return bids on which the market decides like the teacher, as nearly as `corrections` corrections come.

    Args:
        auction: it has observed the round, which every episode of its batch is in.
        held: of each episode.
        taught: likewise.
        corrections: number of corrections; each changes a bid by at most its inverse.
        start: float32[B, num_nodes, num_pairs, num_bids], the bids with which to begin; None for bids of 0.

    Returns:
        float32[B, num_nodes, num_pairs, num_bids].
    """
    bids = (
        np.zeros(auction.action_shape, np.float32) if start is None else start[..., : auction.action_shape[-1]].copy()
    )
    best, fewest = bids.copy(), np.full(len(bids), np.iinfo(np.int64).max)
    step = np.float32(1.0 / corrections)
    for _ in range(corrections + 1):
        changes = auction.clear(bids)
        for b in np.flatnonzero(fewest).tolist():
            cleared = gpus_cleared(held[b], changes, b)
            differ = int(differing(cleared, taught[b]).sum())
            if differ < fewest[b]:
                best[b], fewest[b] = bids[b], differ
            if not differ:
                continue
            arrays = auction.arrays
            change = correct(held[b], taught[b], cleared, arrays.listed[b], arrays.pair_jobs[b])
            bids[b] += step * change[..., : bids.shape[-1]]
        if not fewest.any():
            break
        np.clip(bids, -1.0, 1.0, out=bids)
    return best
