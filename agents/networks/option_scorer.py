"""The option scorer: one hidden layer over an option with its job, its node and the cluster."""

import numpy as np
import numpy.typing as npt
import torch
from torch import nn

from agents.networks.decisions import Decisions
from envs.options import OptionSpec
from envs.options.columns import JOB_RUNS, OPTION_START
from envs.types import MurmurationError


class OptionScorer(nn.Module):
    """Scores of options by one hidden layer, the same for all nodes. It also acts compiled, see `score_options`.

    A score is `output . relu(option W_o + job W_j + node W_n + cluster W_c + bias)`; waiting has no job, and a node
    only where nodes act together.

    Args:
        spec: sizes of the rows.
        hidden: units of the hidden layer.
        output_scale: spread of the initial output weights; small values begin near the uniform policy.
        reluctance: by how much lower the options that change a running job (resize, move, evict, further nodes) score
            at first. A uniform policy would restart jobs in every round; its episodes are many times as long.

    Raises:
        MurmurationError: there is no unit.
    """

    def __init__(self, spec: OptionSpec, hidden: int = 24, output_scale: float = 0.05, reluctance: float = 8.0) -> None:
        super().__init__()
        if hidden < 1:
            raise MurmurationError(f"network: hidden is {hidden}; it must be at least 1")
        self.hidden, self.output_scale, self.reluctance = hidden, output_scale, reluctance
        sizes = (spec.option_features, spec.job_features, spec.node_features, spec.cluster_features)
        self.parts = nn.ParameterList([nn.Parameter(torch.randn(size, hidden) / 10**0.5) for size in sizes])
        self.bias = nn.Parameter(torch.zeros(hidden))
        self.output = nn.Parameter(torch.randn(hidden) * output_scale)
        if reluctance:
            self._begin_reluctant()

    @torch.no_grad()
    def _begin_reluctant(self) -> None:
        """Make the first unit 1 for options that change a running job, and 0 for the others."""
        for part in self.parts:
            part[:, 0] = 0.0
        of_option, of_job, _, _ = self.parts
        of_job[JOB_RUNS, 0] = 1.0
        of_option[OPTION_START, 0] = -1.0  # of a job that was evicted in this round
        self.output[0] = -self.reluctance

    def layers(self) -> list[torch.Tensor]:
        """Return the weights of the hidden layer, float32[columns, hidden], by kind of row."""
        return list(self.parts)

    def scores(self, decisions: Decisions) -> torch.Tensor:
        """Return float32[M], the score of every option."""
        of_option, of_job, of_node, of_cluster = self.layers()
        none = torch.zeros(1, self.hidden)
        jobs = torch.cat((decisions.jobs @ of_job, none))  # index -1, of waiting, is the last row
        nodes = torch.cat((decisions.nodes @ of_node, none))
        common = decisions.cluster @ of_cluster + self.bias
        hidden = decisions.options @ of_option
        hidden = hidden + jobs.index_select(0, decisions.job_of % len(jobs))
        hidden = hidden + nodes.index_select(0, decisions.node_of % len(nodes))
        hidden = hidden + common.index_select(0, decisions.decision_of)
        return torch.relu(hidden) @ self.output

    def flat(self) -> npt.NDArray[np.float32]:
        """Return all weights float32[1, num_weights], for compiled code."""
        pieces = [*self.layers(), self.bias, self.output]
        return np.concatenate([piece.detach().numpy().ravel() for piece in pieces])[None]
