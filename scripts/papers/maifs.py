"""MAIFS' published improvements beside those of trained policies, over published schedulers on two traces."""

import os
from collections.abc import Mapping, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

import pandas as pd

from envs.evaluation.comparison import Comparison
from envs.evaluation.statistics import Estimate
from experiments.performance.reproduction import Reproduction
from murmuration.config.choices import CONF
from murmuration.config.describe import compose_comparison
from murmuration.config.inputs import build_inputs, describe_task
from murmuration.config.settings import RecordChoice
from murmuration.records.recorded import RECORDS_FOLDER, TaskRecords, consult_records
from murmuration.reports.report import run_comparison, write_report
from murmuration.runs.policies import load_policies

PUBLISHED = {"mean JCT": 46.0, "makespan": 44.0}  # per cent less, at most: abstract of TPDS 36(3), 391-406, 2025
BASELINES = ("tiresias", "synergy_tune", "gavel_max_min", "pollux", "sia", "optimus_literal")
TASKS = ("philly-64", "itp-64")
NOTES = (
    "Published: up to 46 % less mean JCT and 44 % less makespan than the state of the art on two production traces. "
    "Only the abstract is public; it names neither the traces nor the baselines nor the sizes.",
    "Assumed here: windows of Philly and of ITP on 64 GPUs of three types (docs/tasks.md), rounds at events, exact "
    "remaining work, the full model with fungible cores and memory. Like MAIFS' agents, the policy on options learnt "
    "from random weights, without a heuristic. Nodes that bid go beyond MAIFS: a planner around Starling clears, and "
    "most of their lead over these baselines is Starling's, which has a row.",
    "Makespan is from the first submission to the last end among the measured jobs. Where one long job ends last, it "
    "says above all when that job started and how many GPUs it got.",
)


def improvements(data: str, folder: Path, checkpoints: Mapping[str, str], tasks: Sequence[str] = TASKS) -> Reproduction:
    """Compare policies with the recorded results of published schedulers on the test windows of two traces.

    Baselines are not played: their results are those in `baselines/records`.

    Args:
        data: the folder with `traces/`; empty for the one that MURMURATION_DATA names.
        folder: of the run; receives the report of each task.
        checkpoints: of the policies by name; a relative path is relative to the repository.
        tasks: names of tasks with recorded results.

    Raises:
        ChoiceError: there is no such task.
        CheckpointError: the checkpoint is missing or damaged.
    """
    if data:
        os.environ["MURMURATION_DATA"] = data
    paths = {name: CONF.parent / path for name, path in checkpoints.items()}
    tables, missing = [], []
    for task in tasks:
        comparison, absent = compare_on(task, paths, folder / task)
        for name in checkpoints:
            title = f"{task}: per cent less under {name} than under each scheduler"
            tables.append((title, improvement_table(comparison, name)))
        missing += [f"{task}: {name} has no valid record and is left out." for name in absent]
    return Reproduction(tables, [*missing, *NOTES])


def compare_on(task: str, checkpoints: Mapping[str, Path], folder: Path) -> tuple[Comparison, list[str]]:
    """Play policies on the test episodes of a task; return them beside recorded results, and which are missing."""
    first = next(iter(checkpoints))
    run = compose_comparison([f"task={task}", f"checkpoint={checkpoints[first]}"], "evaluate")
    inputs = build_inputs(run.problem)
    workloads = inputs.source.evaluation("test")
    about: Mapping[str, Any] = describe_task(run.problem, inputs, "test", len(workloads))
    there = TaskRecords(RECORDS_FOLDER, about["task"]).names
    wanted = ["starling", *BASELINES]
    run = replace(run, records=RecordChoice(recorded=[name for name in wanted if name in there]))
    recorded = consult_records(run, about, [], workloads, inputs.setup)
    policies = {name: load_policies(path)["policy"] for name, path in checkpoints.items()}
    comparison = run_comparison(
        policies, workloads, inputs.setup, inputs.seed, reference=first, about=about, recorded=recorded.figures
    )
    folder.mkdir(parents=True, exist_ok=True)
    write_report(comparison, folder)
    return comparison, [name for name in wanted if name not in recorded.figures]


def improvement_table(comparison: Comparison, policy: str) -> pd.DataFrame:
    """Return a row for each other scheduler: by how much the figures of a policy are lower, in per cent."""
    rows = [
        {
            "scheduler": name,
            "mean JCT": as_improvement(comparison.ratio("mean_jct", policy, to=name)),
            "makespan": as_improvement(comparison.ratio("makespan", policy, to=name)),
            "windows": len(comparison.runs[name]),
        }
        for name in comparison.schedulers
        if name != policy
    ]
    published: dict[str, Any] = {name: f"at most {value:g}" for name, value in PUBLISHED.items()}
    return pd.DataFrame([*rows, {"scheduler": "published, state of the art", **published, "windows": "not public"}])


def as_improvement(ratio: Estimate) -> str:
    """Return a ratio as per cent less, with the interval in ascending order.

    >>> as_improvement(Estimate(0.6, 0.5, 0.75))
    '40.0 [25.0, 50.0]'
    """
    less, most, least = (100.0 * (1.0 - value) for value in (ratio.value, ratio.low, ratio.high))
    return f"{less:.1f} [{least:.1f}, {most:.1f}]"
