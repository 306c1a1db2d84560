"""Several decisions from one scoring: the likeliest option, and others that touch none of its jobs and nodes.

On a large cluster most options have nothing to do with each other, so that scoring all of them anew after each one
changes little but takes most of the time. What is carried out is what would be carried out one after another if scores
did not change; the first of equal empty nodes stands for all of them, so that the next one takes its place once it is
used.
"""

from envs.options.arrays import OPTION_ACTION, OPTION_AMOUNT, OPTION_NODE, OPTION_ROW, OptionArrays, option_arrays
from envs.options.by_node import TAKES_TURNS
from envs.options.carrying import CHANGES
from envs.options.columns import JOIN, SHARE, START, WAIT
from envs.options.kernels import carry_out_option, change_draft, count_list, finish_decision, prepare
from envs.simulation.compiled.jit import kernel, leaf
from envs.types import FloatArray

STANDS_FOR_OTHERS = 2  # in `equals_before`: a node that was empty when options were listed, and the first of its equals


@leaf
def likeliest(a: OptionArrays, scores: FloatArray) -> int:
    """Return the option with the highest score, the first of equals."""
    best = 0
    for option in range(1, a.rules[0].num_options):
        if scores[option] > scores[best]:
            best = option
    return best


@leaf
def take_likeliest(a: OptionArrays, scores: FloatArray) -> bool:
    """Carry out the likeliest option and others beside it, `OptionRules.at_once` in all; list those of the next one.

    Args:
        a: the episode, with listed options.
        scores: float64[capacity], of the listed options.

    Returns:
        Whether the round is over.
    """
    rules, since = a.rules[0], a.kept.clock[CHANGES]
    count_list(a)
    mark_representatives(a)
    if carry_out_option(a, likeliest(a, scores)):
        return True
    for _ in range(rules.at_once - 1):
        if rules.gang >= 0 or rules.decision >= rules.max_decisions or rules.turn == TAKES_TURNS:
            break
        find_substitutes(a, since)
        option = likeliest_apart(a, scores, since)
        if option < 0 or a.what[option, OPTION_ACTION] == WAIT:
            break
        rules.decisions += 1
        j, n = a.job_ids[a.what[option, OPTION_ROW]], a.what[option, OPTION_NODE]
        if a.kept.changed_nodes[n] > since:
            n = a.seen[a.classes[n]]
        change_draft(a, a.what[option, OPTION_ACTION], j, n, a.what[option, OPTION_AMOUNT])
    return finish_decision(a)


@leaf
def mark_representatives(a: OptionArrays) -> None:
    """Mark the nodes that have options for all their equals."""
    for n in range(len(a.world.nodes)):
        if a.equals_before[n] == 0 and a.world.nodes[n].num_jobs == 0 and a.rules[0].distinct_nodes:
            a.equals_before[n] = STANDS_FOR_OTHERS


@leaf
def find_substitutes(a: OptionArrays, since: int) -> None:
    """Write to `seen` the first node of each class whose options another one has, and that is still empty; else -1."""
    for i in range(len(a.seen)):
        a.seen[i] = -1
    for n in range(len(a.world.nodes)):
        is_left = a.equals_before[n] == 1 and a.kept.changed_nodes[n] <= since
        if is_left and a.seen[a.classes[n]] < 0:
            a.seen[a.classes[n]] = n


@leaf
def likeliest_apart(a: OptionArrays, scores: FloatArray, since: int) -> int:
    """Return the likeliest option that touches no job and no node changed since, and begins no gang; -1 for none.

    It may be waiting. Sharing touches a second job, and is left to the next scoring.
    """
    best = -1
    for option in range(a.rules[0].num_options):
        if best >= 0 and scores[option] <= scores[best]:
            continue
        action = a.what[option, OPTION_ACTION]
        if action != WAIT:
            j, n = a.job_ids[a.what[option, OPTION_ROW]], a.what[option, OPTION_NODE]
            job = a.world.jobs[j]
            if action == SHARE or a.kept.changed_jobs[j] > since:
                continue
            if action in (START, JOIN) and job.gpus + a.what[option, OPTION_AMOUNT] < job.min_gpus:
                continue
            if a.kept.changed_nodes[n] > since and not (
                a.equals_before[n] == STANDS_FOR_OTHERS and a.seen[a.classes[n]] >= 0
            ):
                continue
        best = option
    return best


@kernel
def decide_likeliest(batch: OptionArrays, b: int, scores: FloatArray) -> bool:
    """Carry out what has the highest scores, float64 by the places of the options; return whether the round is over."""
    a = option_arrays(batch, b)
    prepare(a)
    return take_likeliest(a, scores)
