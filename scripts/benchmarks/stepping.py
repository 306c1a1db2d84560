"""Joint actions left to chance, and what stepping by them costs."""

from functools import partial
from typing import Any

import numpy as np
import numpy.typing as npt

from benchmarks.snapshots import put
from benchmarks.timing import cpu_seconds
from envs.gpu_cluster import GpuClusterBatch
from envs.simulation import State
from envs.types import IntArray

ACTING = 2.0  # servers that choose something in a joint decision, on average


def chance(mask: npt.NDArray[Any], rng: np.random.Generator) -> IntArray:
    """Legal actions int64[B, num_servers]; nothing mostly, where it may be."""
    draw = partial(rng.random, dtype=np.float32)
    favoured = np.where(mask > 0, draw(mask.shape) + np.float32(0.1), 0)
    favoured[..., 0] *= 100 * (draw(mask.shape[:-1]) > ACTING / mask.shape[-2])
    actions: IntArray = favoured.argmax(-1)
    return actions


def trajectory(batch: GpuClusterBatch, start: State, steps: int) -> list[IntArray]:
    """Joint actions of all episodes, step by step from the loaded instant, left to chance."""
    rng, actions = np.random.default_rng(0), []
    put(batch, start)
    for _ in range(steps):
        actions.append(chance(batch.observation["mask"], rng))
        batch.step(actions[-1])
    assert not batch.ended.any(), "an episode has ended; take fewer steps"
    return actions


def step_seconds(batch: GpuClusterBatch, start: State, actions: list[IntArray], repeats: int) -> float:
    """CPU seconds of a step of one environment: decide, let time pass, observe, mask, reward."""

    def play() -> None:
        for joint in actions:
            batch.step(joint)

    return cpu_seconds(play, repeats, lambda: put(batch, start)) / (len(actions) * batch.batch_size)
