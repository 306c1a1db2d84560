"""Throughputs from a table of the user's own."""

import csv
import math
import os
from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path

import numpy as np

from envs.performance.model import check_nodes_have_gpus
from envs.types import Configuration, ExecutionPlan, FloatArray, PerformanceError, did_you_mean

NEEDED, SPREAD = ("model", "gpu_type", "num_gpus", "samples_per_s"), "spread_samples_per_s"
MOST_GPUS = 100_000
LARGEST_TABLE = 16 * 1024 * 1024  # bytes

ThroughputCurve = tuple[FloatArray, FloatArray]  # numbers of GPUs, ascending, and samples/s


@dataclass(frozen=True)
class CsvModel:
    """Measured samples/s of the user's own jobs, in a CSV file with a header line.

    | column | what it holds |
    |---|---|
    | `model` | name of the model, as in the workload |
    | `gpu_type` | GPU type, as in the cluster |
    | `num_gpus` | number of GPUs, on the fewest nodes |
    | `samples_per_s` | of the whole job |
    | `spread_samples_per_s` | optional: the same on more nodes than needed; an empty cell is no measurement |

    Between measured numbers of GPUs, throughputs are interpolated linearly. A job runs on no fewer GPUs than the least
    number measured, and further GPUs than the greatest number add nothing. More GPUs never lower a throughput: a job
    leaves GPUs idle that do not help it. A model runs on no GPU type that it has no row for. The file is read on first
    use.

    Args:
        path: the file.
        gpus_per_node: GPUs of the nodes, for which more nodes than needed are counted.
    """

    path: str = ""
    gpus_per_node: int = 8
    _read: dict[str, Mapping[tuple[str, str, bool], ThroughputCurve]] = field(
        default_factory=dict, init=False, repr=False, compare=False
    )

    def __post_init__(self) -> None:
        if self.gpus_per_node < 1:
            raise PerformanceError(f"performance.gpus_per_node is {self.gpus_per_node}; it must be at least 1")

    @property
    def models(self) -> tuple[str, ...]:
        """Names of the models in the file."""
        return tuple(dict.fromkeys(model for model, _, _ in self._curves))

    def provenance(self, model: str, gpu_type: str) -> str:
        """Return "measured", or "infeasible" where the model has no row for the GPU type."""
        return "measured" if (model, gpu_type, False) in self._curves else "infeasible"

    def throughput(self, model: str, configuration: Configuration) -> float:
        """Return samples per second; see `PerformanceModel.throughput`. Cores and memory make no difference here.

        Raises:
            PerformanceError: the file cannot be read, or lacks the model or GPU type; or a batch size or plan is set,
                for which the file has no figures.
        """
        gpu_type, num_gpus, num_nodes = configuration.gpu_type, configuration.num_gpus, configuration.num_nodes
        check_nodes_have_gpus(model, configuration)
        if configuration.batch_size is not None or configuration.plan not in (None, ExecutionPlan(data=num_gpus)):
            raise PerformanceError(
                f"model {model}: {self.path} has one batch size and replicas only; leave batch_size and plan unset"
            )
        for name, known in (("model", self.models), ("GPU type", self._gpu_types)):
            value = model if name == "model" else gpu_type
            if value not in known:
                hint = did_you_mean(value, known, lead=", ")
                raise PerformanceError(
                    f"{name} {value!r} is not in {self.path}{hint}; it has {', '.join(known)}; add rows for it"
                )
        packed = interpolate_throughput(self._curves.get((model, gpu_type, False)), num_gpus)
        if num_nodes <= -(-num_gpus // self.gpus_per_node) or (model, gpu_type, True) not in self._curves:
            return packed
        return min(packed, interpolate_throughput(self._curves[model, gpu_type, True], num_gpus))

    def measured_batches(self, model: str, gpu_type: str) -> None:
        """Return None: the file has one batch size for each model."""

    @property
    def _gpu_types(self) -> tuple[str, ...]:
        return tuple(dict.fromkeys(gpu_type for _, gpu_type, _ in self._curves))

    @property
    def _curves(self) -> Mapping[tuple[str, str, bool], ThroughputCurve]:
        if "curves" not in self._read:
            self._read["curves"] = read_throughputs(Path(os.path.expanduser(self.path)))
        return self._read["curves"]


def interpolate_throughput(curve: ThroughputCurve | None, num_gpus: int) -> float:
    """Return the samples/s on a number of GPUs; 0 below the least number measured, and without a curve."""
    if curve is None or num_gpus < curve[0][0]:
        return 0.0
    return float(np.interp(num_gpus, *curve))


def read_throughputs(path: Path) -> dict[tuple[str, str, bool], ThroughputCurve]:
    """Read curves by (model, GPU type, whether on more nodes than needed); throughputs never fall with more GPUs.

    Raises:
        PerformanceError: the file is missing, too large or no text; a column is missing; a value is malformed or out of
            range; or two rows are of the same model, GPU type and number of GPUs.
    """
    found: dict[tuple[str, str, bool], dict[int, float]] = {}
    for number, row in _read_rows(path):
        where = f"performance.path={path}: row {number}"
        gpus = _read_number(row, "num_gpus", where, most=MOST_GPUS)
        if gpus != int(gpus) or gpus < 1:
            raise PerformanceError(f"{where}: num_gpus is {gpus:g}; it must be a whole number of at least 1")
        for name in ("model", "gpu_type"):
            if not row[name] or not row[name].isprintable():
                raise PerformanceError(f"{where}: {name} is {row[name]!r}; it must be a name")
        columns = ("samples_per_s", SPREAD) if row.get(SPREAD) else ("samples_per_s",)
        for column in columns:
            curve = found.setdefault((row["model"], row["gpu_type"], column == SPREAD), {})
            if int(gpus) in curve:
                raise PerformanceError(
                    f"{where}: repeats {row['model']} on {gpus:g} {row['gpu_type']} of an earlier row; keep one of them"
                )
            curve[int(gpus)] = _read_number(row, column, where)
    if not found:
        raise PerformanceError(f"performance.path={path}: has no rows below the header; add measurements")
    return {key: _sort_curve(curve) for key, curve in found.items()}


def _sort_curve(curve: Mapping[int, float]) -> ThroughputCurve:
    counts = sorted(curve)
    return np.array(counts, np.float64), np.maximum.accumulate([curve[count] for count in counts])


def _read_rows(path: Path) -> list[tuple[int, dict[str, str]]]:
    """Return the rows, stripped, by their line in the file; empty lines are left out."""
    try:
        if not path.is_file():
            raise PerformanceError(
                f"performance.path={'' if path == Path() else path}: no such file; give a CSV file with the columns "
                f"{', '.join(NEEDED)}"
            )
        if path.stat().st_size > LARGEST_TABLE:
            raise PerformanceError(
                f"performance.path={path}: has more than {LARGEST_TABLE:,} bytes; give a smaller file"
            )
        text = path.read_text(encoding="utf-8-sig")
    except (OSError, UnicodeDecodeError) as error:
        raise PerformanceError(
            f"performance.path={path}: cannot be read ({getattr(error, 'strerror', None) or 'no UTF-8 text'}); give a "
            f"CSV file with the columns {', '.join(NEEDED)}"
        ) from error
    reader = csv.DictReader(text.splitlines())
    header = [str(name).strip() for name in reader.fieldnames or ()]
    reader.fieldnames = header
    if missing := [name for name in NEEDED if name not in header]:
        hint = did_you_mean(missing[0], header, lead=", ")
        raise PerformanceError(
            f"performance.path={path}: has no column {missing[0]}{hint}; it needs {', '.join(NEEDED)}"
        )
    rows = [(reader.line_num, row) for row in reader]
    return [(line, {name: (row[name] or "").strip() for name in header}) for line, row in rows]


def _read_number(row: Mapping[str, str], column: str, where: str, most: float = 1e15) -> float:
    try:
        value = float(row[column])
    except ValueError:
        value = math.nan
    if not 0 < value <= most:
        raise PerformanceError(
            f"{where}: {column} is {row[column][:40]!r}; it must be a number above 0 and at most {most:g}"
        )
    return value
