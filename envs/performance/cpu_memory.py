"""Sensitivity of the throughput to the CPU cores and the memory that a job has for each GPU.

Synergy (Mohan et al., OSDI'22, section 3) measured one sensitivity matrix for each model on nodes of 8 V100, 24 cores
and 500 GB: the throughput relative to that at the GPU-proportional share (3 cores, 62.5 GB per GPU).
`tables/sensitivity.csv` holds the one-GPU matrices of the seven models that depend on cores or memory. The measured
language models depend on neither (`INSENSITIVE`).

Measured: the grid points, and the deviations of the 2- and 4-GPU matrices (`_deviation`). The column of 20.83 GB is 0.1
for all sensitive models, which stands for thrashing and is not a measurement. Modelled: bilinear interpolation between
grid points, constant beyond the last point, and proportional to the resource below the first; on another GPU type, the
axis of cores is stretched by the ratio of throughputs (`TableModel.cpu_scale`), the axis of memory is not. Guessed: the
matrix of a model that was not measured (`stand_in`).
"""

import csv
from bisect import bisect_right
from dataclasses import dataclass
from functools import cache, cached_property
from importlib.resources import files

import numpy as np

from envs.performance.zoo import architecture, model_profile, zoo_name
from envs.types import FloatArray, Gigabytes, PerformanceError

SENSITIVITY_GPU = "V100"  # the type on which the matrices were measured
PROPORTIONAL_CPUS = 3.0  # cores per GPU at which the matrices are 1.0
PROPORTIONAL_MEMORY = 62.5  # GB per GPU
INSENSITIVE = frozenset({"gnmt", "transformer", "lm", "bert", "vae"})
"""Models for which every measured cell is 1 (Synergy's gnmt, transformer, lstm, bert, vae)."""

NODE_CPUS = 24.0


@dataclass(frozen=True)
class Sensitivity:
    """Throughput of one model over (cores per GPU, GB per GPU), relative to the proportional share."""

    model: str
    cpus: FloatArray  # float64[c], ascending
    memory: FloatArray  # float64[m], ascending, GB
    throughput: FloatArray  # float64[c, m]; ascends along both axes
    measured: bool  # for this model, not for a stand-in

    def relative(self, cpus: float, memory: Gigabytes) -> float:
        """Return the throughput relative to the proportional share.

        Raises:
            PerformanceError: an amount is negative or NaN.
        """
        if not (cpus >= 0 and memory >= 0):
            raise PerformanceError(
                f"model {self.model}: {cpus} cores and {memory} GB per GPU; both must be numbers of at least 0"
            )
        row_edges, column_edges, grid = self._from_nothing
        row, down = _position(cpus, row_edges)
        column, right = _position(memory, column_edges)
        above = grid[row][column] * (1 - right) + grid[row][column + 1] * right
        below = grid[row + 1][column] * (1 - right) + grid[row + 1][column + 1] * right
        return above * (1 - down) + below * down

    @cached_property
    def _from_nothing(self) -> tuple[list[float], list[float], list[list[float]]]:
        """Both axes and the grid extended by 0: without cores or memory the throughput is 0."""
        grid = np.pad(self.throughput, ((1, 0), (1, 0)))
        return [0.0, *self.cpus.tolist()], [0.0, *self.memory.tolist()], grid.tolist()

    @cached_property
    def _top(self) -> float:
        return float(self.throughput.max())

    def factor(self, cpus: float | None = None, memory: Gigabytes | None = None) -> float:
        """Return the share of the saturated throughput, in [0, 1]; None means as much as the model can use."""
        enough_cpus = float(self.cpus[-1]) if cpus is None else cpus
        enough_memory = float(self.memory[-1]) if memory is None else memory
        return min(self.relative(enough_cpus, enough_memory) / self._top, 1.0)

    @property
    def saturating(self) -> tuple[float, Gigabytes]:
        """Fewest cores per GPU that reach the highest throughput, and the least memory that suffices with them."""
        top = self._top - 1e-12
        row = int(np.flatnonzero((self.throughput >= top).any(axis=1))[0])
        column = int(np.flatnonzero(self.throughput[row] >= top)[0])
        return float(self.cpus[row]), float(self.memory[column])


def stand_in(model: str) -> str:
    """Return the measured model that provides a zoo model's matrix: itself, or its domain's (a guess).

    The result is "" for models that are insensitive.
    """
    profile, name = model_profile(model), architecture(model)
    if name in _tables() or name in INSENSITIVE:
        return "" if name in INSENSITIVE else name
    return {"image": "resnet50", "speech": "deepspeech2"}.get(profile.domain, "")


@cache
def sensitivity_of(model: str, num_gpus: int = 1) -> Sensitivity:
    """Return the sensitivity of a zoo model (or alias) on a number of GPUs of one node.

    Args:
        model: the model.
        num_gpus: GPUs of the job on a node; matrices were measured for 1, 2 and 4, other numbers use the next lower.

    Raises:
        PerformanceError: the model is unknown.
    """
    name = zoo_name(model)
    source = stand_in(name)
    cpus, memory, tables = _axes()
    if not source:
        return Sensitivity(name, cpus, memory, np.ones((len(cpus), len(memory))), name in INSENSITIVE)
    throughput = _deviation(source, num_gpus, cpus, tables[source])
    return Sensitivity(name, cpus, memory, throughput, source == name)


def _deviation(model: str, num_gpus: int, cpus: FloatArray, throughput: FloatArray) -> FloatArray:
    """Return the matrix for several GPUs: that for one GPU, with the differences of Synergy's 2- and 4-GPU files.

    Those files have 0 ("not available") in rows with more cores per GPU than a node has. Such rows repeat the last
    available row here.
    """
    if num_gpus < 2:
        return throughput
    throughput = throughput.copy()
    if model == "resnet50":
        throughput = np.minimum(throughput, 1.0)
    if model in ("alexnet", "shufflenet") and num_gpus < 4:
        throughput[cpus == 9.0, 1:] = 2.33
    last = int(np.flatnonzero(cpus <= NODE_CPUS / (2 if num_gpus < 4 else 4))[-1])
    if model != "m5":  # its rows beyond the node's cores are filled already, with the same values
        throughput[last + 1 :] = throughput[last]
    return throughput


@cache
def _axes() -> tuple[FloatArray, FloatArray, dict[str, FloatArray]]:
    text = (files("envs.performance") / "tables" / "sensitivity.csv").read_text(encoding="utf-8")
    header, *rows = list(csv.reader(text.splitlines()))
    memory: FloatArray = np.array([float(name) for name in header[2:]])
    matrices: dict[str, list[list[float]]] = {}
    cpus: dict[float, None] = {}
    for model, cores, *throughputs in rows:
        cpus[float(cores)] = None
        matrices.setdefault(model, []).append([float(throughput) for throughput in throughputs])
    return np.array(list(cpus)), memory, {name: np.array(rows) for name, rows in matrices.items()}


def _tables() -> dict[str, FloatArray]:
    return _axes()[2]


def _position(amount: float, edges: list[float]) -> tuple[int, float]:
    """Return the cell of an amount between ascending edges, and the relative position within the cell."""
    clipped = min(amount, edges[-1])
    cell = min(bisect_right(edges, clipped), len(edges) - 1) - 1
    return cell, (clipped - edges[cell]) / (edges[cell + 1] - edges[cell])
