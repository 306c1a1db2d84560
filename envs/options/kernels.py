"""Compiled steps of an episode: list the options, carry one out, end the round, advance time."""

from envs.options.arrays import (
    COUNTERS,
    OPTION_ACTION,
    OPTION_AMOUNT,
    OPTION_NODE,
    OPTION_ROW,
    OptionArrays,
    option_arrays,
)
from envs.options.by_node import TAKES_TURNS
from envs.options.carrying import note_change
from envs.options.columns import EVICT, MOVE, SHARE, TUNE, WAIT
from envs.options.features import write_features
from envs.options.listing import is_idle, list_options, needs_gpus
from envs.options.tuned import tune_job
from envs.options.units import measure_system
from envs.simulation.compiled.jit import kernel, leaf, part
from envs.simulation.world.clock import advance
from envs.simulation.world.kernels import END, LOG_FULL, ROUND, settle
from envs.simulation.world.shares import clear_job, join_job, set_share
from envs.types import IntArray

ROUND_OVER = 3  # a further result code: Python lets time pass (`envs.episodes.hidden`, `envs.episodes.predicted`)


@part
def prepare(a: OptionArrays) -> int:
    """List the options of the present decision; return how many there are besides waiting, 0 if the round is over."""
    rules = a.rules[0]
    # A gang is completed even if that takes more decisions than a round may have.
    while rules.gang >= 0 or rules.decision < rules.max_decisions:
        choices = list_options(a)
        if choices > 0:
            return choices
        if rules.gang >= 0:
            break_gang(a)
        elif not ask_again(a):
            return 0
    return 0


@part
def advance_to_decision(a: OptionArrays) -> int:
    """End the round and advance time to the next one in which there is an option besides waiting; return the result.

    LOG_FULL asks for a longer log and for another call.
    """
    if a.rules[0].pauses:
        return ROUND_OVER
    while True:
        if settle(a.world) < 0:
            return LOG_FULL
        outcome = advance(a.world)
        if outcome == LOG_FULL:
            return outcome
        begin_round(a)
        if outcome == END or prepare(a) > 0:
            return outcome


@leaf
def take(a: OptionArrays, option: int) -> bool:
    """Carry out a listed option and list those of the next decision; return whether the round is over."""
    count_list(a)
    return True if carry_out_option(a, option) else finish_decision(a)


@leaf
def count_list(a: OptionArrays) -> None:
    """Count a decision, and what its list had no room for."""
    rules = a.rules[0]
    rules.decisions += rules.num_options > 1
    rules.full_lists += rules.beyond > 0
    rules.left_out += rules.missing


@leaf
def finish_decision(a: OptionArrays) -> bool:
    """List the options of the next decision; return whether the round is over."""
    rules = a.rules[0]
    if prepare(a) > 0:
        return False
    rules.full_rounds += rules.decision >= rules.max_decisions and list_options(a) > 0
    return True


@leaf
def carry_out_option(a: OptionArrays, option: int) -> bool:
    """Carry out one of the listed options; return whether it ends the round, as waiting does in an auction.

    Where nodes take turns, waiting ends the part of the node whose turn it is.

    A job that has fewer GPUs than it needs afterwards is the gang that other nodes must join.
    """
    action, row, rules = a.what[option, OPTION_ACTION], a.what[option, OPTION_ROW], a.rules[0]
    rules.last_node = rules.turn_of
    if action == WAIT:
        if rules.turn == TAKES_TURNS:
            a.waited[rules.turn_of] = 1
        return bool(rules.turn != TAKES_TURNS)
    change_draft(a, action, a.job_ids[row], a.what[option, OPTION_NODE], a.what[option, OPTION_AMOUNT])
    return False


@leaf
def change_draft(a: OptionArrays, action: int, j: int, n: int, amount: int) -> None:
    """Carry out an option other than waiting for a job: its GPUs on a node, or its tuning, become `amount`."""
    rules = a.rules[0]
    note_change(a, j)
    if a.world.jobs[j].partner >= 0:
        note_change(a, a.world.jobs[j].partner)
    if action == SHARE:
        share_gpus(a, j, amount)
        rules.decision += 1
        return
    if action == TUNE:
        tune_job(a, j, amount)
        rules.decision += 1
        return
    if action in (MOVE, EVICT):
        clear_job(a.world, j)
    if action != EVICT:
        set_share(a.world, j, n, amount)
        note_change(a, j)
    rules.gang = j if action != EVICT and needs_gpus(a.world.jobs[j]) else -1
    rules.decision += 1


@leaf
def share_gpus(a: OptionArrays, j: int, owner: int) -> None:
    """Place a waiting job beside another one, on all its GPUs."""
    note_change(a, owner)
    join_job(a.world, j, owner)
    note_change(a, j)


@leaf
def begin_round(a: OptionArrays) -> None:
    """Forget what nodes have decided in the round before, and measure the system."""
    measure_system(a)
    a.rules[0].decision = 0
    a.rules[0].last_node = -1
    a.rules[0].subround = 0
    for n in range(len(a.waited)):
        a.waited[n] = 0


@leaf
def ask_again(a: OptionArrays) -> bool:
    """Allow nodes that have waited to choose again if nothing runs; return whether there are any."""
    again = False
    if is_idle(a):
        for n in range(len(a.waited)):
            again = again or a.waited[n] > 0
            a.waited[n] = 0
    return again


@leaf
def break_gang(a: OptionArrays) -> None:
    """Give up the gang that no further node can join; its job waits for the next round."""
    rules = a.rules[0]
    note_change(a, rules.gang)
    clear_job(a.world, rules.gang)
    a.refused[rules.gang] = a.world.episode[0].num_rounds + 1
    rules.gang = -1
    rules.broken_gangs += 1


@kernel
def begin(batch: OptionArrays, b: int) -> int:
    """Advance an episode to its first decision, or go on doing so with a longer log; return the result code."""
    return advance_to_decision(option_arrays(batch, b))


@kernel
def list_decision(batch: OptionArrays, b: int) -> None:
    """List the options of the present decision of an episode, without their features."""
    prepare(option_arrays(batch, b))


@kernel
def relist(batch: OptionArrays, b: int) -> int:
    """Put the options of the present decision of an episode into the workspace; return their number."""
    a = option_arrays(batch, b)
    prepare(a)
    write_features(a)
    return int(a.rules[0].num_options)


@kernel
def open_round(batch: OptionArrays, b: int) -> bool:
    """Begin a round in the present state of an episode; return whether there is an option besides waiting."""
    a = option_arrays(batch, b)
    a.rules[0].gang = -1
    begin_round(a)
    return prepare(a) > 0


@kernel
def decide_option(batch: OptionArrays, b: int, option: int) -> bool:
    """Carry out an option of an episode by its place among all; return whether that ends the round."""
    a = option_arrays(batch, b)
    prepare(a)
    return take(a, option)


@kernel
def step_all(batch: OptionArrays, chosen: IntArray, outcomes: IntArray) -> None:
    """Carry out an option of each episode by its place among all; advance time where that ends the round.

    -1 in `chosen` int64[B] leaves an episode as it is. Outcomes int64[B] are overwritten where an option was carried
    out.
    """
    for b in range(len(chosen)):
        if chosen[b] >= 0:
            a = option_arrays(batch, b)
            prepare(a)
            outcomes[b] = ROUND
            if take(a, chosen[b]):
                outcomes[b] = advance_to_decision(a)


def count_events(batch: OptionArrays, b: int) -> dict[str, int]:
    """Return the `COUNTERS` of an episode: decisions, gangs given up, and how often each limit was reached."""
    return {name: int(batch.rules[b, 0][name]) for name in COUNTERS}
