"""The most throughput that a job can have at each number of GPUs, at the best batch size that it may choose."""

import itertools
import math
from collections.abc import Callable
from dataclasses import dataclass
from functools import partial

import numpy as np

from envs.performance import BatchSizes, find_throughput
from envs.simulation import LinkLimit, Setup
from envs.types import BoolArray, Configuration, FloatArray, IntArray, PerformanceError
from envs.workloads.demand import node_counts

NOTHING_OFFERED = (1, 0)  # an empty range of batch sizes
BATCH_SLACK = 0.02  # allowed overestimate of the throughput at the fastest batch size; saves evaluations


@dataclass(frozen=True)
class BatchSearch:
    """The batch sizes among which `fastest_batch` searches.

    Attributes:
        low: the least batch size.
        high: the largest batch size.
        noise_scale: phi of the statistical efficiency, which falls as 1 / (phi + batch); infinite if all samples count
            alike.
        windows: int64[n, 2], least and largest batch size of each situation, outside of which its throughput is 0; None
            if all of them may use the whole range.
    """

    low: int
    high: int
    noise_scale: float = math.inf
    windows: IntArray | None = None

    def ladder(self) -> list[int]:
        """Return the batch sizes to begin with: doublings, and the ends of all windows.

        Doublings find the performance model's own range where that is narrower.
        """
        low, high = self.low, self.high
        rungs = {low, high, *(low << i for i in range((high // low).bit_length()))}
        if self.windows is not None:
            rungs |= set(self.windows.ravel().tolist())
        return sorted(rung for rung in rungs if low <= rung <= high)

    def progress_ratio(self, below: int, above: int) -> float:
        """Return the progress of a step at the larger batch size over that of one at the smaller, which is at least 1.

        A step makes progress in proportion to batch x efficiency.
        """
        if math.isinf(self.noise_scale):
            return above / below
        return above * (self.noise_scale + below) / (below * (self.noise_scale + above))

    def reaches(self, below: int, above: int) -> BoolArray | bool:
        """Return, for each situation, whether a batch size strictly between two rungs is in its window."""
        if self.windows is None:
            return True
        inside: BoolArray = (self.windows[:, 0] < above) & (self.windows[:, 1] > below)
        return inside


def fastest_batch(throughputs_at: Callable[[int], FloatArray], search: BatchSearch) -> FloatArray:
    """Return at least the goodputs at the best batch size of a range, and at most `BATCH_SLACK` more.

    Throughput is nearly, but not exactly, monotone in the batch size: GPUs wait where samples do not divide evenly, and
    measured peaks stand out. The search assumes that a step of a batch size between b and c, b < c, takes at least as
    long as the faster of the steps at b and c; tests check this for every batch size. A step's progress, batch x
    efficiency, grows with the batch size. With r the progress at c - 1 over that at b, (c - 1) / b if all samples count
    alike, no size between then has a higher goodput than max(goodput(b) r, goodput(c)), so sizes between are evaluated
    only where that exceeds the best value found. Where a job runs at c but not at b, nothing is known of the sizes
    between, and the smallest size that runs is searched for.

    Args:
        throughputs_at: maps a batch size to float64[n], useful samples/s in n situations; 0 where the job does not run.
        search: the batch sizes, and how efficiency falls with them.

    Returns:
        float64[n], useful samples/s.
    """
    ladder = search.ladder()
    found = {batch: throughputs_at(batch) for batch in ladder}
    best = np.asarray(np.max(list(found.values()), axis=0))
    pending, settled = list(itertools.pairwise(ladder)), best.copy()
    while pending:
        below, above = pending.pop()
        if above - below <= 1:
            continue
        between = np.maximum(found[below] * search.progress_ratio(below, above - 1), found[above])
        between[(found[below] == 0) & (found[above] > 0)] = np.inf  # the smallest size that runs is not known yet
        between = np.where(search.reaches(below, above), between, 0.0)
        if (between <= best * (1 + BATCH_SLACK)).all():
            settled = np.maximum(settled, between)
            continue
        middle = min(max(math.isqrt(below * above), below + 1), above - 1)
        found[middle] = throughputs_at(middle)
        best = np.maximum(best, found[middle])
        pending += [(below, middle), (middle, above)]  # larger batches first, as most of them are faster
    return np.asarray(np.maximum(settled, best))


def carried_throughput(
    name: str, links: LinkLimit, batches: BatchSizes, batch: int | None, size: tuple[int, int]
) -> float:
    """Return the most useful samples/s that links carry for a job; infinite where a plan may exceed it.

    Args:
        name: the model.
        links: the limit.
        batches: how batch sizes count.
        batch: the batch size; None for the usual one.
        size: GPUs and nodes.
    """
    if not links.active or not links.covers_plans(name):
        return math.inf
    return links.throughput(name, *size, links.fastest, batch) * batches.efficiency(name, size[0], batch)


def most_throughputs(
    name: str, ranges: IntArray, own: tuple[int, int] | None, setup: Setup
) -> tuple[FloatArray, FloatArray]:
    """Useful samples/s of a model: float64[num_gpu_types, sizes] without links, and float64[sizes], the most over them.

    The first is lowered to the second where all types that run a size reach it. A size uses the fastest link and number
    of nodes, not fewer than those of any type that have this many GPUs. Larger sizes may be slower.

    Args:
        name: the model.
        ranges: int64[num_ranges, 2], fewest and most GPUs of its jobs.
        own: the jobs' own range of batch sizes, 0 for no limit, where schedulers may choose; None leaves the batch size
            to the simulator.
        setup: the cluster and the performance model.
    """
    cluster = setup.cluster
    first, last = int(ranges[:, 0].min()), min(int(ranges[:, 1].max()), cluster.num_gpus)
    sizes = list(range(first, last + 1))
    nodes = (np.searchsorted(np.cumsum(np.sort(cluster.node_gpus)[::-1]), sizes) + 1).tolist()
    table, limit = np.zeros((len(cluster.gpu_types), last + 1)), np.full(last + 1, np.inf)
    batches = setup.scenario.offered_batches(setup.performance)

    def by_size(gpu_type: str, batch: int | None = None) -> FloatArray:
        return np.array(
            [
                max(
                    find_throughput(setup.performance, name, Configuration(gpu_type, gpus, on, batch_size=batch))
                    for on in node_counts(gpus, fewest, cluster.num_nodes)
                )
                * batches.efficiency(name, gpus, batch)
                for gpus, fewest in zip(sizes, nodes, strict=True)
            ]
        )

    def by_size_or_zero(gpu_type: str, windows: IntArray, batch: int) -> FloatArray:
        try:
            goodputs = by_size(gpu_type, batch)
        except PerformanceError:  # the performance model's own range is narrower
            return np.zeros(len(sizes))
        return np.where((windows[:, 0] <= batch) & (batch <= windows[:, 1]), goodputs, 0.0)

    carried = partial(carried_throughput, name, LinkLimit(setup), batches)
    limit[first:] = [carried(None, size) for size in zip(sizes, nodes, strict=True)]
    for row, gpu_type in enumerate(cluster.gpu_types):
        table[row, first:] = by_size(gpu_type)
        if own is None:
            continue
        offered = [batches.offered(name, gpu_type, gpus, *own) or NOTHING_OFFERED for gpus in sizes]
        windows = np.array(offered, np.int64).reshape(-1, 2)
        some = windows[:, 0] <= windows[:, 1]
        for at in np.flatnonzero(some).tolist():  # a larger batch makes more progress for the same traffic
            limit[sizes[at]] = max(limit[sizes[at]], carried(int(windows[at, 1]), (sizes[at], nodes[at])))
        if some.any():
            noise = batches.noise_scale(name)
            low, high = int(windows[some, 0].min()), int(windows[some, 1].max())
            search = BatchSearch(low, high, math.inf if noise is None else noise, windows)
            goodputs = fastest_batch(partial(by_size_or_zero, gpu_type, windows), search)
            table[row, first:] = np.maximum(table[row, first:], goodputs)
    reached = ((table >= limit) | (table == 0)).all(axis=0)
    return np.where(reached, np.minimum(table, limit), table), limit
