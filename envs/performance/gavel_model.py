"""Throughputs exactly as in Gavel's file, to simulate Gavel's traces as Gavel's own simulator does."""

import csv
import math
import os
import re
from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path

from envs.performance.model import check_nodes_have_gpus
from envs.types import Configuration, ExecutionPlan, PerformanceError

_DATA_VARIABLE = "MURMURATION_DATA"  # a folder that holds profiles/<name>/...
LOCATION = "profiles/gavel/simulation_throughputs_isolated.csv"
_COLUMNS = ("worker_type", "job_type", "scale_factor", "steps_per_s")
_BATCH = re.compile(r"\(batch size (\d+)\)$")

GavelThroughputs = Mapping[tuple[str, str], Mapping[int, float]]  # (model, GPU type) -> GPUs -> samples/s


@dataclass(frozen=True)
class GavelModel:
    """Gavel's measured throughputs (OSDI'20), by job type, GPU type, number of GPUs, and consolidated or spread.

    Models are Gavel's job types, for example "ResNet-18 (batch size 32)". Samples are steps times batch size times
    GPUs. If a job type has no batch size, a step counts as one sample on each GPU, as in
    `envs.workloads.readers.GavelTrace`. A number of GPUs that was not measured has the throughput of the next smaller
    measured number; the other GPUs idle. A job type does not run on a GPU type where its row is 0 or missing. The file
    is read on first use.

    Args:
        path: the file, a CSV with the columns worker_type, job_type, scale_factor, steps_per_s; if None, its default
            location under $MURMURATION_DATA.
        spread: whether jobs on more than one node have the `_unconsolidated` throughputs. False means consolidated
            throughputs for every placement; Gavel's own results on nodes of one GPU were made this way.
    """

    path: str | None = None
    spread: bool = False
    _read: dict[str, GavelThroughputs] = field(default_factory=dict, init=False, repr=False, compare=False)

    @property
    def models(self) -> tuple[str, ...]:
        """Gavel's job types; reads the file on first use."""
        return tuple(dict.fromkeys(model for model, _ in self._throughputs))

    def provenance(self, model: str, gpu_type: str) -> str:
        """Return "measured", or "infeasible" where the job type does not run."""
        return "measured" if any(self._throughputs.get((model, gpu_type), {}).values()) else "infeasible"

    def throughput(self, model: str, configuration: Configuration) -> float:
        """Return samples per second; see `PerformanceModel.throughput`. Cores and memory make no difference here.

        Raises:
            PerformanceError: the file cannot be read, or lacks the job type or GPU type; or a batch size or plan is
                set, for which the file has no figures.
        """
        gpu_type, num_gpus, num_nodes = configuration.gpu_type, configuration.num_gpus, configuration.num_nodes
        check_nodes_have_gpus(model, configuration)
        if configuration.batch_size is not None or configuration.plan not in (None, ExecutionPlan(data=num_gpus)):
            raise PerformanceError(
                f"model {model}: Gavel measured one batch size and plain replicas only; leave batch_size and plan unset"
            )
        if (model, gpu_type) not in self._throughputs:
            raise PerformanceError(self._unknown(model, gpu_type))
        measured_as = f"{gpu_type}/spread" if self.spread and num_nodes > 1 else gpu_type
        curve = self._throughputs.get((model, measured_as), {})
        return max((throughput for gpus, throughput in curve.items() if gpus <= num_gpus), default=0.0)

    def measured_batches(self, model: str, gpu_type: str) -> None:
        """Return None: Gavel measured each of its job types at one batch size."""

    @property
    def _throughputs(self) -> GavelThroughputs:
        if "throughputs" not in self._read:
            self._read["throughputs"] = read_gavel_throughputs(_locate(self.path))
        return self._read["throughputs"]

    def _unknown(self, model: str, gpu_type: str) -> str:
        types = ", ".join(dict.fromkeys(name for _, name in self._throughputs if "/" not in name))
        if model not in self.models:
            return f"model {model!r} is not in Gavel's file; it has {len(self.models)} job types on {types}"
        return f"GPU type {gpu_type!r} is not in Gavel's file; it has {types}"


def read_gavel_throughputs(path: Path) -> GavelThroughputs:
    """Read samples/s by (job type, GPU type) and number of GPUs; spread rows have the key "<GPU type>/spread".

    Raises:
        PerformanceError: a column is missing, or a number is malformed or negative.
    """
    found: dict[tuple[str, str], dict[int, float]] = {}
    with path.open(encoding="utf-8", newline="") as file:
        rows = csv.DictReader(file)
        missing = [name for name in _COLUMNS if name not in (rows.fieldnames or ())]
        if missing:
            raise PerformanceError(f"{path}: has no column {missing[0]}; Gavel's file needs {', '.join(_COLUMNS)}")
        for number, row in enumerate(rows, start=2):
            try:
                gpus, steps = int(row["scale_factor"]), float(row["steps_per_s"])
            except (TypeError, ValueError):
                gpus, steps = 0, math.nan
            if gpus < 1 or not (math.isfinite(steps) and steps >= 0):
                raise PerformanceError(
                    f"{path}: row {number}: scale_factor {row['scale_factor']} and steps_per_s {row['steps_per_s']} "
                    "must be a number of GPUs and a number of steps/s of at least 0; correct the row"
                )
            name, _, spread = row["worker_type"].partition("_")
            measured_as = name.upper() + ("/spread" if spread else "")
            size = _BATCH.search(row["job_type"])
            samples = gpus * (int(size.group(1)) if size else 1)
            found.setdefault((row["job_type"], measured_as), {})[gpus] = steps * samples
    return found


def _locate(path: str | None) -> Path:
    root = os.environ.get(_DATA_VARIABLE)
    chosen = Path(os.path.expanduser(path)) if path is not None else Path(root or "") / LOCATION
    if (path is None and not root) or not chosen.is_file():
        raise PerformanceError(
            f"Gavel's throughputs: {chosen} does not exist; set performance.path=<file>, or ${_DATA_VARIABLE} to a "
            f"folder that holds {LOCATION}"
        )
    return chosen
