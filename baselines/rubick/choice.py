"""How Rubick's gate and patience were chosen: on drawn workloads, none of which is one that it is judged on."""

import itertools
from collections.abc import Callable, Sequence
from functools import partial
from pathlib import Path

import numpy as np
import pandas as pd

from baselines.fifo import Fifo
from baselines.rubick.drawn import drawn
from baselines.rubick.experiment import WithUserPlans, play, servers
from baselines.rubick.scheduler import Rubick
from envs.performance.reproduction import Reproduction
from envs.performance.rubick_measured import MeasuredModel
from envs.scheduling import Scheduler
from envs.types import ClusterSpec, FloatArray, Seconds
from envs.workloads import Workload

GATES = (0.8, 0.9, 0.95)
PATIENCES = (600.0, 1800.0, 3600.0)
TRAINING, VALIDATION = 0, 1  # the first number of a seed, so that no draw is in both
VALIDATED = 3  # pairs, the best of training
LOADS = (0.75, 0.9)  # GPU-seconds asked for, as a share of those there are while jobs come; starts are not counted
GUARANTEED = (0.0, 0.5)


def choice(
    data: str,
    folder: Path,
    num_workloads: int = 8,
    gates: Sequence[float] = GATES,
    patiences: Sequence[Seconds] = PATIENCES,
) -> Reproduction:
    """Play every pair of gate and patience on the training draws, and the best three on the validation draws.

    Every second workload has guaranteed jobs, every second two of them the higher load. Writes `choice.csv`.

    Args:
        data: folder that holds `profiles/rubick`.
        folder: where to write.
        num_workloads: of each split.
        gates: values of Rubick's `gate`.
        patiences: values of its `patience`.

    Raises:
        PerformanceError: measurements are missing or broken.
    """
    measured, cluster = MeasuredModel.read(data), servers()
    pairs = list(itertools.product(gates, patiences))
    training = scores(measured, workloads(measured, cluster, TRAINING, num_workloads), pairs)
    table = training.sort_values("sum", kind="stable", ignore_index=True).add_prefix("training ")
    best = list(zip(table["training gate"].tolist(), table["training patience"].tolist(), strict=True))[:VALIDATED]
    validation = scores(measured, workloads(measured, cluster, VALIDATION, num_workloads), best)
    table = table.rename(columns={"training gate": "gate", "training patience": "patience"})
    table = table.join(validation.drop(columns=["gate", "patience"]).add_prefix("validation "))
    folder.mkdir(parents=True, exist_ok=True)
    table.to_csv(folder / "choice.csv", index=False)
    return Reproduction([("Gate and patience, the best of training first", table.round(4))], notes(num_workloads))


def workloads(measured: MeasuredModel, cluster: ClusterSpec, split: int, count: int) -> list[Workload]:
    """The draws of a split."""
    return [
        drawn(measured, cluster, (split, index), load=LOADS[index // 2 % 2], guaranteed=GUARANTEED[index % 2])
        for index in range(count)
    ]


def scores(measured: MeasuredModel, some: Sequence[Workload], pairs: Sequence[tuple[float, Seconds]]) -> pd.DataFrame:
    """A row for each pair of gate and patience: mean logarithms of the ratios to FIFO, and their sum."""
    fifo = times(lambda: WithUserPlans(Fifo("skip")), some, measured)
    rows = []
    for gate, patience in pairs:
        ours = times(partial(Rubick, measured, gate=gate, patience=patience), some, measured)
        jct, makespan = np.log(ours / fifo).mean(axis=0).tolist()
        rows.append({"gate": gate, "patience": patience, "JCT": jct, "makespan": makespan, "sum": jct + makespan})
    return pd.DataFrame(rows)


def times(make: Callable[[], Scheduler], some: Sequence[Workload], measured: MeasuredModel) -> FloatArray:
    """float64[num_workloads, 2]: mean JCT and makespan in seconds."""
    found = []
    for workload in some:
        records = play(make(), workload, servers(), measured).records
        found.append([(records["finish_time"] - records["submit_time"]).mean(), records["finish_time"].max()])
    return np.array(found)


def notes(num_workloads: int) -> list[str]:
    """How to read the table."""
    return [
        f"{num_workloads} drawn workloads of 400 jobs a split; logarithms of ratios to FIFO with skipping and users' "
        "plans: -0.1 is 10 % less. What counts is the sum for JCT and makespan on the training draws",
        "validation says whether the best of training is more than luck; the public traces are in neither",
    ]
