"""Random matching problems with measured throughputs, and their optima by enumeration.

Workers are T4, P100 and V100 in random numbers. Jobs train models of the zoo that run as replicas on all three types,
with the zoo's single-GPU throughputs and the models' own gradients.
"""

from functools import cache

import numpy as np

from baselines.sampling_matching.kernels import seconds
from baselines.sampling_matching.problem import Problem, problem
from envs.performance import default_model
from envs.performance.zoo import zoo
from envs.simulation.compiled.jit import jit
from envs.types import Configuration, FloatArray, IntArray
from tests.unit.baselines.matching_worlds import ring_overhead

GPU_TYPES = ("T4", "P100", "V100")
SHORTEST_HOURS, LONGEST_HOURS = 0.5, 8.0  # hours of a job on one average worker; log-uniform between them
THROUGHPUT_NOISE = 0.1  # a single worker's throughput differs from its type's by at most this share


FAST_LINKS = (12.5, 1.0)  # GB/s of the slowest link, and mini-batches as a share of the zoo's usual ones
SLOW_LINKS = (1.25, 0.125)  # small batches reduce gradients more often


@cache
def _models() -> tuple[tuple[str, tuple[float, ...]], ...]:
    """Models that run as replicas on all three types, with their samples/s on one GPU of each."""
    performance = default_model()
    found = []
    for name, profile in zoo().items():
        throughputs = tuple(performance.throughput(name, Configuration(gpu_type, 1)) for gpu_type in GPU_TYPES)
        if profile.plans == "dp" and min(throughputs) > 0:
            found.append((name, throughputs))
    return tuple(found)


def draw(
    rng: np.random.Generator, num_jobs: int, num_workers: int, links: tuple[float, float], *, alike: bool
) -> Problem:
    """Draw one instance.

    Args:
        rng: random generator.
        num_jobs: number of jobs, at most the number of workers.
        num_workers: number of workers.
        links: `FAST_LINKS` or `SLOW_LINKS`.
        alike: whether workers of a GPU type are equal, so that GPU types are the worker types; else each worker has its
            own throughput for every job and is a worker type.
    """
    supply = rng.multinomial(num_workers - len(GPU_TYPES), np.full(len(GPU_TYPES), 1 / len(GPU_TYPES))) + 1
    known = _models()
    chosen = [known[int(which)] for which in rng.integers(len(known), size=num_jobs)]
    throughputs = np.array([by_type for _, by_type in chosen])
    if not alike:
        throughputs = np.repeat(throughputs, supply, axis=1)
        throughputs = throughputs * rng.uniform(1 - THROUGHPUT_NOISE, 1 + THROUGHPUT_NOISE, throughputs.shape)
        supply = np.ones(num_workers, np.int64)
    mean = (throughputs * supply).sum(axis=1) / num_workers
    work = 3600.0 * mean * np.exp(rng.uniform(np.log(SHORTEST_HOURS), np.log(LONGEST_HOURS), num_jobs))
    profiles = [zoo()[name] for name, _ in chosen]
    share = max(num_workers // num_jobs, 1)
    batch = np.maximum([links[1] * profile.usual_batch(share) for profile in profiles], 1.0)
    gradients = np.array([profile.gradient_gb for profile in profiles])
    overhead = ring_overhead(num_workers, work / batch, gradients, links[0])
    return problem(throughputs, work, supply=supply, overhead=overhead)


def every_split(made: Problem) -> float:
    """The worth of the best matching: every way to split every set of workers between one job and the later jobs.

    Workers of one type are equal. For K workers that all differ in type there are 3^K splits.
    """
    return _split_all(made)


@jit
def _times(made: Problem, steps: IntArray) -> FloatArray:
    """float64[num_jobs, num_sets]: weighted seconds of each job on each set of workers."""
    jobs, num_types = made.present.shape
    sets = steps[num_types]
    times = np.empty((jobs, sets))
    counts = np.zeros((jobs, num_types), np.int64)
    for chosen in range(sets):
        for job in range(jobs):
            for worker_type in range(num_types):
                counts[job, worker_type] = chosen // steps[worker_type] % (made.supply[worker_type] + 1)
            times[job, chosen] = made.weight[job] * seconds(made, job, counts)
    return times


@jit
def _split_all(made: Problem) -> float:
    """The least total. A set of workers is a number whose digits count workers of each type."""
    jobs, num_types = made.present.shape
    steps = np.ones(num_types + 1, np.int64)
    for worker_type in range(num_types):
        steps[worker_type + 1] = steps[worker_type] * (made.supply[worker_type] + 1)
    times = _times(made, steps)
    sets = steps[num_types]
    behind = np.full(sets, np.inf)  # the least total of the later jobs, by the set left to them
    idle = np.sum(made.supply) - min(np.sum(made.supply), np.sum(made.most))
    for whole in range(sets):
        size = 0
        for worker_type in range(num_types):
            size += whole // steps[worker_type] % (made.supply[worker_type] + 1)
        if made.may_idle or size == idle:
            behind[whole] = 0.0
    bits = np.max(made.supply) == 1  # then sets are numbers in base 2, whose subsets enumerate faster
    for job in range(jobs - 1, -1, -1):
        least = np.full(sets, np.inf)
        for whole in range(sets) if job > 0 else range(sets - 1, sets):
            part = whole
            while part >= 0:
                least[whole] = min(least[whole], times[job, part] + behind[whole - part])
                if part > 0 and bits:
                    part = (part - 1) & whole
                else:
                    part = _next_part(part, whole, steps)
        behind = least
    return float(behind[sets - 1])


@jit
def _next_part(part: int, whole: int, steps: IntArray) -> int:
    """The next smaller number whose digits are at most those of `whole`; -1 after the last."""
    for worker_type in range(len(steps) - 1):
        base = steps[worker_type + 1] // steps[worker_type]
        if part // steps[worker_type] % base > 0:
            return int(part - steps[worker_type])
        part += steps[worker_type] * (whole // steps[worker_type] % base)
    return -1
