"""Shadow mode: what a scheduler would do on a cluster that others schedule. Nothing is touched."""

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace

import numpy as np

from deployment.deciding import LocalScheduler
from deployment.journal import SHADOWED, Journal
from deployment.mirror import Mirror
from deployment.state import ClusterState, JobState
from envs.performance import find_throughput
from envs.scheduling import Scheduler
from envs.types import Configuration, JobSpec, MurmurationError, NodeId, Placement, Seconds

MOST_HOURS = 24.0  # that a job without a time limit is taken to run


@dataclass(frozen=True, slots=True)
class ObservedJob:
    """A job of somebody else, as the cluster manager shows it; times in seconds since 1970, NaN if unknown."""

    name: str
    submit_time: float
    num_gpus: int
    expected: Seconds  # how long it may run: its time limit
    start_time: float = math.nan
    gpus: Mapping[NodeId, int] | None = None  # what it holds; None while it waits
    user: str = ""
    tenant: str = ""
    job_name: str = ""  # which users choose, so that several jobs have it


class Shadow:
    """Shows observed jobs to a scheduler, and writes what it would do.

    A job is rigid, since its owner asked for so many GPUs. Nothing is known of its model: all are `model`, which the
    performance model must know; the work of a job is what it would do within its time limit, unless the mirror
    predicts it.

    Args:
        scheduler: it is reset here.
        mirror: of the cluster.
        model: stands for all jobs.
        journal: takes the decisions.
    """

    def __init__(self, scheduler: Scheduler, mirror: Mirror, model: str, journal: Journal) -> None:
        self._asked = LocalScheduler(scheduler, mirror, np.random.default_rng(0))
        self._mirror, self._model, self._journal = mirror, model, journal
        self._ids: dict[str, int] = {}
        self._specs: list[JobSpec] = []
        self._open: set[int] = set()
        self._held: dict[int, tuple[float, int]] = {}  # start time and GPUs of those that ran at the last look
        self._predicts = mirror.setup.scenario.information.work == "predicted"
        self._seen: object = None
        self._began, self._time = math.nan, 0.0
        self.num_rounds = self.num_left_out = 0

    def look(self, now: float, jobs: Sequence[ObservedJob], down: frozenset[NodeId] = frozenset()) -> dict[str, str]:
        """Show the present jobs; return by name what the scheduler would change, nothing if all is as it was.

        Args:
            now: seconds since 1970.
            jobs: all that wait or run, in any order.
            down: nodes that cannot run jobs.

        Raises:
            MurmurationError: the jobs do not fit on the nodes of the setup.
        """
        if math.isnan(self._began):
            self._began = min([now, *(each.submit_time for each in jobs)])
        fitting = [each for each in jobs if each.num_gpus <= self._mirror.setup.cluster.num_gpus]
        self.num_left_out = len(jobs) - len(fitting)
        seen = {(each.name, tuple((each.gpus or {}).items())) for each in fitting}
        if not fitting or (seen, down) == self._seen:
            return {}
        self._seen = (seen, down)
        self._time = max(now - self._began, self._time)  # a clock that was set back does not count
        submitted = self._enter(fitting)
        present = {self._ids[each.name]: each for each in fitting}
        ended = {job: self._service(job) for job in sorted(self._open - set(present))}
        self._held = {job: (each.start_time, each.num_gpus) for job, each in present.items() if each.gpus}
        self._open = set(present)
        states = tuple(self._state(job, present[job]) for job in sorted(present))
        decision = self._asked.decide(ClusterState(self._time, submitted, ended, down, states))
        self.num_rounds += 1
        return self._write(present, decision.placements)

    def _enter(self, jobs: Sequence[ObservedJob]) -> tuple[JobSpec, ...]:
        """Give new jobs their ids, in order of submission."""
        new = sorted(
            (each for each in jobs if each.name not in self._ids), key=lambda each: (each.submit_time, each.name)
        )
        first = len(self._specs)
        for each in new:
            latest = self._specs[-1].submit_time if self._specs else 0.0
            job = self._ids[each.name] = len(self._specs)
            spec = JobSpec(
                job,
                min(max(each.submit_time - self._began, latest), max(self._time, latest)),
                each.num_gpus,
                math.nan if self._predicts else self._throughput(each.num_gpus) * max(each.expected, 1.0),
                self._model,
                name=each.job_name,
                user=each.user,
                tenant=each.tenant,
            )
            self._specs.append(spec)
        return tuple(self._specs[first:])

    def _service(self, job: int) -> float:
        """GPU-seconds of a job that is gone: until now, if it ran when it was seen last."""
        start, gpus = self._held.get(job, (math.nan, 0))
        return max(self._time + self._began - start, 0.0) * gpus if start == start else 0.0

    def _throughput(self, gpus: int) -> float:
        cluster = self._mirror.setup.cluster
        nodes = -(-gpus // int(cluster.node_gpus.max()))
        found = find_throughput(
            self._mirror.setup.performance, self._model, Configuration(cluster.gpu_types[0], gpus, nodes)
        )
        if not found > 0:
            raise MurmurationError(f"model={self._model}: does not run on {gpus} GPUs; choose another one")
        return found

    def _state(self, job: int, seen: ObservedJob) -> JobState:
        ran = 0.0 if math.isnan(seen.start_time) else max(self._time + self._began - seen.start_time, 0.0)
        work = self._specs[job].work
        left = max(work - ran * self._throughput(seen.num_gpus), work * 0.01)  # where it has outlived its limit
        placement = Placement(dict(seen.gpus)) if seen.gpus else None
        state = JobState(job, placement, ran * seen.num_gpus, left)
        return replace(state, start_time=max(seen.start_time - self._began, 0.0)) if placement else state

    def _write(self, present: Mapping[int, ObservedJob], placements: Mapping[int, Placement | None]) -> dict[str, str]:
        found = {}
        for job, placement in sorted(placements.items()):
            seen = present[job]
            gpus = dict(placement.gpus) if placement else {}
            if gpus == dict(seen.gpus or {}):
                continue
            action = "stop" if not gpus else "start" if not seen.gpus else "move"
            where = ", ".join(f"{count} GPUs on node {node}" for node, count in gpus.items())
            found[seen.name] = f"{action} {where}".strip()
            self._journal.write(
                SHADOWED, action, job=seen.name, now=self._time, gpus={str(n): c for n, c in gpus.items()}
            )
        return found


def expected_time(seconds: float) -> Seconds:
    """Return how long a job may run, `MOST_HOURS` where its limit is unknown or infinite."""
    return seconds if 0 < seconds < math.inf else MOST_HOURS * 3600.0
