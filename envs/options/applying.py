"""How an option changes the plan of a round, in compiled code."""

from envs.options.arrays import OPTION_ACTION, OPTION_AMOUNT, OPTION_NODE, OPTION_ROW, OptionArrays
from envs.options.carrying import note_change
from envs.options.columns import EVICT, MOVE, TUNE, WAIT
from envs.options.listing import TAKES_TURNS, is_idle, needs_gpus
from envs.options.tuned import tune_job
from envs.simulation.jit import leaf
from envs.simulation.shares import clear_job, set_share


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
    change_plan(a, action, a.job_ids[row], a.what[option, OPTION_NODE], a.what[option, OPTION_AMOUNT])
    return False


@leaf
def change_plan(a: OptionArrays, action: int, j: int, n: int, amount: int) -> None:
    """Carry out an option other than waiting for a job: its GPUs on a node, or its tuning, become `amount`."""
    rules = a.rules[0]
    note_change(a, j)
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
def begin_round(a: OptionArrays) -> None:
    """Forget what nodes have decided in the round before."""
    a.rules[0].decision = 0
    a.rules[0].last_node = -1
    for n in range(len(a.waited)):
        a.waited[n] = 0


@leaf
def ask_again(a: OptionArrays) -> bool:
    """Let nodes that have waited choose again if nothing runs; return whether there are any."""
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
