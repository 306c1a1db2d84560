"""Random matching problems with measured throughputs, for experiments.

The paper's instances are not public. Ours: workers are T4, P100 and V100 in random numbers. Jobs train models of the
zoo that run as replicas on all three types, with the zoo's single-GPU throughputs and the models' own gradients.
"""

from dataclasses import dataclass
from functools import cache

import numpy as np

from baselines.sampling_matching.problem import Problem, problem, ring_overhead
from envs.performance import default_model
from envs.performance.zoo import zoo
from envs.types import Configuration, FloatArray

GPU_TYPES = ("T4", "P100", "V100")
SHORTEST_HOURS, LONGEST_HOURS = 0.5, 8.0  # hours of a job on one average worker; log-uniform between them
THROUGHPUT_NOISE = 0.1  # a single worker's throughput differs from its type's by at most this share


@dataclass(frozen=True)
class InstanceSetting:
    """Cost of communication.

    Attributes:
        name: name in tables.
        link_gb_s: slowest link of every ring, in GB/s.
        batch_share: mini-batches as a share of the zoo's usual ones; small batches reduce gradients more often.
    """

    name: str
    link_gb_s: float
    batch_share: float


FAST_LINKS = InstanceSetting("100 Gbit/s, usual batches", 12.5, 1.0)
SLOW_LINKS = InstanceSetting("10 Gbit/s, 1/8 of usual batches", 1.25, 0.125)


@dataclass(frozen=True)
class Instance:
    """A problem and the batches that it was made from.

    Attributes:
        problem: the matching problem.
        batch: float64[num_jobs], samples per iteration of each job.
    """

    problem: Problem
    batch: FloatArray


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
    rng: np.random.Generator, num_jobs: int, num_workers: int, setting: InstanceSetting, *, alike: bool
) -> Instance:
    """Draw one instance.

    Args:
        rng: random generator.
        num_jobs: number of jobs, at most the number of workers.
        num_workers: number of workers.
        setting: links and batches.
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
    batch = np.maximum([setting.batch_share * profile.usual_batch(share) for profile in profiles], 1.0)
    gradients = np.array([profile.gradient_gb for profile in profiles])
    overhead = ring_overhead(num_workers, work / batch, gradients, setting.link_gb_s)
    return Instance(problem(throughputs, work, supply=supply, overhead=overhead), batch)
