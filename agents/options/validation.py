"""Validation of a policy that chooses options: many workloads in one batch."""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from agents.options.group_ppo import OptionTask
from agents.options.playing import Player
from agents.validation import VALIDATION_SEED, validation_workloads
from envs.evaluation.playing import workload_seed
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
        self._players: dict[bool, Player] = {}

    def figures(self, network: Any, *, only_starts: bool = False) -> dict[str, float]:
        """Return the mean JCT at each of `MODES`, in s, and the mean decisions of an episode.

        Args:
            network: the policy.
            only_starts: whether jobs are only started, whatever else the rules of the task allow.
        """
        if only_starts not in self._players:
            task = self.task.only_starting() if only_starts else self.task
            self._players[only_starts] = Player(task.batch(len(self.workloads)))
        player = self._players[only_starts]
        found = {
            mode: float(player.play(self.workloads, network, self._seeds, temperature=temperature).mean())
            for mode, temperature in MODES.items()
        }
        return {**found, "decisions": float(np.mean(player.batch.arrays.rules["decisions"][:, 0]))}
