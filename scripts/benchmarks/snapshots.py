"""Environments at a loaded instant, random joint actions in them, and the cost of stepping by these."""

from functools import partial
from typing import Any

import numpy as np
import numpy.typing as npt

from benchmarks.timing import cpu_seconds
from benchmarks.worlds import FULL, WORKLOAD_MODELS, Size, load_three_quarters
from envs.gpu_cluster import DecisionRules, GpuClusterBatch, kernels
from envs.performance import default_model
from envs.simulation import Setup, State
from envs.types import IntArray

HORIZON = 1e9  # seconds: later than the end of every episode
MEAN_ACTING = 2.0  # agents that choose an action other than doing nothing, per joint decision


def loaded_state(size: Size) -> State:
    """The state of the full model with elastic jobs when FIFO has seen three quarters of the arrivals."""
    episode = load_three_quarters(size, FULL)
    episode.set_horizon(HORIZON)
    return episode.start


def make_batch(size: Size, num_envs: int, num_candidates: int = 16) -> GpuClusterBatch:
    """Environments of one size, each with the same workload."""
    rules = DecisionRules(num_candidates=num_candidates)
    setup = Setup(size.cluster(), default_model(), FULL)
    batch = GpuClusterBatch(setup, WORKLOAD_MODELS, size.jobs, num_envs, rules)
    workload = size.workload()
    for b in range(num_envs):
        batch.load(b, workload, np.random.default_rng(0))
    return batch


def restore(batch: GpuClusterBatch, start: State) -> None:
    """Set every episode to the first decision after a loaded instant."""
    for b in range(batch.batch_size):
        batch.state.episode_view(b).copy_from(start)
        batch.negotiation.clear_counters(b)
    negotiation = batch.negotiation
    outcomes = np.zeros(batch.batch_size, np.int64)
    kernels.step(negotiation.arrays, 0, batch.batch_size, False, outcomes)


def bytes_per_environment(batch: GpuClusterBatch) -> float:
    """Memory of one environment of a batch."""
    arrays = batch.negotiation.arrays
    own: int = sum(getattr(arrays, name).nbytes for name in arrays._fields if name != "world")
    return (batch.state.nbytes + own) / batch.batch_size


def draw_actions(mask: npt.NDArray[Any], rng: np.random.Generator) -> IntArray:
    """Random legal actions int64[B, num_nodes]; most agents do nothing where that is legal."""
    draw = partial(rng.random, dtype=np.float32)
    scores = np.where(mask > 0, draw(mask.shape) + np.float32(0.1), 0)
    scores[..., 0] *= 100 * (draw(mask.shape[:-1]) > MEAN_ACTING / mask.shape[-2])
    actions: IntArray = scores.argmax(-1)
    return actions


def draw_trajectory(batch: GpuClusterBatch, start: State, steps: int) -> list[IntArray]:
    """Random joint actions of all episodes, step by step from the loaded instant."""
    rng, actions = np.random.default_rng(0), []
    restore(batch, start)
    for _ in range(steps):
        actions.append(draw_actions(batch.observation["mask"], rng))
        batch.step(actions[-1])
    assert not batch.ended.any(), "an episode has ended; take fewer steps"
    return actions


def seconds_per_step(batch: GpuClusterBatch, start: State, actions: list[IntArray], repeats: int) -> float:
    """CPU seconds of a step of one environment: decide, let time pass, observe, mask, reward."""

    def play_actions() -> None:
        for joint in actions:
            batch.step(joint)

    return cpu_seconds(play_actions, repeats, lambda: restore(batch, start)) / (len(actions) * batch.batch_size)
