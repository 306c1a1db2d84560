"""A trained network's priorities of waiting jobs, for an integer program that places them."""

from typing import Any

import numpy as np
import torch

from agents.networks.decisions import Decisions
from envs.options import OptionRound, OptionRules, OptionSpec
from envs.options.columns import OPTION_START, OPTION_WAIT
from envs.scheduling import ClusterView
from envs.simulation import SimulationView
from envs.types import FloatArray, IntArray


class LearnedPriorities:
    """Scores of the candidates at the beginning of a round, as `baselines.rltune.Priorities` says.

    A weight is a job's probability under the softmax over jobs. Jobs that score lower than waiting shall not start,
    where the environment offers waiting.

    Args:
        network: a `JobPriority`.
        rules: those with which it was trained.
    """

    def __init__(self, network: Any, rules: OptionRules) -> None:
        self.network, self.rules = network, rules
        self.reset()

    def reset(self) -> None:
        """Begin an episode."""
        self._round = OptionRound(self.rules)

    @torch.inference_mode()
    def rank(self, view: ClusterView) -> tuple[IntArray, FloatArray]:
        """Return jobs int64[n] by falling priority, and their positive weights float64[n]; none if none can start."""
        assert isinstance(view, SimulationView), "a policy observes a snapshot of the compiled engine"
        if not self._round.begin(view):
            return np.zeros(0, np.int64), np.zeros(0)
        found = self._round.options()
        count, spec = len(found.job_ids), OptionSpec()
        options = torch.zeros(count + 1, spec.option_features)
        options[0, OPTION_WAIT] = 1.0
        options[1:, OPTION_START] = 1.0
        decision = torch.zeros(count + 1, dtype=torch.int64)
        scores = self.network.scores(
            Decisions(
                options=options,
                decision_of=decision,
                job_of=torch.arange(-1, count),
                node_of=decision - torch.eye(1, count + 1, dtype=torch.int64)[0],
                choice_of=decision,
                choice_decision=decision[:1],
                first=torch.zeros(1, dtype=torch.int64),
                jobs=torch.from_numpy(found.jobs),
                job_decision=decision[1:],
                nodes=torch.from_numpy(found.nodes),
                node_decision=torch.zeros(len(found.nodes), dtype=torch.int64),
                cluster=torch.from_numpy(found.cluster)[None],
            )
        )
        weights = torch.softmax(scores[1:], 0).double().numpy()
        offered = bool(found.options[0, OPTION_WAIT])
        able = np.flatnonzero(scores[1:].numpy() >= float(scores[0])) if offered else np.arange(count)
        order = able[np.lexsort((found.job_ids[able], -weights[able]))]
        return found.job_ids[order], np.maximum(weights[order], 1e-12)
