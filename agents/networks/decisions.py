"""Several decisions with all their options as tensors: what networks for options see."""

from typing import NamedTuple

import torch


class Decisions(NamedTuple):
    """Several decisions with all their options, rows one after another.

    Attributes:
        options: float32[M, columns], of all decisions.
        decision_of: int64[M], the decision of each option, ascending.
        job_of: int64[M], its row of `jobs`; -1 for waiting.
        node_of: int64[M], its row of `nodes`; -1 for waiting where one option of all is chosen.
        choice_of: int64[M], the choice of each option, ascending: that of its decision, or of its node where nodes act
            together.
        choice_decision: int64[C], the decision of each choice.
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
    choice_of: torch.Tensor
    choice_decision: torch.Tensor
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


def segment_log_softmax(scores: torch.Tensor, segment: torch.Tensor, count: int) -> torch.Tensor:
    """Return the logarithm of the softmax over each of `count` segments of `scores` float32[M]."""
    highest = torch.full((count,), -torch.inf).scatter_reduce(0, segment, scores.detach(), "amax")
    shifted = scores - highest[segment]
    total = torch.zeros(count).index_add(0, segment, shifted.exp())
    return shifted - total.log()[segment]
