"""The weights and the working memory of networks that act compiled."""

from typing import NamedTuple, Protocol, TypeGuard, runtime_checkable

import numpy as np
import numpy.typing as npt

from agents.networks.option_claims import ClaimWeights
from agents.policies.options.messages import MessageArrays, begin_option, exchange_claims, message_arrays
from envs.episodes.candidates import Features
from envs.options.arrays import OPTION_NODE, OPTION_ROW, OptionArrays
from envs.options.carrying import HALF
from envs.options.columns import CHANGING_JOB
from envs.simulation.compiled.jit import leaf
from envs.types import IntArray


class ScorerArrays(NamedTuple):
    """Weights of one or several scorers, and memory for one decision.

    Attributes:
        variant: int64[B], the scorer that plays each episode.
        options, jobs, nodes, cluster: float32[V, columns, H], weights of the hidden layer by kind of row.
        bias, output: float32[V, H].
        option_sums, job_sums: float32[2, capacity, H] and float32[2, rows, H], the parts of the hidden layer by option
            and job, of the present decision (`KeptRows.clock`) and of the one before; without the columns that every
            decision changes.
        node_sums: float32[num_nodes, H], the same by node.
        common: float32[H], the part of the cluster and the bias.
        hidden: float32[H], the parts that the options of a job share.
        scores: float64[capacity].
        messages: see `MessageArrays`.
    """

    variant: IntArray
    options: Features
    jobs: Features
    nodes: Features
    cluster: Features
    bias: Features
    output: Features
    option_sums: Features
    job_sums: Features
    node_sums: Features
    common: Features
    hidden: Features
    scores: npt.NDArray[np.float64]
    messages: MessageArrays


@runtime_checkable
class ActsCompiled(Protocol):
    """A network whose choices compiled code can make: one hidden layer, see `score_options`."""

    def flat(self) -> Features:
        """Return all weights float32[1, num_weights], in the order of `ScorerArrays`."""
        ...


@runtime_checkable
class SendsClaims(ActsCompiled, Protocol):
    """The same for a network whose nodes send messages, which compiled code does where nodes act together."""

    def claim_weights(self) -> ClaimWeights:
        """Return the weights of the messages."""
        ...


def acts_compiled(network: object, turn: str) -> TypeGuard[ActsCompiled]:
    """Whether compiled code can make a network's choices under a rule of turn."""
    return isinstance(network, ActsCompiled) and (turn == "together" or not isinstance(network, SendsClaims))


def scorer_arrays(network: ActsCompiled, batch_size: int, batch: OptionArrays) -> ScorerArrays:
    """Allocate arrays for a network that plays all episodes.

    Args:
        network: its weights are copied.
        batch_size: episodes.
        batch: the environment that they play.
    """
    flat, variant = network.flat(), np.zeros(batch_size, np.int64)
    count, size = flat.shape
    inputs = [batch.options.shape[1], batch.jobs.shape[1], batch.nodes.shape[1], len(batch.cluster)]
    hidden = size // (sum(inputs) + 2)
    ends = np.cumsum([columns * hidden for columns in inputs])
    parts = np.split(flat, [*ends, ends[-1] + hidden], axis=1)
    options, jobs, nodes, cluster = (
        np.ascontiguousarray(part.reshape(count, columns, hidden), np.float32)
        for part, columns in zip(parts[:4], inputs, strict=True)
    )
    return ScorerArrays(
        variant,
        options,
        jobs,
        nodes,
        cluster,
        np.ascontiguousarray(parts[4], np.float32),
        np.ascontiguousarray(parts[5], np.float32),
        np.zeros((2, len(batch.what), hidden), np.float32),
        np.zeros((2, len(batch.jobs), hidden), np.float32),
        np.zeros((len(batch.nodes), hidden), np.float32),
        np.zeros(hidden, np.float32),
        np.zeros(hidden, np.float32),
        np.zeros(len(batch.what)),
        message_arrays(network.claim_weights() if isinstance(network, SendsClaims) else None, batch),
    )


@leaf
def add_column(value: float, weights: Features, out: Features) -> None:
    """Add a value times its weights [H] to `out` [H]; a zero is skipped."""
    if value != 0.0:
        for h in range(len(out)):
            out[h] += value * weights[h]


@leaf
def add_product(row: Features, weights: Features, out: Features) -> None:
    """Add row [columns] times weights [columns, H] to `out` [H]."""
    for i in range(len(row)):
        add_column(row[i], weights[i], out)


@leaf
def sum_row(row: Features, weights: Features, changing: tuple[int, ...], out: Features) -> None:
    """Write row [columns] times weights [columns, H], without some columns, to `out` [H]."""
    for h in range(len(out)):
        out[h] = 0.0
    for i in range(len(row)):
        if i not in changing:
            add_column(row[i], weights[i], out)


@leaf
def carry_sums(a: OptionArrays, s: ScorerArrays, v: int) -> None:
    """Write the parts of the hidden layer; copy those of rows that equal one of the decision before."""
    units, now = len(s.common), a.kept.clock[HALF]
    for row in range(a.rules[0].num_jobs):
        before = a.kept.job_before[row]
        if before < 0:
            sum_row(a.jobs[row], s.jobs[v], CHANGING_JOB, s.job_sums[now, row])
        else:
            for h in range(units):
                s.job_sums[now, row, h] = s.job_sums[1 - now, before, h]
    for option in range(a.rules[0].num_options):
        before = a.kept.option_before[option]
        if before < 0:
            sum_row(a.options[option], s.options[v], (-1,), s.option_sums[now, option])
        else:
            for h in range(units):
                s.option_sums[now, option, h] = s.option_sums[1 - now, before, h]
    for n in range(len(a.nodes)):
        if a.kept.node_before[n] < 0:
            sum_row(a.nodes[n], s.nodes[v], (-1,), s.node_sums[n])


@leaf
def add_job(a: OptionArrays, s: ScorerArrays, v: int, row: int) -> None:
    """Write to `hidden` what is common to all options of a job; -1 for `row` is waiting, which has none."""
    for h in range(len(s.common)):
        s.hidden[h] = s.common[h]
        if row >= 0:
            s.hidden[h] += s.job_sums[a.kept.clock[HALF], row, h]
    if row >= 0:
        for i in CHANGING_JOB:
            add_column(a.jobs[row, i], s.jobs[v, i], s.hidden)


@leaf
def score_options(a: OptionArrays, s: ScorerArrays, v: int) -> None:
    """Write the scores of all listed options with the weights of scorer `v`, after `carry_features`."""
    units, now = len(s.common), a.kept.clock[HALF]
    carry_sums(a, s, v)
    for h in range(units):
        s.common[h] = s.bias[v, h]
    add_product(a.cluster, s.cluster[v], s.common)
    row = -2
    for option in range(a.rules[0].num_options):
        if a.what[option, OPTION_ROW] != row:
            row = a.what[option, OPTION_ROW]
            add_job(a, s, v, row)
        n, total = a.what[option, OPTION_NODE], 0.0
        for h in range(units):
            value = s.hidden[h] + s.option_sums[now, option, h]
            if n >= 0:  # waiting has a node where nodes act together
                value += s.node_sums[n, h]
            value = max(value, np.float32(0.0))
            total += value * s.output[v, h]
            if h < len(s.messages.state):
                s.messages.state[h] = value
        s.scores[option] = total
        if s.messages.rounds[0] > 0:
            begin_option(a, s.messages, option, s.scores)
    if s.messages.rounds[0] > 0:
        exchange_claims(a, s.messages, s.scores)
