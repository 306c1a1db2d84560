"""Demonstrations for imitation: the decisions by which options lead to the allocations of any scheduler."""

from collections.abc import Sequence
from typing import Any

import numpy as np
import torch

from agents.policies.options.scheduler import as_lesson
from agents.policies.options.tape import Tape, TapeArrays, note_moment, record_decision, tape_has_room
from agents.policies.options.torch_playing import choose
from envs.options import OptionBatch
from envs.options.arrays import OptionArrays, option_arrays
from envs.options.demonstrate import Demonstration, WantedPlacements, requested_placements
from envs.options.features import write_features
from envs.options.kernels import prepare
from envs.scheduling import Scheduler
from envs.simulation.compiled.jit import kernel
from envs.types import FloatArray
from envs.workloads import Workload


@kernel
def record_choice(batch: OptionArrays, b: int, option: int, recorded: bool, tape: TapeArrays) -> bool:
    """Note the present decision of an episode; return False if the tape has too little room.

    Args:
        batch: the environment.
        b: the episode.
        option: what is chosen, by its place.
        recorded: whether the decision is recorded too; nothing is noted where there is only one option.
        tape: extended.
    """
    a = option_arrays(batch, b)
    prepare(a)
    if a.rules[0].num_options < 2:
        return True
    if not tape_has_room(tape, a):
        return False
    note_moment(tape, a, b)
    if recorded:
        write_features(a)
        record_decision(tape, a, option, 0.0, 0.0)
    return True


class OptionDemonstrator:
    """Plays a scheduler in the environment, option by option, and records its decisions.

    The scheduler is asked at the first decision of each round that has any. Where options cannot lead to its
    allocation, they lead near it, and what follows depends on that; `scripts/interface.py` measures how often.

    Args:
        batch: the environment.
        teacher: the scheduler.
    """

    def __init__(self, batch: OptionBatch, teacher: Scheduler) -> None:
        self.batch, self.teacher = batch, teacher
        self.tape = Tape(batch.cluster.num_nodes, batch.spec)

    def play(
        self,
        workloads: Sequence[Workload],
        seeds: Sequence[int],
        *,
        fraction: float = 1.0,
        student: Any = None,
        share: float = 0.0,
    ) -> FloatArray:
        """Play workloads to their ends; the tape has the decisions of these episodes alone, in their order.

        Args:
            workloads: at most as many as the environment has episodes.
            seeds: of each episode; noisy estimates and outages follow from it, and what the scheduler draws.
            fraction: of the decisions that are recorded, drawn at random.
            student: a network, see `OptionScorer`, that takes a `share` of the decisions, drawn at random from its
                softmax. What is recorded is what the scheduler would have chosen in them.
            share: see `student`.

        Returns:
            float64[len(workloads)], the mean JCT of the measured jobs, in s.
        """
        self.tape.clear()
        for b, workload in enumerate(workloads):
            self.batch.load(b, workload, np.random.default_rng(seeds[b]))
            self._play_one(b, np.random.default_rng([seeds[b], b]), fraction, student, share)
        return np.array([self.batch.mean_jct(b) for b in range(len(workloads))])

    def _play_one(self, b: int, rng: np.random.Generator, fraction: float, student: Any, share: float) -> None:
        batch, chosen = self.batch, np.full(self.batch.batch_size, -1)
        self.teacher.reset(batch.cluster, rng)
        demonstration, begun = Demonstration({}, batch.arrays, b), -1
        while not batch.ended[b]:
            if begun != batch.state.episode[b, 0]["num_rounds"]:
                begun = int(batch.state.episode[b, 0]["num_rounds"])
                demonstration = Demonstration(self._wanted(b), batch.arrays, b)
            chosen[b] = demonstration.choose()
            recorded = bool(rng.random() < fraction)
            while not record_choice(batch.arrays, b, int(chosen[b]), recorded, self.tape.arrays):
                self.tape.grow()
            if share > 0 and rng.random() < share:
                chosen[b] = self._chosen_by(student, b, rng)
            batch.step(chosen)

    @torch.inference_mode()
    def _chosen_by(self, student: Any, b: int, rng: np.random.Generator) -> int:
        """Return the option that a network draws."""
        return int(choose(student, as_lesson(self.batch.options(b)), 1.0, rng.random((1, 2)))[0][0])

    def _wanted(self, b: int) -> WantedPlacements:
        return requested_placements(self.teacher.schedule(self.batch.view(b)))
