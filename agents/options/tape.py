"""What is noted of the decisions of many episodes: when each was taken, and for those to learn from, what was seen."""

from dataclasses import dataclass
from typing import NamedTuple

import numpy as np
import numpy.typing as npt

from envs.options.arrays import OPTION_NODE, OPTION_ROW, OptionArrays
from envs.options.columns import NUM_CLUSTER_COLUMNS, NUM_JOB_COLUMNS, NUM_NODE_COLUMNS, NUM_OPTION_COLUMNS
from envs.simulation.by_reference import by_reference
from envs.simulation.jit import leaf
from envs.types import FloatArray, IntArray

Numbers = npt.NDArray[np.float32]
MOMENTS, RECORDS, OPTIONS, JOBS = range(4)  # of `TapeArrays.count`


@by_reference
class TapeArrays(NamedTuple):
    """Preallocated arrays; `count` int64[4] tells how many moments, records, and rows of options and jobs count.

    A moment is a decision with at least two options, a record one of the moments that is learnt from.

    Attributes:
        episode: int64[moments].
        time, job_seconds, busy_seconds: float64[moments], of the episode when the decision was taken.
        moment: int64[records].
        first_option, num_options, first_job, num_jobs: int64[records], the rows of a record.
        chosen: int64[records], place of the chosen option among those of the record.
        log_probability: float64[records], of the chosen option.
        options, jobs: float32[rows, columns].
        job_of, node_of: int64[rows of options]: of its record, see `Options`.
        nodes: float32[records, num_nodes, columns].
        cluster: float32[records, columns].
    """

    count: IntArray
    episode: IntArray
    time: FloatArray
    job_seconds: FloatArray
    busy_seconds: FloatArray
    moment: IntArray
    first_option: IntArray
    num_options: IntArray
    first_job: IntArray
    num_jobs: IntArray
    chosen: IntArray
    log_probability: FloatArray
    options: Numbers
    job_of: IntArray
    node_of: IntArray
    jobs: Numbers
    nodes: Numbers
    cluster: Numbers


@dataclass
class Tape:
    """A tape that grows.

    Args:
        num_nodes: of the cluster.
        moments, records, options, jobs: room at first.
    """

    num_nodes: int
    moments: int = 1 << 14
    records: int = 1 << 13
    options: int = 1 << 17
    jobs: int = 1 << 17

    def __post_init__(self) -> None:
        self.arrays = self._allocate()

    def clear(self) -> None:
        """Forget everything."""
        self.arrays.count[:] = 0

    def grow(self) -> None:
        """Double the room of what is more than half full."""
        old = self.arrays
        sizes = [len(old.time), len(old.moment), len(old.options), len(old.jobs)]
        self.moments, self.records, self.options, self.jobs = (
            2 * size if 2 * used > size else size for size, used in zip(sizes, old.count.tolist(), strict=True)
        )
        self.arrays = self._allocate()
        for before, after in zip(old, self.arrays, strict=True):
            after[: len(before)] = before

    def _allocate(self) -> TapeArrays:
        moments, records, options, jobs = self.moments, self.records, self.options, self.jobs
        return TapeArrays(
            np.zeros(4, np.int64),
            np.zeros(moments, np.int64),
            *np.zeros((3, moments)),
            *np.zeros((6, records), np.int64),
            np.zeros(records),
            np.zeros((options, NUM_OPTION_COLUMNS), np.float32),
            *np.zeros((2, options), np.int64),
            np.zeros((jobs, NUM_JOB_COLUMNS), np.float32),
            np.zeros((records, self.num_nodes, NUM_NODE_COLUMNS), np.float32),
            np.zeros((records, NUM_CLUSTER_COLUMNS), np.float32),
        )


@leaf
def has_room(tape: TapeArrays, a: OptionArrays) -> bool:
    """Whether the present decision fits on the tape."""
    return bool(
        tape.count[MOMENTS] < len(tape.time)
        and tape.count[RECORDS] < len(tape.moment)
        and tape.count[OPTIONS] + a.rules[0].num_options <= len(tape.options)
        and tape.count[JOBS] + a.rules[0].num_jobs <= len(tape.jobs)
    )


@leaf
def note_moment(tape: TapeArrays, a: OptionArrays, b: int) -> None:
    """Note when the present decision of episode `b` was taken."""
    episode, k = a.world.episode[0], tape.count[MOMENTS]
    tape.episode[k] = b
    tape.time[k] = episode.time
    tape.job_seconds[k] = episode.job_seconds
    tape.busy_seconds[k] = episode.busy_seconds
    tape.count[MOMENTS] = k + 1


@leaf
def record_decision(tape: TapeArrays, a: OptionArrays, chosen: int, log_probability: float) -> None:
    """Record the rows of the decision whose moment was noted last, and what was chosen."""
    k, first, first_job = tape.count[RECORDS], tape.count[OPTIONS], tape.count[JOBS]
    tape.moment[k] = tape.count[MOMENTS] - 1
    tape.first_option[k] = first
    tape.num_options[k] = a.rules[0].num_options
    tape.first_job[k] = first_job
    tape.num_jobs[k] = a.rules[0].num_jobs
    tape.chosen[k] = chosen
    tape.log_probability[k] = log_probability
    for i in range(a.rules[0].num_options):
        for c in range(a.options.shape[1]):
            tape.options[first + i, c] = a.options[i, c]
        tape.job_of[first + i] = a.what[i, OPTION_ROW]
        tape.node_of[first + i] = a.what[i, OPTION_NODE]
    for i in range(a.rules[0].num_jobs):
        for c in range(a.jobs.shape[1]):
            tape.jobs[first_job + i, c] = a.jobs[i, c]
    for n in range(len(a.nodes)):
        for c in range(a.nodes.shape[1]):
            tape.nodes[k, n, c] = a.nodes[n, c]
    for c in range(len(a.cluster)):
        tape.cluster[k, c] = a.cluster[c]
    tape.count[RECORDS] = k + 1
    tape.count[OPTIONS] = first + a.rules[0].num_options
    tape.count[JOBS] = first_job + a.rules[0].num_jobs
