"""Choices of nodes that act at the same time: how they are drawn from scores, and what is recorded of them."""

import numpy as np

from agents.policies.options.tape import RECORDS, TapeArrays, note_moment, record_chosen, record_rows
from envs.options.arrays import OptionArrays
from envs.options.by_node import PRIME, drawn_rank
from envs.options.carrying import forget_kept_rows
from envs.options.together import act_together
from envs.simulation.compiled.jit import leaf
from envs.types import FloatArray


@leaf
def draw_of(draw: float, n: int) -> float:
    """Return the random number of one node, given that of the decision; both lie in 0 to 1."""
    return drawn_rank(int(draw * PRIME), 0, n)


@leaf
def choose_by_node(a: OptionArrays, scores: FloatArray, temperature: float, draw: float) -> None:
    """Let every node choose one of its options: by the softmax over their scores, or the likeliest at temperature 0.

    Args:
        a: the episode, with options listed by node; choices, scores and probabilities are written to its `joint`.
        scores: float64[capacity], of the listed options.
        temperature: of the softmax.
        draw: a uniform random number.
    """
    joint = a.joint
    for option in range(a.rules[0].num_options):
        joint.scores[option] = scores[option]
    for n in range(len(a.nodes)):
        first, end = joint.first[n], joint.first[n + 1]
        joint.chosen[n] = -1
        if first == end:
            continue
        best = first
        for option in range(first + 1, end):
            if scores[option] > scores[best]:
                best = option
        joint.chosen[n] = best
        joint.log_probability[n] = 0.0
        if temperature > 0:
            total = 0.0
            for option in range(first, end):
                total += np.exp((scores[option] - scores[best]) / temperature)
            wanted, passed, option = draw_of(draw, n) * total, 0.0, first
            while option < end:
                passed += np.exp((scores[option] - scores[best]) / temperature)
                if passed > wanted or option == end - 1:
                    break
                option += 1
            joint.chosen[n] = option
            joint.log_probability[n] = (scores[option] - scores[best]) / temperature - np.log(total)


@leaf
def record_choices(tape: TapeArrays, a: OptionArrays, draw: float) -> None:
    """Record the rows of the decision whose moment was noted last, and what each node has chosen."""
    record_rows(tape, a, draw)
    for n in range(len(a.nodes)):
        if a.joint.chosen[n] >= 0:
            record_chosen(tape, a.joint.chosen[n], a.joint.log_probability[n])


@leaf
def record_lost(tape: TapeArrays, a: OptionArrays) -> None:
    """Note in the last record which claims got nothing, after they were settled."""
    c = tape.first_choice[tape.counts[RECORDS] - 1]
    for n in range(len(a.nodes)):
        if a.joint.chosen[n] >= 0:
            tape.lost[c] = a.joint.lost[n]
            c += 1


@leaf
def decide_by_node(
    a: OptionArrays,
    scores: FloatArray,
    b: int,
    temperature: float,
    draw: float,
    second_draw: float,
    limit: float,
    tape: TapeArrays,
) -> bool:
    """Let every node choose, and carry out what they choose; return whether the round is over.

    Args:
        a: the episode.
        scores: float64[capacity], of the listed options.
        b: its number on the tape.
        temperature: of the softmax over scores; at 0 nothing is noted.
        draw: decides what is chosen.
        second_draw: below `limit` the decision is recorded.
        limit: see `second_draw`.
        tape: extended.
    """
    choose_by_node(a, scores, temperature, draw)
    is_recorded = temperature > 0 and second_draw < limit
    if temperature > 0:
        note_moment(tape, a, b)
    if is_recorded:
        record_choices(tape, a, second_draw)
    is_over = act_together(a)
    forget_kept_rows(a)  # they are in another order in the next list
    if is_recorded:
        record_lost(tape, a)
    return is_over
