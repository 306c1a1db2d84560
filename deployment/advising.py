"""Advice to a scheduler that goes on scheduling: the order of jobs that wait, by Slurm's `nice` of those that opted in.

The jobs keep their places in the queue among themselves: which of them stands at which place changes, and none stands
before the place that the first of them would have without advice. So the cluster manager itself starts all jobs.
"""

import math
from bisect import bisect_left
from collections import defaultdict
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Protocol

from deployment.adapter import ActionRefusedError
from deployment.history import ClusterHistory, ObservedJob
from deployment.journal import CARRIED_OUT, INTENDED, POSTPONED, REFUSED, SHADOWED, Journal
from deployment.limits import ActionLimit
from deployment.played import PlayedCluster
from deployment.reading import ProtocolError
from envs.scheduling import Scheduler
from envs.types import Seconds

CHANGE, RESTORE, LEAVE = "nice", "restore", "leave"  # actions in the journal


class NiceSetter(Protocol):
    """The commands to a cluster manager that an adviser needs."""

    def set_nice(self, job: str, value: int) -> None:
        """Set the `nice` of a job.

        Raises:
            ActionRefusedError: the manager refuses, or does not answer; the value may be set or not.
        """
        ...


def foresee(scheduler: Scheduler, history: ClusterHistory, most_rounds: int) -> list[str]:
    """Return the jobs that wait in the order in which a scheduler wants them to run, if no others came.

    That is not the order in which they would start: Slurm keeps GPUs free for a large job only if that comes first.

    Args:
        scheduler: it is reset.
        history: of which the present is played on; its scenario must say that jobs are not preempted.
        most_rounds: of the scheduler; jobs that it has not placed then come last, in the order of their priorities.

    Raises:
        RoundFailedError: the scheduler has failed.
    """
    played = PlayedCluster(scheduler, history)
    waiting = {job.spec.id: job for job in history.jobs if not (job.seen.gpus or job.seen.ended)}
    for _ in range(most_rounds):
        if waiting.keys() <= played.wanted.keys():
            break
        played.play(math.inf, most_rounds=1)
    found = [waiting[job] for job in played.wanted if job in waiting]
    others = [job for number, job in waiting.items() if number not in played.wanted]
    return [job.seen.name for job in (*found, *sorted(others, key=lambda job: -job.seen.priority))]


def find_values(ordered: Sequence[ObservedJob], originals: Mapping[str, int]) -> dict[str, int]:
    """Return new values of `nice` that bring jobs into an order, of as few jobs as their places allow.

    Of jobs with equal priorities Slurm takes the one with the lowest id first.

    Args:
        ordered: the jobs in the order wanted.
        originals: `nice` of the jobs that were changed before, as their users had set it.
    """
    if not ordered:
        return {}
    bases = [job.priority + job.nice - originals.get(job.name, job.nice) for job in ordered]
    highest = max(*bases, len(ordered) + 1.0)  # a priority of 0 would hold a job
    keys = [(-job.priority, int(job.name)) for job in ordered]
    kept = _longest_ascending([key if -key[0] <= highest else None for key in keys])
    values: dict[str, int] = {}
    last: tuple[float, int] = (-highest, -1)
    for place, (job, key) in enumerate(zip(ordered, keys, strict=True)):
        if place in kept and key > last:
            last = key
            continue
        priority = -last[0] if key[1] > last[1] else -last[0] - 1.0
        values[job.name] = job.nice + round(job.priority - priority)
        last = (-priority, key[1])
    return {job.name: values[job.name] for job in ordered if values.get(job.name, job.nice) != job.nice}


def _longest_ascending(keys: Sequence[tuple[float, int] | None]) -> set[int]:
    """Return the places of a longest ascending subsequence; None is never part of it."""
    ends: list[tuple[float, int]] = []  # the lowest last key of a subsequence of each length
    places: list[int] = []
    before: dict[int, int] = {}
    for place, key in enumerate(keys):
        if key is None:
            continue
        length = bisect_left(ends, key)
        ends[length:], places[length:] = [key, *ends[length + 1 :]], [place, *places[length + 1 :]]
        before[place] = places[length - 1] if length else -1
    found, place = set[int](), places[-1] if places else -1
    while place >= 0:
        found.add(place)
        place = before[place]
    return found


@dataclass(slots=True)
class ChangedJob:
    """A job whose `nice` was changed.

    Attributes:
        user: its owner.
        original: the value that its user had set.
        own: all values that were set, or perhaps were.
        current: of these, and of the original, the ones that it may have now.
    """

    user: str
    original: int
    own: set[int]
    current: set[int]

    def is_ours(self, value: int) -> bool:
        """Whether a value is not one that the user has set since."""
        return value in self.own or value in self.current


class Adviser:
    """Sets `nice` of jobs that wait and have opted in, and sets it back.

    Args:
        manager: of the cluster.
        journal: has each value before it is changed; the changes of an adviser before, which was killed, count.
        per_minute: the most changes in a minute; those above wait for the next round. Setting back is not limited.
        act: whether anything is changed.

    Attributes:
        changed: the jobs whose values are not as their users have set them, by name.

    Raises:
        ProtocolError: a line of the journal is none of an adviser's.
    """

    def __init__(self, manager: NiceSetter, journal: Journal, per_minute: int, *, act: bool) -> None:
        self._manager, self._journal, self._act = manager, journal, act
        self._limit = ActionLimit(per_minute)
        self._left: set[str] = set()  # jobs whose users have changed their values
        self._shown: dict[str, int] = {}  # values that were only shown, or refused
        self.changed: dict[str, ChangedJob] = {}
        for number, line in enumerate(journal.earlier, 1):
            try:
                self._recover(line)
            except (LookupError, TypeError) as error:
                place = f"{journal.path}: line {number}"
                raise ProtocolError(f"{place}: is no line of an adviser ({error}); name another folder") from None

    def _recover(self, line: Mapping[str, Any]) -> None:
        action, phase = line["action"], line["phase"]
        if action == CHANGE and phase == INTENDED:
            self._intend(line["job"], line["user"], line["before"], line["value"])
        elif action == CHANGE and phase == CARRIED_OUT:
            self.changed[line["job"]].current = {line["value"]}
        elif action in (RESTORE, LEAVE) and phase == CARRIED_OUT:
            self.changed.pop(line["job"], None)
            if action == LEAVE:
                self._left.add(line["job"])

    def _intend(self, job: str, user: str, before: int, value: int) -> None:
        known = self.changed.setdefault(job, ChangedJob(user, before, set(), set()))
        known.own.add(value)
        known.current |= {before, value}

    def advise(self, jobs: Iterable[ObservedJob], order: Sequence[str], now: Seconds) -> list[str]:
        """Bring the jobs that wait and have opted in nearer to an order; return what is to be said.

        Args:
            jobs: all that are present.
            order: names of jobs that wait; others are left where they are.
            now: seconds of a steady clock.
        """
        present = {job.name: job for job in jobs if not job.ended}
        said = self._give_up(present)
        queues: dict[str, list[ObservedJob]] = defaultdict(list)
        for name in order:
            job = present.get(name)
            if job and job.opted_in and name not in self._left and not job.gpus:
                queues[job.partition].append(job)
        originals = {name: each.original for name, each in self.changed.items()}
        for queue in queues.values():
            for name, value in find_values(queue, originals).items():
                said += self._change(present[name], value, now)
        return said

    def _give_up(self, present: Mapping[str, ObservedJob]) -> list[str]:
        """Leave jobs whose users have changed their values, and set back those that have opted out."""
        said = []
        for job in [present[name] for name in self.changed if name in present]:
            known = self.changed[job.name]
            if job.nice not in known.current and job.nice in known.own:  # the manager has lost a later value
                known.current = {job.nice}
            if job.nice not in known.current:
                said += self._leave(job)
            elif not job.opted_in and not job.gpus:
                said += self._restore(job)
        return said

    def _leave(self, job: ObservedJob) -> list[str]:
        self._journal.write(CARRIED_OUT, LEAVE, job=job.name, value=job.nice)
        self._left.add(job.name)
        del self.changed[job.name]
        return [f"job {job.name}: its nice is {job.nice}, which somebody else has set; it is left"]

    def _change(self, job: ObservedJob, value: int, now: Seconds) -> list[str]:
        line = f"job {job.name}: nice {job.nice} -> {value}"
        about = {"job": job.name, "user": job.user, "before": job.nice, "value": value}
        if not self._act:
            if self._shown.get(job.name) == value:
                return []
            self._shown[job.name] = value
            self._journal.write(SHADOWED, CHANGE, **about)
            return [f"{line} (not set: act=false)"]
        if not self._limit.take(now):
            self._journal.write(POSTPONED, CHANGE, **about)
            return []
        self._journal.write(INTENDED, CHANGE, **about)
        self._intend(job.name, job.user, job.nice, value)
        try:
            self._manager.set_nice(job.name, value)
        except ActionRefusedError as error:
            self._journal.write(REFUSED, CHANGE, why=str(error), **about)
            first, self._shown[job.name] = self._shown.get(job.name) != value, value
            return [f"{line}: {error}"] if first else []
        self.changed[job.name].current = {value}
        self._journal.write(CARRIED_OUT, CHANGE, **about)
        return [line]

    def restore(self, jobs: Iterable[ObservedJob]) -> list[str]:
        """Set all values back that users have not changed; return what is to be said.

        Values of jobs that run are left, since they have no effect any more. What is refused stays in `changed`.

        Args:
            jobs: all that are present.
        """
        present = {job.name: job for job in jobs if not job.ended}
        said = []
        for name, known in list(self.changed.items()):
            job = present.get(name)
            if job is None or job.gpus or job.user != known.user:
                del self.changed[name]
            elif job.nice == known.original or known.is_ours(job.nice):
                said += self._restore(job)
            else:
                said += self._leave(job)
        return said

    def _restore(self, job: ObservedJob) -> list[str]:
        value = self.changed[job.name].original
        about = {"job": job.name, "before": job.nice, "value": value}
        if job.nice != value:
            self._journal.write(INTENDED, RESTORE, **about)
            try:
                self._manager.set_nice(job.name, value)
            except ActionRefusedError as error:
                self._journal.write(REFUSED, RESTORE, why=str(error), **about)
                return [f"job {job.name}: nice {job.nice} is not set back to {value}: {error}"]
        self._journal.write(CARRIED_OUT, RESTORE, **about)
        del self.changed[job.name]
        return [f"job {job.name}: nice {job.nice} is set back to {value}"] if job.nice != value else []
