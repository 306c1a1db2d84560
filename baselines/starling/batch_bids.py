"""The batch sizes that Starling's market names: those of best goodput, shifted by bids."""

import math

import numpy as np

from baselines.parts.scalability import most_per_gpu
from baselines.parts.submitted import SubmittedJobs
from envs.performance import model_profile
from envs.scheduling import ClusterView
from envs.simulation.seen.clearing import changed_placements
from envs.simulation.seen.market import Changes
from envs.types import Configuration, FloatArray, IntArray, JobId, PerformanceError


def name_batches(changes: Changes, b: int, gpu_types: IntArray, submitted: SubmittedJobs) -> None:
    """Name in the changes of an episode the batch sizes of its jobs' throughputs.

    Args:
        changes: their rows name no batch size; changed in place.
        b: the episode.
        gpu_types: int64[num_nodes], GPU type of each node.
        submitted: the jobs. Those on several GPU types get the usual batch size.
    """
    rows = changed_placements(changes, b)
    jobs, place = np.unique(rows["job"], return_inverse=True)
    least, most = np.full(len(jobs), len(gpu_types)), np.full(len(jobs), -1)
    np.minimum.at(least, place, gpu_types[rows["node"]])
    np.maximum.at(most, place, gpu_types[rows["node"]])
    gpus = np.bincount(place, rows["gpus"]).astype(np.int64)
    batches = submitted.batches[submitted.table[jobs], most, gpus]
    rows["batch_size"] = np.where(least == most, batches, 0)[place]


def shift_batches(changes: Changes, b: int, bids: FloatArray, jobs: ClusterView, *, measured_only: bool) -> None:
    """Shift the batch sizes that the changes of an episode name, by bids.

    Args:
        changes: changed in place, see `name_batches`.
        b: the episode.
        bids: float64[num_jobs], `BidArrays.batch` of the episode.
        jobs: of the episode.
        measured_only: as in `Starling`.
    """
    rows = changed_placements(changes, b)
    for job in np.unique(rows["job"][bids[rows["job"]] != 0.0]).tolist():
        mine = rows["job"] == job
        nodes = jobs.cluster.node_types[rows["node"][mine]]
        if (nodes == nodes[0]).all():
            gpu_type, gpus = jobs.cluster.gpu_types[int(nodes[0])], int(rows["gpus"][mine].sum())
            on = Configuration(gpu_type, gpus, len(nodes), batch_size=int(rows["batch_size"][mine][0]) or None)
            found = shifted_batch(jobs, job, on, float(bids[job]), measured_only=measured_only)
            rows["batch_size"][mine] = found or 0


def shifted_batch(jobs: ClusterView, job: JobId, on: Configuration, bid: float, *, measured_only: bool) -> int | None:
    """Return the batch size to name for a job with a bid; None leaves it to the world.

    This is the offered batch size nearest to exp(bid) times the one chosen without the bid, the smaller of two that are
    equally near. The usual batch size counts as offered, and is not named, unless the job's own range excludes it. The
    choice stays where the world offers none, and where the job would not run at the batch size found.

    Args:
        jobs: of the episode.
        job: the job.
        on: its GPUs, and the batch size that is named without the bid.
        bid: the natural logarithm of a factor.
        measured_only: as in `Starling`.
    """
    spec, offered = jobs.job(job), jobs.batch_range(job, on.gpu_type, on.num_gpus)
    if offered is None:
        return on.batch_size
    limit = most_per_gpu(spec.model, on.gpu_type) if measured_only else math.inf
    low, high = max(offered[0], on.num_gpus), int(min(offered[1], limit * on.num_gpus))
    usual = model_profile(spec.model).usual_batch(on.num_gpus)
    target = (on.batch_size or usual) * math.exp(bid)
    sizes = [nearest_within(target, low, high)] if low <= high else []
    if spec.min_batch <= usual <= (spec.max_batch or usual):
        sizes.append(usual)
    if not sizes:
        return on.batch_size
    found = min(sizes, key=lambda size: (abs(size - target), size))
    named = None if found == usual else found
    return named if runs_at(jobs, job, on, named) else on.batch_size


def nearest_within(target: float, low: int, high: int) -> int:
    """Return the whole number from `low` to `high` that is nearest to a target, the smaller of equals.

    >>> nearest_within(6.5, 1, 10), nearest_within(6.6, 1, 10), nearest_within(0.2, 1, 10), nearest_within(1e9, 1, 10)
    (6, 7, 1, 10)
    """
    if not low < target < high:
        return low if target <= low else high
    below = math.floor(target)
    return below if target - below <= below + 1 - target else below + 1


def runs_at(jobs: ClusterView, job: JobId, on: Configuration, batch_size: int | None) -> bool:
    """Whether a job runs on its GPUs at a batch size; None for the usual one."""
    try:
        return jobs.goodput(job, Configuration(on.gpu_type, on.num_gpus, on.num_nodes, batch_size=batch_size)) > 0
    except PerformanceError:  # the performance model has a narrower range than what is offered
        return False
