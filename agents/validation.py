"""Validation during training: mean figures of the policy and of baselines on validation workloads."""

import itertools
from collections.abc import Callable, Mapping, Sequence

import numpy as np

from agents.goal import RATIO, Goal
from envs.evaluation.audit import Audit, AuditCounts
from envs.evaluation.distinct import distinct
from envs.evaluation.outcome import Outcome
from envs.evaluation.playing import workload_seed
from envs.metrics import summarise
from envs.metrics.bounds import Relaxation
from envs.scheduling import Scheduler
from envs.simulation import Setup, Simulator, run_episode
from envs.types import AllocationError, ClusterError, MurmurationError, PerformanceError, TraceError
from envs.workloads import Workload, WorkloadSource

ValidationFigures = dict[str, float]
SUMMARY_FIGURES = ("p99_jct", "makespan", "mean_wait", "mean_time_to_start", "utilisation", "num_unfinished")
SHOWN, PLANNER = 3, "planner"  # how many baselines curves show, and one that they show in any case
COST = "cost in "  # before the name of a world, among the figures of a baseline
VALIDATION_SEED = 0  # seed of outages, estimates and draws: the same for every scheduler in every run


def validation_workloads(source: WorkloadSource, count: int) -> list[Workload]:
    """Return the first `count` distinct episodes of the validation split, or all if there are fewer.

    They are the same in every run.
    """
    draws = (source.episode(np.random.default_rng(i), "validation") for i in itertools.count())
    return distinct(draws, count)


def validate_scheduler(scheduler: Scheduler, setup: Setup, workloads: Sequence[Workload]) -> ValidationFigures:
    """Return mean figures of one scheduler over workloads, times in seconds; the seed is the same for all schedulers.

    `geometric_mean_jct` is the geometric mean of mean JCT over the workloads, the others are arithmetic means.

    `num_starved` and `mean_jct` are those of `Outcome`: unfinished jobs are cut at the end of the run.

    Raises:
        ImpossibleResultError: the event log of a run contradicts its result.
    """
    rows, audit = [], Audit(setup)
    for index, workload in enumerate(workloads):
        seed = workload_seed(VALIDATION_SEED, index)
        result = run_episode(scheduler, Simulator(workload, setup, seed))
        audit.check(result)
        summary = summarise(result)
        own = {name: float(getattr(summary, name)) for name in SUMMARY_FIGURES}
        rows.append(own | {name: float(value) for name, value in Outcome.of(result, setup.scenario)._asdict().items()})
    columns = {name: np.array([row[name] for row in rows]) for name in rows[0]}
    means = {
        name: float(np.nanmean(column)) if not np.isnan(column).all() else float("nan")
        for name, column in columns.items()
    }
    return {**means, "geometric_mean_jct": float(np.exp(np.log(columns["mean_jct"]).mean()))}


def audit_training_episode(scheduler: Scheduler, setup: Setup, source: WorkloadSource, seed: int) -> AuditCounts:
    """Play an episode of the training split that the seed selects, and check its result against its event log.

    Training itself keeps no event log, since many episodes share one state. A scheduler leaves the same log as the same
    policy in the environment, which `tests/conformance` checks, so a sample of episodes is played and audited.

    Raises:
        ImpossibleResultError: the event log contradicts the result; names the job or the node.
    """
    workload = source.episode(np.random.default_rng(seed), "train")
    return Audit(setup).check(run_episode(scheduler, Simulator(workload, setup, seed)))


def mean_bound(setup: Setup, workloads: Sequence[Workload]) -> float:
    """Return the mean over workloads of the lower bound on mean JCT, in seconds, over their measured jobs.

    It is the bound at any batch size where schedulers may choose them.
    """
    any_batch = setup.scenario.batch_sizes != "usual"
    bounds = [
        Relaxation.of(workload, setup, any_batch=any_batch).of_jobs(np.flatnonzero(workload.measured)).mean_jct()
        for workload in workloads
    ]
    return float(np.mean(bounds))


def outcome_of(figures: ValidationFigures, goal: Goal) -> Outcome:
    """Return the outcome by which figures of `validate_scheduler` are ranked; the smallest is the best."""
    return Outcome(figures["num_starved"], goal.cost(figures))


def costs_of(baseline: ValidationFigures) -> dict[str, float]:
    """Return the cost of a baseline by world, in s; of the worlds in which it can run."""
    return {name.removeprefix(COST): value for name, value in baseline.items() if name.startswith(COST)}


def ratio_to_best(costs: Mapping[str, float], baselines: Mapping[str, ValidationFigures]) -> float:
    """Return the geometric mean, over worlds, of the ratio of a cost to that of the best baseline there.

    Args:
        costs: by world, in s.
        baselines: figures of `validate_in_worlds`, by name.

    Raises:
        MurmurationError: no baseline could run in one of the worlds.
    """
    of_baselines = [costs_of(figures) for figures in baselines.values()]
    ratios = []
    for world, cost in costs.items():
        known = [each[world] for each in of_baselines if world in each]
        if not known:
            raise MurmurationError(
                f"{world}: no baseline can run there, and policies are compared with the best of each world; add one "
                "that needs no information, such as scheduler@schedulers.fifo=fifo"
            )
        ratios.append(cost / min(known))
    return float(np.exp(np.log(ratios).mean()))


def validate_in_worlds(
    baselines: Mapping[str, Callable[[], Scheduler]],
    worlds: Mapping[str, tuple[Setup, Sequence[Workload]]],
    goal: Goal,
    tell: Callable[[str, str], None],
) -> dict[str, ValidationFigures]:
    """Return the figures of every baseline by name: means over the worlds in which it can run, and its cost in each.

    `tell` is called as in `validate_baselines`, once for each baseline.

    Raises:
        MurmurationError: see `validate_baselines`.
    """
    found: dict[str, ValidationFigures] = {}
    for name, make in baselines.items():
        own, refused = dict[str, ValidationFigures](), list[str]()

        def note(_: str, refusal: str, refused: list[str] = refused) -> None:
            refused.extend([refusal] if refusal else [])

        for world, (setup, workloads) in worlds.items():
            if figures := validate_baselines({name: make}, setup, workloads, note):
                own[world] = figures[name]
        if own:
            means = {key: float(np.mean([each[key] for each in own.values()])) for key in next(iter(own.values()))}
            found[name] = means | {f"{COST}{world}": goal.in_one_world(each) for world, each in own.items()}
        tell(name, f"in {len(refused)} of {len(worlds)} worlds: {refused[0]}" if refused else "")
    return found


def with_ratios(baselines: Mapping[str, ValidationFigures]) -> dict[str, ValidationFigures]:
    """Return the figures of `validate_in_worlds` with the ratio of each baseline to the best of each world."""
    return {name: {**own, RATIO: ratio_to_best(costs_of(own), baselines)} for name, own in baselines.items()}


def validate_baselines(
    baselines: Mapping[str, Callable[[], Scheduler]],
    setup: Setup,
    workloads: Sequence[Workload],
    tell: Callable[[str, str], None],
) -> dict[str, ValidationFigures]:
    """Return the figures of every baseline that can run in this scenario, by name.

    `tell` is called with each name and with the reason why it cannot run, or with an empty text.

    Raises:
        MurmurationError: the cluster, the workload or a baseline's allocation is wrong. A baseline that needs unknown
            information is only reported.
    """
    found: dict[str, ValidationFigures] = {}
    for name, make in baselines.items():
        try:
            found[name] = validate_scheduler(make(), setup, workloads)
            tell(name, "")
        except (AllocationError, ClusterError, PerformanceError, TraceError):
            raise
        except MurmurationError as refusal:  # needs information that the scenario withholds
            tell(name, str(refusal))
    return found


def best_of(figures: Mapping[str, ValidationFigures], goal: Goal) -> str:
    """Return the name with the best outcome.

    Raises:
        MurmurationError: there are no figures.
    """
    if not figures:
        raise MurmurationError("no baseline can run in this scenario; choose baselines that need less information")
    return min(figures, key=lambda name: outcome_of(figures[name], goal))


def choose_levels(known: Mapping[str, ValidationFigures], goal: Goal, *always: str) -> list[str]:
    """Return the names of the baselines to show: the best in validation, then those of `always` that are known."""
    best = sorted(known, key=lambda name: outcome_of(known[name], goal))[:SHOWN]
    return list(dict.fromkeys([*best, *(name for name in always if name in known)]))
