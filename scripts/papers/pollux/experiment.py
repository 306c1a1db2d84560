"""Mean JCT on the eight workloads of Pollux's simulator, beside its published results (OSDI'21 artifact)."""

import csv
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path

import pandas as pd

from baselines import Optimus, Pollux, Tiresias
from envs.evaluation.files import write_frame
from envs.scheduling import Scheduler
from envs.simulation import Rounds, Scenario, Setup, Simulator, run_episode
from envs.types import ClusterSpec, GpuSeconds, JobSpec, MurmurationError, NodeSpec, Seconds
from envs.workloads import Workload
from experiments.performance.reproduction import Reproduction
from papers.pollux.artifact import GPUS_PER_NODE, MOST_NODES, Application
from papers.pollux.performance import ADAPTED, PolluxTables

LOCATION = "pollux/simulator"
ROUND: Seconds = 60.0
RESTART: Seconds = 30.0  # of every start and change, the first one too
LIMITS: tuple[GpuSeconds, ...] = (16 * 3600.0,)  # of Tiresias' queues
PUBLISHED: dict[str, tuple[float, ...]] = {
    "tiresias": (2473.65, 5144.96, 3876.26, 3280.26, 3501.01, 3469.69, 5479.91, 5079.71),
    "optimus": (4087.06, 6913.88, 3944.01, 5967.75, 5656.25, 5301.88, 7290.86, 6293.79),
    "pollux": (2088.77, 3322.94, 2188.49, 2720.98, 2673.70, 2446.13, 3616.14, 2951.91),
}
"""Mean JCT in seconds of workloads 1 to 8: `results-jobload/<policy>-1.0/summary.json` of github.com/petuum/adaptdl,
branch osdi21-artifact, commit c793c708."""


@dataclass(frozen=True)
class Contender:
    """One of our schedulers, and how jobs come to it."""

    published: str  # key of `PUBLISHED`
    build: Callable[[], Scheduler]
    jobs: str  # "rigid" as requested, "elastic" at the user's batch size, or ADAPTED: elastic at the best batch sizes


CONTENDERS = {
    "Tiresias": Contender("tiresias", lambda: Tiresias(LIMITS), "rigid"),
    "Tiresias, by entry": Contender("tiresias", lambda: Tiresias(LIMITS, order="entry"), "rigid"),
    "Tiresias, by entry, spread": Contender(
        "tiresias", lambda: Tiresias(LIMITS, order="entry", placement="spread"), "rigid"
    ),
    "Optimus": Contender("optimus", lambda: Optimus(restart_cost=0.0, shortness=0.0), "elastic"),
    "Pollux": Contender("pollux", lambda: Pollux(growth=2.0), ADAPTED),
}


def eight_workloads(
    data: str,
    folder: Path,
    schedulers: Sequence[str] = tuple(CONTENDERS),
    workloads: Sequence[int] = tuple(range(1, 9)),
) -> Reproduction:
    """Play the artifact's workloads on its 16 nodes of four T4, with its rounds and restart costs.

    Args:
        data: a folder with `pollux/simulator`, a copy of the artifact's folder `simulator`.
        folder: of the run.
        schedulers: keys of `CONTENDERS`.
        workloads: numbers of workloads, from 1 to 8.

    Raises:
        MurmurationError: the artifact's folder, a scheduler or a workload does not exist.
    """
    simulator = Path(data) / LOCATION
    for name in schedulers:
        if name not in CONTENDERS:
            raise MurmurationError(f"schedulers: {name!r} does not exist; choose of {', '.join(CONTENDERS)}")
    if not data or not (simulator / "workloads").is_dir():
        raise MurmurationError(
            f"{simulator}: does not exist; copy the folder simulator of github.com/petuum/adaptdl, branch "
            f"osdi21-artifact, to {LOCATION} of a folder, and set data=<folder>"
        )
    model = PolluxTables(simulator / "traces")
    rows = [
        beside_published(name, number, simulator / "workloads" / f"workload-{number}.csv", model)
        for name in schedulers
        for number in workloads
    ]
    table = pd.DataFrame(rows)
    folder.mkdir(parents=True, exist_ok=True)
    write_frame(folder / "eight_workloads.csv", table)
    return Reproduction([("mean JCT in seconds", table), ("mean over workloads", mean_by_scheduler(table))])


def beside_published(name: str, number: int, path: Path, model: PolluxTables) -> dict[str, object]:
    """Play one workload under one scheduler; return our mean JCT beside the published one."""
    contender = CONTENDERS[name]
    cluster = ClusterSpec((NodeSpec("T4", GPUS_PER_NODE),) * MOST_NODES, "t4_64")
    scenario = Scenario(RESTART, RESTART, rounds=Rounds(False, ROUND), batch_sizes="usual")
    jobs = read_pollux_jobs(path, model, contender.jobs)
    records = run_episode(contender.build(), Simulator(jobs, Setup(cluster, model, scenario), seed=0)).records
    theirs, ours = PUBLISHED[contender.published][number - 1], (records["finish_time"] - records["submit_time"]).mean()
    percent = 100 * (ours / theirs - 1)
    return {"scheduler": name, "workload": number, "published": theirs, "here": float(ours), "percent": float(percent)}


def mean_by_scheduler(table: pd.DataFrame) -> pd.DataFrame:
    """Average the mean JCTs over the workloads, and count the workloads within 5 and 10 per cent."""
    by_scheduler = table.groupby("scheduler", sort=False)
    found = by_scheduler[["published", "here"]].mean()
    found["percent"] = 100 * (found.here / found.published - 1)
    for limit in (5, 10):
        found[f"within {limit} %"] = (table.percent.abs() <= limit).groupby(table.scheduler, sort=False).sum()
    return found.reset_index()


def read_pollux_jobs(path: Path, model: PolluxTables, jobs: str) -> Workload:
    """Read a workload: rigid, elastic, or elastic at the best batch sizes; NCF's jobs always have one GPU."""
    if not path.is_file():
        raise MurmurationError(f"{path}: does not exist; the artifact has workloads 1 to 8")
    specs = []
    for number, row in enumerate(csv.DictReader(path.read_text(encoding="utf-8").splitlines())):
        application = model.application(row["application"])
        one = application.name == "ncf"
        batch = ADAPTED if jobs == ADAPTED and not one else row["batch_size"]
        least, gpus = (int(row["num_replicas"]),) * 2 if jobs == "rigid" else (1, 1)
        largest = application.largest if batch == ADAPTED else int(batch)
        most = gpus if one or jobs == "rigid" else most_replicas(application, largest)
        name = f"{application.name} {batch}"
        specs.append(JobSpec(number, float(row["time"]), gpus, model.work(name), name, least, most))
    return Workload.of(specs, path.stem)


def most_replicas(application: Application, batch_size: int) -> int:
    """Return the most GPUs that a batch can be divided among: those that get the least measured number of samples."""
    return min(MOST_NODES * GPUS_PER_NODE, batch_size // application.least)
