"""Validation of a policy that chooses options: many workloads in one batch."""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from agents.options.group_ppo import OptionTask
from agents.options.playing import Player
from agents.validation import VALIDATION_SEED, validation_workloads
from envs.evaluation.playing import workload_seed
from envs.types import FloatArray
from envs.workloads import Workload

MODES = {"greedy": 0.0, "sampled": 1.0}  # temperatures at which policies are validated


@dataclass
class Validation:
    """The validation workloads of one task, and memory to play them.

    Args:
        task: the task.
        count: number of distinct workloads.
    """

    task: OptionTask
    count: int

    def __post_init__(self) -> None:
        self.workloads: Sequence[Workload] = validation_workloads(self.task.source, self.count)
        self._seeds = [workload_seed(VALIDATION_SEED, i) for i in range(len(self.workloads))]
        self._player = Player(self.task.batch(len(self.workloads)))

    def jcts(self, network: Any, temperature: float) -> FloatArray:
        """Return the mean JCT of each workload under a network, float64[workloads], in s."""
        return self._player.play(self.workloads, network, self._seeds, temperature=temperature)

    def figures(self, network: Any) -> dict[str, float]:
        """Return the mean JCT at each of `MODES`, and mean decisions of an episode."""
        found = {mode: float(self.jcts(network, temperature).mean()) for mode, temperature in MODES.items()}
        decisions = self._player.batch.arrays.rules["decisions"][:, 0]
        return {**found, "decisions": float(np.mean(decisions))}
