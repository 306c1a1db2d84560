"""Fungible CPU and memory: how speed depends on the cores and the host memory that each GPU is given.

Synergy (Mohan et al., OSDI'22, section 3) measured a sensitivity matrix per model on servers of 8 V100, 24 cores and
500 GB: speed relative to that at the GPU-proportional share (3 cores, 62.5 GB per GPU). `tables/sensitivity.csv` holds
the matrices for one GPU of the seven models that depend on either; the language models measured do not
(`INSENSITIVE`).

Measured: the grid points, and the deviations of the 2- and 4-GPU matrices (`_deviation`). The column of 20.83 GB reads
0.1 for all sensitive models, a stand-in for thrashing rather than a measurement. Modelled: bilinear interpolation
between grid points, constant beyond the last, and proportional to the resource below the first. Guessed: which matrix
stands in for a model that nobody measured (`stand_in`).
"""

import csv
from bisect import bisect_right
from dataclasses import dataclass
from functools import cache, cached_property
from importlib.resources import files

import numpy as np

from envs.performance.zoo import model_profile, zoo_name
from envs.types import FloatArray, Gigabytes, PerformanceError

PROPORTIONAL_CPUS = 3.0  # cores per GPU at which the matrices read 1.0
PROPORTIONAL_MEMORY = 62.5  # GB per GPU
INSENSITIVE = frozenset({"gnmt", "transformer", "lm", "bert", "vae"})
"""Models whose every measured cell is 1 (Synergy's gnmt, transformer, lstm, bert, vae)."""

SERVER_CPUS = 24.0


@dataclass(frozen=True)
class Sensitivity:
    """Speed of one model over (cores per GPU, GB per GPU), relative to the proportional share."""

    model: str
    cpus: FloatArray  # float64[c], ascending
    memory: FloatArray  # float64[m], ascending, GB
    speed: FloatArray  # float64[c, m]; ascends along both axes
    measured: bool  # of this very model, not of a stand-in

    def relative(self, cpus: float, memory: Gigabytes) -> float:
        """Speed relative to the proportional share.

        Raises:
            PerformanceError: a negative or undefined amount.
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
        """Both axes with a 0 in front, and the speeds between: nothing runs on nothing."""
        grid = np.pad(self.speed, ((1, 0), (1, 0)))
        return [0.0, *self.cpus.tolist()], [0.0, *self.memory.tolist()], grid.tolist()

    @cached_property
    def _top(self) -> float:
        return float(self.speed.max())

    def factor(self, cpus: float | None = None, memory: Gigabytes | None = None) -> float:
        """Share of the saturated speed, in [0, 1]; None stands for as much as the model can use."""
        enough_cpus = float(self.cpus[-1]) if cpus is None else cpus
        enough_memory = float(self.memory[-1]) if memory is None else memory
        return min(self.relative(enough_cpus, enough_memory) / self._top, 1.0)

    @property
    def saturating(self) -> tuple[float, Gigabytes]:
        """Fewest cores per GPU at which the top speed is reached, and the least memory that goes with them."""
        top = self._top - 1e-12
        row = int(np.flatnonzero((self.speed >= top).any(axis=1))[0])
        column = int(np.flatnonzero(self.speed[row] >= top)[0])
        return float(self.cpus[row]), float(self.memory[column])


def proportional(cpu_cores: float, memory: Gigabytes, num_gpus: int) -> tuple[float, Gigabytes]:
    """A GPU's proportional share of a node: (cores, GB) per GPU.

    Raises:
        PerformanceError: the node has no GPU.
    """
    if num_gpus < 1:
        raise PerformanceError(f"proportional share: a node of {num_gpus} GPUs; it must have at least one")
    return cpu_cores / num_gpus, memory / num_gpus


def stand_in(model: str) -> str:
    """The measured model whose matrix a zoo model uses: its own, or its domain's (a guess); "" for insensitive."""
    profile = model_profile(model)
    if profile.name in _tables() or profile.name in INSENSITIVE:
        return "" if profile.name in INSENSITIVE else profile.name
    return {"image": "resnet50", "speech": "deepspeech2"}.get(profile.domain, "")


@cache
def sensitivity_of(model: str, num_gpus: int = 1) -> Sensitivity:
    """The sensitivity of a zoo model (or alias) on so many GPUs of one server.

    Args:
        model: the model.
        num_gpus: GPUs of the job on a server; matrices were measured for 1, 2 and 4, others take the next lower.

    Raises:
        PerformanceError: nobody knows the model.
    """
    name = zoo_name(model)
    source = stand_in(name)
    cpus, memory, tables = _axes()
    if not source:
        return Sensitivity(name, cpus, memory, np.ones((len(cpus), len(memory))), name in INSENSITIVE)
    speed = _deviation(source, num_gpus, cpus, tables[source])
    return Sensitivity(name, cpus, memory, speed, source == name)


def _deviation(model: str, num_gpus: int, cpus: FloatArray, speed: FloatArray) -> FloatArray:
    """The matrix for several GPUs: as for one, but for what Synergy's 2- and 4-GPU files say otherwise.

    Rows of more cores than a server has for each GPU read 0 there, "not available"; they keep the last available row.
    """
    if num_gpus < 2:
        return speed
    speed = speed.copy()
    if model == "resnet50":
        speed = np.minimum(speed, 1.0)
    if model in ("alexnet", "shufflenet") and num_gpus < 4:
        speed[cpus == 9.0, 1:] = 2.33
    last = int(np.flatnonzero(cpus <= SERVER_CPUS / (2 if num_gpus < 4 else 4))[-1])
    if model != "m5":  # its rows beyond the server's cores are filled, with the same values
        speed[last + 1 :] = speed[last]
    return speed


@cache
def _axes() -> tuple[FloatArray, FloatArray, dict[str, FloatArray]]:
    text = (files("envs.performance") / "tables" / "sensitivity.csv").read_text(encoding="utf-8")
    header, *rows = list(csv.reader(text.splitlines()))
    memory: FloatArray = np.array([float(name) for name in header[2:]])
    matrices: dict[str, list[list[float]]] = {}
    cpus: dict[float, None] = {}
    for model, cores, *speeds in rows:
        cpus[float(cores)] = None
        matrices.setdefault(model, []).append([float(speed) for speed in speeds])
    return np.array(list(cpus)), memory, {name: np.array(rows) for name, rows in matrices.items()}


def _tables() -> dict[str, FloatArray]:
    return _axes()[2]


def _position(amount: float, edges: list[float]) -> tuple[int, float]:
    """Cell of an amount between ascending edges, and how far into the cell."""
    clipped = min(amount, edges[-1])
    cell = min(bisect_right(edges, clipped), len(edges) - 1) - 1
    return cell, (clipped - edges[cell]) / (edges[cell + 1] - edges[cell])
