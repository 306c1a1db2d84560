"""Compare schedulers at several offered loads: the same jobs with shorter or longer gaps between submissions."""

from collections.abc import Callable, Collection, Mapping, Sequence
from dataclasses import dataclass, replace

import numpy as np
import pandas as pd

from envs.evaluation.compare import compare_schedulers
from envs.evaluation.comparison import ANY_BATCH, BOUND, Comparison
from envs.evaluation.failure import Failure
from envs.evaluation.spread import Spread
from envs.scheduling import Scheduler
from envs.simulation import Setup
from envs.types import MurmurationError
from envs.workloads import LoadDefinition, Workload


def at_load(workload: Workload, load: float, setup: Setup, definition: LoadDefinition = "requested") -> Workload:
    """Stretch the time between submissions so that the workload offers `load`; jobs and their order do not change.

    The load is `Workload.load` by the definition. The measurement window is stretched too. So are the days and nights
    of a trace: at a tenth of the load a day lasts ten days.

    Raises:
        MurmurationError: `load` is not positive, or the workload's load is infinite, for example because all jobs are
            submitted at once.
    """
    if not (load > 0 and np.isfinite(load)):
        raise MurmurationError(f"sweep: a load is {load}; loads must be positive, for example 0.7")
    now = workload.load(setup.cluster, setup.performance, definition)
    if not np.isfinite(now):
        raise MurmurationError(
            f"workload {workload.name}: offers an infinite load, so time cannot be stretched to load {load}; choose "
            "jobs that are submitted at different times and that run on this cluster"
        )
    stretch, jobs = now / load, workload.jobs.copy()
    jobs["submit_time"] *= stretch
    jobs["begin_time"] *= stretch
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
    def failures(self) -> dict[str, Failure]:
        """The failure of each scheduler that failed, at the lowest load."""
        every = [comparison.failures for comparison in list(self.comparisons.values())[::-1]]
        return {name: failure for failures in every for name, failure in failures.items()}

    @property
    def schedulers(self) -> list[str]:
        """Names of the schedulers that ran at every load, in order."""
        first, *others = self.comparisons.values()
        return [name for name in first.schedulers if all(name in other.runs for other in others)]

    def table(self) -> pd.DataFrame:
        """Return one row per load and scheduler or bound: mean JCT in seconds, its interval, its ratio, makespan."""
        columns = ("mean_jct", "mean_jct_low", "mean_jct_high", "mean_jct_ratio", "makespan", "num_unfinished")
        rows = []
        for load, comparison in self.comparisons.items():
            for row in [*comparison.rows, *comparison.bounds]:
                if "inapplicable" not in row and "failed" not in row:
                    figures = {column: row.get(column, np.nan) for column in columns}
                    rows.append({"load": load, "scheduler": row["scheduler"], **figures})
        return pd.DataFrame(rows)

    def by_load(self, column: str = "mean_jct") -> pd.DataFrame:
        """Return one column of `table` by scheduler and load, sorted by its values at the highest load; bounds last."""
        wide = self.table().pivot(index="scheduler", columns="load", values=column)
        ordered = wide.sort_values(wide.columns[-1], kind="stable")
        last = [name for name in (BOUND, ANY_BATCH) if name in ordered.index]
        return ordered.loc[[name for name in ordered.index if name not in last] + last]


def sweep(
    schedulers: Mapping[str, Scheduler],
    workloads: Sequence[Workload],
    loads: Sequence[float],
    setup: Setup,
    seed: int = 0,
    *,
    definition: LoadDefinition = "requested",
    reference: str = "",
    optional: Collection[str] = (),
    listener: Callable[[float], None] | None = None,
    spread: Spread | None = None,
) -> Sweep:
    """Compare schedulers on the same jobs at several offered loads.

    Args:
        schedulers: schedulers by name.
        workloads: the jobs.
        loads: offered loads, in any order, each once.
        setup: the cluster, the performance model and the scenario.
        seed: seed of everything random, the same at every load.
        definition: the definition of load; see `Workload.load`.
        reference: see `compare_schedulers`.
        optional: see `compare_schedulers`.
        listener: is called with every load before its comparison.
        spread: see `compare_schedulers`.

    Raises:
        MurmurationError: there is no load, or a load is impossible; and all errors of `compare_schedulers`.
    """
    if not loads or len(set(loads)) != len(loads) or not all(isinstance(load, int | float) for load in loads):
        raise MurmurationError(f"sweep: loads are {list(loads)}; give at least one number, each once")
    comparisons = {}
    for load in sorted(loads):
        stretched = [at_load(workload, load, setup, definition) for workload in workloads]
        if listener:
            listener(load)
        comparisons[load] = compare_schedulers(
            schedulers, stretched, setup, seed, reference=reference, optional=optional, spread=spread
        )
    return Sweep(comparisons)
