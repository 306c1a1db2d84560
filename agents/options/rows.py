"""Minibatches of recorded decisions as tensors: the form in which networks see options."""

from typing import NamedTuple

import numpy as np
import torch

from agents.options.lesson import Lesson
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
        nodes: float32[N, columns], all nodes of all decisions.
        node_decision: int64[N], the decision of each node, ascending.
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
    node_decision: torch.Tensor
    cluster: torch.Tensor

    @property
    def num_decisions(self) -> int:
        """Number of decisions."""
        return len(self.first)


class Rows(NamedTuple):
    """Where the rows of each decision of a lesson begin; int64[D] each."""

    options: IntArray
    jobs: IntArray
    nodes: IntArray

    @classmethod
    def of(cls, lesson: Lesson) -> "Rows":
        """Return the places for a lesson."""
        return cls(*(np.cumsum(n) - n for n in (lesson.num_options, lesson.num_jobs, lesson.num_nodes)))


def gather(lesson: Lesson, rows: Rows, chosen: IntArray) -> Decisions:
    """Return some decisions of a lesson as one minibatch.

    Args:
        lesson: all decisions.
        rows: where their rows begin.
        chosen: int64[D], which decisions.
    """
    options, first = ranges(rows.options[chosen], lesson.num_options[chosen])
    jobs, first_job = ranges(rows.jobs[chosen], lesson.num_jobs[chosen])
    nodes, first_node = ranges(rows.nodes[chosen], lesson.num_nodes[chosen])
    decision = np.repeat(np.arange(len(chosen)), lesson.num_options[chosen])
    job_of, node_of = lesson.job_of[options], lesson.node_of[options]
    return Decisions(
        torch.from_numpy(lesson.options[options]),
        torch.from_numpy(decision),
        torch.from_numpy(np.where(job_of < 0, -1, job_of + first_job[decision])),
        torch.from_numpy(np.where(node_of < 0, -1, node_of + first_node[decision])),
        torch.from_numpy(first),
        torch.from_numpy(lesson.jobs[jobs]),
        torch.from_numpy(np.repeat(np.arange(len(chosen)), lesson.num_jobs[chosen])),
        torch.from_numpy(lesson.nodes[nodes]),
        torch.from_numpy(np.repeat(np.arange(len(chosen)), lesson.num_nodes[chosen])),
        torch.from_numpy(lesson.cluster[chosen]),
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
