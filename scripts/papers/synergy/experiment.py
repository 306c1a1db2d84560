"""Synergy's mechanisms for cores and memory compared on its workload (Mohan et al., OSDI'22, section 5; its artifact).

The paper: mean JCT up to 3.4 times lower than with GPU-proportional amounts, and tune ahead of greedy. From the
artifact are the nodes (8 V100, 24 cores, 500 GB), the rounds of 300 s, the run times, the splits of models by domain,
and one figure: FIFO with tune, jobs of one GPU at 9 jobs/h, has a mean JCT of 21.88 h. Ours are the number of jobs, the
part of them that is measured, and the absence of restart costs.
"""

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from itertools import product
from pathlib import Path
from types import MappingProxyType
from typing import Literal

import numpy as np
import pandas as pd

from baselines.synergy.scheduler import Synergy
from envs.cluster import NodeGroup, build_cluster
from envs.evaluation.files import write_frame
from envs.metrics import limit_shares, queue_share
from envs.performance import default_model, sensitivity_of
from envs.performance.cpu_memory import PROPORTIONAL_CPUS, PROPORTIONAL_MEMORY
from envs.simulation import Rounds, RunResult, Scenario, Setup, Simulator, run_episode
from envs.types import MurmurationError, Seconds
from envs.types.units import HOUR
from envs.workloads import SyntheticSource, Workload
from envs.workloads.calibration import JobStream
from envs.workloads.distributions import Arrivals, Quantiles
from envs.workloads.mixes import DOMAINS, equal_within
from experiments.performance.reproduction import Reproduction

Policy = Literal["fifo", "srtf", "srsf", "las"]
MECHANISMS_SHOWN: tuple[Literal["proportional", "greedy", "tune"], ...] = ("proportional", "greedy", "tune")
ARTIFACT_HOURS = 21.88  # mean JCT of FIFO with tune, one GPU a job, 9 jobs/h, in the artifact's instructions
ARTIFACT_NODES = 16
ROUND: Seconds = 300.0

# The artifact's run times on the proportional share: 10^U(1.5, 3) minutes for 80 % of jobs, 10^U(3, 4) for the others.
RUN_TIMES = Quantiles((0.0, 0.8, 1.0), (60 * 10**1.5, 60 * 10**3.0, 60 * 10**4.0))
SIZES: Mapping[str, Mapping[int, float]] = MappingProxyType(
    {"one GPU": {1: 1.0}, "1 to 8 GPUs": {1: 0.70, 2: 0.10, 4: 0.15, 8: 0.05}}
)
"""GPUs that jobs request, with their shares of jobs: single GPUs, and the artifact's synthetic demand."""

SPLITS: Mapping[str, Mapping[str, float]] = MappingProxyType(
    {
        "20/70/10": {"image": 20.0, "language": 70.0, "speech": 10.0},
        "50/0/50": {"image": 50.0, "language": 0.0, "speech": 50.0},
    }
)
"""Shares of jobs with image, language and speech models; both splits are the artifact's."""


@dataclass(frozen=True)
class MechanismSetting:
    """The parameters that all runs of the experiment share.

    Attributes:
        num_nodes: nodes of eight GPUs; the paper's testbed has 4, the artifact's simulator 16.
        num_jobs: jobs of each workload; the first fifth warms the cluster up and is not measured.
        num_workloads: draws of each workload, the same for all mechanisms.
        seed: random seed of the draws.
    """

    num_nodes: int = 4
    num_jobs: int = 400
    num_workloads: int = 3
    seed: int = 0

    def setup(self) -> Setup:
        """Build the nodes, the measured throughputs and rounds without restart costs."""
        group = NodeGroup("V100", self.num_nodes, 8, 24, 500, intra_node_bandwidth=150.0, inter_node_bandwidth=12.5)
        rounds = Rounds(on_events=False, interval=ROUND)
        scenario = Scenario(start_delay=0.0, restart_delay=0.0, rounds=rounds, cpu_memory="shared")
        return Setup(build_cluster(f"{8 * self.num_nodes} GPUs", [group]), default_model(), scenario)

    def workloads(self, split: str, sizes: str, jobs_per_hour: float) -> list[Workload]:
        """Draw the workloads of a split and sizes (keys of `SPLITS` and `SIZES`); for the rate see `mechanisms`."""
        setup = self.setup()
        stream = JobStream(SIZES[sizes], {1: RUN_TIMES}, Arrivals(), "Synergy's artifact")
        source = SyntheticSource(
            setup.cluster,
            setup.performance,
            num_jobs=self.num_jobs,
            load=1.0,
            exact_load=False,
            stream=stream,
            mix=equal_within(DOMAINS, SPLITS[split]),
            elastic=1.0,
            seed=self.seed,
            num_evaluation=self.num_workloads,
        )
        mean_gpus = sum(gpus * share for gpus, share in SIZES[sizes].items())
        stretch = HOUR / jobs_per_hour * (ARTIFACT_NODES / self.num_nodes) * mean_gpus / source.mean_gap
        return [self._as_drawn_by_synergy(workload, stretch) for workload in source.evaluation()]

    def play(self, mechanism: str, policy: Policy, workload: Workload) -> RunResult:
        """Play one run."""
        scheduler = Synergy(mechanism, policy, round_length=ROUND)  # type: ignore[arg-type]  # checked there
        return run_episode(scheduler, Simulator(workload, self.setup(), self.seed))

    def _as_drawn_by_synergy(self, workload: Workload, stretch: float) -> Workload:
        """Scale work so that run times hold on the proportional share of cores and memory, and stretch the arrivals."""
        jobs = workload.jobs.copy()
        jobs["submit_time"] *= stretch
        for row in jobs:
            sensitivity = sensitivity_of(workload.models[row["model"]], int(row["num_gpus"]))
            row["work"] *= sensitivity.factor(PROPORTIONAL_CPUS, PROPORTIONAL_MEMORY)
        window = (float(jobs["submit_time"][len(jobs) // 5]), np.inf)
        return replace(workload, jobs=jobs, window=window)


def mechanisms(
    data: str,
    folder: Path,
    splits: Sequence[str] = tuple(SPLITS),
    policies: Sequence[Policy] = ("fifo", "srtf"),
    sizes: str = "1 to 8 GPUs",
    jobs_per_hour: float = 9.0,
    num_nodes: int = 4,
    num_jobs: int = 400,
    num_workloads: int = 3,
    seed: int = 0,
) -> Reproduction:
    """Compare proportional, greedy and tune on Synergy's workload.

    Writes `runs.csv`, a row for each run.

    Args:
        data: not used; each reproduction gets the folder of public data.
        folder: folder to write to.
        splits: keys of `SPLITS`.
        policies: orders of jobs.
        sizes: a key of `SIZES`.
        jobs_per_hour: rate of arrivals for 16 nodes and jobs of one GPU; it is scaled to other clusters and sizes, so
            that all have the same load.
        num_nodes: nodes of eight GPUs.
        num_jobs: jobs of a workload.
        num_workloads: draws of each workload.
        seed: random seed of the draws.

    Raises:
        MurmurationError: a key of `SPLITS` or `SIZES` is unknown, or the rate is not positive.
    """
    for what, names, known in (("splits", splits, SPLITS), ("sizes", [sizes], SIZES)):
        for name in names:
            if name not in known:
                raise MurmurationError(f"{what}: {name!r} does not exist; choose of {', '.join(known)}")
    if not 0 < jobs_per_hour < np.inf:
        raise MurmurationError(f"jobs_per_hour is {jobs_per_hour}; it must be positive and finite")
    setting = MechanismSetting(num_nodes, num_jobs=num_jobs, num_workloads=num_workloads, seed=seed)
    runs = pd.DataFrame(
        row
        for split, policy in product(splits, policies)
        for row in mechanism_runs(setting, split, sizes, policy, jobs_per_hour)
    )
    folder.mkdir(parents=True, exist_ok=True)
    write_frame(folder / "runs.csv", runs)
    return Reproduction([("Mean JCT in hours", mean_times(runs))], mechanism_notes(setting, jobs_per_hour))


def mechanism_runs(
    setting: MechanismSetting, split: str, sizes: str, policy: Policy, jobs_per_hour: float
) -> Iterator[dict[str, object]]:
    """Yield a row for each run: each workload under each mechanism."""
    for index, workload in enumerate(setting.workloads(split, sizes, jobs_per_hour)):
        for mechanism in MECHANISMS_SHOWN:
            result = setting.play(mechanism, policy, workload)
            records = result.records[result.finished & result.records["measured"]]
            limits = limit_shares(result)
            yield {
                "split": split,
                "policy": policy,
                "workload": index,
                "mechanism": mechanism,
                "finished": len(records),
                "mean_jct_h": float((records["finish_time"] - records["submit_time"]).mean()) / HOUR,
                "limited_by_cpus": limits.cpus,
                "limited_by_memory": limits.memory,
                "queue_share": queue_share(result),
            }


def mean_times(runs: pd.DataFrame) -> pd.DataFrame:
    """Tabulate mean JCT over the workloads, and its ratio to tune's (geometric mean over the workloads)."""
    rows: list[dict[str, object]] = []
    for (split, policy), group in runs.groupby(["split", "policy"], sort=False):
        by_mechanism = group.pivot(index="workload", columns="mechanism", values="mean_jct_h")
        row: dict[str, object] = {"split": split, "policy": policy}
        row |= {name: round(float(by_mechanism[name].mean()), 2) for name in MECHANISMS_SHOWN}
        for name in ("proportional", "greedy"):
            ratio = np.exp(np.log(by_mechanism[name] / by_mechanism["tune"]).mean())
            row[f"{name} / tune"] = round(float(ratio), 2)
        rows.append(row)
    return pd.DataFrame(rows)


def mechanism_notes(setting: MechanismSetting, jobs_per_hour: float) -> list[str]:
    """Write the notes that explain the table."""
    return [
        f"{setting.num_workloads} workloads of {setting.num_jobs} jobs on {8 * setting.num_nodes} V100, the same for "
        f"all, at the load of {jobs_per_hour:g} jobs/h of one GPU on 128 V100; the first fifth of jobs is not measured",
        "split: percent of jobs with image, language and speech models; run times are those on proportional shares",
        f"the artifact: {ARTIFACT_HOURS} h for FIFO with tune, split 20/70/10, one GPU a job, 9 jobs/h on 128 V100; "
        "the paper: mean JCT up to 3.4 times lower than proportional, and tune ahead of greedy",
    ]
