"""What is noted of the decisions of many episodes: when each was taken, and for those to learn from, what was seen."""

from dataclasses import dataclass, field
from typing import NamedTuple

import numpy as np

from envs.episodes.candidates import Features
from envs.options import OptionSpec
from envs.options.arrays import OPTION_NODE, OPTION_ROW, OptionArrays
from envs.simulation.compiled.by_reference import by_reference
from envs.simulation.compiled.jit import leaf
from envs.types import BoolArray, FloatArray, IntArray

MOMENTS, RECORDS, OPTIONS, JOBS = range(4)  # of `TapeArrays.counts`


@by_reference
class TapeArrays(NamedTuple):
    """Preallocated arrays; `counts` int64[4] tells how many moments, records, and rows of options and jobs count.

    A moment is a decision with at least two options, a record one of the moments that is learnt from.

    Attributes:
        episode: int64[moments].
        time, job_seconds, busy_seconds: float64[moments], of the episode when the decision was taken.
        moment: int64[records].
        first_option, num_options, first_job, num_jobs: int64[records], the rows of a record.
        chosen: int64[records], place of the chosen option among those of the record.
        log_probability: float64[records], of the chosen option.
        draw: float64[records], the random number that decides which records are kept, see `Tape.thin`.
        options, jobs: float32[rows, columns].
        job_of, node_of: int64[rows of options]: of its record, see `Options`.
        nodes: float32[records * num_nodes, columns].
        cluster: float32[records, columns].
    """

    counts: IntArray
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
    draw: FloatArray
    options: Features
    job_of: IntArray
    node_of: IntArray
    jobs: Features
    nodes: Features
    cluster: Features


@dataclass
class Tape:
    """A tape that grows.

    Args:
        num_nodes: of the cluster.
        spec: sizes of the rows.
        moments, records, options, jobs: room at first.
    """

    num_nodes: int
    spec: OptionSpec = field(default_factory=OptionSpec)
    moments: int = 1 << 14
    records: int = 1 << 13
    options: int = 1 << 17
    jobs: int = 1 << 17

    def __post_init__(self) -> None:
        self.arrays = self._allocate()

    def clear(self) -> None:
        """Forget everything."""
        self.arrays.counts[:] = 0

    def grow(self) -> None:
        """Double the room of what is at least half full, or of everything if nothing is."""
        old, used = self.arrays, self.arrays.counts.tolist()
        sizes = [len(old.time), len(old.moment), len(old.options), len(old.jobs)]
        full = [2 * count >= size for count, size in zip(used, sizes, strict=True)]
        self.moments, self.records, self.options, self.jobs = (
            2 * size if grows or not any(full) else size for size, grows in zip(sizes, full, strict=True)
        )
        self.arrays = self._allocate()
        for name in old._fields:
            before = getattr(old, name)
            getattr(self.arrays, name)[: len(before)] = before

    def thin(self, most: int) -> float:
        """Keep the records with the smallest draws, at most so many: a random sample of all, whatever came before.

        Returns:
            The draw from which on further records would not be kept; 1 while there are fewer.
        """
        own, records = self.arrays, int(self.arrays.counts[RECORDS])
        if records < most:
            return 1.0
        order = np.argsort(own.draw[:records], kind="stable")
        kept, limit = np.sort(order[:most]), float(own.draw[order[most - 1]]) if most else 0.0
        self._copy_records(kept, own)
        return limit

    def part(self, first: int, end: int) -> "Tape":
        """Return what was noted of the episodes from `first` to before `end`, which are numbered from 0 there.

        The moments of each episode must be together, in the order of episodes.
        """
        own, (moments, records, *_) = self.arrays, self.arrays.counts.tolist()
        begin, stop = np.searchsorted(own.episode[:moments], [first, end]).tolist()
        kept = np.flatnonzero((own.moment[:records] >= begin) & (own.moment[:records] < stop))
        rows = int(own.num_options[kept].sum()), int(own.num_jobs[kept].sum())
        found = Tape(self.num_nodes, self.spec, *(max(size, 1) for size in (stop - begin, len(kept), *rows)))
        for name in ("episode", "time", "job_seconds", "busy_seconds"):
            getattr(found.arrays, name)[: stop - begin] = getattr(own, name)[begin:stop]
        found.arrays.episode[: stop - begin] -= first
        found.arrays.counts[MOMENTS] = stop - begin
        self._copy_records(kept, found.arrays)
        found.arrays.moment[: len(kept)] -= begin
        return found

    def _copy_records(self, kept: IntArray, to: TapeArrays) -> None:
        """Make some records all the records of a tape with enough room, which may be this one."""
        own = self.arrays
        options, first = ranges(own.first_option[kept], own.num_options[kept])
        jobs, first_job = ranges(own.first_job[kept], own.num_jobs[kept])
        nodes, _ = ranges(kept * self.num_nodes, np.full(len(kept), self.num_nodes))
        for names, places in (
            (("moment", "num_options", "num_jobs", "chosen", "log_probability", "draw", "cluster"), kept),
            (("options", "job_of", "node_of"), options),
            (("jobs",), jobs),
            (("nodes",), nodes),
        ):
            for name in names:
                getattr(to, name)[: len(places)] = getattr(own, name)[places]
        to.first_option[: len(kept)], to.first_job[: len(kept)] = first, first_job
        to.counts[RECORDS:] = len(kept), len(options), len(jobs)

    def make_room(self, most: int | None, limit: float) -> float:
        """Thin the tape if it has twice the records that are wanted, else grow; return the limit of further draws."""
        if most and self.arrays.counts[RECORDS] >= 2 * most:
            return self.thin(most)
        self.grow()
        return limit

    def take(
        self, seen: "Tape", chosen: IntArray, log_probability: FloatArray, draw: FloatArray, kept: BoolArray
    ) -> None:
        """Append the decisions of another tape, whose records are its moments.

        Args:
            seen: the other tape, of the same cluster.
            chosen, log_probability: int64[moments] and float64[moments], what was chosen in each.
            draw: float64[moments], see `TapeArrays`.
            kept: bool[moments], which of them are recorded here.
        """
        new, options, jobs = seen.arrays, int(seen.arrays.counts[OPTIONS]), int(seen.arrays.counts[JOBS])
        count, records = len(chosen), np.flatnonzero(kept)
        while not self._holds(count, len(records), options, jobs):
            self.grow()
        own = self.arrays
        moment, record = int(own.counts[MOMENTS]), int(own.counts[RECORDS])
        for name in ("episode", "time", "job_seconds", "busy_seconds"):
            getattr(own, name)[moment : moment + count] = getattr(new, name)[:count]
        for i, k in enumerate(records.tolist(), record):
            own.moment[i], own.chosen[i], own.log_probability[i] = moment + k, chosen[k], log_probability[k]
            own.draw[i] = draw[k]
            self._take_rows(i, new, k)
            own.nodes[i * self.num_nodes : (i + 1) * self.num_nodes] = new.nodes[
                k * self.num_nodes : (k + 1) * self.num_nodes
            ]
            own.cluster[i] = new.cluster[k]
        own.counts[MOMENTS], own.counts[RECORDS] = moment + count, record + len(records)

    def _take_rows(self, i: int, new: TapeArrays, k: int) -> None:
        """Append the rows of options and jobs of another tape's record `k` as those of record `i`."""
        own = self.arrays
        first, first_job = int(own.counts[OPTIONS]), int(own.counts[JOBS])
        options, jobs = int(new.num_options[k]), int(new.num_jobs[k])
        from_option, from_job = int(new.first_option[k]), int(new.first_job[k])
        own.first_option[i], own.num_options[i], own.first_job[i], own.num_jobs[i] = first, options, first_job, jobs
        for name in ("options", "job_of", "node_of"):
            getattr(own, name)[first : first + options] = getattr(new, name)[from_option : from_option + options]
        own.jobs[first_job : first_job + jobs] = new.jobs[from_job : from_job + jobs]
        own.counts[OPTIONS], own.counts[JOBS] = first + options, first_job + jobs

    def _holds(self, moments: int, records: int, options: int, jobs: int) -> bool:
        """Return whether so many more of each fit."""
        own = self.arrays
        sizes = (len(own.time), len(own.moment), len(own.options), len(own.jobs))
        return all(
            int(used) + more <= size
            for used, more, size in zip(own.counts, (moments, records, options, jobs), sizes, strict=True)
        )

    def sort_moments(self) -> None:
        """Put the moments of each episode together, in the order of episodes; records stay where they are."""
        own, count = self.arrays, int(self.arrays.counts[MOMENTS])
        order = np.argsort(own.episode[:count], kind="stable")
        for name in ("episode", "time", "job_seconds", "busy_seconds"):
            getattr(own, name)[:count] = getattr(own, name)[:count][order]
        place = np.empty(count, np.int64)
        place[order] = np.arange(count)
        records = int(own.counts[RECORDS])
        own.moment[:records] = place[own.moment[:records]]

    def _allocate(self) -> TapeArrays:
        moments, records, options, jobs = self.moments, self.records, self.options, self.jobs

        def whole(size: int) -> IntArray:
            return np.zeros(size, np.int64)

        def rows(size: int, columns: int) -> Features:
            return np.zeros((size, columns), np.float32)

        return TapeArrays(
            counts=whole(4),
            episode=whole(moments),
            time=np.zeros(moments),
            job_seconds=np.zeros(moments),
            busy_seconds=np.zeros(moments),
            moment=whole(records),
            first_option=whole(records),
            num_options=whole(records),
            first_job=whole(records),
            num_jobs=whole(records),
            chosen=whole(records),
            log_probability=np.zeros(records),
            draw=np.zeros(records),
            options=rows(options, self.spec.option_features),
            job_of=whole(options),
            node_of=whole(options),
            jobs=rows(jobs, self.spec.job_features),
            nodes=rows(records * self.num_nodes, self.spec.node_features),
            cluster=rows(records, self.spec.cluster_features),
        )


@leaf
def tape_has_room(tape: TapeArrays, a: OptionArrays) -> bool:
    """Whether the present decision fits on the tape."""
    return bool(
        tape.counts[MOMENTS] < len(tape.time)
        and tape.counts[RECORDS] < len(tape.moment)
        and tape.counts[OPTIONS] + a.rules[0].num_options <= len(tape.options)
        and tape.counts[JOBS] + a.rules[0].num_jobs <= len(tape.jobs)
    )


@leaf
def note_moment(tape: TapeArrays, a: OptionArrays, b: int) -> None:
    """Note when the present decision of episode `b` was taken."""
    episode, k = a.world.episode[0], tape.counts[MOMENTS]
    tape.episode[k] = b
    tape.time[k] = episode.time
    tape.job_seconds[k] = episode.job_seconds
    tape.busy_seconds[k] = episode.busy_seconds
    tape.counts[MOMENTS] = k + 1


@leaf
def record_decision(tape: TapeArrays, a: OptionArrays, chosen: int, log_probability: float, draw: float) -> None:
    """Record the rows of the decision whose moment was noted last, and what was chosen."""
    k, first, first_job = tape.counts[RECORDS], tape.counts[OPTIONS], tape.counts[JOBS]
    tape.moment[k] = tape.counts[MOMENTS] - 1
    tape.first_option[k] = first
    tape.num_options[k] = a.rules[0].num_options
    tape.first_job[k] = first_job
    tape.num_jobs[k] = a.rules[0].num_jobs
    tape.chosen[k] = chosen
    tape.log_probability[k] = log_probability
    tape.draw[k] = draw
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
            tape.nodes[k * len(a.nodes) + n, c] = a.nodes[n, c]
    for c in range(len(a.cluster)):
        tape.cluster[k, c] = a.cluster[c]
    tape.counts[RECORDS] = k + 1
    tape.counts[OPTIONS] = first + a.rules[0].num_options
    tape.counts[JOBS] = first_job + a.rules[0].num_jobs


def ranges(first: IntArray, counts: IntArray) -> tuple[IntArray, IntArray]:
    """Return the concatenation of first[i] ... first[i] + counts[i] - 1, and where each range begins in it."""
    begins = np.cumsum(counts) - counts
    return np.repeat(first - begins, counts) + np.arange(int(counts.sum())), begins
