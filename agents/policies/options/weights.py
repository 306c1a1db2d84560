"""The weights and the working memory of the option scorer in compiled code."""

from typing import NamedTuple

import numpy as np
import numpy.typing as npt

from envs.episodes.candidates import Features
from envs.options.arrays import OPTION_NODE, OPTION_ROW, OptionArrays
from envs.options.carrying import HALF
from envs.options.columns import CHANGING_JOB
from envs.simulation.compiled.by_reference import by_reference
from envs.simulation.compiled.jit import leaf
from envs.types import IntArray


@by_reference
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


def scorer_arrays(flat: npt.NDArray[np.floating], variant: IntArray, batch: OptionArrays) -> ScorerArrays:
    """Allocate arrays for scorers with these weights.

    Args:
        flat: [V, (columns + 2) H], in the order of the fields of `ScorerArrays`; columns are those of all rows.
        variant: int64[B].
        batch: the environment that they play.
    """
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
            total += max(value, np.float32(0.0)) * s.output[v, h]
        s.scores[option] = total
