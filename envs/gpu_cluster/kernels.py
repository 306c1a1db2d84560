"""The environment's step over a batch of episodes, compiled: decide, end rounds, let time pass, observe."""

from envs.gpu_cluster.arrays import EnvArrays, episode_arrays
from envs.gpu_cluster.decide import decide, drop_incomplete
from envs.gpu_cluster.masks import mask_actions
from envs.gpu_cluster.observe import observe
from envs.simulation.clock import advance
from envs.simulation.jit import kernel
from envs.simulation.kernels import END, LOG_FULL, settle
from envs.types import IntArray


@kernel
def look(a: EnvArrays) -> int:
    """Write features and mask of one episode; return how many choices there are besides nothing."""
    observe(a)
    return mask_actions(a)


@kernel
def choose(a: EnvArrays) -> bool:
    """Take the joint decision of one episode; say whether the round is over."""
    return decide(a)


@kernel
def proceed_one(a: EnvArrays) -> int:
    """End the round, and let time pass to the next one in which somebody has a choice."""
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
    """As `look`, for one episode of a batch."""
    return look(episode_arrays(batch, b))


@kernel
def decide_episode(batch: EnvArrays, b: int) -> bool:
    """As `choose`, for one episode of a batch."""
    return choose(episode_arrays(batch, b))


@kernel
def close_round(batch: EnvArrays, b: int) -> None:
    """Complete the plan of a round: what did not come together is dropped."""
    drop_incomplete(episode_arrays(batch, b))


@kernel
def proceed(batch: EnvArrays, b: int) -> int:
    """Let a closed round take effect and time pass to the next round in which somebody has a choice."""
    return proceed_one(episode_arrays(batch, b))


@kernel
def step_batch(batch: EnvArrays, outcomes: IntArray) -> None:
    """Step every episode by its joint decision; `outcomes` int64[B] says how each came back (`Outcome`)."""
    for b in range(len(outcomes)):
        a = episode_arrays(batch, b)
        outcomes[b] = 0
        if not choose(a) and look(a) > 0:
            continue
        drop_incomplete(a)
        outcomes[b] = proceed_one(a)
