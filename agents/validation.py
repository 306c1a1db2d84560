"""How good a policy is while it trains: mean figures on validation workloads, the baselines' beside them."""

from collections.abc import Callable, Mapping, Sequence

import numpy as np

from agents.rllib import World
from envs.metrics import summarise
from envs.scheduling import Scheduler
from envs.simulation import Simulator, run_episode
from envs.types import AllocationError, ClusterError, MurmurationError, PerformanceError, TraceError
from envs.workloads import Workload

Figures = dict[str, float]
SHOWN = ("mean_jct_censored", "p99_jct", "makespan", "mean_queueing_delay", "utilisation", "num_unfinished")


def validate(scheduler: Scheduler, world: World, workloads: Sequence[Workload], seed: int = 0) -> Figures:
    """Mean figures of one scheduler over workloads, times in seconds.

    Unfinished jobs are cut at the end, so `mean_jct` is over all measured jobs (`mean_jct_censored` of `envs.metrics`).
    """
    rows = []
    for index, workload in enumerate(workloads):
        simulator = Simulator(workload, world.cluster, world.performance, world.scenario, seed + index)
        summary = summarise(run_episode(scheduler, simulator))
        rows.append([getattr(summary, name) for name in SHOWN])
    columns = np.array(rows, dtype=float).T
    means = [float(np.nanmean(column)) if not np.isnan(column).all() else float("nan") for column in columns]
    figures = dict(zip(SHOWN, means, strict=True))
    figures["mean_jct"] = figures.pop("mean_jct_censored")
    return figures


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
    """The name with the lowest mean JCT.

    Raises:
        MurmurationError: there is none to choose from.
    """
    if not figures:
        raise MurmurationError("no baseline can run in this scenario; choose baselines that need less information")
    return min(figures, key=lambda name: figures[name]["mean_jct"])
