"""Compiled steps of a batch of episodes: decide, end rounds, advance time, observe."""

from envs.gpu_cluster.amend import amend, close_amendments, mask_amendments, rank_candidates
from envs.gpu_cluster.arrays import EnvArrays, episode_arrays
from envs.gpu_cluster.decide import decide, drop_incomplete
from envs.gpu_cluster.effects import observe_effects
from envs.gpu_cluster.masks import mask_actions
from envs.gpu_cluster.observe import observe
from envs.simulation.clock import advance
from envs.simulation.jit import kernel, part
from envs.simulation.kernels import END, LOG_FULL, ROUND, settle
from envs.types import BoolArray, IntArray


@part
def look(a: EnvArrays) -> int:
    """Write features and mask of one episode; return how many choices other than passing are allowed."""
    if a.rules[0].amendments:
        rank_candidates(a)
    observe(a)
    observe_effects(a)
    return mask_amendments(a) if a.rules[0].amendments else mask_actions(a)


@part
def resolve_choices(a: EnvArrays) -> bool:
    """Apply the joint decision of one episode; return whether the round is over."""
    return amend(a) if a.rules[0].amendments else decide(a)


@part
def complete_plan(a: EnvArrays) -> None:
    """End the decisions of a round: no job keeps GPUs on which it does not run."""
    if a.rules[0].amendments:
        close_amendments(a)
    else:
        drop_incomplete(a)


@part
def proceed(a: EnvArrays) -> int:
    """End the round and advance time to the next round in which some node has a choice."""
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
        complete_plan(a)


@kernel
def observe_episode(batch: EnvArrays, b: int) -> int:
    """Call `look` for one episode of a batch."""
    return look(episode_arrays(batch, b))


@kernel
def decide_episode(batch: EnvArrays, b: int) -> bool:
    """Call `resolve_choices` for one episode of a batch."""
    return resolve_choices(episode_arrays(batch, b))


@kernel
def close_round(batch: EnvArrays, b: int) -> None:
    """Call `complete_plan` for one episode of a batch."""
    complete_plan(episode_arrays(batch, b))


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
            if not resolve_choices(a) and look(a) > 0:
                continue
            complete_plan(a)
        outcomes[b] = proceed(a)


@kernel
def decide_all(batch: EnvArrays, first: int, last: int, closed: BoolArray) -> None:
    """Apply the joint decisions of episodes `first` to `last` - 1; mark in `closed` bool[B] whose rounds are over."""
    for b in range(first, last):
        a = episode_arrays(batch, b)
        closed[b] = resolve_choices(a) or look(a) == 0
        if closed[b]:
            complete_plan(a)


@kernel
def leave_round(batch: EnvArrays, b: int) -> int:
    """End the closed round of one episode and advance time to its next one, or to its end; return the result code."""
    a = episode_arrays(batch, b)
    if settle(a.world) < 0:
        return LOG_FULL
    outcome = advance(a.world)
    a.rules[0].seen = 0
    return outcome
