"""Random matching problems, and slow, obvious twins of what compiled kernels do with them."""

from collections.abc import Iterator
from itertools import product

import numpy as np

from baselines.sampling_matching.market import clear_by_assignment
from baselines.sampling_matching.problem import Problem, completion_times, objective, problem, ring_overhead
from envs.types import FloatArray, IntArray, MurmurationError


def paper_problem(seed: int, jobs: int, workers: int, *, link_gb_s: float = 12.5, may_idle: bool = False) -> Problem:
    """The paper's model: every worker a kind, three types of unequal speed, one ring per job."""
    rng = np.random.default_rng(seed)
    rates = rng.choice([300.0, 700.0, 1500.0], workers) * rng.uniform(0.7, 1.4, (jobs, workers))
    work = rates.mean(axis=1) * np.exp(rng.uniform(7.0, 10.0, jobs))
    overhead = ring_overhead(workers, work / 256, rng.uniform(0.02, 0.5, jobs), link_gb_s)
    return problem(rates, work, overhead=overhead, may_idle=may_idle)


def any_problem(seed: int, *, most_jobs: int = 4, most_kinds: int = 3) -> Problem:
    """Everything that a problem may hold: kinds of several workers, gangs slower when mixed, ranges, restarts."""
    rng = np.random.default_rng(seed)
    kinds = int(rng.integers(1, most_kinds + 1))
    supply = rng.integers(1, 5, kinds)
    jobs = int(rng.integers(1, min(most_jobs, supply.sum()) + 1))
    sizes = int(supply.sum()) + 1
    alone = rng.uniform(1, 10, (jobs, 1, sizes, kinds)) * (rng.random((jobs, 1, sizes, kinds)) > 0.1)
    mixed = alone * rng.uniform(0.5, 1.0, alone.shape)
    rates = np.concatenate([alone, mixed], axis=1) if rng.random() < 0.7 else alone[:, :, :1]
    least = np.ones(jobs, np.int64)
    for _ in range(int(rng.integers(0, supply.sum() - jobs + 1))):
        if rng.random() < 0.3:
            least[int(rng.integers(jobs))] += 1
    return problem(
        rates,
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
    """Some workers in some hands."""
    held = np.zeros((jobs, len(supply)), np.int64)
    for kind, count in enumerate(supply.tolist()):
        for _ in range(count):
            if rng.random() < 0.4:
                held[int(rng.integers(jobs)), kind] += 1
    return held


def some_plan(made: Problem, seed: int) -> IntArray:
    """Counts drawn at random, within what there is; whether the jobs can run so is left to chance."""
    rng = np.random.default_rng(seed)
    return _held(rng, made.num_jobs, made.supply)


def all_plans(made: Problem) -> Iterator[IntArray]:
    """Every way to hand out all workers that the jobs can take, or also fewer where workers may idle."""
    jobs = made.num_jobs
    per_kind = []
    for count in made.supply.tolist():
        rows = [row for row in product(range(count + 1), repeat=jobs) if sum(row) <= count]
        per_kind.append(rows)
    for columns in product(*per_kind):
        counts = np.array(columns, np.int64).T.copy()
        if made.may_idle or counts.sum() == made.assigned:
            yield counts


def best_slowly(made: Problem) -> float:
    """The least worth of all plans."""
    return min(objective(made, counts) for counts in all_plans(made))


def rate_slowly(made: Problem, job: int, size: int, kind: int) -> float:
    """Samples/s of one worker in a gang of so many, alone of its kind if it runs so."""
    at = min(size, made.rates.shape[2] - 1)
    return float(made.rates[job, 0, at, kind] or made.rates[job, -1, at, kind])


def match_category_slowly(made: Problem, sizes: IntArray, solves: int, plain: bool) -> float:
    """The weighted market, valued anew by its own outcome, with exact assignments."""
    jobs, kinds = made.present.shape
    rates = np.array([[rate_slowly(made, j, int(sizes[j]), k) for k in range(kinds)] for j in range(jobs)])
    able = rates > 0
    speeds = sizes * (rates * made.supply).sum(axis=1) / np.maximum((able * made.supply).sum(axis=1), 1)
    best = np.inf
    for _ in range(solves):
        worth = rates if plain else rates * (made.weight * made.work / np.maximum(speeds, 1e-100) ** 2)[:, None]
        try:
            counts = clear_by_assignment(np.where(able, worth, -np.inf), sizes, made.supply).counts
        except MurmurationError:
            return np.inf
        if (value := objective(made, counts)) >= best:
            break
        best = value
        speeds = (speeds + (counts * rates).sum(axis=1)) / 2
    return best


def grow_slowly(made: Problem, counts: IntArray, reach: int, negligible: float) -> IntArray:
    """Workers that are left to whoever gains most per worker, every step looked for anew."""
    counts = counts.copy()
    least = negligible * objective(made, counts) if made.may_idle else -np.inf
    while True:
        now = made.weight * completion_times(made, counts)
        best, where = least, None
        for job, kind in product(range(made.num_jobs), range(len(made.supply))):
            room = min(made.supply[kind] - counts[:, kind].sum(), made.most[job] - counts[job].sum(), reach)
            for more in range(1, int(room) + 1):
                trial = counts.copy()
                trial[job, kind] += more
                gain = (now[job] - made.weight[job] * completion_times(made, trial)[job]) / more
                if gain > best:
                    best, where = gain, (job, kind, more)
        if where is None:
            return counts
        counts[where[0], where[1]] += where[2]


def exchanges(made: Problem, counts: IntArray) -> Iterator[IntArray]:
    """Plans one exchange away: between two jobs, or a job and the spare workers (row -1)."""
    jobs, kinds = counts.shape
    amounts = [2**power for power in range(20) if 2**power <= made.supply.max()]
    with_spare = np.concatenate([counts, (made.supply - counts.sum(axis=0))[None]])
    for one, other, amount in product(range(jobs), range(-1, jobs), amounts):
        for give, take in product(range(-1, kinds), repeat=2):
            if one == other or give == take or (other == -1 and take == -1 and not made.may_idle):
                continue
            trial = with_spare.copy()
            for kind, giver, taker in ((give, one, other), (take, other, one)):
                if kind >= 0:
                    trial[giver, kind] -= amount
                    trial[taker, kind] += amount
            if (trial >= 0).all():
                yield trial[:-1]


def descend_slowly(made: Problem, counts: IntArray, negligible: float) -> IntArray:
    """The exchange that saves most, until none saves."""
    worth = objective(made, counts)
    tolerance = negligible * worth
    while True:
        best = min(exchanges(made, counts), key=lambda trial: objective(made, trial), default=counts)
        if not objective(made, best) < worth - tolerance:
            return counts
        counts, worth = best, objective(made, best)


def shed_slowly(made: Problem, counts: IntArray, need: int) -> IntArray | None:
    """Workers off those that have more than their least, least loss per worker first."""
    counts = counts.copy()
    while (free := int(made.supply.sum() - counts.sum())) < need:
        options: list[tuple[float, int, int, int]] = []
        now: FloatArray = made.weight * completion_times(made, counts)
        for job, kind in product(range(made.num_jobs), range(len(made.supply))):
            spare = int(min(counts[job].sum() - made.least[job], counts[job, kind], need - free))
            for amount in range(1, spare + 1):
                trial = counts.copy()
                trial[job, kind] -= amount
                loss = made.weight[job] * completion_times(made, trial)[job] - now[job]
                options.append((float(loss) / amount, job, kind, amount))
        options = [option for option in options if option[0] < np.inf]
        if not options:
            return None
        _, job, kind, amount = min(options)
        counts[job, kind] -= amount
    return counts
