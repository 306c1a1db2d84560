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
from envs.simulation import Setup
from envs.types import Configuration, JobSpec, MurmurationError, NodeId, Placement, Seconds

OBSERVED = "observed"  # phase of a journal's line about something that others did
MOST_HOURS = 24.0  # that a job without a time limit is taken to run


class RoundFailedError(MurmurationError):
    """A scheduler could not answer one round; it begins anew with the next one."""


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
    performance model must know; the work of a job is what it would do within its time limit, unless it is predicted.

    Args:
        scheduler: it is reset here.
        setup: of the cluster; see `Mirror`.
        model: stands for all jobs.
        journal: takes the decisions.

    Attributes:
        num_rounds: rounds that the scheduler has answered.
        left_out: why a job is not shown to the scheduler, by its name; whoever reads the jobs adds those that are
            damaged.

    Raises:
        MurmurationError: the model runs on no number of GPUs.
    """

    def __init__(self, scheduler: Scheduler, setup: Setup, model: str, journal: Journal) -> None:
        self._scheduler, self._setup, self._model, self._journal = scheduler, setup, model, journal
        self._predicts = setup.scenario.information.work == "predicted"
        self._throughputs: dict[int, float] = {}
        self._began, self._time = math.nan, 0.0
        self.num_rounds, self.left_out = 0, dict[str, str]()
        if not any(self._throughput(gpus) > 0 for gpus in range(1, setup.cluster.num_gpus + 1)):
            raise MurmurationError(f"model={model}: does not run on {setup.cluster.name}; choose another one")
        self._begin()

    def _begin(self) -> None:
        """Begin with an empty mirror and a scheduler that is reset."""
        mirror = Mirror(self._setup, [self._model], most_gpus=self._setup.cluster.num_gpus)
        self._asked = LocalScheduler(self._scheduler, mirror, np.random.default_rng(0))
        self._ids: dict[str, int] = {}  # of the jobs that are present: one that comes back is another one
        self._specs: list[JobSpec] = []
        self._held: dict[int, tuple[float, int]] = {}  # start time and GPUs of those that ran at the last look
        self._seen: object = None

    def look(self, now: float, jobs: Sequence[ObservedJob], down: frozenset[NodeId] = frozenset()) -> dict[str, str]:
        """Show the present jobs; return by name what the scheduler would change, nothing if all is as it was.

        Args:
            now: seconds since 1970.
            jobs: all that wait or run, in any order.
            down: nodes that cannot run jobs.

        Raises:
            RoundFailedError: the scheduler has failed; it is reset, and the next look begins anew.
        """
        if math.isnan(self._began):
            self._began = min([now, *(each.submit_time for each in jobs)])
        fitting = self._fitting(jobs)
        seen = {(each.name, tuple((each.gpus or {}).items())) for each in fitting}
        if not fitting or (seen, down) == self._seen:
            return {}
        self._time = max(now - self._began, self._time)  # a clock that was set back does not count
        try:
            found = self._round(fitting, down)
        except Exception as error:  # a scheduler may be anybody's
            self._begin()
            name = "" if isinstance(error, MurmurationError) else f"{type(error).__name__}: "
            raise RoundFailedError(f"the scheduler failed ({name}{error})") from error
        self._seen = (seen, down)
        self.num_rounds += 1
        return found

    def _fitting(self, jobs: Sequence[ObservedJob]) -> list[ObservedJob]:
        """Return the jobs that can be shown, each once; a look may show more than the nodes of the setup hold."""
        free = self._setup.cluster.node_gpus.tolist()
        found: dict[str, ObservedJob] = {}
        for each in jobs:
            if each.name in found:
                continue
            if why := self._why_not(each, free):
                self.left_out.setdefault(each.name, f"job {each.name}: {why}")
                continue
            found[each.name] = each
            for node, count in (each.gpus or {}).items():
                free[node] -= count
        return list(found.values())

    def _why_not(self, job: ObservedJob, free: Sequence[int]) -> str:
        """Return why a job cannot be shown beside those that hold the other GPUs; empty if it can."""
        cluster = self._setup.cluster
        if job.num_gpus > cluster.num_gpus:
            return f"asks for {job.num_gpus} GPUs; {cluster.name} has {cluster.num_gpus}"
        if any(count > free[node] for node, count in (job.gpus or {}).items()):
            return f"holds GPUs that other jobs hold, or that {cluster.name} does not have"
        try:
            runs = self._throughput(job.num_gpus) > 0
        except MurmurationError as error:
            return str(error)
        return "" if runs else f"model={self._model} does not run on {job.num_gpus} GPUs"

    def _round(self, jobs: Sequence[ObservedJob], down: frozenset[NodeId]) -> dict[str, str]:
        """Ask the scheduler."""
        before = set(self._ids.values())
        self._ids = {each.name: self._ids[each.name] for each in jobs if each.name in self._ids}
        submitted = self._enter(jobs)
        present = {self._ids[each.name]: each for each in jobs}
        ended = {job: self._service(job) for job in sorted(before - set(present))}
        self._held = {job: (each.start_time, each.num_gpus) for job, each in present.items() if each.gpus}
        states = tuple(self._state(job, present[job]) for job in sorted(present))
        down -= {node for each in jobs for node in each.gpus or ()}  # a node that is drained runs its jobs to their end
        decision = self._asked.decide(ClusterState(self._time, submitted, ended, down, states))
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
            self._journal.write(OBSERVED, "job", job=each.name, gpus=each.num_gpus, now=self._time)
        return tuple(self._specs[first:])

    def _service(self, job: int) -> float:
        """GPU-seconds of a job that is gone: until now, if it ran when it was seen last."""
        start, gpus = self._held.get(job, (math.nan, 0))
        return max(self._time + self._began - start, 0.0) * gpus if start == start else 0.0

    def _throughput(self, gpus: int) -> float:
        """Samples/s of a job; 0 if it does not run on this number of GPUs."""
        if gpus not in self._throughputs:
            cluster = self._setup.cluster
            configuration = Configuration(cluster.gpu_types[0], gpus, -(-gpus // int(cluster.node_gpus.max())))
            self._throughputs[gpus] = find_throughput(self._setup.performance, self._model, configuration)
        return self._throughputs[gpus]

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
