"""Throughput tables of many episodes, one below the other, for worlds in which each episode has curves of its own."""

from typing import Any

import numpy as np

from envs.simulation import State, ThroughputTable
from envs.simulation.world.arrays import World, batch_world
from envs.simulation.world.shapes import shapes_of
from envs.simulation.world.throughput import NUM_LEVELS
from envs.types import FloatArray, IntArray


class TableBlocks:
    """The fields of a `World` that come from a throughput table, with `rows` rows for each episode of a batch.

    Model i of episode b has row b * rows + i. Episodes may have fewer models, and tables with fewer sizes: what they
    do not have is 0, as where a model does not run.

    Args:
        known: the measured curves of all models around which curves are drawn; it gives the grids of cores and memory.
        batch_size: number of episodes.
        rows: the most models of one episode.
        max_gpus: the largest size; at least that of `known`.
    """

    def __init__(self, known: ThroughputTable, batch_size: int, rows: int, max_gpus: int = 0) -> None:
        self.rows = rows
        self.max_gpus = max_gpus = max(max_gpus, known.throughputs.shape[2] - 1)
        count, num_types = batch_size * rows, known.throughputs.shape[1]
        factor, saturating, scale = known.cpu_memory.factor, known.cpu_memory.saturating, known.cpu_memory.scale
        self._arrays: dict[str, FloatArray | IntArray] = {
            "throughputs": np.zeros((count, num_types, max_gpus + 1, NUM_LEVELS)),
            "consolidated": np.zeros((count, num_types, max_gpus + 1)),
            "reference": np.zeros((count, max_gpus + 1)),
            "links_limit": np.zeros(count, np.int64),
            "traffic": np.zeros((count, max_gpus + 1)),
            "cpu_stage_fraction": np.zeros(count),
            "cpu_memory_factor": np.zeros((count, *factor.shape[1:])),
            "saturating": np.zeros((count, *saturating.shape[1:])),
            "cpu_scale": np.ones((count, *scale.shape[1:])),
            "shapes": np.zeros((count, 4), np.int64),
        }
        self._levels = np.full((num_types, max_gpus + 1), -1, np.int64)

    def world(self, state: State, known: ThroughputTable) -> World:
        """Return all episodes of a state with these tables; `known` gives what all of them share."""
        tables: Any = {**self._arrays, "levels": self._levels}  # mypy cannot match names and types
        return batch_world(state, known)._replace(**tables)

    @property
    def shape(self) -> tuple[int, ...]:
        """Rows, GPU types, sizes and levels of nodes."""
        return self._arrays["throughputs"].shape

    def first(self, b: int) -> int:
        """Return the row of an episode's first model."""
        return b * self.rows

    def write(self, b: int, table: ThroughputTable) -> None:
        """Write the table of an episode into its rows."""
        rows = slice(self.first(b), self.first(b) + len(table.models))
        sizes = slice(table.throughputs.shape[2])
        for array in self._arrays.values():
            array[self.first(b) : self.first(b) + self.rows] = 0
        self._levels[:, sizes] = table.levels
        for name, values in (
            ("links_limit", table.links_limit),
            ("cpu_stage_fraction", table.cpu_stage_fraction),
            ("cpu_memory_factor", table.cpu_memory.factor),
            ("saturating", table.cpu_memory.saturating),
            ("cpu_scale", table.cpu_memory.scale),
            ("shapes", shapes_of(table.models)),
        ):
            self._arrays[name][rows] = values
        self._arrays["traffic"][rows, sizes] = table.traffic
        self.write_rows(np.arange(rows.start, rows.stop), table.throughputs, table.consolidated())

    def write_rows(self, rows: IntArray, throughputs: FloatArray, consolidated: FloatArray) -> None:
        """Write throughputs into some rows.

        Args:
            rows: int64[n].
            throughputs: float64[n, num_gpu_types, sizes, NUM_LEVELS].
            consolidated: float64[n, num_gpu_types, sizes], see `ThroughputTable.consolidated`.
        """
        sizes = slice(throughputs.shape[2])
        self._arrays["throughputs"][rows, :, sizes] = throughputs
        self._arrays["consolidated"][rows, :, sizes] = consolidated
        self._arrays["reference"][rows, sizes] = consolidated.max(axis=1)
