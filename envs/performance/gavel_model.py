"""Throughputs exactly as in Gavel's file, to simulate Gavel's traces as Gavel's own simulator does."""

import csv
import gzip
import math
import os
import re
import zlib
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path

from envs.performance.model import check_nodes_have_gpus
from envs.types import Configuration, ExecutionPlan, PerformanceError

_DATA_VARIABLE = "MURMURATION_DATA"  # a folder that holds profiles/<name>/...
LOCATION = "profiles/gavel/simulation_throughputs_isolated.csv"
PAIRS_LOCATION = "profiles/gavel/simulation_throughputs_colocated.csv.gz"
_COLUMNS = ("worker_type", "job_type", "scale_factor", "steps_per_s")
_PAIR_COLUMNS = (
    "worker_type",
    "job_type_1",
    "scale_factor_1",
    "job_type_2",
    "scale_factor_2",
    "steps_per_s_1",
    "steps_per_s_2",
)
_BATCH = re.compile(r"\(batch size (\d+)\)$")

GavelThroughputs = Mapping[tuple[str, str], Mapping[int, float]]  # (model, GPU type) -> GPUs -> samples/s
GavelPairs = Mapping[tuple[str, str, str], float]  # (model, model beside it, GPU type) -> samples/s on one GPU


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
        pairs_path: the file of pairs of jobs on one GPU, a CSV, also compressed, with the columns worker_type,
            job_type_1, scale_factor_1, job_type_2, scale_factor_2, steps_per_s_1, steps_per_s_2; None as for `path`.
    """

    path: str | None = None
    spread: bool = False
    pairs_path: str | None = None
    _read: dict[str, GavelThroughputs] = field(default_factory=dict, init=False, repr=False, compare=False)
    _read_pairs: dict[str, GavelPairs] = field(default_factory=dict, init=False, repr=False, compare=False)

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

    def pair_factor(self, model: str, other: str, gpu_type: str) -> float:
        """Return the fraction of its throughput alone that a job keeps beside another job on the same GPU.

        It is the throughput in Gavel's file of pairs over the throughput alone. A ratio above 1 counts as 1, since it
        is noise of the measurements. The result is 0 where the file has a 0 for one of the two, since they did not fit,
        and where one of them does not run alone.

        Raises:
            PerformanceError: a file cannot be read, or lacks a job type, the GPU type or the pair.
        """
        for name in (model, other):
            if (name, gpu_type) not in self._throughputs:
                raise PerformanceError(self._unknown(name, gpu_type))
        if (model, other, gpu_type) not in self._pairs:
            raise PerformanceError(
                f"{model!r} beside {other!r} on {gpu_type} is not in Gavel's file of pairs; add a row for it"
            )
        alone, beside = (self._throughputs[name, gpu_type].get(1, 0.0) for name in (model, other))
        if not (alone and beside):
            return 0.0
        return min(1.0, self._pairs[model, other, gpu_type] / alone)

    def pair_provenance(self, model: str, other: str, gpu_type: str) -> str:
        """Return "measured", or "infeasible" where the two job types do not fit one GPU; raises as `pair_factor`."""
        return "measured" if self.pair_factor(model, other, gpu_type) > 0 else "infeasible"

    def measured_batches(self, model: str, gpu_type: str) -> None:
        """Return None: Gavel measured each of its job types at one batch size."""

    @property
    def _throughputs(self) -> GavelThroughputs:
        if "throughputs" not in self._read:
            self._read["throughputs"] = read_gavel_throughputs(_locate(self.path, "path", LOCATION))
        return self._read["throughputs"]

    @property
    def _pairs(self) -> GavelPairs:
        if "pairs" not in self._read_pairs:
            self._read_pairs["pairs"] = read_gavel_pairs(_locate(self.pairs_path, "pairs_path", PAIRS_LOCATION))
        return self._read_pairs["pairs"]

    def _unknown(self, model: str, gpu_type: str) -> str:
        types = ", ".join(dict.fromkeys(name for _, name in self._throughputs if "/" not in name))
        if model not in self.models:
            return f"model {model!r} is not in Gavel's file; it has {len(self.models)} job types on {types}"
        return f"GPU type {gpu_type!r} is not in Gavel's file; it has {types}"


def read_gavel_throughputs(path: Path) -> GavelThroughputs:
    """Read samples/s by (job type, GPU type) and number of GPUs; spread rows have the key "<GPU type>/spread".

    Raises:
        PerformanceError: the file cannot be read, a column is missing, or a number is malformed or negative.
    """
    found: dict[tuple[str, str], dict[int, float]] = {}
    for where, row in _read_rows(path, _COLUMNS):
        gpus = int(_read_number(where, row, "scale_factor", whole=True))
        samples = gpus * _batch_size(row["job_type"])
        name, _, spread = row["worker_type"].partition("_")
        measured_as = name.upper() + ("/spread" if spread else "")
        found.setdefault((row["job_type"], measured_as), {})[gpus] = _read_number(where, row, "steps_per_s") * samples
    return found


def read_gavel_pairs(path: Path) -> GavelPairs:
    """Read the samples/s of a job type beside another one by (job type, other job type, GPU type), on one GPU.

    Both directions are 0 where one of them is. Rows of several GPUs are left out, and those named `_unconsolidated`,
    which repeat the others on one GPU.

    Raises:
        PerformanceError: the file cannot be read, a column is missing, or a number is malformed or negative.
    """
    found: dict[tuple[str, str, str], float] = {}
    for where, row in _read_rows(path, _PAIR_COLUMNS):
        gpus = [_read_number(where, row, f"scale_factor_{side}", whole=True) for side in (1, 2)]
        steps = [_read_number(where, row, f"steps_per_s_{side}") for side in (1, 2)]
        if "_" in row["worker_type"] or gpus != [1, 1]:
            continue
        names, fits = (row["job_type_1"], row["job_type_2"]), all(steps)
        for name, other, each in ((*names, steps[0]), (*names[::-1], steps[1])):
            found[name, other, row["worker_type"].upper()] = each * _batch_size(name) if fits else 0.0
    return found


def _batch_size(job_type: str) -> int:
    size = _BATCH.search(job_type)
    return int(size.group(1)) if size else 1


def _read_rows(path: Path, columns: Sequence[str]) -> Iterator[tuple[str, dict[str, str]]]:
    """Yield each row and its place, for messages; the file may be compressed by gzip."""
    opened = gzip.open if path.suffix == ".gz" else open
    try:
        with opened(path, "rt", encoding="utf-8", newline="") as file:
            rows = csv.DictReader(file)
            missing = [name for name in columns if name not in (rows.fieldnames or ())]
            if missing:
                raise PerformanceError(f"{path}: has no column {missing[0]}; Gavel's file needs {', '.join(columns)}")
            for number, row in enumerate(rows, start=2):
                yield f"{path}: row {number}", {name: row[name] or "" for name in columns}
    except (OSError, EOFError, zlib.error, UnicodeDecodeError, csv.Error) as error:
        raise PerformanceError(
            f"{path}: cannot be read ({type(error).__name__}); give Gavel's own file, with the columns "
            f"{', '.join(columns)}"
        ) from error


def _read_number(where: str, row: Mapping[str, str], column: str, *, whole: bool = False) -> float:
    try:
        value = float(row[column])
    except ValueError:
        value = math.nan
    if math.isfinite(value) and (value >= 1 and value.is_integer() if whole else value >= 0):
        return value
    needed = "a whole number of at least 1" if whole else "a number of steps/s of at least 0"
    raise PerformanceError(f"{where}: {column} is {row[column][:40]!r}; it must be {needed}; correct the row")


def _locate(path: str | None, setting: str, location: str) -> Path:
    root = os.environ.get(_DATA_VARIABLE)
    chosen = Path(os.path.expanduser(path)) if path is not None else Path(root or "") / location
    if (path is None and not root) or not chosen.is_file():
        raise PerformanceError(
            f"Gavel's throughputs: {chosen} does not exist; set performance.{setting}=<file>, or ${_DATA_VARIABLE} to "
            f"a folder that holds {location}"
        )
    return chosen
