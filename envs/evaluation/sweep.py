"""Schedulers against offered load: the same jobs, arriving faster or slower."""

from collections.abc import Callable, Collection, Mapping, Sequence
from dataclasses import dataclass, replace

import numpy as np
import pandas as pd

from envs.evaluation.compare import compare
from envs.evaluation.comparison import ANY_BATCH, BOUND, Comparison
from envs.performance import PerformanceModel
from envs.scheduling import Scheduler
from envs.simulation import Scenario
from envs.types import ClusterSpec, MurmurationError
from envs.workloads import Workload


def at_load(workload: Workload, load: float, cluster: ClusterSpec, performance: PerformanceModel) -> Workload:
    """The workload with its time between submissions stretched so that it offers `load`; jobs and order stay.

    Load is `Workload.offered_load` under "all". The measurement window stretches along; days and nights of a trace do
    too, so at a tenth of the load a day lasts ten.

    Raises:
        MurmurationError: the load is not positive, or the workload has none to change: all its jobs come at once.
    """
    if not (load > 0 and np.isfinite(load)):
        raise MurmurationError(f"sweep: a load is {load}; loads must be positive, for example 0.7")
    now = workload.offered_load(cluster, performance)["all"]
    if not np.isfinite(now):
        raise MurmurationError(
            f"workload {workload.name}: offers an infinite load, so time cannot be stretched to load {load}; choose "
            "jobs that come one after the other and that run on this cluster"
        )
    stretch, jobs = now / load, workload.jobs.copy()
    jobs["submit_time"] *= stretch
    window = (workload.window[0] * stretch, workload.window[1] * stretch)
    return replace(workload, name=f"{workload.name}@{load:g}", jobs=jobs, window=window)


@dataclass(frozen=True)
class Sweep:
    """One comparison for each load.

    Attributes:
        comparisons: by offered load, ascending.
    """

    comparisons: Mapping[float, Comparison]

    @property
    def schedulers(self) -> list[str]:
        """Those that ran at every load, in order."""
        first, *others = self.comparisons.values()
        return [name for name in first.schedulers if all(name in other.runs for other in others)]

    def table(self) -> pd.DataFrame:
        """One row per load and scheduler, lower bounds included: mean JCT in seconds, its interval, its ratio."""
        columns = ("mean_jct", "mean_jct_low", "mean_jct_high", "mean_jct_ratio", "makespan", "num_unfinished")
        rows = []
        for load, comparison in self.comparisons.items():
            for row in [*comparison.rows, *comparison.bounds]:
                if "inapplicable" not in row:
                    figures = {column: row.get(column, np.nan) for column in columns}
                    rows.append({"load": load, "scheduler": row["scheduler"], **figures})
        return pd.DataFrame(rows)

    def by_load(self, column: str = "mean_jct") -> pd.DataFrame:
        """One column of `table`, a row per scheduler in order of the highest load's, a column per load; bounds last."""
        wide = self.table().pivot(index="scheduler", columns="load", values=column)
        ordered = wide.sort_values(wide.columns[-1], kind="stable")
        last = [name for name in (BOUND, ANY_BATCH) if name in ordered.index]
        return ordered.loc[[name for name in ordered.index if name not in last] + last]


def sweep(
    schedulers: Mapping[str, Scheduler],
    workloads: Sequence[Workload],
    loads: Sequence[float],
    cluster: ClusterSpec,
    performance: PerformanceModel,
    scenario: Scenario | None = None,
    seed: int = 0,
    *,
    reference: str = "",
    optional: Collection[str] = (),
    listener: Callable[[float], None] | None = None,
) -> Sweep:
    """Compare schedulers on the same jobs at several offered loads.

    Args:
        schedulers: by name.
        workloads: the jobs.
        loads: offered loads, in any order, each once.
        cluster: the nodes.
        performance: how fast jobs run.
        scenario: the rules.
        seed: of everything random; the same at every load.
        reference: see `compare`.
        optional: see `compare`.
        listener: is told of every load before it is played.

    Raises:
        MurmurationError: no load, or one that cannot be had; and what `compare` raises.
    """
    if not loads or len(set(loads)) != len(loads):
        raise MurmurationError(f"sweep: loads are {list(loads)}; give at least one, each once")
    comparisons = {}
    for load in sorted(loads):
        stretched = [at_load(workload, load, cluster, performance) for workload in workloads]
        if listener:
            listener(load)
        comparisons[load] = compare(
            schedulers, stretched, cluster, performance, scenario, seed, reference=reference, optional=optional
        )
    return Sweep(comparisons)
