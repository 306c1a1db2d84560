"""Minibatches of recorded decisions as tensors: the form in which networks see options."""

from typing import NamedTuple

import numpy as np
import torch

from agents.options.tape import TapeArrays
from envs.types import IntArray


class Decisions(NamedTuple):
    """Several decisions with all their options, rows one after another.

    Attributes:
        options: float32[M, columns], of all decisions.
        decision_of: int64[M], the decision of each option, ascending.
        job_of: int64[M], its row of `jobs`; -1 for waiting.
        node_of: int64[M], its row of `nodes`; -1 for waiting.
        first: int64[D], the first option of each decision.
        jobs: float32[J, columns].
        job_decision: int64[J], the decision of each job, ascending.
        nodes: float32[D * num_nodes, columns], the nodes of each decision.
        cluster: float32[D, columns].
    """

    options: torch.Tensor
    decision_of: torch.Tensor
    job_of: torch.Tensor
    node_of: torch.Tensor
    first: torch.Tensor
    jobs: torch.Tensor
    job_decision: torch.Tensor
    nodes: torch.Tensor
    cluster: torch.Tensor

    @property
    def num_decisions(self) -> int:
        """Number of decisions."""
        return len(self.first)


def gather(tape: TapeArrays, records: IntArray) -> Decisions:
    """Return some records of a tape as one minibatch.

    Args:
        tape: the records.
        records: int64[D], which ones.
    """
    counts, job_counts = tape.num_options[records], tape.num_jobs[records]
    rows, first = ranges(tape.first_option[records], counts)
    job_rows, first_job = ranges(tape.first_job[records], job_counts)
    decision = np.repeat(np.arange(len(records)), counts)
    job_of, node_of = tape.job_of[rows], tape.node_of[rows]
    num_nodes = tape.nodes.shape[1]
    return Decisions(
        torch.from_numpy(tape.options[rows]),
        torch.from_numpy(decision),
        torch.from_numpy(np.where(job_of < 0, -1, job_of + first_job[decision])),
        torch.from_numpy(np.where(node_of < 0, -1, node_of + decision * num_nodes)),
        torch.from_numpy(first),
        torch.from_numpy(tape.jobs[job_rows]),
        torch.from_numpy(np.repeat(np.arange(len(records)), job_counts)),
        torch.from_numpy(tape.nodes[records].reshape(len(records) * num_nodes, -1)),
        torch.from_numpy(tape.cluster[records]),
    )


def ranges(first: IntArray, counts: IntArray) -> tuple[IntArray, IntArray]:
    """Return the concatenation of first[i] ... first[i] + counts[i] - 1, and where each range begins in it."""
    begins = np.cumsum(counts) - counts
    return np.repeat(first - begins, counts) + np.arange(int(counts.sum())), begins


def segment_log_softmax(scores: torch.Tensor, segment: torch.Tensor, count: int) -> torch.Tensor:
    """Return the logarithm of the softmax over each of `count` segments of `scores` float32[M]."""
    highest = torch.full((count,), -torch.inf).scatter_reduce(0, segment, scores.detach(), "amax")
    shifted = scores - highest[segment]
    total = torch.zeros(count).index_add(0, segment, shifted.exp())
    return shifted - total.log()[segment]
