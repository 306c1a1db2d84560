"""The experiment of elastic scaling (MASCOTS 2020): batch sizes that change with the GPUs against fixed ones.

The paper's abstract claims that up to twice as many jobs complete, up to ten times as fast on average, against a
baseline that scales GPUs alone, on 40 GPUs and in simulation on 400. Parameters that are not public are our choices,
made before the first run: the three arrival patterns, the jobs, the interval between decisions, and the batch size of
the baseline, for which all three rules of `baselines.parts.scalability` are shown. As in the paper, every sample counts
alike at every batch size (`Scenario.statistical_efficiency`).
"""

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from itertools import product
from pathlib import Path
from types import MappingProxyType
from typing import Literal

import numpy as np
import pandas as pd

from baselines.elastic_dp.scheduler import ElasticDp
from baselines.parts.scalability import BatchRule
from envs.cluster import NodeGroup, build_cluster
from envs.evaluation.files import write_frame
from envs.evaluation.statistics import t_interval
from envs.performance import PerformanceModel, default_model
from envs.simulation import Rounds, RunResult, Scenario, Setup, Simulator, run_episode
from envs.types import ClusterSpec, FloatArray, MurmurationError, Seconds
from envs.workloads import SyntheticSource, Workload
from envs.workloads.calibration import JobStream
from envs.workloads.distributions import Arrivals, LogNormal
from experiments.performance.reproduction import Reproduction

FIXED: tuple[BatchRule, ...] = ("least", "usual", "most")
OVERLOADS: tuple[Literal["drop", "queue"], ...] = ("drop", "queue")
HOUR = 3600.0


@dataclass(frozen=True)
class Pattern:
    """Pattern of the arrivals of jobs.

    Attributes:
        load: offered load: GPU-seconds that the jobs need on the GPUs and at the batch sizes that users request, over
            the GPU-seconds available until the last job is submitted.
        arrivals: gaps between the jobs.
    """

    load: float
    arrivals: Arrivals


PATTERNS: Mapping[str, Pattern] = MappingProxyType(
    {
        "low": Pattern(0.5, Arrivals()),
        "high": Pattern(1.5, Arrivals()),
        "bursty": Pattern(1.0, Arrivals(cv=4.0, burst=0.5)),
    }
)


@dataclass(frozen=True)
class Setting:
    """The parameters that all runs of the experiment share.

    Attributes:
        interval: seconds between decisions.
        num_workloads: draws of each pattern; the same for all schedulers.
        seed: random seed of the draws.
        jobs_per_gpu: length of a workload.
        max_gpus: most GPUs that a job may have; the least is one.
    """

    interval: Seconds = 600.0
    num_workloads: int = 10
    seed: int = 0
    jobs_per_gpu: float = 3.75
    max_gpus: int = 16

    def workloads(self, pattern: Pattern, cluster: ClusterSpec, performance: PerformanceModel) -> list[Workload]:
        """Draw workloads of a pattern: Gavel's five models, half an hour in the median, one to eight GPUs requested."""
        stream = JobStream(
            sizes={1: 0.25, 2: 0.25, 4: 0.25, 8: 0.25},
            durations={1: LogNormal(median=1800.0, sigma=1.3, low=120.0, high=86400.0)},
            arrivals=pattern.arrivals,
            source="ours: elastic jobs of one to eight GPUs, half an hour in the median",
        )
        source = SyntheticSource(
            cluster,
            performance,
            num_jobs=round(self.jobs_per_gpu * cluster.num_gpus),
            load=pattern.load,
            stream=stream,
            seed=self.seed,
            num_evaluation=self.num_workloads,
        )
        return [self._elastic(workload) for workload in source.evaluation()]

    def play(
        self, scheduler: ElasticDp, workload: Workload, cluster: ClusterSpec, performance: PerformanceModel
    ) -> RunResult:
        """Play one run with a decision every `interval` seconds."""
        scenario = Scenario(
            statistical_efficiency="every_sample", rounds=Rounds(on_events=False, interval=self.interval)
        )
        return run_episode(scheduler, Simulator(workload, Setup(cluster, performance, scenario), self.seed))

    def _elastic(self, workload: Workload) -> Workload:
        jobs = workload.jobs.copy()
        jobs["min_gpus"], jobs["max_gpus"] = 1, self.max_gpus
        return replace(workload, jobs=jobs)


def against_fixed_batch(
    data: str,
    folder: Path,
    num_gpus: Sequence[int] = (40, 400),
    patterns: Sequence[str] = tuple(PATTERNS),
    interval: Seconds = 600.0,
    num_workloads: int = 10,
    seed: int = 0,
) -> Reproduction:
    """Compare jobs completed and mean completion times with fixed batch sizes.

    Each workload runs twice under each scheduler. In one run rejected jobs are dropped, which gives the number of jobs
    completed. In the other they wait, which gives completion times of all jobs. Writes `runs.csv`, a row for each run.

    Args:
        data: not used; each reproduction gets the folder of public data.
        folder: folder to write to.
        num_gpus: sizes of clusters, multiples of 8.
        patterns: names in `PATTERNS`.
        interval: seconds between decisions.
        num_workloads: draws of each pattern and size.
        seed: random seed of the draws.

    Raises:
        MurmurationError: a pattern is unknown, or the GPUs of a cluster do not fill nodes.
    """
    setting, performance = Setting(interval, num_workloads, seed), default_model()
    rows: list[dict[str, object]] = []
    for gpus, name in product(num_gpus, patterns):
        if name not in PATTERNS:
            raise MurmurationError(f"pattern {name!r} does not exist; choose of {', '.join(PATTERNS)}")
        rows += [{"gpus": gpus, "arrivals": name, **row} for row in runs_of(setting, PATTERNS[name], gpus, performance)]
    runs = pd.DataFrame(rows)
    folder.mkdir(parents=True, exist_ok=True)
    write_frame(folder / "runs.csv", runs)
    tables = [
        ("Jobs completed where rejected jobs are dropped", jobs_completed(runs)),
        ("Mean completion time in hours where rejected jobs wait", completion_times(runs)),
    ]
    return Reproduction(tables, notes(setting))


def eight_gpu_nodes(num_gpus: int) -> ClusterSpec:
    """Build a cluster of V100 in nodes of eight, linked as in `conf/cluster/homogeneous_64.yaml`.

    Raises:
        MurmurationError: the GPUs do not fill nodes.
    """
    if num_gpus < 8 or num_gpus % 8:
        raise MurmurationError(f"num_gpus is {num_gpus}; nodes have 8 GPUs, so give a positive multiple of 8")
    group = NodeGroup("V100", num_gpus // 8, 8, 24, 500, intra_node_bandwidth=150.0, inter_node_bandwidth=12.5)
    return build_cluster(f"{num_gpus} GPUs", [group])


def runs_of(
    setting: Setting, pattern: Pattern, num_gpus: int, performance: PerformanceModel
) -> Iterator[dict[str, object]]:
    """Yield a row for each run of a pattern on a cluster: each batch rule, dropping and waiting, each workload."""
    cluster = eight_gpu_nodes(num_gpus)
    for index, workload in enumerate(setting.workloads(pattern, cluster, performance)):
        for batch, overload in product(("best", *FIXED), OVERLOADS):
            scheduler = ElasticDp(batch, overload, patience=0.0)
            result = setting.play(scheduler, workload, cluster, performance)
            finished = result.records[result.finished]
            yield {
                "workload": index,
                "batch": batch,
                "overload": overload,
                "submitted": len(workload),
                "completed": len(finished),
                "dropped": scheduler.counters["dropped"],
                "mean_jct_h": float((finished["finish_time"] - finished["submit_time"]).mean()) / HOUR,
                "restarts": int(finished["num_restarts"].sum()),
                "decisions": scheduler.counters["decisions"],
                "proved": scheduler.counters["proved"],
                "decision_ms": 1000.0 * result.decision_seconds / max(scheduler.counters["decisions"], 1),
            }


def jobs_completed(runs: pd.DataFrame) -> pd.DataFrame:
    """Tabulate the mean number of jobs completed over the workloads, and its ratio to that at fixed batch sizes."""
    return _table(runs[runs["overload"] == "drop"], "completed", more_is_better=True)


def completion_times(runs: pd.DataFrame) -> pd.DataFrame:
    """Tabulate the mean completion time over the workloads, and the ratio of that at fixed batch sizes to it."""
    return _table(runs[runs["overload"] == "queue"], "mean_jct_h", more_is_better=False)


def notes(setting: Setting) -> list[str]:
    """Write the notes that explain the tables."""
    loads = ", ".join(
        f"{name} {pattern.load:g}"
        + (
            f" (gaps of variation {pattern.arrivals.cv:g}, {pattern.arrivals.burst:.0%} in bursts)"
            if name == "bursty"
            else ""
        )
        for name, pattern in PATTERNS.items()
    )
    return [
        f"{setting.num_workloads} workloads of each pattern, the same for all; intervals: 95 %, Student's t over the "
        "logarithms of the ratios, workload by workload",
        f"a decision every {setting.interval:g} s, jobs on 1 to {setting.max_gpus} V100; offered load: {loads}",
        "the paper: up to 2 times as many jobs completed, up to 10 times as fast on average; its jobs, arrivals, "
        "interval and fixed batch sizes are not public",
    ]


def _table(runs: pd.DataFrame, column: str, *, more_is_better: bool) -> pd.DataFrame:
    rows: list[dict[str, object]] = []
    for (gpus, arrivals), group in runs.groupby(["gpus", "arrivals"], sort=False):
        by_rule = group.pivot(index="workload", columns="batch", values=column)
        row: dict[str, object] = {"GPUs": gpus, "arrivals": arrivals, "jobs": int(group["submitted"].max())}
        row |= {rule: round(float(by_rule[rule].mean()), 2) for rule in ("best", *FIXED)}
        for rule in FIXED:
            over, under = (by_rule["best"], by_rule[rule]) if more_is_better else (by_rule[rule], by_rule["best"])
            row[f"to {rule}"] = _ratio(np.asarray(over, np.float64), np.asarray(under, np.float64))
        rows.append(row)
    return pd.DataFrame(rows)


def _ratio(over: FloatArray, under: FloatArray) -> str:
    """Format the geometric mean of the ratios of pairs, with its interval."""
    with np.errstate(divide="ignore"):
        found = t_interval(np.log(over) - np.log(under))
    value, low, high = (float(np.exp(x)) for x in (found.value, found.low, found.high))
    return f"{value:.2f} [{low:.2f}, {high:.2f}]"
