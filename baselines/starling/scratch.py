"""Arrays that kernels overwrite while they build candidates, made once for all candidates of a decision."""

from typing import NamedTuple

import numpy as np

from baselines.starling.occupants import NO_OCCUPANTS, Occupants, nobody
from baselines.starling.round import ROW, Jobs, Nodes
from envs.simulation.compiled.jit import jit, leaf
from envs.types import FloatArray, IntArray


class PlacingScratch(NamedTuple):
    """Arrays without meaning between kernels, which allocate nothing; see `envs.simulation.compiled.jit.part`.

    Attributes:
        free: int64[num_nodes], GPUs not given to a job yet.
        chosen: int16[num_nodes], the GPUs found for one job.
        trial: int16[num_nodes], GPUs to be compared with them.
        spare: int64[num_nodes], `free` while one job is tried.
        part: int64[num_nodes], a node in the same part of the cluster.
        node_gains: float64[num_nodes], gain of each part, at the node that represents it.
        gains: float64[num_jobs], gain of each job.
        anchor: int64[num_jobs], a node of each job.
        by_type: int64[num_nodes], the nodes in order of GPU type, then of index.
        ends: int64[num_gpu_types + 1], where the nodes of each type end in `by_type`, after a 0.
        largest: int64[num_gpu_types], GPUs of the largest node of each type.
        whole: int64[num_gpu_types], how many such nodes are wholly free.
        rest: int64[num_gpu_types], the most free GPUs of another node of each type.
        kept_fractions: float64[num_jobs], what each job keeps of its throughput if running jobs are kept.
        fractions: float64[num_jobs], the same under another candidate.
        occupants: the jobs on each node.
    """

    free: IntArray
    chosen: IntArray
    trial: IntArray
    spare: IntArray
    part: IntArray
    node_gains: FloatArray
    gains: FloatArray
    anchor: IntArray
    by_type: IntArray
    ends: IntArray
    largest: IntArray
    whole: IntArray
    rest: IntArray
    kept_fractions: FloatArray
    fractions: FloatArray
    occupants: Occupants


@leaf
def sum_up_free(free: IntArray, gpu_type: int, scratch: PlacingScratch) -> None:
    """Write `whole` and `rest` of a GPU type: what `room.shape_of` returns for a job that holds nothing."""
    whole, rest, largest = 0, 0, scratch.largest[gpu_type]
    for place in range(scratch.ends[gpu_type], scratch.ends[gpu_type + 1]):
        gpus = free[scratch.by_type[place]]
        if gpus > 0 and gpus == largest:
            whole += 1
        elif gpus > rest:
            rest = gpus
    scratch.whole[gpu_type], scratch.rest[gpu_type] = whole, rest


@jit
def new_scratch(jobs: Jobs, nodes: Nodes) -> PlacingScratch:
    """Allocate the arrays for so many jobs and nodes."""
    num_jobs, num_nodes, num_types = len(jobs.work), len(nodes.capacity), jobs.wanted.shape[1]
    by_type, ends = np.zeros(num_nodes, np.int64), np.zeros(num_types + 1, np.int64)
    largest = np.zeros(num_types, np.int64)
    for gpu_type in range(num_types):
        end = ends[gpu_type]
        for node in range(num_nodes):
            if nodes.types[node] == gpu_type:
                by_type[end] = node
                end += 1
                largest[gpu_type] = max(largest[gpu_type], nodes.capacity[node])
        ends[gpu_type + 1] = end
    return PlacingScratch(
        np.zeros(num_nodes, np.int64),
        np.zeros(num_nodes, ROW),
        np.zeros(num_nodes, ROW),
        np.zeros(num_nodes, np.int64),
        np.zeros(num_nodes, np.int64),
        np.zeros(num_nodes),
        np.zeros(num_jobs),
        np.zeros(num_jobs, np.int64),
        by_type,
        ends,
        largest,
        np.zeros(num_types, np.int64),
        np.zeros(num_types, np.int64),
        np.ones(num_jobs),
        np.ones(num_jobs),
        nobody(jobs, nodes),
    )


_NO_INTEGERS, _NO_FLOATS, _NO_GPUS = np.zeros(0, np.int64), np.zeros(0), np.zeros(0, ROW)
NO_SCRATCH = PlacingScratch(  # arrays of the same types without entries
    _NO_INTEGERS,
    _NO_GPUS,
    _NO_GPUS,
    _NO_INTEGERS,
    _NO_INTEGERS,
    _NO_FLOATS,
    _NO_FLOATS,
    _NO_INTEGERS,
    _NO_INTEGERS,
    _NO_INTEGERS,
    _NO_INTEGERS,
    _NO_INTEGERS,
    _NO_INTEGERS,
    _NO_FLOATS,
    _NO_FLOATS,
    NO_OCCUPANTS,
)
