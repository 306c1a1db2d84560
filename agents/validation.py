"""How good a policy is while it trains: mean figures on validation workloads, the baselines' beside them."""

import itertools
from collections.abc import Callable, Mapping, Sequence

import numpy as np

from agents.rllib import World
from envs.evaluation.compare import workload_seed
from envs.evaluation.distinct import distinct
from envs.evaluation.outcome import Outcome
from envs.metrics import summarise
from envs.scheduling import Scheduler
from envs.simulation import Simulator, run_episode
from envs.types import AllocationError, ClusterError, MurmurationError, PerformanceError, TraceError
from envs.workloads import Workload, WorkloadSource

Figures = dict[str, float]
SHOWN = ("p99_jct", "makespan", "mean_queueing_delay", "utilisation", "num_unfinished")
LUCK = 0  # seed of outages, estimates and draws: the same for whoever is validated, in whichever run


def validation_workloads(source: WorkloadSource, count: int) -> list[Workload]:
    """The first `count` different episodes of the validation split, the same in every run; fewer if it has no more."""
    draws = (source.episode(np.random.default_rng(i), "validation") for i in itertools.count())
    return distinct(draws, count)


def validate(scheduler: Scheduler, world: World, workloads: Sequence[Workload]) -> Figures:
    """Mean figures of one scheduler over workloads, times in seconds; everybody meets the same luck.

    `num_abandoned` and `mean_jct` are those of `Outcome`: unfinished jobs are cut at the end of the run.
    """
    rows = []
    for index, workload in enumerate(workloads):
        seed = workload_seed(LUCK, index)
        result = run_episode(scheduler, Simulator(workload, world.cluster, world.performance, world.scenario, seed))
        summary = summarise(result)
        rows.append([*(getattr(summary, name) for name in SHOWN), *Outcome.of(result, world.scenario)])
    columns = np.array(rows, dtype=float).T
    means = [float(np.nanmean(column)) if not np.isnan(column).all() else float("nan") for column in columns]
    return dict(zip((*SHOWN, *Outcome._fields), means, strict=True))


def outcome_of(figures: Figures) -> Outcome:
    """What figures of `validate` are ranked by; the least is the best."""
    return Outcome(figures["num_abandoned"], figures["mean_jct"])


def validate_baselines(
    baselines: Mapping[str, Callable[[], Scheduler]],
    world: World,
    workloads: Sequence[Workload],
    tell: Callable[[str, str], None],
) -> dict[str, Figures]:
    """Figures of every baseline that can run in this scenario, by name; `tell` hears each name and its refusal, if any.

    Raises:
        MurmurationError: what is wrong is the world or a baseline's allocation, not what a baseline needs to know.
    """
    found: dict[str, Figures] = {}
    for name, make in baselines.items():
        try:
            found[name] = validate(make(), world, workloads)
            tell(name, "")
        except (AllocationError, ClusterError, PerformanceError, TraceError):
            raise
        except MurmurationError as refusal:  # needs information that the scenario withholds
            tell(name, str(refusal))
    return found


def best_of(figures: Mapping[str, Figures]) -> str:
    """The name with the best outcome.

    Raises:
        MurmurationError: there is none to choose from.
    """
    if not figures:
        raise MurmurationError("no baseline can run in this scenario; choose baselines that need less information")
    return min(figures, key=lambda name: outcome_of(figures[name]))
