"""The messages of `OptionClaims` in compiled code: what nodes tell each other of jobs before they choose."""

from typing import NamedTuple

import numpy as np

from agents.networks.option_claims import NOBODY, NUM_HEARD, ClaimWeights
from envs.episodes.candidates import Features
from envs.options.arrays import OPTION_ACTION, OPTION_ROW, OptionArrays
from envs.options.columns import JOB_RUNS, OPTION_START, WAIT
from envs.simulation.compiled.jit import leaf, part
from envs.types import FloatArray, IntArray


class MessageArrays(NamedTuple):
    """Weights of the corrections that follow from messages, and memory for one decision; empty without messages.

    Attributes:
        rounds: int64[1], of messages.
        constants: float64[3], the bias of first scores, the reluctance, and the bias of corrections.
        of_state, of_heard: float32[H, H] and float32[NUM_HEARD, H], weights of the correction's hidden layer.
        bias, output: float32[H], of that layer and after it.
        state: float32[H], of one option.
        fixed: float32[capacity, H], the part of the hidden layer that no message changes, by option.
        first: float64[capacity], the first score of each option.
        claim: float64[capacity], the probability with which its node would choose each option.
        waiting: float64[num_nodes], the score of each node's waiting, 0 where it may not wait.
        top, second, demand: float64[num_rows], by job: the two highest margins of nodes, and the sum of probabilities.
        leader: int64[num_rows], the node with the highest margin, of equals the lowest; -1 for none.
        heard: float32[NUM_HEARD].
    """

    rounds: IntArray
    constants: FloatArray
    of_state: Features
    of_heard: Features
    bias: Features
    output: Features
    state: Features
    fixed: Features
    first: FloatArray
    claim: FloatArray
    waiting: FloatArray
    top: FloatArray
    second: FloatArray
    demand: FloatArray
    leader: IntArray
    heard: Features


def message_arrays(weights: ClaimWeights | None, batch: OptionArrays) -> MessageArrays:
    """Allocate arrays for these weights; None where nodes send no messages."""
    rows, nodes = (len(batch.jobs), len(batch.nodes)) if weights else (0, 0)
    capacity, given = (len(batch.what) if weights else 0), weights or ClaimWeights.none()
    hidden = len(given.bias)
    return MessageArrays(
        np.array([given.rounds]),
        np.array([given.first_bias, given.reluctance, given.last_bias]),
        of_state=np.ascontiguousarray(given.of_state, np.float32),
        of_heard=np.ascontiguousarray(given.of_heard, np.float32),
        bias=np.ascontiguousarray(given.bias, np.float32),
        output=np.ascontiguousarray(given.output, np.float32),
        state=np.zeros(hidden, np.float32),
        fixed=np.zeros((capacity, hidden), np.float32),
        first=np.zeros(capacity),
        claim=np.zeros(capacity),
        waiting=np.zeros(nodes),
        top=np.zeros(rows),
        second=np.zeros(rows),
        demand=np.zeros(rows),
        leader=np.zeros(rows, np.int64),
        heard=np.zeros(NUM_HEARD, np.float32),
    )


@leaf
def begin_option(a: OptionArrays, m: MessageArrays, option: int, scores: FloatArray) -> None:
    """Complete the first score of an option whose `state` was written, and keep what messages do not change."""
    row, runs = a.what[option, OPTION_ROW], 0.0
    if row >= 0:
        runs = a.jobs[row, JOB_RUNS]
    scores[option] += m.constants[0] - m.constants[1] * max(runs - a.options[option, OPTION_START], 0.0)
    m.first[option] = scores[option]
    for k in range(len(m.bias)):
        m.fixed[option, k] = m.bias[k]
    for h in range(len(m.state)):
        if m.state[h] > 0:
            for k in range(len(m.bias)):
                m.fixed[option, k] += m.state[h] * m.of_state[h, k]


@part
def exchange_claims(a: OptionArrays, m: MessageArrays, scores: FloatArray) -> None:
    """Correct the scores of options, which are listed by node and then by job, by what nodes tell each other."""
    for _ in range(m.rounds[0]):
        for row in range(a.rules[0].num_jobs):
            m.top[row], m.second[row], m.demand[row], m.leader[row] = NOBODY, NOBODY, 0.0, -1
        for n in range(len(a.nodes)):
            tell_claims(a, m, n, scores)
        for n in range(len(a.nodes)):
            correct_scores(a, m, n, scores)


@leaf
def tell_claims(a: OptionArrays, m: MessageArrays, n: int, scores: FloatArray) -> None:
    """Enter what a node tells of its jobs: the margin of its best option, and the probability that it claims it."""
    first, end = a.joint.first[n], a.joint.first[n + 1]
    if first == end:
        return
    highest, total = scores[first], 0.0
    m.waiting[n] = scores[first] if a.what[first, OPTION_ACTION] == WAIT else 0.0
    for option in range(first, end):
        highest = max(highest, scores[option])
    for option in range(first, end):
        m.claim[option] = np.exp(scores[option] - highest)
        total += m.claim[option]
    for option in range(first, end):
        m.claim[option] /= total
    option = first
    while option < end:
        row, last = a.what[option, OPTION_ROW], job_end(a, option, end)
        if row >= 0:
            margin = best_margin(m, n, option, last, scores)
            if margin > m.top[row] or m.leader[row] < 0:
                m.second[row], m.top[row], m.leader[row] = m.top[row], margin, n
            else:
                m.second[row] = max(m.second[row], margin)
            for i in range(option, last):
                m.demand[row] += m.claim[i]
        option = last


@leaf
def correct_scores(a: OptionArrays, m: MessageArrays, n: int, scores: FloatArray) -> None:
    """Correct the scores of a node's options by what it hears of their jobs."""
    option, end = a.joint.first[n], a.joint.first[n + 1]
    while option < end:
        row, last = a.what[option, OPTION_ROW], job_end(a, option, end)
        for i in range(NUM_HEARD):
            m.heard[i] = 0.0
        if row >= 0:
            leads, margin, own = m.leader[row] == n, best_margin(m, n, option, last, scores), 0.0
            others = m.second[row] if leads else m.top[row]
            for i in range(option, last):
                own += m.claim[i]
            m.heard[0] = min(max(others, NOBODY), -NOBODY) / 8.0
            m.heard[1] = min(max(margin - others, -8.0), 8.0) / 4.0
            m.heard[2] = 1.0 if leads else 0.0
            m.heard[3] = m.demand[row] - own
        for i in range(option, last):
            scores[i] = m.first[i] + correction(m, i)
        option = last


@leaf
def job_end(a: OptionArrays, option: int, end: int) -> int:
    """Return the place after the options of a node about the same job."""
    last = option + 1
    while last < end and a.what[last, OPTION_ROW] == a.what[option, OPTION_ROW]:
        last += 1
    return last


@leaf
def best_margin(m: MessageArrays, n: int, option: int, last: int, scores: FloatArray) -> float:
    """Return the highest margin of some options of a node over its waiting."""
    best = scores[option]
    for i in range(option + 1, last):
        best = max(best, scores[i])
    return float(max(best - m.waiting[n], NOBODY))


@leaf
def correction(m: MessageArrays, option: int) -> float:
    """Return what is added to the first score of an option whose node has `heard` of its job."""
    total = m.constants[2]
    for k in range(len(m.output)):
        value = m.fixed[option, k]
        for i in range(NUM_HEARD):
            value += m.heard[i] * m.of_heard[i, k]
        total += max(value, np.float32(0.0)) * m.output[k]
    return float(total)
