"""Experiments with matching on random instances: worth of matchings against optima and bounds, and running times."""

import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import partial

import numpy as np
import pandas as pd

from baselines.sampling_matching.categories import MOST_LISTED, Categories
from baselines.sampling_matching.problem import Problem, compute_completion_seconds
from baselines.sampling_matching.search import (
    JobOrder,
    Matching,
    Sampling,
    best_matching,
    equal_share_matching,
    every_category_matching,
    greedy_matching,
    sampled_matching,
)
from envs.metrics import jain_index
from envs.types import Seconds
from papers.sampling_matching.bounds import price_bound
from papers.sampling_matching.exact import certified_optimum, every_split
from papers.sampling_matching.instances import (
    FAST_LINKS,
    SLOW_LINKS,
    Instance,
    InstanceSetting,
    draw,
)

CERTIFIED = ((2, 8), (3, 8), (3, 10), (4, 10), (4, 12), (4, 15), (5, 15))  # jobs, workers; optimum by every split
LARGE_SIZES = ((5, 20, False), (6, 20, False), (20, 100, True), (200, 1000, True))  # jobs, workers, alike
TIMED = ((4, 15), (5, 20), (6, 20), (7, 22))
SLOW = (5, 15)
AT_LARGE = ("all categories", "uniform", "sampling", "greedy", "both")
ORDERS: tuple[JobOrder, ...] = ("workload", "lightest", "none", "benefit")
HUGE = (200, 1000)
COUNTS = (20, 50, 100, 200, 500, 1000)  # numbers of samples tried on the huge size
SECONDS_FOR_A_BOUND = 6.0

PlanMethod = Callable[[Problem, np.random.Generator], Matching]


@dataclass
class Experiment:
    """Settings that all tables share.

    Attributes:
        sampling: the evaluated sampling.
        instances: random instances of each certified size.
        seed: seed of instances and samples.
        tick: called after every step of work, for a progress bar.
    """

    sampling: Sampling
    instances: int
    seed: int
    tick: Callable[[str], None] = field(default=lambda done: None)

    def each(
        self,
        jobs: int,
        workers: int,
        setting: InstanceSetting = FAST_LINKS,
        *,
        alike: bool = False,
        count: int | None = None,
    ) -> Sequence[Instance]:
        """Draw instances of one size; every call gives the same instances."""
        rng = np.random.default_rng([self.seed, jobs, workers, int(setting is SLOW_LINKS), alike])
        return [draw(rng, jobs, workers, setting, alike=alike) for _ in range(count or self.instances)]

    def rng(self, instance: int) -> np.random.Generator:
        """A random generator for the samples of one instance, equal for all methods."""
        return np.random.default_rng([self.seed, instance])

    def methods(self) -> Mapping[str, PlanMethod]:
        """The compared methods, by column."""
        sampling = self.sampling
        return {
            "equal shares": lambda problem, rng: equal_share_matching(problem),
            "all, by throughputs": lambda problem, rng: every_category_matching(
                problem, replace(sampling, valuation="throughput")
            ),
            "all categories": lambda problem, rng: every_category_matching(problem, sampling),
            "uniform": partial(sampled_matching, sampling=replace(sampling, spread=1.0)),
            "sampling": partial(sampled_matching, sampling=sampling),
            "greedy": lambda problem, rng: greedy_matching(problem),
            "both": partial(best_matching, sampling=sampling),
        }


def certified_rows(experiment: Experiment) -> pd.DataFrame:
    """One row per certified instance and method: size, gap in %, Jain's index, examined categories."""
    rows = []
    for jobs, workers in CERTIFIED:
        for number, instance in enumerate(experiment.each(jobs, workers)):
            best = every_split(instance.problem).worth
            equal = compute_completion_seconds(instance.problem, equal_share_matching(instance.problem).counts)
            fair = replace(experiment.sampling, fairness=1.0)
            methods: dict[str, PlanMethod] = {
                **experiment.methods(),
                "sampling, fair": partial(sampled_matching, sampling=fair),
            }
            for name, method in methods.items():
                matching = method(instance.problem, experiment.rng(number))
                gap = 100.0 * (matching.worth / best - 1.0)
                jain = jain_index(compute_completion_seconds(instance.problem, matching.counts) / equal)
                rows.append((jobs, workers, number, name, gap, jain, matching.categories))
            queue = one_at_a_time(instance.problem)
            rows.append((jobs, workers, number, "one at a time", 100.0 * (queue / best - 1.0), np.nan, 0))
            experiment.tick(f"{jobs} jobs on {workers} workers")
    return pd.DataFrame(rows, columns=["jobs", "workers", "instance", "method", "gap", "jain", "categories"])


def one_at_a_time(problem: Problem) -> float:
    """Sum of completion times if one job at a time has all workers, the shortest first; not possible in the model."""
    times = problem.work / (problem.throughputs[:, 0, 0] * problem.supply).sum(axis=1)
    times = times + problem.overhead[:, min(problem.num_workers, problem.overhead.shape[1] - 1)]
    return float(np.cumsum(np.sort(times)).sum())


def by_size(rows: pd.DataFrame) -> pd.DataFrame:
    """The certified rows as a table of sizes by methods."""
    shown = []
    for (jobs, workers), group in rows.groupby(["jobs", "workers"], sort=False):
        gaps = {
            name: part["gap"] for name, part in group[group["method"] != "sampling, fair"].groupby("method", sort=False)
        }
        looked_at = group[group["method"] == "all categories"]["categories"].iloc[0]
        cells = {name: _mean_and_max(gap) for name, gap in gaps.items()}
        count = group["instance"].nunique()
        shown.append({"jobs on workers": f"{jobs} on {workers}", "instances": count, "categories": looked_at, **cells})
    return pd.DataFrame(shown)


def _mean_and_max(gaps: "pd.Series[float]") -> str:
    """Mean and maximum as text; negative rounding errors become zero."""
    mean, largest = round(float(gaps.mean()), 2) + 0.0, round(float(gaps.max()), 1) + 0.0
    return f"{mean:.2f} ({largest:.1f})"


def fairness_table(rows: pd.DataFrame) -> pd.DataFrame:
    """Mean Jain's index by size, and the gap in JCT of choosing categories for fairness."""
    shown = []
    for (jobs, workers), group in rows.groupby(["jobs", "workers"], sort=False):
        of = {str(name): part for name, part in group.groupby("method", sort=False)}
        shown.append(
            {
                "jobs on workers": f"{jobs} on {workers}",
                "all categories": round(of["all categories"]["jain"].mean(), 3),
                "uniform": round(of["uniform"]["jain"].mean(), 3),
                "sampling": round(of["sampling"]["jain"].mean(), 3),
                "both": round(of["both"]["jain"].mean(), 3),
                "sampling, fair": round(of["sampling, fair"]["jain"].mean(), 3),
                "gap of fair %": of["sampling, fair"]["gap"].mean(),
            }
        )
    texts = ("all categories", "uniform", "sampling", "both", "sampling, fair")
    return pd.DataFrame(shown).astype(dict.fromkeys(texts, str))


def large_table(experiment: Experiment, count: int) -> pd.DataFrame:
    """Gaps in % to the best lower bound where no optimum can be certified; one row per size, means over instances."""
    shown = []
    for jobs, workers, alike in LARGE_SIZES:
        listed = Categories(np.ones(jobs), np.full(jobs, workers), workers).count <= MOST_LISTED
        gaps: dict[str, list[float]] = {name: [] for name in AT_LARGE}
        for number, instance in enumerate(experiment.each(jobs, workers, alike=alike, count=count)):
            methods = experiment.methods()
            names = [name for name in gaps if listed or name != "all categories"]
            worths = {name: methods[name](instance.problem, experiment.rng(number)).worth for name in names}
            if alike:
                bound = price_bound(instance.problem, min(worths.values()))
            else:
                bound = certified_optimum(instance.problem, 1e-3, SECONDS_FOR_A_BOUND).bound
            for name, worth in worths.items():
                gaps[name].append(100.0 * (worth / bound - 1.0))
            experiment.tick(f"{jobs} jobs on {workers} workers")
        cells = {name: _mean_and_max(pd.Series(gap)) if gap else "-" for name, gap in gaps.items()}
        shown.append(
            {
                "jobs on workers": f"{jobs} on {workers}",
                "workers are": "of 3 types" if alike else "all different",
                "instances": count,
                "bound by": "prices" if alike else "HiGHS",
                **cells,
            }
        )
    return pd.DataFrame(shown)


def timed(method: PlanMethod, problem: Problem, rng: np.random.Generator) -> tuple[float, Seconds]:
    """Run a method; return the worth of its matching and its CPU seconds."""
    begin = time.process_time()
    worth = method(problem, rng).worth
    return worth, time.process_time() - begin


def time_table(experiment: Experiment, count: int) -> pd.DataFrame:
    """Median CPU seconds of a decision with compiled code loaded: all categories, sampling, sampling with greedy."""
    methods = experiment.methods()
    (warm,) = experiment.each(3, 8, count=1)
    for name in ("all categories", "sampling", "both"):
        methods[name](warm.problem, experiment.rng(0))
    shown = []
    for jobs, workers in TIMED:
        found: dict[str, list[tuple[float, Seconds]]] = {"all categories": [], "sampling": [], "both": []}
        for number, instance in enumerate(experiment.each(jobs, workers, count=count)):
            for name, results in found.items():
                results.append(timed(methods[name], instance.problem, experiment.rng(number)))
            experiment.tick(f"timing {jobs} jobs on {workers} workers")
        seconds = {name: float(np.median([took for _, took in results])) for name, results in found.items()}
        pairs = zip(found["sampling"], found["all categories"], strict=True)
        gap = np.mean([100.0 * (one / whole - 1.0) for (one, _), (whole, _) in pairs])
        shown.append(
            {
                "jobs on workers": f"{jobs} on {workers}",
                "instances": count,
                "categories": Categories(np.ones(jobs), np.full(jobs, workers), workers).count,
                "all: s": f"{seconds['all categories']:.4f}",
                "sampling: s": f"{seconds['sampling']:.4f}",
                "times faster": round(seconds["all categories"] / seconds["sampling"]),
                "both: s": f"{seconds['both']:.4f}",
                "gap of sampling to all": float(gap),
            }
        )
    return pd.DataFrame(shown)


def slow_table(experiment: Experiment) -> pd.DataFrame:
    """Gaps in % to the certified optimum where communication dominates, by the order of job priorities."""
    gaps: dict[str, list[float]] = {}
    shares = []
    for number, instance in enumerate(experiment.each(*SLOW, SLOW_LINKS)):
        best = every_split(instance.problem).worth
        equal = equal_share_matching(instance.problem)
        matchings = {"all categories": every_category_matching(instance.problem, experiment.sampling)}
        for order in ORDERS:
            sampling = replace(experiment.sampling, order=order, spread=1.0)
            matchings[f"uniform, by {order}"] = sampled_matching(instance.problem, experiment.rng(number), sampling)
        matchings["sampling"] = sampled_matching(instance.problem, experiment.rng(number), experiment.sampling)
        matchings["greedy"] = greedy_matching(instance.problem)
        matchings["both"] = best_matching(instance.problem, experiment.rng(number), experiment.sampling)
        for name, matching in matchings.items():
            gaps.setdefault(name, []).append(100.0 * (matching.worth / best - 1.0))
        free = instance.problem._replace(overhead=np.zeros_like(instance.problem.overhead))
        shares.append(1.0 - compute_completion_seconds(free, equal.counts).sum() / equal.worth)
        experiment.tick("slow links")
    rows = [(name, np.mean(gap), np.median(gap), np.max(gap)) for name, gap in gaps.items()]
    frame = pd.DataFrame(rows, columns=["method", "mean", "median", "max"])
    jobs, workers = SLOW
    frame.insert(0, "jobs on workers", f"{jobs} on {workers}")
    frame["communication % of JCT, equal shares"] = 100.0 * np.mean(shares)
    return frame


def count_table(experiment: Experiment) -> pd.DataFrame:
    """CPU seconds and gap to the price bound by number of samples, at the huge size with three types of workers."""
    (instance,) = experiment.each(*HUGE, alike=True, count=1)
    bound = price_bound(instance.problem, greedy_matching(instance.problem).worth)
    shown = []
    for samples in COUNTS:
        sampling = replace(experiment.sampling, samples=samples)
        worth, took = timed(partial(best_matching, sampling=sampling), instance.problem, experiment.rng(0))
        shown.append((samples, f"{took:.3f}", 100.0 * (worth / bound - 1.0)))
        experiment.tick(f"{HUGE[0]} jobs on {HUGE[1]} workers")
    frame = pd.DataFrame(shown, columns=["samples", "seconds", "gap to bound %"])
    frame["below a second"] = ["yes" if float(took) < 1.0 else "no" for took in frame["seconds"]]
    return frame
