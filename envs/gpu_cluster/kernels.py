"""Compiled steps of a batch of episodes: decide, end rounds, advance time, observe."""

from envs.gpu_cluster.arrays import EnvArrays, episode_arrays
from envs.gpu_cluster.decide import decide, drop_incomplete
from envs.gpu_cluster.effects import observe_effects
from envs.gpu_cluster.masks import mask_actions
from envs.gpu_cluster.observe import observe
from envs.simulation.clock import advance
from envs.simulation.jit import kernel, part
from envs.simulation.kernels import END, LOG_FULL, ROUND, settle
from envs.types import IntArray


@kernel
def step(batch: EnvArrays, first: int, last: int, deciding: bool, outcomes: IntArray) -> None:
    """Step the episodes `first` to `last` - 1 and write each result code into `outcomes` int64[B].

    If `deciding`, each episode applies its joint decision, and stays in its round if some node still has a choice.
    Otherwise the round is already closed: it takes effect, and time advances to the next round in which some node has a
    choice.
    """
    for b in range(first, last):
        a = episode_arrays(batch, b)
        outcomes[b] = ROUND
        if deciding:
            if not decide(a) and look(a) > 0:
                continue
            drop_incomplete(a)
        outcomes[b] = proceed(a)


@part
def look(a: EnvArrays) -> int:
    """Write features and mask of one episode; return how many choices other than passing are allowed."""
    observe(a)
    observe_effects(a)
    return mask_actions(a)


@part
def proceed(a: EnvArrays) -> int:
    """End the round of an episode and advance time to the next round in which some node has a choice."""
    while True:
        if settle(a.world) < 0:
            return LOG_FULL
        outcome = advance(a.world)
        if outcome == LOG_FULL:
            return outcome
        a.rules[0].seen = 0
        choices = look(a)
        if outcome == END or choices > 0:
            return outcome
        drop_incomplete(a)


@kernel
def observe_episode(batch: EnvArrays, b: int) -> int:
    """Write features and mask of one episode; return how many choices other than passing are allowed."""
    return look(episode_arrays(batch, b))


@kernel
def decide_episode(batch: EnvArrays, b: int) -> bool:
    """Apply the joint decision of one episode to its plan; return whether the round is over."""
    return decide(episode_arrays(batch, b))


@kernel
def close_episode(batch: EnvArrays, b: int) -> None:
    """End the decisions of a round of one episode: no job keeps GPUs on which it does not run."""
    drop_incomplete(episode_arrays(batch, b))
