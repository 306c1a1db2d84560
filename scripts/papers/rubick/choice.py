"""The choice of Rubick's gate and patience on random workloads, which are not used to evaluate it."""

import itertools
from collections.abc import Callable, Sequence
from functools import partial
from pathlib import Path

import numpy as np
import pandas as pd

from baselines.fifo import Fifo
from baselines.rubick.scheduler import Rubick
from envs.evaluation.files import write_frame
from envs.performance.rubick.measured import MeasuredModel
from envs.scheduling import Scheduler
from envs.types import ClusterSpec, FloatArray, Seconds
from envs.workloads import Workload
from experiments.performance.reproduction import Reproduction
from papers.rubick.experiment import WithUserPlans, build_a800_cluster, run_under_artifact_rules
from papers.rubick.workloads import draw_rubick_workload

GATES = (0.8, 0.9, 0.95)
PATIENCES = (600.0, 1800.0, 3600.0)
TRAINING, VALIDATION = 0, 1  # first number of the seed, so that no workload is in both
VALIDATED = 3  # number of best pairs of training that are validated
LOADS = (0.75, 0.9)  # requested GPU-seconds as a share of those available while jobs arrive; without starts
GUARANTEED = (0.0, 0.5)


def choice(
    data: str,
    folder: Path,
    num_workloads: int = 8,
    gates: Sequence[float] = GATES,
    patiences: Sequence[Seconds] = PATIENCES,
) -> Reproduction:
    """Run every pair of gate and patience on the training workloads, and the best three on the validation workloads.

    Every second workload has guaranteed jobs; in each four, two have the higher load. Writes `choice.csv`.

    Args:
        data: folder that holds `profiles/rubick`.
        folder: where to write.
        num_workloads: workloads of each split.
        gates: values of Rubick's `gate`.
        patiences: values of its `patience`.

    Raises:
        PerformanceError: measurements are missing or broken.
    """
    measured, cluster = MeasuredModel.read(data), build_a800_cluster()
    pairs = list(itertools.product(gates, patiences))
    training = scores(measured, workloads(measured, cluster, TRAINING, num_workloads), pairs)
    table = training.sort_values("sum", kind="stable", ignore_index=True).add_prefix("training ")
    best = list(zip(table["training gate"].tolist(), table["training patience"].tolist(), strict=True))[:VALIDATED]
    validation = scores(measured, workloads(measured, cluster, VALIDATION, num_workloads), best)
    table = table.rename(columns={"training gate": "gate", "training patience": "patience"})
    table = table.join(validation.drop(columns=["gate", "patience"]).add_prefix("validation "))
    folder.mkdir(parents=True, exist_ok=True)
    write_frame(folder / "choice.csv", table)
    title = "Gate and patience, the best of training first"
    return Reproduction([(title, table.round(4))], explain_choice(num_workloads))


def workloads(measured: MeasuredModel, cluster: ClusterSpec, split: int, count: int) -> list[Workload]:
    """Draw the workloads of a split."""
    return [
        draw_rubick_workload(
            measured, cluster, (split, index), load=LOADS[index // 2 % 2], guaranteed=GUARANTEED[index % 2]
        )
        for index in range(count)
    ]


def scores(measured: MeasuredModel, some: Sequence[Workload], pairs: Sequence[tuple[float, Seconds]]) -> pd.DataFrame:
    """One row per pair of gate and patience: mean logarithms of the ratios to FIFO, and their sum."""
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
        records = run_under_artifact_rules(make(), workload, build_a800_cluster(), measured).records
        found.append([(records["finish_time"] - records["submit_time"]).mean(), records["finish_time"].max()])
    return np.array(found)


def explain_choice(num_workloads: int) -> list[str]:
    """Explain how to read the table."""
    return [
        f"{num_workloads} drawn workloads of 400 jobs per split; logarithms of ratios to FIFO with skipping and users' "
        "plans: -0.1 is 10 % less. Pairs are ranked by the sum for JCT and makespan on the training workloads",
        "validation shows whether the best pair of training is more than noise; the public traces are in neither split",
    ]
