"""First in, first out as a market: small, for tests and as the default of the bidding environment."""

from copy import copy
from typing import NamedTuple, Self

import numpy as np

from envs.simulation.compiled.jit import kernel, leaf, part
from envs.simulation.seen.market import BidArrays, Changes, add_row, clear_changes, in_round, no_bids, no_changes
from envs.simulation.seen.snapshot import SimulationView
from envs.simulation.setup import Setup
from envs.simulation.world.arrays import World, episode_of
from envs.simulation.world.job_throughput import level_of
from envs.simulation.world.ordered_set import next_member
from envs.simulation.world.shapes import ALONE, divide_gang, is_divided, is_usable, too_many_nodes
from envs.simulation.world.state import State
from envs.simulation.world.throughput import ThroughputTable
from envs.types import FloatArray, IntArray


class FifoMemory(NamedTuple):
    """Working memory of `clear_fifo`.

    Attributes:
        order: int64[num_jobs], waiting jobs.
        keys: float64[num_jobs], of each job.
        whole: int64[num_nodes], GPUs of each node.
        free: int64[num_nodes], GPUs that no job holds so far.
        open: int64[num_nodes], those of them that the placement which is being tried may take.
        trial: int64[num_nodes], GPUs on each node of the placement that is being tried.
        best: int64[num_nodes], those of the best placement so far.
        types: int64[num_nodes], GPU type of each node.
        nodes: int64[num_nodes], nodes of a division that constraints demand.
        gpus: int64[num_nodes], GPUs on each of them.
    """

    order: IntArray
    keys: FloatArray
    whole: IntArray
    free: IntArray
    open: IntArray
    trial: IntArray
    best: IntArray
    types: IntArray
    nodes: IntArray
    gpus: IntArray


@leaf
def comes_after(keys: FloatArray, i: int, j: int) -> bool:
    """Return whether job `i` comes after job `j`: the larger key is first, then the lower number."""
    return bool(keys[i] < keys[j] or (keys[i] == keys[j] and i > j))


@leaf
def sort_by_keys(order: IntArray, keys: FloatArray, count: int) -> None:
    """Sort the first jobs of `order` by `comes_after` in place (Shell's method, gaps 3 k + 1)."""
    gap = 1
    while 3 * gap + 1 < count:
        gap = 3 * gap + 1
    while gap > 0:
        for i in range(gap, count):
            job = order[i]
            place = i
            while place >= gap and comes_after(keys, order[place - gap], job):
                order[place] = order[place - gap]
                place -= gap
            order[place] = job
        gap //= 3


@leaf
def list_waiting(world: World, priority: FloatArray, memory: FifoMemory) -> int:
    """Write the waiting jobs into `order`, first the one with the largest age / exp(priority); return their number."""
    count = 0
    j = next_member(world.queued, len(world.jobs), 0)
    while j >= 0:
        memory.keys[j] = (1.0 + world.episode[0].time - world.jobs[j].submit) / np.exp(priority[j])
        memory.order[count] = j
        count += 1
        j = next_member(world.queued, len(world.jobs), j + 1)
    sort_by_keys(memory.order, memory.keys, count)
    return count


@leaf
def takes_type(world: World, j: int, gpu_type: int, wanted: int, gpus: int) -> bool:
    """Return whether a placement on a wanted type takes nodes of a type; -1 wants all types on which the job runs."""
    if wanted >= 0:
        return gpu_type == wanted
    level = level_of(gpus, world.throughputs.shape[3] - 1)
    return bool(world.throughputs[world.jobs[j].model, gpu_type, gpus, level] > 0)


@leaf
def best_node(free: IntArray, whole: IntArray, used: IntArray, affinity: FloatArray, gpus: int) -> int:
    """Find the unused node with the highest affinity; -1 if there is none.

    Args:
        free: int64[num_nodes], free GPUs of the nodes that may be taken, 0 for the others.
        whole: int64[num_nodes], GPUs of each node, to look for wholly free ones, of equals the largest; or of length 0,
            to look for any with enough free GPUs, of equals the one with fewest. Then the lowest index.
        used: int64[num_nodes], 0 for unused nodes.
        affinity: float64[num_nodes].
        gpus: GPUs that must be free.
    """
    best = -1
    best_rank = 0
    for n in range(len(free)):
        if free[n] < gpus or free[n] == 0 or used[n] > 0 or (len(whole) > 0 and free[n] != whole[n]):
            continue
        rank = free[n] if len(whole) > 0 else -free[n]
        if best < 0 or affinity[n] > affinity[best] or (affinity[n] == affinity[best] and rank > best_rank):
            best = n
            best_rank = rank
    return best


@leaf
def try_division(memory: FifoMemory, gpu_type: int, gpus: int, shape: IntArray) -> bool:
    """Write the division that constraints demand into `trial`; return whether there is room."""
    count = divide_gang(memory.open, memory.whole, memory.types, gpu_type, gpus, shape, memory.nodes, memory.gpus)
    for i in range(count):
        memory.trial[memory.nodes[i]] = memory.gpus[i]
    return bool(count > 0)


@leaf
def try_type(world: World, memory: FifoMemory, affinity: FloatArray, j: int, gpu_type: int, gpus: int) -> bool:
    """Write a placement on GPUs of one type (-1 for several) into `trial`; return whether there is room.

    One node if a node of the type is large enough; otherwise wholly free nodes, and a remainder on another one. Where
    constraints demand a division, that one.
    """
    largest, shape, count = 0, world.shapes[world.jobs[j].model], 0
    for n in range(len(memory.free)):
        takes = takes_type(world, j, world.nodes[n].gpu_type, gpu_type, gpus)
        memory.trial[n] = 0
        memory.open[n] = memory.free[n] if takes and is_usable(memory.free, memory.whole, n, shape) else 0
        if takes:
            largest = max(largest, memory.whole[n])
    if is_divided(shape):
        return gpu_type >= 0 and try_division(memory, gpu_type, gpus, shape)
    left = gpus
    while gpus > largest and left > 0:
        n = best_node(memory.open, memory.whole, memory.trial, affinity, 1)
        if n < 0 or left < memory.open[n]:
            break
        memory.trial[n] = memory.open[n]
        left -= memory.open[n]
        count += 1
    if left > 0:
        n = best_node(memory.open, memory.whole[:0], memory.trial, affinity, left)
        if n < 0:
            return False
        memory.trial[n] = left
        count += 1
    return not too_many_nodes(shape, count)


@leaf
def mean_affinity(trial: IntArray, affinity: FloatArray, gpus: int) -> float:
    """Mean affinity of a placement's nodes, by GPUs."""
    total = 0.0
    for n in range(len(trial)):
        if trial[n] > 0:
            total += trial[n] * affinity[n]
    return total / gpus


@leaf
def spans_types(world: World, j: int, gpus: int) -> bool:
    """Return whether no type has so many GPUs on which a job runs."""
    alone = False
    for t in range(world.throughputs.shape[1]):
        alone = alone or world.consolidated[world.jobs[j].model, t, gpus] > 0
    return not alone


@part
def start_job(world: World, memory: FifoMemory, affinity: FloatArray, j: int, gpus: int) -> bool:
    """Find the best placement of a waiting job: log throughput of the type plus mean affinity. False if no room."""
    throughputs = world.consolidated
    best = -np.inf
    for gpu_type in range(-1, throughputs.shape[1]):
        value = -np.inf
        if gpu_type < 0:
            if spans_types(world, j, gpus):
                value = 0.0
        elif throughputs[world.jobs[j].model, gpu_type, gpus] > 0:
            value = np.log(throughputs[world.jobs[j].model, gpu_type, gpus])
        if value == -np.inf or not try_type(world, memory, affinity, j, gpu_type, gpus):
            continue
        value += mean_affinity(memory.trial, affinity, gpus)
        if value > best:
            best = value
            for n in range(len(memory.best)):
                memory.best[n] = memory.trial[n]
    return bool(best > -np.inf)


@leaf
def wanted_gpus(world: World, j: int, size: float) -> int:
    """The requested GPUs times exp(size), rounded, within the job's range and the table."""
    job = world.jobs[j]
    wanted = int(np.floor(job.num_gpus * np.exp(size) + 0.5))
    return int(min(max(wanted, job.min_gpus), job.max_gpus, world.throughputs.shape[2] - 1))


@kernel
def clear_fifo(worlds: World, bids: BidArrays, skip: bool, changes: Changes, memory: FifoMemory) -> None:
    """Start waiting jobs in every episode that is in a round; see `FifoMarket`.

    Args:
        worlds: a batch.
        bids: of each episode.
        skip: whether jobs may pass those that do not fit.
        changes: overwritten.
        memory: of one episode.
    """
    for b in range(len(worlds.episode)):
        world = episode_of(worlds, b)
        clear_changes(changes, b)
        if not in_round(world):
            continue
        left = 0
        for n in range(len(world.nodes)):
            memory.whole[n] = world.nodes[n].num_gpus
            memory.free[n] = world.nodes[n].free
            memory.types[n] = world.nodes[n].gpu_type
            left += memory.free[n]
        count = list_waiting(world, bids.priority[b], memory)
        for i in range(count):
            j = memory.order[i]
            gpus = wanted_gpus(world, j, bids.size[b, j])
            if left >= gpus and start_job(world, memory, bids.affinity[b, j], j, gpus):
                for n in range(len(memory.best)):
                    if memory.best[n] > 0:
                        add_row(changes, b, j, n, memory.best[n])
                        memory.free[n] -= memory.free[n] if world.shapes[world.jobs[j].model, ALONE] else memory.best[n]
                left -= gpus
            elif not skip or left == 0:
                break


class FifoMarket:
    """Gangs in order of submission on their requested GPUs; running jobs keep what they have.

    Bids: jobs come in order of age / exp(`priority`), with `size` they want exp(size) times the requested GPUs within
    their range, and a placement is worth the log of its type's throughput plus the mean `affinity` of its nodes. The
    other bids have no effect, since nothing is resized or moved, and cores and batch sizes are left to the world.

    Args:
        skip: whether jobs may pass those that do not fit. It keeps GPUs busy, and a large job may starve.
    """

    def __init__(self, skip: bool = True) -> None:
        self.skip = skip
        self._memory: FifoMemory
        self._silent: BidArrays
        self._proposed: Changes
        self._cleared: Changes

    def attach(self, setup: Setup, table: ThroughputTable, state: State) -> Self:
        """Return a market with memory for the episodes of a state."""
        market = copy(self)
        jobs, nodes = state.jobs.shape[1], state.nodes.shape[1]
        market._memory = FifoMemory(
            np.zeros(jobs, np.int64), np.zeros(jobs), *(np.zeros(nodes, np.int64) for _ in range(8))
        )
        market._silent, market._proposed, market._cleared = no_bids(state), no_changes(state), no_changes(state)
        return market

    def begin(self, worlds: World, b: int, view: SimulationView) -> None:
        """Do nothing: no table depends on the workload."""

    def propose(self, worlds: World) -> Changes:
        """Clear without bids."""
        clear_fifo(worlds, self._silent, self.skip, self._proposed, self._memory)
        return self._proposed

    def clear(self, worlds: World, bids: BidArrays) -> Changes:
        """Start waiting jobs as the bids say."""
        clear_fifo(worlds, bids, self.skip, self._cleared, self._memory)
        return self._cleared
