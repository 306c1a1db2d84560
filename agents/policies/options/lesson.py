"""What is learnt from: recorded decisions with their advantages, of one task or of several."""

from collections.abc import Sequence
from typing import NamedTuple

import numpy as np

from agents.policies.options.tape import Tape
from envs.episodes.candidates import Features
from envs.types import FloatArray, IntArray


class Lesson(NamedTuple):
    """Recorded decisions; rows of options, jobs and nodes follow one another.

    Attributes:
        num_options, num_jobs, num_nodes: int64[D], rows of each decision.
        num_choices: int64[D], how many nodes choose at the same time; 1 unless they act together.
        chosen: int64[C], place of each chosen option among those of its decision.
        log_probability: float64[C], of the chosen option when it was chosen.
        lost: float64[C], 1 for a claim that got nothing.
        advantage: float64[D].
        options: float32[M, columns].
        job_of, node_of: int64[M], the row of its job and node among those of its decision; -1 for waiting, which has a
            node where nodes act together.
        choice_of: int64[M], the choice that it belongs to among those of its decision.
        jobs: float32[J, columns].
        nodes: float32[N, columns].
        cluster: float32[D, columns].
    """

    num_options: IntArray
    num_jobs: IntArray
    num_nodes: IntArray
    num_choices: IntArray
    chosen: IntArray
    log_probability: FloatArray
    lost: FloatArray
    advantage: FloatArray
    options: Features
    job_of: IntArray
    node_of: IntArray
    choice_of: IntArray
    jobs: Features
    nodes: Features
    cluster: Features

    @property
    def num_decisions(self) -> int:
        """Number of decisions."""
        return len(self.num_options)

    @classmethod
    def of(cls, tape: Tape, advantage: FloatArray) -> "Lesson":
        """Copy the records of a tape.

        Args:
            tape: recorded decisions.
            advantage: float64[moments], of all decisions.
        """
        arrays = tape.arrays
        moments, records, options, jobs, choices = arrays.counts.tolist()
        assert len(advantage) == moments, "every moment has an advantage"
        return cls(
            arrays.num_options[:records].copy(),
            arrays.num_jobs[:records].copy(),
            np.full(records, tape.num_nodes),
            arrays.num_choices[:records].copy(),
            arrays.chosen[:choices].copy(),
            arrays.log_probability[:choices].copy(),
            arrays.lost[:choices].copy(),
            advantage[arrays.moment[:records]],
            arrays.options[:options].copy(),
            arrays.job_of[:options].copy(),
            arrays.node_of[:options].copy(),
            arrays.choice_of[:options].copy(),
            arrays.jobs[:jobs].copy(),
            arrays.nodes[: records * tape.num_nodes].copy(),
            arrays.cluster[:records].copy(),
        )

    @classmethod
    def join(cls, lessons: Sequence["Lesson"]) -> "Lesson":
        """Return all decisions of several lessons, in their order."""
        return cls(*(np.concatenate(parts) for parts in zip(*lessons, strict=True)))
