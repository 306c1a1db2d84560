"""The weights and the working memory of the option scorer in compiled code."""

from typing import NamedTuple

import numpy as np
import numpy.typing as npt

from envs.episodes.candidates import Features
from envs.options.arrays import OptionArrays
from envs.options.columns import NUM_CLUSTER_COLUMNS, NUM_JOB_COLUMNS, NUM_NODE_COLUMNS, NUM_OPTION_COLUMNS
from envs.simulation.by_reference import by_reference
from envs.simulation.jit import leaf
from envs.types import IntArray

INPUTS = (NUM_OPTION_COLUMNS, NUM_JOB_COLUMNS, NUM_NODE_COLUMNS, NUM_CLUSTER_COLUMNS)


@by_reference
class ScorerArrays(NamedTuple):
    """Weights of one or several scorers, and memory for one decision.

    Attributes:
        variant: int64[B], the scorer that plays each episode.
        options, jobs, nodes, cluster: float32[V, columns, H], weights of the hidden layer by kind of row.
        bias, output: float32[V, H].
        job_sums, node_sums: float32[rows, H] and float32[num_nodes, H], the parts of the hidden layer by job and node.
        common: float32[H], the part of the cluster and the bias.
        hidden: float32[H].
        scores: float64[capacity].
    """

    variant: IntArray
    options: Features
    jobs: Features
    nodes: Features
    cluster: Features
    bias: Features
    output: Features
    job_sums: Features
    node_sums: Features
    common: Features
    hidden: Features
    scores: npt.NDArray[np.float64]


def num_weights(hidden: int) -> int:
    """Number of weights of a scorer with so many hidden units."""
    return (sum(INPUTS) + 2) * hidden


def scorer_arrays(flat: npt.NDArray[np.floating], variant: IntArray, batch: OptionArrays) -> ScorerArrays:
    """Allocate arrays for scorers with these weights.

    Args:
        flat: [V, num_weights(H)], in the order of the fields of `ScorerArrays`.
        variant: int64[B].
        batch: the environment that they play.
    """
    count, size = flat.shape
    hidden = size // (sum(INPUTS) + 2)
    ends = np.cumsum([columns * hidden for columns in INPUTS])
    parts = np.split(flat, [*ends, ends[-1] + hidden], axis=1)
    options, jobs, nodes, cluster = (
        np.ascontiguousarray(part.reshape(count, columns, hidden), np.float32)
        for part, columns in zip(parts[:4], INPUTS, strict=True)
    )
    return ScorerArrays(
        variant,
        options,
        jobs,
        nodes,
        cluster,
        np.ascontiguousarray(parts[4], np.float32),
        np.ascontiguousarray(parts[5], np.float32),
        np.zeros((len(batch.jobs), hidden), np.float32),
        np.zeros((len(batch.nodes), hidden), np.float32),
        np.zeros(hidden, np.float32),
        np.zeros(hidden, np.float32),
        np.zeros(len(batch.what)),
    )


@leaf
def add_product(row: Features, weights: Features, out: Features) -> None:
    """Add row [columns] times weights [columns, H] to `out` [H]; zeros are skipped."""
    for i in range(len(row)):
        value = row[i]
        if value != 0.0:
            for h in range(len(out)):
                out[h] += value * weights[i, h]


@leaf
def score_options(a: OptionArrays, s: ScorerArrays, v: int) -> None:
    """Write the scores of all listed options, whose feature rows are there, with the weights of scorer `v`."""
    for h in range(len(s.common)):
        s.common[h] = s.bias[v, h]
    add_product(a.cluster, s.cluster[v], s.common)
    for n in range(len(a.nodes)):
        for h in range(len(s.common)):
            s.node_sums[n, h] = 0.0
        add_product(a.nodes[n], s.nodes[v], s.node_sums[n])
    for row in range(a.rules[0].num_jobs):
        for h in range(len(s.common)):
            s.job_sums[row, h] = 0.0
        add_product(a.jobs[row], s.jobs[v], s.job_sums[row])
    for option in range(a.rules[0].num_options):
        row, n = a.what[option, 1], a.what[option, 2]
        for h in range(len(s.common)):
            s.hidden[h] = s.common[h]
        if row >= 0:
            for h in range(len(s.common)):
                s.hidden[h] += s.job_sums[row, h]
        if n >= 0:
            for h in range(len(s.common)):
                s.hidden[h] += s.node_sums[n, h]
        add_product(a.options[option], s.options[v], s.hidden)
        total = 0.0
        for h in range(len(s.common)):
            total += max(s.hidden[h], np.float32(0.0)) * s.output[v, h]
        s.scores[option] = total
