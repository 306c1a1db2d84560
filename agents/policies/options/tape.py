"""What is noted of the decisions of many episodes: when each was taken, and for those to learn from, what was seen."""

from dataclasses import dataclass, field
from typing import NamedTuple

import numpy as np

from envs.episodes.candidates import Features
from envs.options import OptionSpec
from envs.options.arrays import OPTION_NODE, OPTION_ROW, OptionArrays
from envs.options.by_node import TOGETHER
from envs.simulation.compiled.jit import leaf
from envs.types import BoolArray, FloatArray, IntArray

MOMENTS, RECORDS, OPTIONS, JOBS, CHOICES = range(5)  # of `TapeArrays.counts`


class TapeArrays(NamedTuple):
    """Preallocated arrays; `counts` int64[5] tells how many moments, records, options, jobs and choices they hold.

    A moment is a decision with at least two options, a record one of the moments that is learnt from. Where nodes act
    together, a decision has a choice of every node that has options; else it has one.

    Attributes:
        episode: int64[moments].
        time, job_seconds, busy_seconds: float64[moments], of the episode when the decision was taken.
        moment: int64[records].
        first_option, num_options, first_job, num_jobs, first_choice, num_choices: int64[records], the rows of a record.
        chosen: int64[choices], place of the chosen option among those of the record.
        log_probability: float64[choices], of the chosen option.
        lost: float64[choices], 1 for a claim that got nothing.
        draw: float64[records], the random number that decides which records are kept, see `Tape.thin`.
        options, jobs: float32[rows, columns].
        job_of, node_of: int64[rows of options]: of its record, see `Options`.
        choice_of: int64[rows of options], the choice among those of its record.
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
    first_choice: IntArray
    num_choices: IntArray
    chosen: IntArray
    log_probability: FloatArray
    lost: FloatArray
    draw: FloatArray
    options: Features
    job_of: IntArray
    node_of: IntArray
    choice_of: IntArray
    jobs: Features
    nodes: Features
    cluster: Features


@dataclass
class Tape:
    """A tape that grows.

    Args:
        num_nodes: of the cluster.
        spec: sizes of the rows.
        moments, records, options, jobs, choices: room at first.
    """

    num_nodes: int
    spec: OptionSpec = field(default_factory=OptionSpec)
    moments: int = 1 << 14
    records: int = 1 << 13
    options: int = 1 << 17
    jobs: int = 1 << 17
    choices: int = 1 << 13

    def __post_init__(self) -> None:
        self.arrays = self._allocate()

    def clear(self) -> None:
        """Forget everything."""
        self.arrays.counts[:] = 0

    def grow(self) -> None:
        """Double the room of what is at least half full, or of everything if nothing is."""
        old, used = self.arrays, self.arrays.counts.tolist()
        sizes = [len(old.time), len(old.moment), len(old.options), len(old.jobs), len(old.chosen)]
        full = [2 * count >= size for count, size in zip(used, sizes, strict=True)]
        self.moments, self.records, self.options, self.jobs, self.choices = (
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
        rows = [int(counts[kept].sum()) for counts in (own.num_options, own.num_jobs, own.num_choices)]
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
        choices, first_choice = ranges(own.first_choice[kept], own.num_choices[kept])
        nodes, _ = ranges(kept * self.num_nodes, np.full(len(kept), self.num_nodes))
        for names, places in (
            (("moment", "num_options", "num_jobs", "num_choices", "draw", "cluster"), kept),
            (("chosen", "log_probability", "lost"), choices),
            (("options", "job_of", "node_of", "choice_of"), options),
            (("jobs",), jobs),
            (("nodes",), nodes),
        ):
            for name in names:
                getattr(to, name)[: len(places)] = getattr(own, name)[places]
        to.first_option[: len(kept)], to.first_job[: len(kept)] = first, first_job
        to.first_choice[: len(kept)] = first_choice
        to.counts[RECORDS:] = len(kept), len(options), len(jobs), len(choices)

    def make_room(self, most: int | None, limit: float) -> float:
        """Thin the tape if it has twice the records that are wanted, else grow; return the limit of further draws."""
        if most and self.arrays.counts[RECORDS] >= 2 * most:
            return self.thin(most)
        self.grow()
        return limit

    def take(self, seen: "Tape", draw: FloatArray, kept: BoolArray) -> None:
        """Append the decisions of another tape, whose records are its moments.

        Args:
            seen: the other tape, of the same cluster.
            draw: float64[moments], see `TapeArrays`.
            kept: bool[moments], which of them are recorded here.
        """
        new, count, records = seen.arrays, len(draw), np.flatnonzero(kept)
        while not self._holds(count, len(records), *new.counts[OPTIONS:].tolist()):
            self.grow()
        own = self.arrays
        moment, record = int(own.counts[MOMENTS]), int(own.counts[RECORDS])
        for name in ("episode", "time", "job_seconds", "busy_seconds"):
            getattr(own, name)[moment : moment + count] = getattr(new, name)[:count]
        for i, k in enumerate(records.tolist(), record):
            own.moment[i], own.draw[i] = moment + k, draw[k]
            self._take_rows(i, new, k)
            own.nodes[i * self.num_nodes : (i + 1) * self.num_nodes] = new.nodes[
                k * self.num_nodes : (k + 1) * self.num_nodes
            ]
            own.cluster[i] = new.cluster[k]
        own.counts[MOMENTS], own.counts[RECORDS] = moment + count, record + len(records)

    def _take_rows(self, i: int, new: TapeArrays, k: int) -> None:
        """Append the options, jobs and choices of another tape's record `k` as those of record `i`."""
        own = self.arrays
        choice, choices, from_choice = int(own.counts[CHOICES]), int(new.num_choices[k]), int(new.first_choice[k])
        own.first_choice[i], own.num_choices[i] = choice, choices
        for name in ("chosen", "log_probability", "lost"):
            getattr(own, name)[choice : choice + choices] = getattr(new, name)[from_choice : from_choice + choices]
        first, first_job = int(own.counts[OPTIONS]), int(own.counts[JOBS])
        options, jobs = int(new.num_options[k]), int(new.num_jobs[k])
        from_option, from_job = int(new.first_option[k]), int(new.first_job[k])
        own.first_option[i], own.num_options[i], own.first_job[i], own.num_jobs[i] = first, options, first_job, jobs
        for name in ("options", "job_of", "node_of", "choice_of"):
            getattr(own, name)[first : first + options] = getattr(new, name)[from_option : from_option + options]
        own.jobs[first_job : first_job + jobs] = new.jobs[from_job : from_job + jobs]
        own.counts[OPTIONS:] = first + options, first_job + jobs, choice + choices

    def _holds(self, moments: int, records: int, options: int, jobs: int, choices: int) -> bool:
        """Return whether so many more of each fit."""
        own = self.arrays
        sizes = (len(own.time), len(own.moment), len(own.options), len(own.jobs), len(own.chosen))
        return all(
            int(used) + more <= size
            for used, more, size in zip(own.counts, (moments, records, options, jobs, choices), sizes, strict=True)
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
        choices = self.choices

        def whole(size: int) -> IntArray:
            return np.zeros(size, np.int64)

        def rows(size: int, columns: int) -> Features:
            return np.zeros((size, columns), np.float32)

        return TapeArrays(
            counts=whole(5),
            episode=whole(moments),
            time=np.zeros(moments),
            job_seconds=np.zeros(moments),
            busy_seconds=np.zeros(moments),
            moment=whole(records),
            first_option=whole(records),
            num_options=whole(records),
            first_job=whole(records),
            num_jobs=whole(records),
            first_choice=whole(records),
            num_choices=whole(records),
            chosen=whole(choices),
            log_probability=np.zeros(choices),
            lost=np.zeros(choices),
            draw=np.zeros(records),
            options=rows(options, self.spec.option_features),
            job_of=whole(options),
            node_of=whole(options),
            choice_of=whole(options),
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
        and tape.counts[CHOICES] + len(a.nodes) <= len(tape.chosen)
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
    """Record the rows of the decision whose moment was noted last, and the one choice that was made."""
    record_rows(tape, a, draw)
    record_chosen(tape, chosen, log_probability)


@leaf
def record_chosen(tape: TapeArrays, chosen: int, log_probability: float) -> None:
    """Record a further choice of the last record."""
    c = tape.counts[CHOICES]
    tape.chosen[c] = chosen
    tape.log_probability[c] = log_probability
    tape.lost[c] = 0.0
    tape.num_choices[tape.counts[RECORDS] - 1] += 1
    tape.counts[CHOICES] = c + 1


@leaf
def record_rows(tape: TapeArrays, a: OptionArrays, draw: float) -> None:
    """Record the rows of the decision whose moment was noted last, without its choices."""
    k, first, first_job = tape.counts[RECORDS], tape.counts[OPTIONS], tape.counts[JOBS]
    tape.moment[k] = tape.counts[MOMENTS] - 1
    tape.first_option[k] = first
    tape.num_options[k] = a.rules[0].num_options
    tape.first_job[k] = first_job
    tape.num_jobs[k] = a.rules[0].num_jobs
    tape.first_choice[k] = tape.counts[CHOICES]
    tape.num_choices[k] = 0
    tape.draw[k] = draw
    choice = 0
    for i in range(a.rules[0].num_options):
        for c in range(a.options.shape[1]):
            tape.options[first + i, c] = a.options[i, c]
        tape.job_of[first + i] = a.what[i, OPTION_ROW]
        tape.node_of[first + i] = a.what[i, OPTION_NODE]
        if a.rules[0].turn == TOGETHER and i > 0:
            choice += a.what[i, OPTION_NODE] != a.what[i - 1, OPTION_NODE]
        tape.choice_of[first + i] = choice
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
