"""Matchings for a matching problem: by sampling of categories, by greedy growth, and the best of both."""

from dataclasses import dataclass, replace
from typing import Literal, TypeAlias, get_args

import numpy as np

from baselines.parts.ties import first_largest, least_first, less, merge_ties
from baselines.sampling_matching.categories import Categories
from baselines.sampling_matching.descent import descend, grow_by_marginal_gain, shed, start_least
from baselines.sampling_matching.kernels import expected_throughput, match_categories, match_category, total
from baselines.sampling_matching.problem import Problem, compute_completion_seconds, of_jobs
from envs.simulation.compiled.jit import jit
from envs.types import FloatArray, IntArray, MurmurationError

JobOrder: TypeAlias = Literal["workload", "benefit", "lightest", "none"]
Valuation: TypeAlias = Literal["saving", "throughput"]
MOST_EXCHANGES = 100_000  # of one descent, which ends long before
MOST_WORKERS_PER_SIZE_STEP = 16  # most workers that one step adds


@dataclass(frozen=True)
class Matching:
    """Workers of each job, with their worth.

    Attributes:
        counts: int64[num_jobs, num_types].
        worth: weighted sum of the jobs' seconds; infinite if not all jobs can be served.
        categories: number of examined categories.
    """

    counts: IntArray
    worth: float
    categories: int = 0


@dataclass(frozen=True, slots=True)
class Sampling:
    """Settings of the category sampling.

    Job-prioritising sampling puts the jobs first that need workers most. Late categories in lexicographic order then
    give these jobs many workers. The first share `skip` of the categories is left out, and samples are drawn from the
    rest. The paper's order and skipped share are not public: both come from a third party's reimplementation
    (github.com/aliebayani/Unified-AI-Aware-Scheduler) and from our own measurements.

    The number of categories grows so fast with the jobs that a fixed number of samples from all of them finds worse and
    worse ones. So most samples are drawn near good categories, which is ours: first with each job within one worker of
    its size by marginal gain if all workers were average (`expected_sizes`), then within one worker of the best
    matching so far.

    Attributes:
        samples: number of categories drawn.
        spread: share of the samples that is drawn from all categories; 1 is job-prioritising sampling alone. Half of
            the rest is drawn around the sizes of marginal gain, half around the best category so far.
        skip: share of the categories that is never drawn, those that give the first jobs least.
        order: order of the jobs. "benefit": by the seconds saved by one worker more than an equal share, including
            communication. "workload": by computation; equal to "benefit" if communication is cheap, but wrong if it
            dominates and heavy jobs need few workers. "lightest" and "none" are for comparison.
        solves: most assignments cleared for each category.
        valuation: worth of a worker to a job: "saving", the seconds that it saves, or "throughput", for comparison.
        fairness: weight of 1 - Jain's index in the choice among categories.
        window: if not None, `samples` further categories are drawn around the best matching, every job within this many
            workers of its size there.
    """

    samples: int = 100
    spread: float = 0.3
    skip: float = 0.7
    order: JobOrder = "benefit"
    solves: int = 3
    valuation: Valuation = "saving"
    fairness: float = 0.0
    window: int | None = 2

    def __post_init__(self) -> None:
        for name, allowed, fits in (
            ("samples", "at least 1", self.samples >= 1),
            ("spread", "from 0 to 1", 0 <= self.spread <= 1),
            ("skip", "at least 0 and below 1", 0 <= self.skip < 1),
            ("order", "workload, benefit, lightest or none", self.order in get_args(JobOrder)),
            ("solves", "at least 1", self.solves >= 1),
            ("valuation", "saving or throughput", self.valuation in get_args(Valuation)),
            ("fairness", "at least 0", self.fairness >= 0),
            ("window", "at least 1, or null", self.window is None or self.window >= 1),
        ):
            if not fits:
                raise MurmurationError(f"sampling.{name} is {getattr(self, name)}; it must be {allowed}")


def job_order(problem: Problem, by: JobOrder) -> IntArray:
    """int64[num_jobs]: the jobs in the order in which categories are compared; see `Sampling`."""
    if by == "none":
        return np.arange(problem.num_jobs)
    at = np.minimum(problem.least, problem.throughputs.shape[2] - 1)
    throughputs = problem.throughputs.max(axis=1)[np.arange(problem.num_jobs), at]
    mean = (throughputs * problem.supply).sum(axis=1) / np.maximum(((throughputs > 0) * problem.supply).sum(axis=1), 1)
    load = problem.weight * problem.work / np.maximum(mean, 1e-300)
    if by == "workload":
        return np.argsort(merge_ties(-load), kind="stable")
    if by == "lightest":
        return np.argsort(merge_ties(load), kind="stable")
    share = np.maximum(problem.assigned // problem.num_jobs, 1)
    return np.argsort(merge_ties(-_saving_of_one_more(problem, load, share)), kind="stable")


def _saving_of_one_more(problem: Problem, load: FloatArray, share: int) -> FloatArray:
    """float64[num_jobs]: weighted seconds that one average worker beyond `share` saves."""
    size = np.minimum(np.maximum(problem.least, share), problem.most)
    columns = problem.overhead.shape[1] - 1
    jobs = np.arange(problem.num_jobs)
    before = problem.overhead[jobs, np.minimum(size, columns)]
    after = problem.overhead[jobs, np.minimum(size + 1, columns)]
    saving: FloatArray = load / size - load / (size + 1) + problem.weight * (before - after)
    return saving


def drawn_categories(problem: Problem, rng: np.random.Generator, sampling: Sampling) -> IntArray:
    """Draw categories by job-prioritising sampling: int64[num_drawn, num_jobs], jobs in the problem's order."""
    order = job_order(problem, sampling.order)
    among = Categories(problem.least[order], problem.most[order], problem.assigned)
    return among.draw(rng, sampling.samples, sampling.skip)[:, np.argsort(order)]


def categories_around(problem: Problem, rng: np.random.Generator, sampling: Sampling, counts: IntArray) -> IntArray:
    """Draw categories within the window around a matching's category, itself first: int64[num_drawn, num_jobs]."""
    here, window = counts.sum(axis=1), sampling.window or 1
    least, most = np.maximum(here - window, problem.least), np.minimum(here + window, problem.most)
    order = job_order(problem, sampling.order)  # so that the numbering of jobs does not change the draws
    drawn = Categories(least[order], most[order], int(here.sum())).draw(rng, sampling.samples)
    return np.concatenate([here[None], drawn[:, np.argsort(order)]])


def equal_share_matching(problem: Problem, solves: int = 3) -> Matching:
    """Give all jobs equal numbers of workers; the first jobs get one more if the number is not divisible.

    Jobs whose range excludes this size get the nearest one.
    """
    jobs = problem.num_jobs
    sizes = np.full(jobs, problem.assigned // jobs)
    sizes[: problem.assigned % jobs] += 1
    counts = np.zeros(problem.present.shape, np.int64)
    match_category(problem, np.clip(sizes, problem.least, problem.most), solves, False, counts)
    return Matching(counts, total(problem, counts), 1)


def match(problem: Problem, categories: IntArray, sampling: Sampling) -> Matching:
    """The best matching of these categories, each matched by a weighted assignment."""
    counts = np.zeros(problem.present.shape, np.int64)
    equal = np.ones(problem.num_jobs)
    if sampling.fairness:
        equal = compute_completion_seconds(problem, equal_share_matching(problem, sampling.solves).counts)
    plain = sampling.valuation == "throughput"
    match_categories(problem, categories, sampling.solves, plain, equal, sampling.fairness, counts)
    return Matching(counts, total(problem, counts), len(categories))


@jit
def expected_seconds(problem: Problem, job: int, size: int) -> float:
    """Weighted seconds to a job's end on `size` average workers; infinite where it does not run on that many."""
    gang_throughput = expected_throughput(problem, job, size)
    if gang_throughput <= 0.0:
        return np.inf
    overhead = problem.overhead[job, min(size, problem.overhead.shape[1] - 1)]
    return float(problem.weight[job] * (problem.work[job] / gang_throughput + overhead))


@jit
def _step(problem: Problem, job: int, size: int, left: int) -> tuple[float, int]:
    """The largest gain per worker of a job's next step, and the step's workers; 0 workers if there is no step."""
    now, gain, best = expected_seconds(problem, job, size), -np.inf, 0
    for more in range(1, min(left, problem.most[job] - size, MOST_WORKERS_PER_SIZE_STEP) + 1):
        then = expected_seconds(problem, job, size + more)
        if then < np.inf and less(gain, (now - then) / more):
            gain, best = (now - then) / more, more
    return gain, best


@jit
def expected_sizes(problem: Problem, workers: int) -> IntArray:
    """int64[num_jobs]: sizes by repeated steps of the job that gains most per worker, the lowest job among equals.

    All workers are assigned as far as the jobs' ranges allow, even if no job gains. Where seconds are convex in the
    size, as with cheap communication, no other category is better for average workers.

    Args:
        problem: the matching problem.
        workers: number of workers to assign, `Problem.assigned`.
    """
    jobs = len(problem.work)
    sizes = problem.least.copy()
    left = workers - sizes.sum()
    gains, steps = np.empty(jobs), np.empty(jobs, np.int64)
    for job in range(jobs):
        gains[job], steps[job] = _step(problem, job, sizes[job], left)
    while left > 0:
        job = first_largest(gains)
        if steps[job] == 0:
            break
        if steps[job] <= left:  # else the workers of this step have been taken
            sizes[job] += steps[job]
            left -= steps[job]
        gains[job], steps[job] = _step(problem, job, sizes[job], left)
    return sizes


def sampled_matching(problem: Problem, rng: np.random.Generator, sampling: Sampling) -> Matching:
    """Match by sampling alone: from all categories, around the sizes of marginal gain, then around the best so far.

    If the samples cover all categories, all are examined.
    """
    spread = round(sampling.spread * sampling.samples)
    centre = expected_sizes(problem, problem.assigned)
    listed = sampling.spread == 1 or centre.sum() != problem.assigned
    if listed or Categories(problem.least, problem.most, problem.assigned).count <= sampling.samples:
        return match(problem, drawn_categories(problem, rng, sampling), sampling)
    near = max((sampling.samples - spread) // 2, 1)
    categories = _near(problem, rng, sampling, centre, near)
    if spread:
        drawn = drawn_categories(problem, rng, replace(sampling, samples=spread))
        categories = np.concatenate([drawn, categories])
    first = match(problem, categories, sampling)
    if not np.isfinite(first.worth):
        return first
    matching = match(problem, _near(problem, rng, sampling, first.counts.sum(axis=1), near), sampling)
    return Matching(matching.counts, matching.worth, first.categories + matching.categories)


def _near(problem: Problem, rng: np.random.Generator, sampling: Sampling, sizes: IntArray, samples: int) -> IntArray:
    """Draw categories with every job within one worker of a category, itself first: int64[num_drawn, num_jobs]."""
    counts = np.zeros(problem.present.shape, np.int64)
    counts[:, 0] = sizes
    return categories_around(problem, rng, replace(sampling, samples=samples, window=1), counts)


def improve_by_exchanges(problem: Problem, matching: Matching) -> Matching:
    """Improve a matching by exchanges between jobs; a matching that cannot run is returned unchanged."""
    if not np.isfinite(matching.worth):
        return matching
    counts = matching.counts.copy()
    descend(problem, counts, MOST_EXCHANGES)
    return Matching(counts, total(problem, counts), matching.categories)


def greedy_matching(problem: Problem, *, polish: bool = True) -> Matching:
    """Match by least sizes, marginal gain, then exchanges; the worth is infinite if not all jobs can be served."""
    counts = np.zeros(problem.present.shape, np.int64)
    if not start_least(problem, counts):
        return Matching(counts, float("inf"))
    grow_by_marginal_gain(problem, counts)
    matching = Matching(counts, total(problem, counts))
    return improve_by_exchanges(problem, matching) if polish else matching


def present_matching(problem: Problem) -> Matching:
    """Match from the present workers, with the least change that new jobs need, then growth and exchanges.

    The worth is infinite if the new jobs find no workers on which they run.
    """
    counts = problem.present.copy()
    newcomers = np.flatnonzero(counts.sum(axis=1) == 0)
    if not shed(problem, counts, int(problem.least[newcomers].sum())):
        return Matching(counts, float("inf"))
    if newcomers.size:
        theirs = np.zeros((len(newcomers), len(problem.supply)), np.int64)
        if not start_least(of_jobs(problem, newcomers, problem.supply - counts.sum(axis=0)), theirs):
            return Matching(counts, float("inf"))
        counts[newcomers] = theirs
    if not np.isfinite(total(problem, counts)):
        return Matching(counts, float("inf"))
    grow_by_marginal_gain(problem, counts)
    return improve_by_exchanges(problem, Matching(counts, total(problem, counts)))


def best_matching(problem: Problem, rng: np.random.Generator, sampling: Sampling) -> Matching:
    """The best of greedy growth, job-prioritising sampling and sampling around the better, each with exchanges.

    If jobs hold workers already, the present matching is one more candidate, and changes include their restarts.

    Sampling alone fails if communication dominates or jobs are many, greedy growth alone if jobs are few. Together they
    were within one per cent of the optimum wherever it could be certified.
    """
    matchings = [present_matching(problem)] if problem.present.any() else []
    matchings += [greedy_matching(problem), improve_by_exchanges(problem, sampled_matching(problem, rng, sampling))]
    best = least_first(matchings, lambda matching: matching.worth)
    if sampling.window is not None and np.isfinite(best.worth):
        around = match(problem, categories_around(problem, rng, sampling, best.counts), sampling)
        matchings.append(improve_by_exchanges(problem, around))
    best = least_first(matchings, lambda matching: matching.worth)
    return Matching(best.counts, best.worth, sum(matching.categories for matching in matchings))
