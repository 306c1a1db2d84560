"""Compiled steps of a batch of episodes: decide, end rounds, advance time, observe."""

from collections.abc import Callable
from typing import NamedTuple

from envs.gpu_cluster.amend import amend, close_amendments, mask_amendments, rank_candidates
from envs.gpu_cluster.arrays import EnvArrays, episode_arrays
from envs.gpu_cluster.decide import decide, drop_incomplete
from envs.gpu_cluster.effects import observe_effects
from envs.gpu_cluster.masks import mask_actions
from envs.gpu_cluster.observe import observe
from envs.simulation.clock import advance
from envs.simulation.jit import as_argument, kernel, part, shared_kernel
from envs.simulation.kernels import END, LOG_FULL, ROUND, settle
from envs.types import BoolArray, IntArray


class RoundKernels(NamedTuple):
    """What differs between the rules by which nodes decide, as functions of a batch and the index of an episode.

    Attributes:
        observe: write features and mask; return how many choices other than passing are allowed.
        decide: apply the joint decision; return whether the round is over.
        close: end the decisions of a round: no job keeps GPUs on which it does not run.
    """

    observe: Callable[[EnvArrays, int], int]
    decide: Callable[[EnvArrays, int], bool]
    close: Callable[[EnvArrays, int], None]


@shared_kernel
def observe_claims(batch: EnvArrays, b: int) -> int:
    """`RoundKernels.observe` where nodes claim GPUs for waiting jobs."""
    a = episode_arrays(batch, b)
    observe(a)
    observe_effects(a)
    return mask_actions(a)


@shared_kernel
def decide_claims(batch: EnvArrays, b: int) -> bool:
    """`RoundKernels.decide` where nodes claim GPUs for waiting jobs."""
    return decide(episode_arrays(batch, b))


@shared_kernel
def close_claims(batch: EnvArrays, b: int) -> None:
    """`RoundKernels.close` where nodes claim GPUs for waiting jobs."""
    drop_incomplete(episode_arrays(batch, b))


@shared_kernel
def observe_amendments(batch: EnvArrays, b: int) -> int:
    """`RoundKernels.observe` where nodes amend a proposal."""
    a = episode_arrays(batch, b)
    rank_candidates(a)
    observe(a)
    observe_effects(a)
    return mask_amendments(a)


@shared_kernel
def decide_amendments(batch: EnvArrays, b: int) -> bool:
    """`RoundKernels.decide` where nodes amend a proposal."""
    return amend(episode_arrays(batch, b))


@shared_kernel
def end_amendments(batch: EnvArrays, b: int) -> None:
    """`RoundKernels.close` where nodes amend a proposal."""
    close_amendments(episode_arrays(batch, b))


CLAIMS = RoundKernels(observe_claims, decide_claims, close_claims)
AMENDMENTS = RoundKernels(observe_amendments, decide_amendments, end_amendments)


def as_arguments(kernels: RoundKernels, batch: EnvArrays) -> RoundKernels:
    """Return kernels as arguments of `step` and `decide_all`; only those of one set of rules are compiled."""
    return RoundKernels(
        as_argument(kernels.observe, batch, 0),
        as_argument(kernels.decide, batch, 0),
        as_argument(kernels.close, batch, 0),
    )


@kernel
def step(rules: RoundKernels, batch: EnvArrays, first: int, last: int, deciding: bool, outcomes: IntArray) -> None:
    """Step the episodes `first` to `last` - 1 and write each result code into `outcomes` int64[B].

    If `deciding`, each episode applies its joint decision, and stays in its round if some node still has a choice.
    Otherwise the round is already closed: it takes effect, and time advances to the next round in which some node has a
    choice.
    """
    for b in range(first, last):
        outcomes[b] = ROUND
        if deciding:
            if not rules.decide(batch, b) and rules.observe(batch, b) > 0:
                continue
            rules.close(batch, b)
        outcomes[b] = proceed(rules, batch, b)


@part
def proceed(rules: RoundKernels, batch: EnvArrays, b: int) -> int:
    """End the round of an episode and advance time to the next round in which some node has a choice."""
    a = episode_arrays(batch, b)
    while True:
        if settle(a.world) < 0:
            return LOG_FULL
        outcome = advance(a.world)
        if outcome == LOG_FULL:
            return outcome
        a.rules[0].seen = 0
        choices = rules.observe(batch, b)
        if outcome == END or choices > 0:
            return outcome
        rules.close(batch, b)


@kernel
def decide_all(rules: RoundKernels, batch: EnvArrays, first: int, last: int, closed: BoolArray) -> None:
    """Apply the joint decisions of episodes `first` to `last` - 1; mark in `closed` bool[B] whose rounds are over."""
    for b in range(first, last):
        closed[b] = rules.decide(batch, b) or rules.observe(batch, b) == 0
        if closed[b]:
            rules.close(batch, b)


@kernel
def leave_round(batch: EnvArrays, b: int) -> int:
    """End the closed round of one episode and advance time to its next one, or to its end; return the result code."""
    a = episode_arrays(batch, b)
    if settle(a.world) < 0:
        return LOG_FULL
    outcome = advance(a.world)
    a.rules[0].seen = 0
    return outcome
