"""Compiled functions about jobs that both environments use: times as features, and the order of the candidates."""

import numpy as np
import numpy.typing as npt

from envs.simulation.compiled.jit import Records, leaf
from envs.simulation.world.arrays import World
from envs.simulation.world.kernels import attained_service, remaining_work
from envs.types import FloatArray, IntArray

Features = npt.NDArray[np.float32]

QUEUE_ORDERS = ("shortest", "fifo", "least_service")
FIFO, LEAST_SERVICE = QUEUE_ORDERS.index("fifo"), QUEUE_ORDERS.index("least_service")
SCALING_POINTS = (1, 2, 4, 8)  # GPU counts at which a job's scaling efficiency is shown


@leaf
def log_minutes(seconds: float) -> float:
    """Compress a time: log(1 + minutes) / 10."""
    return float(np.log1p(max(seconds, 0.0) / 60.0) / 10.0)


@leaf
def estimated_time(job: Records, time: float, reference: FloatArray) -> float:
    """Remaining seconds on the requested GPUs of the fastest type, as schedulers estimate them."""
    throughput = reference[job.model, min(job.num_gpus, reference.shape[1] - 1)]
    return float(remaining_work(job, time) * job.estimate / throughput) if throughput > 0 else 0.0


@leaf
def queue_key(world: World, order: int, job: Records) -> float:
    """Return the sort key of a waiting job: smaller is first; `order` is an index into `QUEUE_ORDERS`."""
    episode = world.episode[0]
    if order == FIFO:
        return float(job.submit)
    if order == LEAST_SERVICE or episode.knows_work == 0:
        return attained_service(job, episode.time)
    return estimated_time(job, episode.time, world.reference)


@leaf
def enter_sorted(heads: IntArray, keys: FloatArray, capacity: int, count: int, j: int, key: float) -> int:
    """Insert a job among the `count` first by (key, job) of at most `capacity`; return the new count."""
    if count == capacity and (key > keys[count - 1] or (key == keys[count - 1] and j > heads[count - 1])):
        return count
    place = min(count, capacity - 1)
    while place > 0 and (keys[place - 1] > key or (keys[place - 1] == key and heads[place - 1] > j)):
        keys[place] = keys[place - 1]
        heads[place] = heads[place - 1]
        place -= 1
    keys[place] = key
    heads[place] = j
    return min(count + 1, capacity)


@leaf
def fastest_type(world: World, job: Records, gpus: int) -> int:
    """Return the GPU type on which a job is fastest with so many consolidated GPUs; the last one of equals."""
    throughputs = world.consolidated
    best = world.reference[job.model, gpus]
    fastest = 0
    for gpu_type in range(throughputs.shape[1]):
        if throughputs[job.model, gpu_type, gpus] == best:
            fastest = gpu_type
    return fastest


@leaf
def scaling_efficiency(world: World, job: Records, gpu_type: int, out: Features) -> None:
    """Write, for each of `SCALING_POINTS`, the throughput per GPU of a type as a fraction of that on one GPU.

    If the job does not run on one GPU, the smallest of these counts on which it runs takes its place. Where the cluster
    has too few GPUs of the type, the throughput is that on one node.
    """
    throughputs, reference = world.consolidated, world.reference
    single = 0.0
    for i in range(len(SCALING_POINTS)):
        size = min(SCALING_POINTS[i], reference.shape[1] - 1)
        per_gpu = throughputs[job.model, gpu_type, size] / size
        if world.levels[gpu_type, size] < 0:
            per_gpu = world.throughputs[job.model, gpu_type, size, 0] / size
        if single == 0.0:
            single = per_gpu
        out[i] = per_gpu / single if single > 0 else 0.0
