"""Minibatches of recorded decisions as tensors."""

from typing import NamedTuple

import numpy as np
import torch

from agents.networks.decisions import Decisions
from agents.policies.options.lesson import Lesson
from agents.policies.options.tape import ranges
from envs.types import IntArray


class Rows(NamedTuple):
    """Where the rows of each decision of a lesson begin; int64[D] each."""

    options: IntArray
    jobs: IntArray
    nodes: IntArray
    choices: IntArray

    @classmethod
    def of(cls, lesson: Lesson) -> "Rows":
        """Return the places for a lesson."""
        return cls(
            *(np.cumsum(n) - n for n in (lesson.num_options, lesson.num_jobs, lesson.num_nodes, lesson.num_choices))
        )


def gather_decisions(lesson: Lesson, rows: Rows, chosen: IntArray) -> Decisions:
    """Return some decisions of a lesson as one minibatch.

    Args:
        lesson: all decisions.
        rows: where their rows begin.
        chosen: int64[D], which decisions.
    """
    options, first = ranges(rows.options[chosen], lesson.num_options[chosen])
    jobs, first_job = ranges(rows.jobs[chosen], lesson.num_jobs[chosen])
    nodes, first_node = ranges(rows.nodes[chosen], lesson.num_nodes[chosen])
    counts = lesson.num_choices[chosen]
    first_choice = np.cumsum(counts) - counts
    decision = np.repeat(np.arange(len(chosen)), lesson.num_options[chosen])
    job_of, node_of = lesson.job_of[options], lesson.node_of[options]
    return Decisions(
        torch.from_numpy(lesson.options[options]),
        torch.from_numpy(decision),
        torch.from_numpy(np.where(job_of < 0, -1, job_of + first_job[decision])),
        torch.from_numpy(np.where(node_of < 0, -1, node_of + first_node[decision])),
        torch.from_numpy(lesson.choice_of[options] + first_choice[decision]),
        torch.from_numpy(np.repeat(np.arange(len(chosen)), counts)),
        torch.from_numpy(first),
        torch.from_numpy(lesson.jobs[jobs]),
        torch.from_numpy(np.repeat(np.arange(len(chosen)), lesson.num_jobs[chosen])),
        torch.from_numpy(lesson.nodes[nodes]),
        torch.from_numpy(np.repeat(np.arange(len(chosen)), lesson.num_nodes[chosen])),
        torch.from_numpy(lesson.cluster[chosen]),
    )
