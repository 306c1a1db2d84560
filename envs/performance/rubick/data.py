"""Rubick's public measurements, read in their original columns: placements that ran, and points to fit on.

The files are those of `artifact/` in github.com/AlibabaPAI/reconfigurable-dl-scheduler (Apache-2.0), by model folder.
Each gap in the files is filled by a stated rule: see `parse_plan`.
"""

import csv
import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from functools import cache
from importlib.resources import files
from pathlib import Path
from typing import Any

import yaml

from envs.performance.rubick.iteration import ModelShape
from envs.performance.rubick.memory import excess
from envs.types import ExecutionPlan, PerformanceError, Seconds

FOLDERS: Mapping[str, tuple[str, int]] = {
    "vit": ("vit", 64),
    "roberta": ("roberta", 64),
    "bert": ("bert", 32),
    "t5": ("t5", 16),
    "t5_3B": ("t5_3b", 16),
    "gpt2": ("gpt2", 16),
    "llama7": ("llama7b", 8),
    "llama7b_bsz16": ("llama7b", 16),
    "llama30": ("llama30b", 4),
}
"""Folder of placements -> model and global batch. Batch 16 of t5_3B is that of t5: its files do not say."""

RECOMPUTED = ("t5", "t5_3b", "gpt2", "llama7b", "llama30b")
"""Models with gradient checkpointing in their offload runs: their class in the paper's table is "ZeRO-Offload+GC"."""

SINGLE_SAMPLE = ("llama7b_bsz16",)
"""Folders with pipelines that ran micro-batches of one sample. Inferred: at twice the batch, these pipelines are faster
(441: 1.80 s) than those of the other folders with an undivided batch (2.64 s); only a filled pipeline explains this."""

DEFAULT_THREADS = 4.0  # CPU threads per GPU with offload, where the file has no column for it (artifact: 4)
PLAN_CLASSES = {"ga", "gc", "zero-dp", "zero-offload", "zero-offload+gc", "tp+ga"}


@dataclass(frozen=True, slots=True)
class MeasuredRun:
    """One measured run: a plan on a placement."""

    folder: str  # of the measurements
    model: str
    exec_plan: str  # as in the file
    placement: str  # as in the file
    plan: ExecutionPlan
    shares: tuple[int, ...]  # GPUs on each node
    batch: int
    cpus: float  # CPU threads per GPU
    iteration: Seconds  # measured; 0.0: the plan did not run

    @property
    def plan_class(self) -> str:
        """Class of plan: ga, gc, zero-dp, zero-offload or 3d."""
        if self.plan.tensor * self.plan.pipeline > 1:
            return "3d"
        return self.exec_plan.removesuffix("+gc") if self.exec_plan in PLAN_CLASSES else "ga"


@dataclass(frozen=True, slots=True)
class ProfiledPoint:
    """One measured iteration of a data-parallel plan, with its parts in ms; the artifact fits on such points."""

    plan: ExecutionPlan
    cpus: float  # CPU threads per GPU
    forward: float
    compute: float  # forward recomputation, backward, synchronisation, offload (the artifact's Tcc); 0.0 if unknown
    optimizer: float  # optimizer step and parameter swap (the artifact's Topt)
    iteration: float


@cache
def model_shapes() -> Mapping[str, ModelShape]:
    """Read the shapes of Rubick's models by name."""
    return {name: ModelShape(name, **values) for name, values in load_table("rubick_models").items()}


def load_table(name: str) -> dict[str, Any]:
    """Read one of the package's own small YAML tables."""
    text = (files("envs.performance") / "tables" / f"{name}.yaml").read_text(encoding="utf-8")
    table: dict[str, Any] = yaml.safe_load(text)
    return table


def find_profiles(data: str | Path) -> Path:
    """Find the folder of profiles below a data folder.

    Raises:
        PerformanceError: no folder is named, or it has no `profiles/rubick`.
    """
    if not str(data):
        raise PerformanceError(
            "no data folder is set; set data=<folder> or $MURMURATION_DATA to a folder that holds profiles/rubick"
        )
    root = Path(data).expanduser() / "profiles"
    if not (root / "rubick").is_dir():
        raise PerformanceError(f"data={data}: has no folder profiles/rubick; set data=<folder> or $MURMURATION_DATA")
    return root


def read_placements(root: Path) -> list[MeasuredRun]:
    """Read all measurements in `rubick/<model>/placements.csv`, including those that did not run.

    Raises:
        PerformanceError: the folder or a file is missing, or a field is malformed.
    """
    found: list[MeasuredRun] = []
    for folder, (model, batch) in FOLDERS.items():
        path = root / folder / "placements.csv"
        for number, row in enumerate(_rows(path, ("exec_plan", "placement", "iter_time")), start=2):
            iteration = _number(path, number, "iter_time", row["iter_time"])
            threads = _number(path, number, "cpu_threads", row.get("cpu_threads") or DEFAULT_THREADS)
            shares = _shares(path, number, row["placement"])
            plan = parse_plan(model_shapes()[model], row["exec_plan"], shares, batch, single=folder in SINGLE_SAMPLE)
            found.append(
                MeasuredRun(folder, model, row["exec_plan"], row["placement"], plan, shares, batch, threads, iteration)
            )
    return found


def parse_plan(
    shape: ModelShape, exec_plan: str, shares: Sequence[int], batch: int, *, single: bool = False
) -> ExecutionPlan:
    """Parse the name of a plan on a placement, such as `ga`, `zero-offload` or `244` (pipeline, tensor, data).

    Micro-batches are not in the files. Rule: as few as fit in memory; with `single`, pipelines have micro-batches of
    one sample. Offload runs of the larger models had checkpointing, see `RECOMPUTED`.

    Raises:
        PerformanceError: the name is unknown.
    """
    gpus = sum(shares)
    if exec_plan.isdigit() and len(exec_plan) == 3:
        pipeline, tensor, data = (int(digit) for digit in exec_plan)
        plan = ExecutionPlan(data=data, tensor=tensor, pipeline=pipeline)
    elif exec_plan == "tp+ga":
        plan = ExecutionPlan(tensor=gpus)
    elif exec_plan in PLAN_CLASSES:
        zero, offload = 2 if exec_plan.startswith("zero") else 0, "offload" in exec_plan
        recomputed = exec_plan.endswith("gc") or (offload and shape.name in RECOMPUTED)
        plan = ExecutionPlan(data=gpus, zero_stage=zero, offload=offload, checkpointing=recomputed)
    else:
        raise PerformanceError(
            f"execution plan {exec_plan!r} is unknown; known: {', '.join(sorted(PLAN_CLASSES))}, 3 digits"
        )
    if single and plan.pipeline > 1:
        return replace(plan, accumulation=batch // plan.data)
    return fewest_micro_batches(shape, plan, batch)


def fewest_micro_batches(shape: ModelShape, plan: ExecutionPlan, batch: int) -> ExecutionPlan:
    """Return the plan with as few micro-batches as fit in memory; the plan unchanged if none fits."""
    local = max(batch // plan.data, 1)
    for micro in (divisor for divisor in range(1, local + 1) if local % divisor == 0):
        candidate = replace(plan, accumulation=micro)
        if not any(excess(shape, candidate, batch)):
            return candidate
    return plan


def read_fit_points(root: Path, model: str) -> list[ProfiledPoint]:
    """Read the points under `rubick_fit_points/<model>` on which the artifact fits a model; times in ms.

    Raises:
        PerformanceError: a file is missing, or a field is not a number of at least 0 (NaN included).
    """
    config, data = root / model / "config.csv", root / model / "data.csv"
    settings = _rows(config, ("gpus", "num_cpu_threads", "zero_type"))
    times = _rows(data, ("forward_time", "Tcc", "Topt", "iter_time"))
    if len(settings) != len(times):
        raise PerformanceError(
            f"{data}: has {len(times)} rows, but {config.name} has {len(settings)}; both need one row for each point"
        )
    found = []
    for number, (setting, time) in enumerate(zip(settings, times, strict=True), start=2):
        gpus = int(_number(config, number, "gpus", setting["gpus"]))
        zero_type = setting["zero_type"].strip()  # 0 data parallel, 1 ZeRO-Offload, 2 ZeRO
        plan = ExecutionPlan(data=gpus, zero_stage=0 if zero_type == "0" else 2, offload=zero_type == "1")
        forward, compute, optimizer, iteration = (
            _number(data, number, field, time[field]) for field in ("forward_time", "Tcc", "Topt", "iter_time")
        )
        threads = _number(config, number, "num_cpu_threads", setting["num_cpu_threads"])
        found.append(ProfiledPoint(plan, threads, forward, compute, optimizer, iteration))
    return found


def _rows(path: Path, columns: Sequence[str]) -> list[dict[str, str]]:
    if not path.is_file():
        raise PerformanceError(
            f"{path}: no such file; point `data` or $MURMURATION_DATA at a folder that holds profiles/rubick"
        )
    with path.open(encoding="utf-8-sig", newline="") as file:
        rows = list(csv.DictReader(file))
    missing = [column for column in columns if not rows or column not in rows[0]]
    if missing:
        raise PerformanceError(
            f"{path}: column {missing[0]!r} is missing or the file is empty; it needs columns {list(columns)}"
        )
    return rows


def _number(path: Path, row: int, field: str, text: str | float) -> float:
    try:
        value = float(text)
    except ValueError:
        value = math.nan
    if not math.isfinite(value) or value < 0:
        raise PerformanceError(
            f"{path}: row {row}, {field} is {text!r}; it must be a number of at least 0; correct or remove the row"
        )
    return value


def _shares(path: Path, row: int, text: str) -> tuple[int, ...]:
    if not text.isdigit() or "0" in text:
        raise PerformanceError(f"{path}: row {row}, placement is {text!r}; it must be digits from 1 to 9, GPUs by node")
    return tuple(int(digit) for digit in text)
