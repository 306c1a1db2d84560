"""Nodes that act at the same time: one listing, a choice of every node, one settlement.

In a sub-round every node that has options chooses one of its own, or waits. Their claims are carried out by falling
margin, the score of the choice minus that of the node's waiting (0 where it may not wait), or in an order that is
drawn. No claim takes GPUs of another node, so that only jobs can be contested: a job is given once, and who else claims
it gets nothing or, by `OptionRules.losers`, the next best. There are two exceptions. Nodes that join the same job add
up as far as it runs on them. A job that no node can hold alone becomes the gang with the first claim, and
further claims of it in this and later sub-rounds add what it lacks; one gang is put together at a time. A gang to
which nobody gives anything in a sub-round is given up.
"""

import numpy as np

from envs.options.arrays import OPTION_ACTION, OPTION_AMOUNT, OPTION_NODE, OPTION_ROW, OptionArrays, option_arrays
from envs.options.by_node import drawn_rank
from envs.options.columns import JOIN, START, WAIT
from envs.options.kernels import advance_to_decision, break_gang, change_draft, count_list, finish_decision, prepare
from envs.options.listing import runs_on_nodes
from envs.options.rules import CONTESTED, LOSERS
from envs.simulation.compiled.jit import kernel, leaf
from envs.simulation.world.kernels import ROUND
from envs.simulation.world.shares import share_on
from envs.types import FloatArray, IntArray

DRAWN, NEXT_BEST = CONTESTED.index("drawn"), LOSERS.index("next_best")


@leaf
def margin_of(a: OptionArrays, n: int) -> float:
    """Return the margin of a node's choice over its waiting, or its drawn rank."""
    rules, joint = a.rules[0], a.joint
    if rules.contested == DRAWN:
        return drawn_rank(a.world.episode[0].num_rounds, rules.subround, n)
    first = joint.first[n]
    waiting = joint.scores[first] if a.what[first, OPTION_ACTION] == WAIT else 0.0
    return float(joint.scores[joint.chosen[n]] - waiting)


@leaf
def order_claims(a: OptionArrays) -> int:
    """Fill `claims` with the nodes that claim something, by falling margin and then by node; return their number."""
    joint, count = a.joint, 0
    for n in range(len(a.waited)):
        joint.lost[n] = 0
        if joint.chosen[n] < 0 or a.what[joint.chosen[n], OPTION_ACTION] == WAIT:
            continue
        margin, i = margin_of(a, n), count
        while i > 0 and joint.margins[i - 1] < margin:
            joint.margins[i], joint.claims[i] = joint.margins[i - 1], joint.claims[i - 1]
            i -= 1
        joint.margins[i], joint.claims[i] = margin, n
        count += 1
    return count


@leaf
def join_gang(a: OptionArrays, j: int, n: int, gpus: int) -> bool:
    """Let a node give GPUs to the gang, at most what it may hold; return whether it can."""
    job = a.world.jobs[j]
    if share_on(a.world, j, n) > 0:
        return False
    rest = job.min_gpus - job.gpus
    gpus = min(gpus, job.max_gpus - job.gpus)
    if gpus >= rest and not runs_on_nodes(a, job, n, job.gpus + gpus, job.num_shares + 1):
        gpus = rest
        if not runs_on_nodes(a, job, n, job.gpus + gpus, job.num_shares + 1):
            return False
    a.joint.given[j] = JOIN
    change_draft(a, JOIN, j, n, gpus)
    return True


@leaf
def grant(a: OptionArrays, option: int) -> bool:
    """Carry out a claim unless one before stands against it; return whether it was carried out."""
    action, n, gpus = a.what[option, OPTION_ACTION], a.what[option, OPTION_NODE], a.what[option, OPTION_AMOUNT]
    j = a.job_ids[a.what[option, OPTION_ROW]]
    job, given, gang = a.world.jobs[j], a.joint.given, a.rules[0].gang
    if gang == j:
        return join_gang(a, j, n, gpus)
    if action == START and gpus < job.min_gpus and gang >= 0:
        return False
    if given[j] > 0:
        if action != JOIN or given[j] != JOIN or share_on(a.world, j, n) > 0 or job.gpus + gpus > job.max_gpus:
            return False
        if not runs_on_nodes(a, job, n, job.gpus + gpus, job.num_shares + 1):
            return False
    given[j] = action
    change_draft(a, action, j, n, gpus)
    if gang >= 0:
        a.rules[0].gang = gang
    return True


@leaf
def next_best(a: OptionArrays, n: int) -> int:
    """Return a node's option with the highest score of those about jobs that nobody was given; -1 for none.

    Where the node may wait, only options that score higher count.
    """
    joint, best, highest = a.joint, -1, -np.inf
    for option in range(joint.first[n], joint.first[n + 1]):
        if a.what[option, OPTION_ACTION] == WAIT:
            highest = joint.scores[option]
        elif joint.given[a.job_ids[a.what[option, OPTION_ROW]]] == 0 and joint.scores[option] > highest:
            best, highest = option, joint.scores[option]
    return best


@leaf
def settle_claims(a: OptionArrays) -> int:
    """Carry out the claims of `JointClaims.chosen` and mark those that are lost; return how many were carried out."""
    rules, joint = a.rules[0], a.joint
    count, carried_out = order_claims(a), 0
    for row in range(rules.num_jobs):
        joint.given[a.job_ids[row]] = 0
    for i in range(count):
        n = joint.claims[i]
        if grant(a, joint.chosen[n]):
            carried_out += 1
            continue
        option = next_best(a, n) if rules.losers == NEXT_BEST else -1
        if option >= 0 and grant(a, option):
            rules.second_choices += 1
            carried_out += 1
        else:
            joint.lost[n] = 1
            rules.lost_claims += 1
    rules.claims += count
    return carried_out


@leaf
def act_together(a: OptionArrays) -> bool:
    """Carry out what all nodes have chosen and list the options of the next sub-round; return whether there is none.

    The options, `JointClaims.chosen` and `JointClaims.scores` are those of the present sub-round.
    """
    rules = a.rules[0]
    count_list(a)
    carried_out = settle_claims(a)
    rules.subround += 1
    if rules.gang >= 0 and carried_out == 0:
        break_gang(a)
        carried_out = 1
    if rules.gang < 0 and (carried_out == 0 or rules.subround >= rules.subrounds):
        return True
    return finish_decision(a)


@kernel
def decide_together(batch: OptionArrays, b: int, chosen: IntArray, scores: FloatArray) -> bool:
    """Carry out what the nodes of an episode choose; return whether the round is over. See `OptionBatch.act`."""
    a = option_arrays(batch, b)
    prepare(a)
    _copy_choices(a, chosen, scores)
    return act_together(a)


@leaf
def _copy_choices(a: OptionArrays, chosen: IntArray, scores: FloatArray) -> None:
    for n in range(len(a.waited)):
        a.joint.chosen[n] = chosen[n]
    for option in range(a.rules[0].num_options):
        a.joint.scores[option] = scores[option]


@kernel
def act_in(
    batch: OptionArrays, b: int, chosen: IntArray, scores: FloatArray, outcomes: IntArray, lost: IntArray
) -> None:
    """Carry out what the nodes of an episode choose; advance time where that ends the round. See `OptionBatch.act`."""
    a = option_arrays(batch, b)
    prepare(a)
    _copy_choices(a, chosen, scores)
    outcomes[b] = ROUND
    if act_together(a):
        outcomes[b] = advance_to_decision(a)
    for n in range(len(a.waited)):
        lost[n] = a.joint.lost[n]
