"""The history of jobs that another scheduler starts: when each could start, began and ended."""

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from envs.performance import find_throughput
from envs.simulation import Setup
from envs.types import Configuration, Constraints, JobId, JobSpec, MurmurationError, NodeId, Seconds

MOST_HOURS = 24.0  # that a job without a time limit is taken to run


@dataclass(frozen=True, slots=True)
class ObservedJob:
    """A job of somebody else, as the cluster manager shows it; times in seconds since 1970, NaN if unknown.

    Attributes:
        name: by which the cluster manager knows it.
        submit_time: when it was submitted, or became eligible to start.
        num_gpus: GPUs that it asks for, or holds.
        expected: how long it may run: its time limit.
        start_time: when it began; NaN while it waits.
        gpus: what it holds; None while it waits.
        user: its owner.
        tenant: its account.
        job_name: which users choose, so that several jobs have it.
        end_time: when it ended; NaN while it waits or runs.
        run_time: how long it will have run, which only a recording knows before its end.
        eligible: whether it may start, as far as its owner and dependencies are concerned.
        opted_in: whether its owner lets an adviser change its place in the queue.
        nice: Slurm's adjustment of its priority: a higher value lowers it.
        priority: by which the cluster manager orders jobs that wait.
        partition: in whose queue it waits.
        max_nodes: on how many nodes it can be at most; 0 for any number.
    """

    name: str
    submit_time: float
    num_gpus: int
    expected: Seconds
    start_time: float = math.nan
    gpus: Mapping[NodeId, int] | None = None
    user: str = ""
    tenant: str = ""
    job_name: str = ""
    end_time: float = math.nan
    run_time: Seconds = math.nan
    eligible: bool = True
    opted_in: bool = False
    nice: int = 0
    priority: float = 0.0
    partition: str = ""
    max_nodes: int = 0

    @property
    def ended(self) -> bool:
        """Whether it has left the cluster."""
        return not math.isnan(self.end_time)


@dataclass(slots=True)
class JobHistory:
    """One job since it was seen first; times in seconds since the history began, NaN if not yet.

    Attributes:
        spec: as schedulers see it; submitted when it could be started first.
        seen: as it was seen last.
        start: when it really began.
        left: when it really ended, or was cancelled while it waited.
    """

    spec: JobSpec
    seen: ObservedJob
    start: Seconds = math.nan
    left: Seconds = math.nan

    @property
    def cancelled(self) -> bool:
        """Whether it left without having run."""
        return math.isnan(self.start) and not math.isnan(self.left)

    @property
    def run_time(self) -> Seconds:
        """How long it really ran; NaN where that is not known yet."""
        return self.left - self.start if math.isnan(self.seen.run_time) else self.seen.run_time


class StandIn:
    """The model that stands for those of all observed jobs, which nobody knows.

    A job is rigid, since its owner asked for so many GPUs. Its work is what it would do within its time limit, unless
    the setup predicts it.

    Args:
        setup: of the cluster.
        model: which the performance model must know.

    Raises:
        MurmurationError: the model runs on no number of GPUs.
    """

    def __init__(self, setup: Setup, model: str) -> None:
        self.setup, self.model = setup, model
        self._throughputs: dict[int, float] = {}
        if not any(self.throughput(gpus) > 0 for gpus in range(1, setup.cluster.num_gpus + 1)):
            raise MurmurationError(f"model={model}: does not run on {setup.cluster.name}; choose another one")

    def throughput(self, gpus: int) -> float:
        """Return samples/s of a job; 0 if it does not run on this number of GPUs."""
        if gpus not in self._throughputs:
            cluster = self.setup.cluster
            configuration = Configuration(cluster.gpu_types[0], gpus, -(-gpus // int(cluster.node_gpus.max())))
            self._throughputs[gpus] = find_throughput(self.setup.performance, self.model, configuration)
        return self._throughputs[gpus]

    def why_not(self, job: ObservedJob) -> str:
        """Return why a job can never be shown to a scheduler; empty if it can."""
        cluster = self.setup.cluster
        if job.num_gpus > cluster.num_gpus:
            return f"asks for {job.num_gpus} GPUs; {cluster.name} has {cluster.num_gpus}"
        try:
            runs = self.throughput(job.num_gpus) > 0
        except MurmurationError as error:
            return str(error)
        return "" if runs else f"model={self.model} does not run on {job.num_gpus} GPUs"

    def describe(self, job: JobId, since: Seconds, seen: ObservedJob) -> JobSpec:
        """Return a job as schedulers see it, from its id and when it could be started first."""
        predicts = self.setup.scenario.information.work == "predicted"
        fits = seen.num_gpus <= seen.max_nodes * int(self.setup.cluster.node_gpus.max())
        return JobSpec(
            job,
            since,
            seen.num_gpus,
            math.nan if predicts else self.throughput(seen.num_gpus) * max(seen.expected, 1.0),
            self.model,
            name=seen.job_name,
            user=seen.user,
            tenant=seen.tenant,
            constraints=Constraints(max_nodes=seen.max_nodes if fits else 0),
        )


class ClusterHistory:
    """Puts looks at a cluster together.

    Args:
        stand_in: describes the jobs to schedulers.

    Attributes:
        began: second since 1970 from which times count: the earliest submission of the first look; NaN before it.
        time: of the last look.
        jobs: by id, in the order in which they could be started.
        down: nodes out of service, and since when, in order.
        left_out: why a job is not shown, by its name; whoever reads the jobs adds those that are damaged.
    """

    def __init__(self, stand_in: StandIn) -> None:
        self.stand_in = stand_in
        self.began, self.time = math.nan, 0.0
        self.jobs: list[JobHistory] = []
        self.down: list[tuple[Seconds, frozenset[NodeId]]] = []
        self.left_out = dict[str, str]()
        self._open: dict[str, JobHistory] = {}  # a job that comes back is another one
        self._over: set[str] = set()
        self._held: set[str] = set()  # jobs that could not start when they were seen

    def look(self, now: float, jobs: Sequence[ObservedJob], down: frozenset[NodeId] = frozenset()) -> list[JobHistory]:
        """Take what is seen now; return the jobs that are new.

        Args:
            now: seconds since 1970; a clock that was set back does not count.
            jobs: all that wait or run, and those that have ended as long as they are listed, in any order.
            down: nodes that cannot run new jobs.
        """
        first = math.isnan(self.began)
        if first:
            self.began = min([now, *(each.submit_time for each in jobs if not each.ended)])
        before, self.time = self.time, max(now - self.began, self.time)
        if not self.down or self.down[-1][1] != down:
            self.down.append((self.time, down))
        fitting = self._fitting([each for each in jobs if self._counts(each, first, before)])
        present = {each.name for each in fitting}
        for name in [name for name in self._open if name not in present]:
            self._close(name, self.time)
        for each in fitting:
            known = self._open.get(each.name)
            if known and not math.isnan(known.start) and math.isnan(each.start_time):  # it waits again
                self._close(each.name, self.time)
        entries = [(self._since(each, 0.0 if first else before), each) for each in fitting]
        entries = [each for each in entries if each[0] <= self.time and each[1].name not in self._open]
        new = [self._enter(each, since) for since, each in sorted(entries, key=lambda each: (each[0], each[1].name))]
        for each in fitting:
            if each.name in self._open:
                self._follow(self._open[each.name], each)
            elif not each.eligible:
                self._held.add(each.name)
        return new

    def _counts(self, job: ObservedJob, first: bool, before: Seconds) -> bool:
        """Whether a job is present, or has ended since the last look."""
        if not job.ended or job.name in self._open:
            return True
        return not first and job.name not in self._over and job.end_time - self.began > before

    def _since(self, job: ObservedJob, before: Seconds) -> Seconds:
        """Return since when a job could start, which the last look did not show; infinite if it cannot."""
        if not (job.eligible or job.gpus or job.ended):
            return math.inf
        if job.gpus or job.ended:
            return min(max(job.submit_time - self.began, before), self.time)
        return self.time if job.name in self._held else max(job.submit_time - self.began, before)

    def _enter(self, job: ObservedJob, since: Seconds) -> JobHistory:
        entered = JobHistory(self.stand_in.describe(len(self.jobs), since, job), job)
        self.jobs.append(entered)
        self._open[job.name] = entered
        return entered

    def _follow(self, known: JobHistory, job: ObservedJob) -> None:
        known.seen = job
        if math.isnan(known.start) and not math.isnan(job.start_time):
            known.start = min(max(job.start_time - self.began, 0.0), self.time)
        if job.ended:
            self._close(job.name, min(max(job.end_time - self.began, 0.0), self.time))

    def _close(self, name: str, left: Seconds) -> None:
        self._open.pop(name).left = left
        self._over.add(name)

    def _fitting(self, jobs: Sequence[ObservedJob]) -> list[ObservedJob]:
        """Return the jobs that can be shown, each once; a look may show more than the nodes of the setup hold."""
        free = self.stand_in.setup.cluster.node_gpus.tolist()
        found: dict[str, ObservedJob] = {}
        for each in jobs:
            if each.name in found and not found[each.name].ended:
                continue
            why = self.stand_in.why_not(each)
            if any(count > free[node] for node, count in (each.gpus or {}).items()):
                why = f"holds GPUs that other jobs hold, or that {self.stand_in.setup.cluster.name} does not have"
            if why:
                self.left_out.setdefault(each.name, f"job {each.name}: {why}")
                continue
            found[each.name] = each
            for node, count in (each.gpus or {}).items():
                free[node] -= count
        return list(found.values())


def expected_time(seconds: float) -> Seconds:
    """Return how long a job may run, `MOST_HOURS` where its limit is unknown or infinite."""
    return seconds if 0 < seconds < math.inf else MOST_HOURS * 3600.0
