"""Environments that begin at a loaded instant."""

import numpy as np

from benchmarks.episodes import FifoEpisode
from benchmarks.scenarios import FULL
from benchmarks.worlds import MODELS, Size
from envs.gpu_cluster import DecisionRules, GpuClusterBatch, kernels
from envs.performance import default_model
from envs.simulation import State

HORIZON = 1e9  # seconds: later than anything here ends


def loaded_state(size: Size) -> State:
    """A cluster of the full model, elastic jobs, FIFO until three quarters of them have come."""
    episode = FifoEpisode(size, FULL)
    episode.load(3 * size.jobs // 4)
    episode.set_horizon(HORIZON)
    return episode.start


def batch_of(size: Size, num_envs: int, num_candidates: int = 16) -> GpuClusterBatch:
    """Environments of one size."""
    rules = DecisionRules(num_candidates=num_candidates)
    batch = GpuClusterBatch(size.cluster(), default_model(), MODELS, size.jobs, num_envs, FULL, rules)
    workload = size.workload()
    for b in range(num_envs):
        batch.load(b, workload, np.random.default_rng(0))
    return batch


def put(batch: GpuClusterBatch, start: State) -> None:
    """Bring every episode to the first decision after a loaded instant."""
    for b in range(batch.batch_size):
        batch.state.episode_view(b).copy_from(start)
        batch.negotiation.clear_counters(b)
    kernels.step(batch.negotiation.arrays, 0, batch.batch_size, False, np.zeros(batch.batch_size, np.int64))


def memory(batch: GpuClusterBatch) -> float:
    """Bytes of one environment of a batch."""
    arrays = batch.negotiation.arrays
    own: int = sum(getattr(arrays, name).nbytes for name in arrays._fields if name != "world")
    return (batch.state.nbytes + own) / batch.batch_size
