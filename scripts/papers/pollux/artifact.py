"""Read what the simulator of Pollux's artifact measured (Qiao et al., OSDI'21), and follow its rules.

The simulator is github.com/petuum/adaptdl, branch osdi21-artifact, folder `simulator`. Its `traces/<application>` have
the times of a step by placement and batch size on nodes of four T4 (`placements.csv`, `scalability.csv`), and the
course of whole training runs at several batch sizes (`validation-<batch>.csv`).
"""

import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import cache, cached_property
from pathlib import Path

import numpy as np
import pandas as pd
from scipy.interpolate import LinearNDInterpolator

from envs.types import FloatArray, MurmurationError, Seconds

GPUS_PER_NODE = 4
MOST_NODES = 16  # of a placement that was measured
LONGEST: dict[str, int] = {"bert": 2, "cifar10": 100, "ncf": 10, "imagenet": 90, "deepspeech2": 80, "yolov3": 50}
"""Epochs of a training run, by application."""

LARGEST_MICRO_BATCH: dict[str, int] = {"yolov3": 8}  # of one GPU, where it is not the largest that was measured
BATCHES_TRIED = 25
_ROUNDING = 1e-8  # of quotients that are rounded up, as in the simulator


@dataclass(frozen=True)
class DividedBatch:
    """How a batch is divided: `gpus` times `micro_batch` samples, `passes` times before the weights change."""

    gpus: int
    micro_batch: int
    passes: int

    @property
    def batch_size(self) -> int:
        """Samples of a step on all GPUs."""
        return self.gpus * self.micro_batch * self.passes


class Application:
    """One application of the artifact: seconds of a step, and progress of a sample.

    Args:
        folder: the application's folder of tables.
        suffix: of the names of the tables of step times.
        gpus_per_node: of the nodes where they were measured.

    Raises:
        MurmurationError: the folder lacks a table.
    """

    def __init__(self, folder: Path, suffix: str = "", gpus_per_node: int = GPUS_PER_NODE) -> None:
        self.name, self.gpus_per_node = folder.name, gpus_per_node
        runs = {int(path.stem.split("-")[1]): pd.read_csv(path) for path in folder.glob("validation-*.csv")}
        if not runs or not (folder / f"placements{suffix}.csv").is_file():
            raise MurmurationError(
                f"{folder}: has no placements{suffix}.csv and validation-<batch>.csv; give a folder with a copy of the "
                "artifact's simulator as data=<folder>"
            )
        self.runs = dict(sorted(runs.items()))
        self.epochs = LONGEST[self.name]
        placements = pd.read_csv(folder / f"placements{suffix}.csv")
        digits = placements.placement.astype(str)
        placements["num_nodes"] = digits.map(len)
        placements["num_replicas"] = digits.map(lambda each: sum(map(int, each)))
        self.placements = {name: rows.sort_values("local_bsz") for name, rows in placements.groupby(digits)}
        self.measured = (placements, pd.read_csv(folder / f"scalability{suffix}.csv"))
        self.smallest, self.largest = min(self.runs), max(self.runs)  # batch sizes
        self.least = int(placements.local_bsz.min())
        self.most = LARGEST_MICRO_BATCH.get(self.name, int(placements.local_bsz.max()))  # samples of one GPU at once

    @cached_property
    def work(self) -> float:
        """Useful samples of a whole run: those that it takes at the smallest batch size, whose efficiency is 1."""
        return self.smallest * float(self._progress[-1])

    @cached_property
    def _progress(self) -> FloatArray:
        """float64[epochs + 1]: progress at the end of each epoch, in steps of the smallest batch size."""
        reached = np.min([run.progress.to_numpy()[: self.epochs] for run in self.runs.values()], axis=0)
        return np.concatenate([[0.0], reached])

    def divide(self, batch_size: int, gpus: int) -> DividedBatch:
        """Divide a batch among GPUs by the simulator's rule; it can become a few samples larger or smaller."""
        share = math.ceil(batch_size / gpus - _ROUNDING)
        passes = math.ceil(share / self.largest_micro_batch(gpus) - _ROUNDING)
        if gpus == 1 and batch_size > self.smallest:
            passes = max(2, passes)  # one pass on one GPU says nothing about the noise of gradients
        micro_batch = math.ceil(share / passes - _ROUNDING)
        return DividedBatch(gpus, min(micro_batch, self.largest // (gpus * passes)), passes)

    def largest_micro_batch(self, gpus: int) -> int:
        """Samples that one of so many GPUs can take at once; here the same for all numbers of GPUs."""
        return self.most

    def steps(self, batch_size: int) -> float:
        """Steps of a whole run at one batch size."""
        return float((np.diff(self._progress) / self.gains(batch_size)).sum())

    def gains(self, batch_size: float) -> FloatArray:
        """float64[epochs]: progress of a step, in steps of the smallest batch size, in each epoch of a run."""
        square, variance = (self._of_batch(column, batch_size) for column in ("grad_sqr", "grad_var"))
        gain: FloatArray = (variance + square) / (variance * self.smallest / batch_size + square)
        return gain

    def _of_batch(self, column: str, batch_size: float) -> FloatArray:
        """float64[epochs]: a column of the runs, linear between the two batch sizes around `batch_size`."""
        below = max(batch for batch in self.runs if batch <= batch_size)
        above = min(batch for batch in self.runs if batch >= batch_size)
        low, high = (self.runs[batch][column].to_numpy()[: self.epochs] for batch in (below, above))
        return low if below == above else (low * (above - batch_size) + high * (batch_size - below)) / (above - below)

    def seconds(self, step: DividedBatch, num_nodes: int) -> Seconds:
        """Seconds of a step; infinite where the simulator has no value.

        On the fewest nodes that hold the GPUs it is the measured one. On more it is the mean over placements of as many
        GPUs and nodes.
        """
        placement = fewest_node_gpus(step.gpus, self.gpus_per_node)
        if num_nodes <= len(placement):
            whole, transfer = self._measured_times(_rotated(placement), step.micro_batch)
        else:
            whole, transfer = self._between(min(num_nodes, MOST_NODES), step.gpus, step.micro_batch)
        return whole + (step.passes - 1) * (whole - transfer) if math.isfinite(whole) else math.inf

    def _measured_times(self, placement: tuple[int, ...], micro_batch: int) -> tuple[float, float]:
        """Seconds of a step of one pass, and of its transfers: those of the placement, or between placements."""
        rows = self.placements.get("".join(map(str, placement)))
        if rows is not None:
            sizes = rows.local_bsz.to_numpy()
            if not sizes[0] <= micro_batch <= sizes[-1]:
                return math.inf, math.inf
            return tuple(float(np.interp(micro_batch, sizes, rows[each])) for each in _TIMES)  # type: ignore[return-value]
        return self._between(min(len(placement), MOST_NODES), sum(placement), micro_batch)

    def _between(self, num_nodes: int, num_gpus: int, micro_batch: int) -> tuple[float, float]:
        """Seconds of a step and of its transfers, linear between means over placements of as many GPUs and nodes."""
        found = self._interpolator([[num_nodes, num_gpus, micro_batch]])[0]
        return float(found[0]), float(found[1])

    @cached_property
    def _interpolator(self) -> Callable[[Sequence[Sequence[float]]], FloatArray]:
        placements, scalability = self.measured
        means = placements.groupby(_PLACES)[[*_PLACES, *_TIMES]].mean()
        rows = pd.concat([means, scalability], ignore_index=True)
        found: Callable[[Sequence[Sequence[float]]], FloatArray] = LinearNDInterpolator(
            rows[_PLACES].to_numpy(), rows[_TIMES].to_numpy()
        )
        return found

    def whole_run_throughput(self, batch_size: int, num_gpus: int, num_nodes: int) -> float:
        """Useful samples/s of a whole run at one batch size; 0 where the simulator has no value."""
        return self.work / float(self._epochs(batch_size, num_gpus, num_nodes).sum())

    def adapted_throughput(self, num_gpus: int, num_nodes: int) -> float:
        """Useful samples/s of a run that has the best batch size in every epoch, as the artifact's agent chooses it."""
        least = max(self.smallest, self.least * num_gpus)
        if least > self.largest:
            return 0.0
        batches = sorted({round(batch) for batch in np.geomspace(least, self.largest, BATCHES_TRIED)})
        best = np.min([self._epochs(batch, num_gpus, num_nodes) for batch in batches], axis=0)
        return self.work / float(best.sum())

    def _epochs(self, batch_size: int, num_gpus: int, num_nodes: int) -> FloatArray:
        """float64[epochs]: seconds of each epoch."""
        step = self.divide(batch_size, num_gpus)
        gains = self.gains(min(max(step.batch_size, self.smallest), self.largest))
        seconds: FloatArray = self.seconds(step, num_nodes) * np.diff(self._progress) / gains
        return seconds


_PLACES = ["num_nodes", "num_replicas", "local_bsz"]
_TIMES = ["step_time", "sync_time"]


def _rotated(placement: tuple[int, ...]) -> tuple[int, ...]:
    """The rotation of a placement that is first in lexical order, under which it was measured."""
    return min(placement[i:] + placement[:i] for i in range(len(placement)))


def fewest_node_gpus(num_gpus: int, gpus_per_node: int = GPUS_PER_NODE) -> tuple[int, ...]:
    """GPUs on each node where they are on the fewest nodes."""
    nodes, rest = divmod(num_gpus, gpus_per_node)
    return (gpus_per_node,) * nodes + ((rest,) if rest else ())


@cache
def read_application(folder: Path) -> Application:
    """Read the tables of an application, once."""
    return Application(folder)
