"""One trace under one scheduler in the simulator and on a cluster, job by job, and what the difference is made of."""

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from deployment.records import JobRun
from envs.simulation import RunResult
from envs.types import FloatArray

COLUMNS = ("job", "simulated", "with_latencies", "real", "start", "stop", "late", "rest")


@dataclass(frozen=True)
class DeployedResult:
    """The result of one scheduler.

    Attributes:
        scheduler: its name.
        table: float64[num_jobs, len(COLUMNS)]. JCT in the simulator, in the simulator with the measured latencies (mean
            of its plays), and on the cluster; of the last minus the first, the parts by the manager's starts and stops
            and by the bridge's lateness, each over the job's own orders, and the rest: waiting for others, and other
            decisions. In scaled seconds; NaN for jobs that did not finish.
        plays: float64[plays]: mean JCT of each play in the simulator with latencies, scaled seconds.
        counts: what happened, by name.
    """

    scheduler: str
    table: FloatArray
    plays: FloatArray
    counts: dict[str, int]

    def mean(self, column: str) -> float:
        """Mean of a column over the jobs that finished everywhere."""
        finished = ~np.isnan(self.table).any(axis=1)
        return float(self.table[finished, COLUMNS.index(column)].mean()) if finished.any() else float("nan")

    @property
    def difference(self) -> float:
        """Mean JCT on the cluster relative to the simulator's with latencies, minus 1."""
        return self.mean("real") / self.mean("with_latencies") - 1.0


def compare_plays(
    scheduler: str,
    simulated: RunResult,
    with_latencies: Sequence[RunResult],
    runs: Sequence[JobRun],
    scale: float,
    counts: dict[str, int],
) -> DeployedResult:
    """Compare the runs of one scheduler.

    Args:
        scheduler: its name.
        simulated: in the simulator as the task has it.
        with_latencies: in the simulator with latencies of the cluster as start and restart costs, a play for each time
            that they were measured: one that starts a second later can change which job is preempted.
        runs: on the cluster.
        scale: scaled seconds in a second of real time.
        counts: what happened on the cluster.
    """
    table = np.full((len(runs), len(COLUMNS)), np.nan)
    table[:, 0] = np.arange(len(runs))
    table[:, 1] = _completion_times(simulated)
    plays = np.array([_completion_times(result) for result in with_latencies])
    table[:, 2] = plays.mean(axis=0)
    for row, run in zip(table, runs, strict=True):
        found = run.latencies
        row[3] = run.finish_time - run.spec.submit_time
        row[4:7] = np.array([found.start, found.stop, found.late]) * scale
    table[:, 7] = table[:, 3] - table[:, 1] - table[:, 4:7].sum(axis=1)
    return DeployedResult(scheduler, table, plays.mean(axis=1), counts)


def _completion_times(result: RunResult) -> FloatArray:
    """float64[num_jobs]: JCT by job."""
    times = np.full(len(result.records), np.nan)
    times[result.records["job"]] = result.records["finish_time"] - result.records["submit_time"]
    return times
