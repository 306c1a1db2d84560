"""Plans for a matching problem: by sampling categories, by greedy growth, and the best of both."""

from dataclasses import dataclass, replace
from typing import Literal, TypeAlias, get_args

import numpy as np

from baselines.sampling_matching.categories import Categories
from baselines.sampling_matching.centre import expected_sizes
from baselines.sampling_matching.descent import descend, grow, shed, start_least
from baselines.sampling_matching.kernels import match_categories, match_category, total
from baselines.sampling_matching.problem import Problem, completion_times, of_jobs
from envs.types import FloatArray, IntArray, MurmurationError

JobOrder: TypeAlias = Literal["workload", "benefit", "lightest", "none"]
Valuation: TypeAlias = Literal["saving", "rate"]
MOST_EXCHANGES = 100_000  # of one descent, which ends by itself long before


@dataclass(frozen=True)
class Plan:
    """Who gets which workers.

    Attributes:
        counts: int64[num_jobs, num_kinds].
        worth: weighted sum of the jobs' seconds; infinite if the jobs could not all be served.
        categories: categories looked at.
    """

    counts: IntArray
    worth: float
    categories: int = 0


@dataclass(frozen=True, slots=True)
class Sampling:
    """How categories are drawn.

    Job-prioritising sampling orders the jobs so that those come first that need workers most. Late categories in
    lexicographic order then give them many; the first share `skip` of the categories is left out, and samples are drawn
    from the rest. What the paper orders by and skips is not public: both are read from a third party's rebuilding
    (github.com/aliebayani/Unified-AI-Aware-Scheduler) and from our own measurements.

    The number of categories explodes with the jobs, and a fixed number of samples from all of them meets ever worse
    ones. So most samples are drawn where good ones lie, which is ours: each job within one worker of what it would get
    by marginal gain if all workers were average (`centre.expected_sizes`), then within one worker of the best so far.

    Attributes:
        samples: categories drawn.
        spread: share of the samples that is drawn from all categories; 1 is job-prioritising sampling alone. Half of
            the rest is drawn around the sizes of marginal gain, half around the best of these all.
        skip: share of the categories, those that give the first jobs least, that are never drawn.
        order: "benefit": who saves most by one worker more than an equal share, communication included. "workload": who
            has most to compute; the same where communication is cheap, but wrong where it dominates and the heavy
            want few workers. "lightest" and "none" are for comparison.
        solves: markets cleared for each category.
        valuation: what a worker is worth to a job: the seconds that it saves, or its rate, for comparison.
        fairness: weight of 1 - Jain's index in the choice among categories.
        window: if not None, further `samples` categories around a plan that is given, every job within so many workers
            of what it has there.
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
            ("valuation", "saving or rate", self.valuation in get_args(Valuation)),
            ("fairness", "at least 0", self.fairness >= 0),
            ("window", "at least 1, or null", self.window is None or self.window >= 1),
        ):
            if not fits:
                raise MurmurationError(f"sampling.{name} is {getattr(self, name)}; it must be {allowed}")


def job_order(problem: Problem, by: JobOrder) -> IntArray:
    """int64[num_jobs]: the jobs in the order in which categories are compared; see `Sampling`."""
    if by == "none":
        return np.arange(problem.num_jobs)
    at = np.minimum(problem.least, problem.rates.shape[2] - 1)
    rates = problem.rates.max(axis=1)[np.arange(problem.num_jobs), at]
    mean = (rates * problem.supply).sum(axis=1) / np.maximum(((rates > 0) * problem.supply).sum(axis=1), 1)
    load = problem.weight * problem.work / np.maximum(mean, 1e-300)
    if by == "workload":
        return np.argsort(-load, kind="stable")
    if by == "lightest":
        return np.argsort(load, kind="stable")
    share = np.maximum(problem.assigned // problem.num_jobs, 1)
    return np.argsort(-_saving_of_one_more(problem, load, share), kind="stable")


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
    """int64[num_drawn, num_jobs]: categories by job-prioritising sampling, jobs in the problem's own order."""
    order = job_order(problem, sampling.order)
    among = Categories(problem.least[order], problem.most[order], problem.assigned)
    return among.draw(rng, sampling.samples, sampling.skip)[:, np.argsort(order)]


def categories_around(problem: Problem, rng: np.random.Generator, sampling: Sampling, counts: IntArray) -> IntArray:
    """int64[num_drawn, num_jobs]: the category of a plan, and others within the window around it."""
    here, window = counts.sum(axis=1), sampling.window or 1
    least, most = np.maximum(here - window, problem.least), np.minimum(here + window, problem.most)
    order = job_order(problem, sampling.order)  # so that names of jobs do not change what is drawn
    drawn = Categories(least[order], most[order], int(here.sum())).draw(rng, sampling.samples)
    return np.concatenate([here[None], drawn[:, np.argsort(order)]])


def equal_share_plan(problem: Problem, solves: int = 3) -> Plan:
    """Every job gets as many workers as any other, up to one: the first jobs get the odd ones.

    Jobs whose range forbids that get what is nearest.
    """
    jobs = problem.num_jobs
    sizes = np.full(jobs, problem.assigned // jobs)
    sizes[: problem.assigned % jobs] += 1
    counts = np.zeros(problem.present.shape, np.int64)
    match_category(problem, np.clip(sizes, problem.least, problem.most), solves, False, counts)
    return Plan(counts, total(problem, counts), 1)


def match(problem: Problem, categories: IntArray, sampling: Sampling) -> Plan:
    """The best of these categories, each by the weighted market."""
    counts = np.zeros(problem.present.shape, np.int64)
    equal = np.ones(problem.num_jobs)
    if sampling.fairness:
        equal = completion_times(problem, equal_share_plan(problem, sampling.solves).counts)
    plain = sampling.valuation == "rate"
    match_categories(problem, categories, sampling.solves, plain, equal, sampling.fairness, counts)
    return Plan(counts, total(problem, counts), len(categories))


def sampled_plan(problem: Problem, rng: np.random.Generator, sampling: Sampling) -> Plan:
    """Sampling alone: from all categories, around the sizes of marginal gain, then around the best of these.

    Where the samples suffice for all categories, these are looked at.
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
    plan = match(problem, _near(problem, rng, sampling, first.counts.sum(axis=1), near), sampling)
    return Plan(plan.counts, plan.worth, first.categories + plan.categories)


def _near(problem: Problem, rng: np.random.Generator, sampling: Sampling, sizes: IntArray, samples: int) -> IntArray:
    """int64[num_drawn, num_jobs]: a category first, and others in which every job is within one worker of it."""
    counts = np.zeros(problem.present.shape, np.int64)
    counts[:, 0] = sizes
    return categories_around(problem, rng, replace(sampling, samples=samples, window=1), counts)


def every_category_plan(problem: Problem, sampling: Sampling) -> Plan:
    """Exhaustive search over all categories.

    Raises:
        MurmurationError: there are too many to list.
    """
    return match(problem, Categories(problem.least, problem.most, problem.assigned).all(), sampling)


def polished(problem: Problem, plan: Plan) -> Plan:
    """The plan after exchanges between jobs, while any pays; a plan that cannot run stays as it is."""
    if not np.isfinite(plan.worth):
        return plan
    counts = plan.counts.copy()
    descend(problem, counts, MOST_EXCHANGES)
    return Plan(counts, total(problem, counts), plan.categories)


def greedy_plan(problem: Problem, *, polish: bool = True) -> Plan:
    """The least to every job, the rest by marginal gain, then exchanges; infinite worth if not all can be served."""
    counts = np.zeros(problem.present.shape, np.int64)
    if not start_least(problem, counts):
        return Plan(counts, float("inf"))
    grow(problem, counts)
    plan = Plan(counts, total(problem, counts))
    return polished(problem, plan) if polish else plan


def present_plan(problem: Problem) -> Plan:
    """What is there now, with no more change than newcomers need, then growth and exchanges as far as they pay.

    Infinite worth if the newcomers find no workers on which they run.
    """
    counts = problem.present.copy()
    newcomers = np.flatnonzero(counts.sum(axis=1) == 0)
    if not shed(problem, counts, int(problem.least[newcomers].sum())):
        return Plan(counts, float("inf"))
    if newcomers.size:
        theirs = np.zeros((len(newcomers), len(problem.supply)), np.int64)
        if not start_least(of_jobs(problem, newcomers, problem.supply - counts.sum(axis=0)), theirs):
            return Plan(counts, float("inf"))
        counts[newcomers] = theirs
    if not np.isfinite(total(problem, counts)):
        return Plan(counts, float("inf"))
    grow(problem, counts)
    return polished(problem, Plan(counts, total(problem, counts)))


def best_plan(problem: Problem, rng: np.random.Generator, sampling: Sampling) -> Plan:
    """The best of greedy growth, job-prioritising sampling and sampling around the better, each with exchanges.

    Where jobs hold workers already, what is there now is one more candidate, and moves must pay for their restarts.

    Sampling alone fails where communication dominates or jobs are many, greedy growth alone where jobs are few; both
    together were within a percent of the optimum wherever it could be certified.
    """
    plans = [present_plan(problem)] if problem.present.any() else []
    plans += [greedy_plan(problem), polished(problem, sampled_plan(problem, rng, sampling))]
    best = min(plans, key=lambda plan: plan.worth)
    if sampling.window is not None and np.isfinite(best.worth):
        around = match(problem, categories_around(problem, rng, sampling, best.counts), sampling)
        plans.append(polished(problem, around))
    best = min(plans, key=lambda plan: plan.worth)
    return Plan(best.counts, best.worth, sum(plan.categories for plan in plans))
