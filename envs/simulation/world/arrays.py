"""The argument of kernels: one episode's arrays and the tables, as one tuple."""

from typing import NamedTuple

import numpy as np
import numpy.typing as npt

from envs.simulation.compiled.jit import Records, inlined, leaf
from envs.simulation.world.heap import Places
from envs.simulation.world.shapes import shapes_of
from envs.simulation.world.state import State
from envs.simulation.world.throughput import ThroughputTable, cells_of
from envs.types import FloatArray, IntArray


class World(NamedTuple):
    """A `State` and a `ThroughputTable` for compiled code.

    It holds one episode, or a batch: the state's arrays of a batch have a leading axis, and `episode_of` selects one.
    """

    episode: Records  # EPISODE [1]
    jobs: Records  # JOB [num_jobs]
    nodes: Records  # NODE [num_nodes]
    shares: Records  # SHARE_RECORD [num_nodes * slots]
    heap: Records  # ENTRY [num_gpus]
    heap_places: Places  # [num_jobs]
    outage_heap: Records  # ENTRY [num_nodes or 0]
    outage_places: Places  # [num_nodes or 0]
    queued: IntArray  # [words]
    running: IntArray  # [words]
    room: IntArray  # [num_gpu_types, most GPUs of a node + 1, words]
    touched: IntArray  # [num_jobs]
    uneven: IntArray  # [num_nodes]
    serving: Records  # SERVED [slots of a node]
    dirty: IntArray  # [num_nodes]
    outages: FloatArray  # [num_nodes or 0, OUTAGES, 2]
    events: npt.NDArray[np.void]  # EVENT
    log_shares: npt.NDArray[np.void]  # SHARE
    edges: IntArray  # [edges, 3], see State
    throughputs: FloatArray  # [num_models, num_gpu_types, max_gpus + 1, levels]
    levels: IntArray  # [num_gpu_types, max_gpus + 1]
    reference: FloatArray  # [num_models, max_gpus + 1]: throughput on the fewest nodes of the fastest type
    consolidated: FloatArray  # [num_models, num_gpu_types, max_gpus + 1]: throughput on the fewest nodes of a type
    links_limit: IntArray  # [num_models]: whether links limit jobs alone: 0 no, 1 without a named plan, 2 always
    traffic: FloatArray  # [num_models, max_gpus + 1]
    cpu_stage_fraction: FloatArray  # [num_models]
    cpu_grid: FloatArray  # [c]
    memory_grid: FloatArray  # [m]
    cpu_cells: IntArray  # [last cores + 1], see envs.simulation.world.throughput.cells_of
    memory_cells: IntArray  # [last GB + 1]
    cpu_memory_factor: FloatArray  # [num_models, num_gpu_types, 9, c, m]
    saturating: FloatArray  # [num_models, num_gpu_types, 9, 2]
    cpu_scale: FloatArray  # [num_models, num_gpu_types]
    pair_factors: FloatArray  # [num_gpu_types, num_models, num_models]: kept beside another job; empty if unused
    shapes: IntArray  # [num_models, 4]: what constraints demand, see envs.simulation.world.shapes


STATE_FIELDS = tuple(State.__dataclass_fields__)


def batch_world(state: State, table: ThroughputTable) -> World:
    """All episodes of a state, with a throughput table."""
    return World(
        **{name: getattr(state, name) for name in STATE_FIELDS},
        throughputs=table.throughputs,
        levels=table.levels,
        reference=table.reference(),
        consolidated=table.consolidated(),
        links_limit=table.links_limit,
        traffic=table.traffic,
        cpu_stage_fraction=table.cpu_stage_fraction,
        cpu_grid=table.cpu_memory.cpus,
        memory_grid=table.cpu_memory.memory,
        cpu_cells=cells_of(table.cpu_memory.cpus),
        memory_cells=cells_of(table.cpu_memory.memory),
        cpu_memory_factor=table.cpu_memory.factor,
        saturating=table.cpu_memory.saturating,
        cpu_scale=table.cpu_memory.scale,
        pair_factors=table.pair_factors,
        shapes=shapes_of(table.models),
    )


def world_of(state: State, table: ThroughputTable, b: int = 0) -> World:
    """One episode of a state, with a throughput table."""
    return batch_world(state, table)._replace(**{name: getattr(state, name)[b] for name in STATE_FIELDS})


@inlined
def slice_batch(batch: World, b: int) -> World:
    """One episode of a batch, for compiled code that allocates memory; kernels use `episode_of`."""
    return World(
        batch.episode[b],
        batch.jobs[b],
        batch.nodes[b],
        batch.shares[b],
        batch.heap[b],
        batch.heap_places[b],
        batch.outage_heap[b],
        batch.outage_places[b],
        batch.queued[b],
        batch.running[b],
        batch.room[b],
        batch.touched[b],
        batch.uneven[b],
        batch.serving[b],
        batch.dirty[b],
        batch.outages[b],
        batch.events[b],
        batch.log_shares[b],
        batch.edges[b],
        batch.throughputs,
        batch.levels,
        batch.reference,
        batch.consolidated,
        batch.links_limit,
        batch.traffic,
        batch.cpu_stage_fraction,
        batch.cpu_grid,
        batch.memory_grid,
        batch.cpu_cells,
        batch.memory_cells,
        batch.cpu_memory_factor,
        batch.saturating,
        batch.cpu_scale,
        batch.pair_factors,
        batch.shapes,
    )


@leaf
def episode_of(batch: World, b: int) -> World:
    """One episode of a batch, for kernels. It counts no references, which code that allocates memory would miss."""
    return slice_batch(batch, b)
