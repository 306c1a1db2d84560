"""What kernels work on: one episode's arrays and the tables, under one name."""

from typing import Any, NamedTuple

import numpy as np
import numpy.typing as npt

from envs.simulation.jit import leaf
from envs.simulation.speed import SpeedTable
from envs.simulation.state import State
from envs.types import FloatArray, IntArray

Records = Any  # numba sees the record arrays; mypy does not see into them


class World(NamedTuple):
    """A `State` and a `SpeedTable` as compiled code sees them.

    Of one episode, or of a batch: then the state's arrays have a leading axis, and `episode_of` takes one out.
    """

    episode: Records  # EPISODE [1]
    jobs: Records  # JOB [num_jobs]
    nodes: Records  # NODE [num_nodes]
    shares: Records  # SHARE_RECORD [2 * num_gpus]
    heap: Records  # ENTRY [num_gpus]
    heap_places: IntArray  # [num_jobs]
    outage_heap: Records  # ENTRY [num_nodes or 0]
    outage_places: IntArray  # [num_nodes or 0]
    queued: IntArray  # [words]
    running: IntArray  # [words]
    room: IntArray  # [num_gpu_types, most GPUs of a node + 1, words]
    touched: IntArray  # [num_jobs]
    dirty: IntArray  # [num_nodes]
    outages: FloatArray  # [num_nodes or 0, OUTAGES, 2]
    events: npt.NDArray[np.void]  # EVENT
    log_shares: npt.NDArray[np.void]  # SHARE
    rates: FloatArray  # [num_models, num_gpu_types, max_gpus + 1, levels]
    levels: IntArray  # [num_gpu_types, max_gpus + 1]
    reference: FloatArray  # [num_models, max_gpus + 1]: speed on the fewest nodes of the fastest type
    traffic: FloatArray  # [num_models, max_gpus + 1]
    host_stage: FloatArray  # [num_models]
    host_cpus: FloatArray  # [c]
    host_memory: FloatArray  # [m]
    host_factor: FloatArray  # [num_models, 9, c, m]
    saturating: FloatArray  # [num_models, 9, 2]


STATE_FIELDS = tuple(State.__dataclass_fields__)


def batch_world(state: State, table: SpeedTable) -> World:
    """All episodes of a state, with the speeds of a table."""
    return World(
        **{name: getattr(state, name) for name in STATE_FIELDS},
        rates=table.rates,
        levels=table.levels,
        reference=table.reference(),
        traffic=table.traffic,
        host_stage=table.host_stage,
        host_cpus=table.host.cpus,
        host_memory=table.host.memory,
        host_factor=table.host.factor,
        saturating=table.host.saturating,
    )


def world_of(state: State, table: SpeedTable, b: int = 0) -> World:
    """One episode of a state, with the speeds of a table."""
    return batch_world(state, table)._replace(**{name: getattr(state, name)[b] for name in STATE_FIELDS})


@leaf
def episode_of(batch: World, b: int) -> World:
    """One episode of a batch."""
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
        batch.dirty[b],
        batch.outages[b],
        batch.events[b],
        batch.log_shares[b],
        batch.rates,
        batch.levels,
        batch.reference,
        batch.traffic,
        batch.host_stage,
        batch.host_cpus,
        batch.host_memory,
        batch.host_factor,
        batch.saturating,
    )
