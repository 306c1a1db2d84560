"""Mean JCT on workloads of Sia's simulator, beside what its artifact publishes (SOSP'23)."""

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path

import numpy as np
import pandas as pd

from baselines import Gavel, Pollux, Sia
from baselines.gavel.shares import Sharing, TimeShares, maximise_total_throughput
from baselines.parts.options import Options
from baselines.parts.programmed import ProgrammedRound
from envs.evaluation.files import write_frame
from envs.scheduling import ClusterView, Scheduler
from envs.simulation import Rounds, Scenario, Setup, Simulator, run_episode
from envs.types import ClusterSpec, FloatArray, IntArray, MurmurationError, NodeSpec, Seconds
from experiments.performance.reproduction import Reproduction
from papers.pollux.experiment import read_pollux_jobs
from papers.pollux.performance import ADAPTED
from papers.sia.performance import NODES, SiaRestarts, SiaTables

LOCATION = "sia/sia-simulator"
FAMILIES = {"philly": 8, "saturn": 10, "newtrace": 10}  # and how many workloads there are of each
PUBLISHED: dict[tuple[str, str], float] = {("saturn", "Gavel, steps/s"): 2.548}
"""Mean JCT in hours over all workloads of a family: `sia-simulator/README.md` of github.com/siasosp23/artifacts, commit
aaf7a0de. It publishes no other mean JCT; those of the paper's Table 3 are in its PDF only."""


class SharingInSteps(Sharing):
    """Jobs and GPUs whose throughputs count as they are, not relative to what a job has on average."""

    @property
    def proportional(self) -> FloatArray:
        """float64[num_jobs]: 1 for each job."""
        return np.ones(self.num_jobs)


class SumOfSteps(Gavel):
    """Gavel with the objective of the artifact, which prefers jobs of short steps: the sum of steps/s."""

    def _shares(self, view: ClusterView, jobs: IntArray, sharing: Sharing) -> TimeShares:
        return maximise_total_throughput(SharingInSteps(sharing.throughput, sharing.gpus, sharing.capacity))


class GrowingSia(Sia):
    """Sia with the artifact's limit: a job starts on one GPU, and may have twice the most GPUs that it has had."""

    def _options(self, now: ProgrammedRound) -> Options:
        options = super()._options(now)
        return options.only(np.flatnonzero(options.num_gpus <= np.maximum(1, 2 * now.most)[options.job]))


@dataclass(frozen=True)
class SiaContender:
    """One of our schedulers, the seconds of its rounds, and how jobs come to it (see `read_pollux_jobs`)."""

    build: Callable[[], Scheduler]
    round_length: Seconds
    jobs: str


CONTENDERS = {
    "Sia": SiaContender(Sia, 60.0, ADAPTED),
    "Sia, growing": SiaContender(GrowingSia, 60.0, ADAPTED),
    "Pollux": SiaContender(lambda: Pollux(growth=2.0), 60.0, ADAPTED),
    "Gavel": SiaContender(lambda: Gavel("total_throughput", reset_interval=0.0), 360.0, "rigid"),
    "Gavel, steps/s": SiaContender(lambda: SumOfSteps(reset_interval=0.0), 360.0, "rigid"),
    "Gavel, max-min": SiaContender(lambda: Gavel("max_min", reset_interval=0.0), 360.0, "rigid"),
}


def sia_workloads(
    data: str,
    folder: Path,
    families: Sequence[str] = ("philly", "saturn"),
    schedulers: Sequence[str] = ("Sia", "Sia, growing", "Gavel, steps/s", "Gavel", "Gavel, max-min"),
    most_workloads: int = 10,
) -> Reproduction:
    """Play the artifact's workloads on its 24 T4, 16 A100 and 24 RTX 2080 Ti, with its rounds and restart costs.

    Args:
        data: a folder with `sia/sia-simulator`, a copy of the artifact's folder `sia-simulator`.
        folder: of the run.
        families: keys of `FAMILIES`.
        schedulers: keys of `CONTENDERS`. Pollux takes a minute and a half for each workload.
        most_workloads: of each family, from its first on.

    Raises:
        MurmurationError: the artifact's folder, a family or a scheduler does not exist.
    """
    simulator = Path(data) / LOCATION
    for chosen, allowed in ((families, FAMILIES), (schedulers, CONTENDERS)):
        for name in chosen:
            if name not in allowed:
                raise MurmurationError(f"paper=sia: {name!r} does not exist; choose of {', '.join(allowed)}")
    if not data or not (simulator / "workloads").is_dir():
        raise MurmurationError(
            f"{simulator}: does not exist; copy the folder sia-simulator of github.com/siasosp23/artifacts to "
            f"{LOCATION} of a folder, and set data=<folder>"
        )
    model = SiaTables(simulator / "traces")
    rows = [
        {"family": family, **play_sia(name, simulator / "workloads" / family / f"workload-{number}.csv", model)}
        for family in families
        for number in range(1, min(FAMILIES[family], most_workloads) + 1)
        for name in schedulers
    ]
    table = pd.DataFrame(rows)
    folder.mkdir(parents=True, exist_ok=True)
    write_frame(folder / "sia_workloads.csv", table)
    return Reproduction([("workloads", table), ("mean over workloads", means_of_families(table))])


def play_sia(name: str, path: Path, model: SiaTables) -> dict[str, object]:
    """Play one workload under one scheduler; return its mean JCT in hours, and its makespan."""
    contender = CONTENDERS[name]
    nodes = [NodeSpec(gpu_type, gpus) for gpu_type, (count, gpus) in NODES.items() for _ in range(count)]
    scenario = Scenario(
        reconfiguration=SiaRestarts(), rounds=Rounds(False, contender.round_length), batch_sizes="usual"
    )
    setup = Setup(ClusterSpec(tuple(nodes), "sia_64"), model, scenario)
    result = run_episode(contender.build(), Simulator(read_pollux_jobs(path, model, contender.jobs), setup, seed=0))
    jct = result.records["finish_time"] - result.records["submit_time"]
    makespan = float(result.records["finish_time"].max()) / 3600
    return {"workload": path.stem, "scheduler": name, "JCT (h)": float(jct.mean()) / 3600, "makespan (h)": makespan}


def means_of_families(table: pd.DataFrame) -> pd.DataFrame:
    """Average over the workloads of each family; Sia's JCT in per cent below the others'; the published mean JCT."""
    means = table.groupby(["family", "scheduler"], sort=False)[["JCT (h)", "makespan (h)"]].mean().reset_index()
    sia = means[means.scheduler == "Sia"].set_index("family")["JCT (h)"]
    means["Sia below (%)"] = 100 * (1 - means.family.map(sia) / means["JCT (h)"])
    means["published JCT (h)"] = [PUBLISHED.get(key) for key in zip(means.family, means.scheduler, strict=True)]
    means["off (%)"] = 100 * (means["JCT (h)"] / means["published JCT (h)"].astype(float) - 1)
    return means
