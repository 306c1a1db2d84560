"""Speeds exactly as Gavel's file has them, for playing Gavel's traces as Gavel's simulator does."""

import csv
import math
import os
import re
from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path

from envs.types import ExecutionPlan, Gigabytes, PerformanceError

DATA_VARIABLE = "MURMURATION_DATA"  # a folder that holds profiles/<name>/...
LOCATION = "profiles/gavel/simulation_throughputs_isolated.csv"
COLUMNS = ("worker_type", "job_type", "scale_factor", "steps_per_s")
BATCH = re.compile(r"\(batch size (\d+)\)$")

Speeds = Mapping[tuple[str, str], Mapping[int, float]]  # (model, GPU type) -> GPUs -> samples/s


@dataclass(frozen=True)
class GavelModel:
    """Gavel's measured speeds (OSDI'20; one row for each job type, GPU type, number of GPUs, consolidated or spread).

    Models are Gavel's job types, "ResNet-18 (batch size 32)". Samples are steps times batch size times GPUs; a
    type that states no batch size counts a step as a sample of each GPU, as `envs.workloads.readers.Gavel` does. A
    number of GPUs that was not measured has the speed of the largest smaller one that was: the others idle. A job whose
    row is 0 or missing on a GPU type does not run there. The file is read at the first question.

    Args:
        path: the file, a CSV with the columns worker_type, job_type, scale_factor, steps_per_s; its place under
            $MURMURATION_DATA if None.
        spread: whether jobs on more than one node have the `_unconsolidated` speeds. False, the consolidated ones for
            every placement, is what Gavel's own results on servers of one GPU were made with.
    """

    path: str | None = None
    spread: bool = False
    _read: dict[str, Speeds] = field(default_factory=dict, init=False, repr=False, compare=False)

    @property
    def models(self) -> tuple[str, ...]:
        """Gavel's job types. Reads the file."""
        return tuple(dict.fromkeys(model for model, _ in self._speeds))

    def provenance(self, model: str, gpu_type: str) -> str:
        """All speeds are "measured"; "infeasible" where the job type does not run."""
        return "measured" if any(self._speeds.get((model, gpu_type), {}).values()) else "infeasible"

    def throughput(
        self,
        model: str,
        gpu_type: str,
        num_gpus: int,
        num_nodes: int = 1,
        *,
        batch_size: int | None = None,
        plan: ExecutionPlan | None = None,
        cpus_per_gpu: float | None = None,
        memory_per_gpu: Gigabytes | None = None,
    ) -> float:
        """Samples per second; see `PerformanceModel.throughput`. Cores and memory make no difference here.

        Raises:
            PerformanceError: the file cannot be read or has no such job type or GPU type; a batch size or plan is set,
                for which it has no figures.
        """
        if not 1 <= num_nodes <= num_gpus:
            raise PerformanceError(
                f"model {model}: {num_gpus} GPUs on {num_nodes} nodes; each of at least one node needs a GPU"
            )
        if batch_size is not None or plan not in (None, ExecutionPlan(data=num_gpus)):
            raise PerformanceError(
                f"model {model}: Gavel measured one batch size and plain replicas only; leave batch_size and plan open"
            )
        if (model, gpu_type) not in self._speeds:
            raise PerformanceError(self._unknown(model, gpu_type))
        kind = f"{gpu_type}/spread" if self.spread and num_nodes > 1 else gpu_type
        curve = self._speeds.get((model, kind), {})
        return max((speed for gpus, speed in curve.items() if gpus <= num_gpus), default=0.0)

    @property
    def _speeds(self) -> Speeds:
        if "speeds" not in self._read:
            self._read["speeds"] = read_speeds(_located(self.path))
        return self._read["speeds"]

    def _unknown(self, model: str, gpu_type: str) -> str:
        types = ", ".join(dict.fromkeys(kind for _, kind in self._speeds if "/" not in kind))
        if model not in self.models:
            return f"model {model!r} is unknown to Gavel's file; it has {len(self.models)} job types on {types}"
        return f"GPU type {gpu_type!r} is unknown to Gavel's file; it has {types}"


def read_speeds(path: Path) -> Speeds:
    """Samples/s by (job type, GPU type) and number of GPUs; spread rows under "<GPU type>/spread".

    Raises:
        PerformanceError: a column is missing, or a number is none or negative.
    """
    found: dict[tuple[str, str], dict[int, float]] = {}
    with path.open(encoding="utf-8", newline="") as file:
        rows = csv.DictReader(file)
        missing = [name for name in COLUMNS if name not in (rows.fieldnames or ())]
        if missing:
            raise PerformanceError(f"{path}: has no column {missing[0]}; Gavel's speeds need {', '.join(COLUMNS)}")
        for number, row in enumerate(rows, start=2):
            try:
                gpus, steps = int(row["scale_factor"]), float(row["steps_per_s"])
            except (TypeError, ValueError):
                gpus, steps = 0, math.nan
            if gpus < 1 or not (math.isfinite(steps) and steps >= 0):
                raise PerformanceError(
                    f"{path}: row {number}: scale_factor {row['scale_factor']} and steps_per_s {row['steps_per_s']} "
                    "must be a number of GPUs and a speed of at least 0; correct the row"
                )
            name, _, spread = row["worker_type"].partition("_")
            kind = name.upper() + ("/spread" if spread else "")
            size = BATCH.search(row["job_type"])
            samples = gpus * (int(size.group(1)) if size else 1)
            found.setdefault((row["job_type"], kind), {})[gpus] = steps * samples
    return found


def _located(path: str | None) -> Path:
    root = os.environ.get(DATA_VARIABLE)
    chosen = Path(path).expanduser() if path is not None else Path(root or "") / LOCATION
    if (path is None and not root) or not chosen.is_file():
        raise PerformanceError(
            f"Gavel's speeds: {chosen} does not exist; set performance.path=<file>, or ${DATA_VARIABLE} to a folder "
            f"that holds {LOCATION}"
        )
    return chosen
