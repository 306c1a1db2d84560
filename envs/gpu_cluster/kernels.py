"""The environment's step over a batch of episodes, compiled: decide, end rounds, let time pass, observe."""

from typing import Any, NamedTuple

from envs.gpu_cluster.decide import decide, drop_incomplete
from envs.gpu_cluster.observe import Features, Mask, mask_actions, observe
from envs.simulation.jit import jit
from envs.simulation.kernels import END, LOG_FULL, advance, settle
from envs.types import FloatArray, IntArray

Records = Any


class Arrays(NamedTuple):
    """Everything that a step reads and writes; the first axis is the episode, except for the three tables."""

    episode: Records  # EPISODE [B, 1]
    rules: Records  # RULES [B, 1]
    jobs: Records  # JOB [B, num_jobs]
    nodes: Records  # NODE [B, num_servers]
    shares: Records  # SHARE_RECORD [B, 2 * num_gpus]
    heap: IntArray  # [B, num_gpus]
    active: IntArray  # [B, num_jobs]
    touched: IntArray  # [B, num_jobs]
    events: Records  # EVENT [B, capacity]
    log_shares: Records  # SHARE [B, capacity]
    rates: FloatArray  # [num_models, num_gpu_types, max_gpus + 1, levels]
    levels: IntArray  # [num_gpu_types, max_gpus + 1]
    reference: FloatArray  # [num_models, max_gpus + 1]
    heads: IntArray  # [B, num_candidates]
    keys: FloatArray  # [B, num_candidates]
    choice: IntArray  # [B, num_servers]
    gpus: IntArray  # [B, num_servers]
    scratch: IntArray  # [B, 2, num_servers]
    servers: Features  # [B, num_servers, F_server]
    slots: Features  # [B, num_servers, num_slots, F_slot]
    queue: Features  # [B, num_candidates, F_job]
    cluster: Features  # [B, F_cluster]
    mask: Mask  # [B, num_servers, num_actions]


@jit
def observe_episode(a: Arrays, b: int) -> int:
    """Write features and mask of one episode; return how many choices there are besides nothing."""
    observe(
        a.episode[b],
        a.rules[b],
        a.jobs[b],
        a.nodes[b],
        a.shares[b],
        a.active[b],
        a.rates,
        a.levels,
        a.reference,
        a.heads[b],
        a.keys[b],
        a.servers[b],
        a.slots[b],
        a.queue[b],
        a.cluster[b],
    )
    slots = a.slots.shape[2]
    amounts = slots + 1
    num_levels = (a.mask.shape[2] - 1) // ((a.heads.shape[1] + slots) * amounts)
    return mask_actions(
        a.episode[b], a.rules[b], a.jobs[b], a.nodes[b], a.shares[b], a.rates, a.heads[b], slots, num_levels, a.mask[b]
    )


@jit
def decide_episode(a: Arrays, b: int) -> bool:
    """Take the joint decision in `choice` and `gpus`; say whether the round is over."""
    return decide(
        a.episode[b],
        a.rules[b],
        a.jobs[b],
        a.nodes[b],
        a.shares[b],
        a.touched[b],
        a.rates,
        a.heads[b],
        a.choice[b],
        a.gpus[b],
        a.scratch[b, 0],
        a.scratch[b, 1],
    )


@jit
def close_round(a: Arrays, b: int) -> None:
    """Complete the plan of a round: what did not come together is dropped."""
    drop_incomplete(a.episode[b], a.rules[b], a.jobs[b], a.nodes[b], a.shares[b], a.touched[b], a.rates)


@jit
def settle_round(a: Arrays, b: int) -> None:
    """Close a round and let its plan take effect."""
    close_round(a, b)
    settle(
        a.episode[b],
        a.jobs[b],
        a.nodes[b],
        a.shares[b],
        a.heap[b],
        a.touched[b],
        a.rates,
        a.events[b],
        a.log_shares[b],
    )


@jit
def proceed(a: Arrays, b: int) -> int:
    """Let time pass to the next round in which somebody has a choice; rounds without one pass by themselves."""
    while True:
        outcome = advance(
            a.episode[b], a.jobs[b], a.nodes[b], a.shares[b], a.heap[b], a.active[b], a.events[b], a.log_shares[b]
        )
        if outcome == LOG_FULL:
            return outcome
        choices = observe_episode(a, b)
        if outcome == END or choices > 0:
            return outcome


@jit
def step_batch(a: Arrays, outcomes: IntArray) -> None:
    """Step every episode by its joint decision; `outcomes` int64[B] says how each came back (`Outcome`)."""
    for b in range(len(outcomes)):
        outcomes[b] = 0
        if not decide_episode(a, b) and observe_episode(a, b) > 0:
            continue
        settle_round(a, b)
        outcomes[b] = proceed(a, b)
