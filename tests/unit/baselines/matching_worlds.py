"""Random matching problems, and slow reference implementations of the compiled kernels."""

from collections.abc import Iterator
from itertools import product

import numpy as np
import numpy.typing as npt
from scipy.optimize import linear_sum_assignment

from baselines.sampling_matching.categories import Categories
from baselines.sampling_matching.problem import Problem, compute_completion_seconds, objective, problem
from baselines.sampling_matching.search import Matching, Sampling, match
from envs.types import FloatArray, IntArray


def ring_overhead(num_workers: int, rounds: npt.ArrayLike, gradient_gb: npt.ArrayLike, link_gb_s: float) -> FloatArray:
    """Seconds in all-reduces until a job's end, by number of workers: float64[num_jobs, num_workers + 1].

    A ring over the slowest link takes 2 (k - 1) / k D / r per iteration.

    Args:
        num_workers: largest number of workers, the last column.
        rounds: iterations of each job.
        gradient_gb: gradients of each job, in GB.
        link_gb_s: bandwidth of the slowest link, in GB/s.
    """
    size = np.maximum(np.arange(num_workers + 1), 1)
    each = np.asarray(rounds, np.float64) * np.asarray(gradient_gb, np.float64) / link_gb_s
    return np.asarray(2.0 * (size - 1) / size * each[:, None])


def every_category_matching(made: Problem, sampling: Sampling) -> Matching:
    """Search all categories."""
    return match(made, Categories(made.least, made.most, made.assigned).all(), sampling)


def paper_problem(seed: int, jobs: int, workers: int, *, link_gb_s: float = 12.5, may_idle: bool = False) -> Problem:
    """The paper's model: every worker is a type, throughputs around three levels, one ring per job."""
    rng = np.random.default_rng(seed)
    throughputs = rng.choice([300.0, 700.0, 1500.0], workers) * rng.uniform(0.7, 1.4, (jobs, workers))
    work = throughputs.mean(axis=1) * np.exp(rng.uniform(7.0, 10.0, jobs))
    overhead = ring_overhead(workers, work / 256, rng.uniform(0.02, 0.5, jobs), link_gb_s)
    return problem(throughputs, work, overhead=overhead, may_idle=may_idle)


def any_problem(seed: int, *, most_jobs: int = 4, most_types: int = 3) -> Problem:
    """All features of a problem: types of several workers, slower mixed gangs, ranges, restarts."""
    rng = np.random.default_rng(seed)
    num_types = int(rng.integers(1, most_types + 1))
    supply = rng.integers(1, 5, num_types)
    jobs = int(rng.integers(1, min(most_jobs, supply.sum()) + 1))
    sizes = int(supply.sum()) + 1
    alone = rng.uniform(1, 10, (jobs, 1, sizes, num_types)) * (rng.random((jobs, 1, sizes, num_types)) > 0.1)
    mixed = alone * rng.uniform(0.5, 1.0, alone.shape)
    throughputs = np.concatenate([alone, mixed], axis=1) if rng.random() < 0.7 else alone[:, :, :1]
    least = np.ones(jobs, np.int64)
    for _ in range(int(rng.integers(0, supply.sum() - jobs + 1))):
        if rng.random() < 0.3:
            least[int(rng.integers(jobs))] += 1
    return problem(
        throughputs,
        rng.uniform(10, 1000, jobs),
        supply=supply,
        overhead=rng.uniform(0, 50, (jobs, sizes)) if rng.random() < 0.5 else None,
        weight=rng.uniform(0.1, 3, jobs),
        least=least,
        most=least + rng.integers(0, 6, jobs),
        present=_held(rng, jobs, supply),
        restart=rng.uniform(0, 40, jobs) * (rng.random(jobs) < 0.5),
        may_idle=bool(rng.random() < 0.5),
    )


def _held(rng: np.random.Generator, jobs: int, supply: IntArray) -> IntArray:
    """Assign some workers to random jobs."""
    held = np.zeros((jobs, len(supply)), np.int64)
    for worker_type, count in enumerate(supply.tolist()):
        for _ in range(count):
            if rng.random() < 0.4:
                held[int(rng.integers(jobs)), worker_type] += 1
    return held


def some_matching(made: Problem, seed: int) -> IntArray:
    """Random counts within the supply; some jobs may be unable to run on them."""
    rng = np.random.default_rng(seed)
    return _held(rng, made.num_jobs, made.supply)


def all_matchings(made: Problem) -> Iterator[IntArray]:
    """Every way to assign all workers that the jobs can take, and fewer if workers may idle."""
    jobs = made.num_jobs
    per_type = []
    for count in made.supply.tolist():
        rows = [row for row in product(range(count + 1), repeat=jobs) if sum(row) <= count]
        per_type.append(rows)
    for columns in product(*per_type):
        counts = np.array(columns, np.int64).T.copy()
        if made.may_idle or counts.sum() == made.assigned:
            yield counts


def best_slowly(made: Problem) -> float:
    """The least worth of all matchings."""
    return min(objective(made, counts) for counts in all_matchings(made))


def throughput_slowly(made: Problem, job: int, size: int, worker_type: int) -> float:
    """Samples/s of one worker in a gang of `size`, of its type alone if it runs so."""
    at = min(size, made.throughputs.shape[2] - 1)
    return float(made.throughputs[job, 0, at, worker_type] or made.throughputs[job, -1, at, worker_type])


def assign_slowly(values: FloatArray, sizes: IntArray, supply: IntArray) -> IntArray | None:
    """Counts of largest total value, by an assignment with one buyer per wanted worker; None if jobs stay unserved."""
    buyers, sellers = np.repeat(np.arange(len(sizes)), sizes), np.repeat(np.arange(len(supply)), supply)
    if len(buyers) > len(sellers):
        return None
    try:
        rows, columns = linear_sum_assignment(values[buyers][:, sellers], maximize=True)
    except ValueError:  # infeasible
        return None
    counts = np.zeros(values.shape, np.int64)
    np.add.at(counts, (buyers[rows], sellers[columns]), 1)
    return counts


def match_category_slowly(made: Problem, sizes: IntArray, solves: int, plain: bool) -> float:
    """A weighted assignment, revalued by its own outcome, with exact assignments."""
    jobs, num_types = made.present.shape
    throughputs = np.array(
        [[throughput_slowly(made, j, int(sizes[j]), k) for k in range(num_types)] for j in range(jobs)]
    )
    able = throughputs > 0
    gang_throughputs = sizes * (throughputs * made.supply).sum(axis=1) / np.maximum((able * made.supply).sum(axis=1), 1)
    best = np.inf
    for _ in range(solves):
        scale = made.weight * made.work / np.maximum(gang_throughputs, 1e-100) ** 2
        worth = throughputs if plain else throughputs * scale[:, None]
        counts = assign_slowly(np.where(able, worth, -np.inf), sizes, made.supply)
        if counts is None:
            return np.inf
        if (value := objective(made, counts)) >= best:
            break
        best = value
        gang_throughputs = (gang_throughputs + (counts * throughputs).sum(axis=1)) / 2
    return best


def grow_slowly(made: Problem, counts: IntArray, reach: int, negligible: float) -> IntArray:
    """Give free workers to the job that gains most per worker, with a full search in every step."""
    counts = counts.copy()
    least = negligible * objective(made, counts) if made.may_idle else -np.inf
    while True:
        now = made.weight * compute_completion_seconds(made, counts)
        best, where = least, None
        for job, worker_type in product(range(made.num_jobs), range(len(made.supply))):
            left = made.supply[worker_type] - counts[:, worker_type].sum()
            room = min(left, made.most[job] - counts[job].sum(), reach)
            for more in range(1, int(room) + 1):
                trial = counts.copy()
                trial[job, worker_type] += more
                gain = (now[job] - made.weight[job] * compute_completion_seconds(made, trial)[job]) / more
                if gain > best:
                    best, where = gain, (job, worker_type, more)
        if where is None:
            return counts
        counts[where[0], where[1]] += where[2]


def exchanges(made: Problem, counts: IntArray) -> Iterator[IntArray]:
    """Matchings one exchange away: between two jobs, or a job and the spare workers (row -1)."""
    jobs, num_types = counts.shape
    amounts = [2**power for power in range(20) if 2**power <= made.supply.max()]
    with_spare = np.concatenate([counts, (made.supply - counts.sum(axis=0))[None]])
    for one, other, amount in product(range(jobs), range(-1, jobs), amounts):
        for give, take in product(range(-1, num_types), repeat=2):
            if one == other or give == take or (other == -1 and take == -1 and not made.may_idle):
                continue
            trial = with_spare.copy()
            for worker_type, giver, taker in ((give, one, other), (take, other, one)):
                if worker_type >= 0:
                    trial[giver, worker_type] -= amount
                    trial[taker, worker_type] += amount
            if (trial >= 0).all():
                yield trial[:-1]


def descend_slowly(made: Problem, counts: IntArray, negligible: float) -> IntArray:
    """Make the exchange that saves most until none saves."""
    worth = objective(made, counts)
    tolerance = negligible * worth
    while True:
        best = min(exchanges(made, counts), key=lambda trial: objective(made, trial), default=counts)
        if not objective(made, best) < worth - tolerance:
            return counts
        counts, worth = best, objective(made, best)


def shed_slowly(made: Problem, counts: IntArray, need: int) -> IntArray | None:
    """Take workers from jobs above their least size, the least loss per worker first."""
    counts = counts.copy()
    while (free := int(made.supply.sum() - counts.sum())) < need:
        options: list[tuple[float, int, int, int]] = []
        now: FloatArray = made.weight * compute_completion_seconds(made, counts)
        for job, worker_type in product(range(made.num_jobs), range(len(made.supply))):
            spare = int(min(counts[job].sum() - made.least[job], counts[job, worker_type], need - free))
            for amount in range(1, spare + 1):
                trial = counts.copy()
                trial[job, worker_type] -= amount
                loss = made.weight[job] * compute_completion_seconds(made, trial)[job] - now[job]
                options.append((float(loss) / amount, job, worker_type, amount))
        options = [option for option in options if option[0] < np.inf]
        if not options:
            return None
        _, job, worker_type, amount = min(options)
        counts[job, worker_type] -= amount
    return counts
