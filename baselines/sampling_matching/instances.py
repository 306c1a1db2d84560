"""Random matching problems with measured speeds, for experiments.

The paper's instances are not public. Ours: workers are T4, P100 and V100 in random numbers; jobs train models of the
zoo that run as replicas on all three, at the zoo's single-GPU speeds; gradients are the models' own.
"""

from dataclasses import dataclass
from functools import cache

import numpy as np

from baselines.sampling_matching.problem import Problem, problem, ring_overhead
from envs.performance import default_model
from envs.performance.zoo import zoo
from envs.types import FloatArray

GPU_TYPES = ("T4", "P100", "V100")
SHORTEST, LONGEST = 0.5, 8.0  # hours of a job on one average worker; log-uniform between them
NOISE = 0.1  # a single worker's speed is within this share of its type's


@dataclass(frozen=True)
class Setting:
    """How dear communication is.

    Attributes:
        name: for tables.
        link_gb_s: slowest link of every ring, in GB/s.
        batch_share: mini-batches as a share of the zoo's usual ones; small batches reduce gradients more often.
    """

    name: str
    link_gb_s: float
    batch_share: float


FAST_LINKS = Setting("100 Gbit/s, usual batches", 12.5, 1.0)
SLOW_LINKS = Setting("10 Gbit/s, 1/8 of usual batches", 1.25, 0.125)


@dataclass(frozen=True)
class Instance:
    """A problem and what it was made of.

    Attributes:
        problem: what is to be matched.
        batch: float64[num_jobs], samples of one iteration of each job.
    """

    problem: Problem
    batch: FloatArray


@cache
def _models() -> tuple[tuple[str, tuple[float, ...]], ...]:
    """Models that run as replicas on all three types, with their samples/s on one GPU of each."""
    performance = default_model()
    found = []
    for name, profile in zoo().items():
        rates = tuple(performance.throughput(name, kind, 1) for kind in GPU_TYPES)
        if profile.plans == "dp" and min(rates) > 0:
            found.append((name, rates))
    return tuple(found)


def draw(rng: np.random.Generator, num_jobs: int, num_workers: int, setting: Setting, *, alike: bool) -> Instance:
    """One instance.

    Args:
        rng: where chance comes from.
        num_jobs: jobs, at most as many as workers.
        num_workers: workers.
        setting: links and batches.
        alike: whether workers of a type are equal, so that types are the kinds; else every worker has a speed of its
            own for every job, and is a kind.
    """
    supply = rng.multinomial(num_workers - len(GPU_TYPES), np.full(len(GPU_TYPES), 1 / len(GPU_TYPES))) + 1
    known = _models()
    chosen = [known[int(which)] for which in rng.integers(len(known), size=num_jobs)]
    rates = np.array([speeds for _, speeds in chosen])
    if not alike:
        rates = np.repeat(rates, supply, axis=1)
        rates = rates * rng.uniform(1 - NOISE, 1 + NOISE, rates.shape)
        supply = np.ones(num_workers, np.int64)
    mean = (rates * supply).sum(axis=1) / num_workers
    work = 3600.0 * mean * np.exp(rng.uniform(np.log(SHORTEST), np.log(LONGEST), num_jobs))
    profiles = [zoo()[name] for name, _ in chosen]
    share = max(num_workers // num_jobs, 1)
    batch = np.maximum([setting.batch_share * profile.usual_batch(share) for profile in profiles], 1.0)
    gradients = np.array([profile.gradient_gb for profile in profiles])
    overhead = ring_overhead(num_workers, work / batch, gradients, setting.link_gb_s)
    return Instance(problem(rates, work, supply=supply, overhead=overhead), batch)
