"""Views of a cluster, and private copies of it, on which planners and policies let time pass."""

from collections.abc import Sequence
from dataclasses import replace
from typing import Any

import numpy as np
import numpy.typing as npt

from envs.simulation.known.beliefs import Beliefs
from envs.simulation.scenario import Scenario
from envs.simulation.seen.snapshot_kernels import KNOWN, OPEN, USED, assume_remaining, copy_episode, use_own_throughputs
from envs.simulation.seen.view import StateView, ViewSource
from envs.simulation.setup import Setup
from envs.simulation.simulated_episode import SimulatedEpisode
from envs.simulation.world.exact import ExactThroughputs
from envs.simulation.world.state import State
from envs.simulation.world.throughput import ThroughputTable
from envs.types import ClusterSpec, ExecutionPlan, FloatArray, IntArray, JobSpec, MurmurationError
from envs.workloads import Workload
from envs.workloads.workload import JOB_COLUMNS

LEAST_ROWS = 64  # for jobs
LISTS = {"names": "name", "plans": "plan", "users": "user", "qos": "qos"}  # by column of a workload the field of a job
NO_JOBS = np.zeros(0, np.int64)


class SimulationView(StateView):
    """`envs.scheduling.ClusterView` of a compiled simulation: what is seen of its state, and copies of that."""

    @property
    def doubt(self) -> tuple[FloatArray, IntArray] | None:
        """Spread and number of samples of all beliefs, by model, GPU type, GPUs and level of nodes; None where exact.

        They are those of `belief`, as arrays for kernels.
        """
        beliefs = self._engine_side.beliefs
        return None if beliefs is None else (beliefs.spread, beliefs.num_samples)

    def snapshot(
        self,
        remaining: FloatArray | None = None,
        *,
        into: "Snapshot | None" = None,
        logging: bool = False,
    ) -> "Snapshot":
        """A private copy of the cluster, on which time can pass; see `Snapshot`.

        Args:
            remaining: float64[num_submitted], samples left that the copy assumes; NaN takes what the scenario reveals.
            into: an earlier snapshot to overwrite, which is much faster than a new one.
            logging: whether the copy logs its events; a log costs a little time.

        Raises:
            MurmurationError: the round has already changed jobs, or `remaining` is negative or of another shape.
        """
        source = self._engine_side
        copy = into if into is not None else Snapshot(source.setup, source.table)
        copy.take(source, remaining, logging=logging)
        return copy


class Snapshot(SimulatedEpisode):
    """A private copy of the cluster in one round, without what a scheduler must not know; see `ClusterView.snapshot`.

    It is a simulator of its own: `view`, `apply`, `advance`, `world` and `CompiledScheduler.play` work as usual. It
    begins in the round of its view, before an allocation, and job ids are the same. It shares no memory with the
    engine. Where nothing is hidden and nothing arrives, its continuation equals the engine's to the bit.

    - Jobs that are not submitted are absent, and so is their number. Nodes do not fail, and a node that is down stays
      down: `scenario.failures` is None.
    - Remaining work is what the scenario reveals: exact; the estimate, as if it were exact; endless if nothing is
      known. The view of a snapshot shows what the scheduler's own view shows, so NaN if nothing is known.
    - The horizon is the scenario's. There is no log unless it is asked for.
    - `add_arrivals` adds jobs that might be submitted later, for planners that guess what will arrive.

    A first copy costs time in proportion to the submitted jobs. Later ones into the same snapshot copy only the jobs in
    the system and those submitted since; `state` and `world` are new objects after it had to grow.

    Args:
        setup: cluster, performance model and scenario of the episode.
        table: throughputs of the models in the workload.
    """

    def __init__(self, setup: Setup, table: ThroughputTable) -> None:
        scenario = replace(setup.scenario, failures=None, quotas=dict(setup.scenario.quotas))
        state = _empty_state(setup.cluster, LEAST_ROWS, scenario)
        super().__init__(replace(setup, scenario=scenario), table, state, np.random.SeedSequence(0))
        self._listed = np.zeros(LEAST_ROWS, np.int64)
        self._sizes = np.zeros(3, np.int64)
        self._by_job: dict[str, list[Any]] = {}  # columns of the workload that are lists, and may be empty
        self._about: tuple[str, tuple[str, ...], tuple[str, ...]] = (
            "",
            (),
            (),
        )  # name, models, tenants of the workload
        self._history = -1
        self._known_view: SimulationView | None = None
        self._exact = ExactThroughputs(self.setup)
        self._engine_side: Beliefs | None = None
        self._forget()

    def _make_room(self, rows: int) -> None:
        """Allocate empty arrays for jobs, at least doubled so that this happens rarely."""
        capacity = max(LEAST_ROWS, 1 << (rows - 1).bit_length())
        self.state = _empty_state(self.cluster, capacity, self.scenario)
        self._listed = np.zeros(capacity, np.int64)
        self._world = None
        self._forget()

    def _forget(self) -> None:
        """Make the next copy copy everything."""
        self._columns = np.zeros(self.state.jobs.shape[1], JOB_COLUMNS)  # other snapshots may use the old ones
        self._by_job = {column: [] for column in LISTS}
        self._sizes[OPEN] = self._sizes[KNOWN] = 0

    @property
    def exact(self) -> ExactThroughputs:
        """Exact throughputs of placements that set more than GPUs."""
        return self._exact

    @property
    def workload(self) -> Workload:
        """The submitted jobs; work that the scenario hides is 1 sample."""
        return self.view._engine_side.workload

    @property
    def view(self) -> SimulationView:
        """A view of the copy at its present time."""
        if self._known_view is None:
            self._known_view = SimulationView(
                self.state, self.setup, self._submitted(), self.table, self.exact, self.plans, self._engine_side
            )
        return self._known_view

    def _submitted(self) -> Workload:
        """Return the submitted jobs as a workload."""
        count = int(self._sizes[USED])
        jobs, (name, models, tenants) = self._columns[:count].copy(), self._about
        work = self.state.jobs["work"][0, :count]
        jobs["work"] = np.where(np.isnan(work), 1.0, work)
        lists: dict[str, Any] = {column: self._by_job[column][:count] for column in LISTS}
        return Workload(name, jobs, models, tenants, **lists)

    def take(self, view: ViewSource, remaining: FloatArray | None = None, *, logging: bool = False) -> None:
        """Copy an episode; `SimulationView.snapshot` calls this.

        Where throughputs are hidden, running jobs continue at the throughputs that the view shows.

        Args:
            view: the engine's side of a view, between rounds.
            remaining: float64[num_submitted], samples left that the copy assumes; NaN takes what the scenario reveals.
            logging: whether the copy logs its events.

        Raises:
            MurmurationError: the round has already changed jobs, or `remaining` is negative or of another shape.
        """
        source = view.world
        if source.episode["num_touched"][0]:
            raise MurmurationError(
                f"snapshot: {source.episode['num_touched'][0]} jobs are changed already in this round; take it before"
            )
        used = int(source.episode["next_job"][0])
        assumed = _checked(remaining, used)
        self._drop_arrivals()
        self._prepare(used, int(source.episode["history"][0]), view.table)
        self._exact, self._engine_side = view.exact, view.beliefs
        self._append(view.workload, used)
        copy_episode(source, self.world, self._listed, NO_JOBS, self._sizes, used, True)
        if view.beliefs is not None:
            use_own_throughputs(self.world)
        if assumed is not None:
            assume_remaining(self.world, self._listed, int(self._sizes[OPEN]), assumed)
        self._finish(view.plans, logging)

    def add_arrivals(self, jobs: Sequence[JobSpec]) -> None:
        """Add jobs that might be submitted from now on. Their ids follow those of the jobs that are there already.

        The next `take` forgets them; `copy_from` copies them. On the copy they are like all other jobs: the view shows
        each from its submission on. If the copy has to grow, its log begins anew. Names, plans and users are kept
        only if the jobs of the workload have some.

        Args:
            jobs: in order of submission; their `id` is ignored. Models and tenants must be those of the workload.

        Raises:
            MurmurationError: the round has already changed jobs, or a job is submitted before the present or before
                another one in front of it, has an unknown model or tenant, unknown work or too many GPUs.
        """
        if self.state.episode["num_touched"][0, 0]:
            raise MurmurationError("snapshot: jobs are changed already in this round; add arrivals before")
        self._check_arrivals(jobs)
        first, end = int(self._sizes[USED]), int(self._sizes[USED]) + len(jobs)
        if end > self.state.jobs.shape[1]:
            self._grow(end)
        more = self._columns_of(jobs)
        self._columns = np.concatenate([self._columns[:first], more])  # other snapshots may use the old ones
        for column, values in self._by_job.items():
            if values:
                self._by_job[column] = [*values, *(getattr(job, LISTS[column]) for job in jobs)]
        models = np.array([self.table.models.index(job.model) for job in jobs], np.int64)
        self.state.append(first, more, models, self.scenario, self.table)
        self._sizes[USED], self._known_view = end, None

    def _check_arrivals(self, jobs: Sequence[JobSpec]) -> None:
        """Check what `add_arrivals` requires."""
        _, models, tenants = self._about
        latest = max([float(self.state.episode[0, 0].time), *self._columns["submit_time"][self._arrivals].tolist()])
        most = self.table.throughputs.shape[2] - 1
        for place, job in enumerate(jobs):
            if not latest <= job.submit_time < np.inf:
                raise MurmurationError(
                    f"snapshot: arrival {place} is submitted at t = {job.submit_time:g} s; it must be finite and at "
                    f"least {latest:g} s"
                )
            latest = job.submit_time
            for name, value, known in (("model", job.model, models), ("tenant", job.tenant, tenants)):
                if value not in known:
                    raise MurmurationError(
                        f"snapshot: arrival {place} has the {name} {value!r}; known: {', '.join(known)}"
                    )
            if np.isnan(job.work) or job.max_gpus > most:
                raise MurmurationError(
                    f"snapshot: arrival {place} has {job.work:g} samples and at most {job.max_gpus} GPUs; its work "
                    f"must be a number, and jobs have at most {most} GPUs here"
                )

    @property
    def _arrivals(self) -> slice:
        """Rows of the jobs that `add_arrivals` added."""
        return slice(int(self._sizes[KNOWN]), int(self._sizes[USED]))

    def _columns_of(self, jobs: Sequence[JobSpec]) -> npt.NDArray[np.void]:
        """Return jobs as rows of the workload."""
        _, models, tenants = self._about
        rows = np.zeros(len(jobs), JOB_COLUMNS)
        for row, job in zip(rows, jobs, strict=True):
            for name in ("submit_time", "work", "num_gpus", "min_gpus", "max_gpus", "min_batch", "max_batch"):
                row[name] = getattr(job, name)
            row["guaranteed"], row["priority"], row["nice"] = job.guaranteed, job.priority, job.nice
            row["duration"] = np.nan
            row["time_limit"] = job.time_limit if np.isfinite(job.time_limit) else 0.0
            row["model"], row["tenant"] = models.index(job.model), tenants.index(job.tenant)
        return rows

    def _grow(self, rows: int) -> None:
        """Make room for more jobs and keep what is there, except for the log."""
        larger = Snapshot(self.setup, self.table)
        larger._make_room(rows)
        larger.copy_from(self, logging=bool(self.state.episode["logging"][0, 0]))
        vars(self).update(vars(larger))

    def _drop_arrivals(self) -> None:
        """Forget what the workload says of added jobs; their rows of the state are overwritten with the next copy."""
        known = int(self._sizes[KNOWN])
        if self._sizes[USED] > known:
            self._columns = self._columns[:known].copy()
            self._by_job = {column: values[:known] for column, values in self._by_job.items()}

    def copy_from(self, other: "Snapshot", *, logging: bool = False) -> None:
        """Become a copy of another snapshot, between its rounds; of the same episode it copies only what may differ.

        Args:
            other: the snapshot, for example one of this round, of which each proposal of a planner takes a copy.
            logging: whether this copy logs its events.

        Raises:
            MurmurationError: the round of the other snapshot has already changed jobs.
        """
        if other.state.episode["num_touched"][0, 0]:
            raise MurmurationError("snapshot: the other one has changed jobs in this round; copy it between rounds")
        used = int(other._sizes[USED])
        self._prepare(used, other._history, other.table)
        self._columns, self._by_job = other._columns, dict(other._by_job)
        self._about, self._exact, self._engine_side = other._about, other._exact, other._engine_side
        count, known = int(other._sizes[OPEN]), other._sizes[KNOWN]
        self._sizes[KNOWN] = min(self._sizes[KNOWN], known)
        copy_episode(other.world, self.world, self._listed, other._listed[:count], self._sizes, used, False)
        self._listed[:count] = other._listed[:count]
        self._sizes[OPEN], self._sizes[KNOWN] = count, known
        self._finish(other.plans, logging)

    def _prepare(self, used: int, history: int, table: ThroughputTable) -> None:
        """Make room, and forget an episode other than this one."""
        if used > self.state.jobs.shape[1]:
            self._make_room(used)
        elif history != self._history:
            self._forget()
        if table is not self.table:
            self.table, self._world = table, None
        self._history, self._known_view = history, None

    def _append(self, workload: Workload, used: int) -> None:
        """Append the submitted jobs that are not known yet, without their work."""
        known = int(self._sizes[KNOWN])
        if known == used and known:
            return
        self._about = (workload.name, workload.models, workload.tenants)
        if used > len(self._columns):  # these are another snapshot's
            more = np.zeros(self.state.jobs.shape[1] - known, JOB_COLUMNS)
            self._columns = np.concatenate([self._columns[:known], more])
        self._columns[known:used] = workload.jobs[known:used]
        self._columns["work"][known:used] = self._columns["duration"][known:used] = np.nan
        for column, values in self._by_job.items():
            values.extend(getattr(workload, column)[len(values) : used])  # another snapshot may have extended them

    def _finish(self, plans: Sequence[ExecutionPlan], logging: bool) -> None:
        self.plans[:] = plans
        self.state.episode["horizon"] = self.scenario.horizon
        self.state.episode["logging"] = logging
        if logging and not self.state.events.shape[1]:
            self.grow_log()


def _empty_state(cluster: ClusterSpec, rows: int, scenario: Scenario) -> State:
    """Return arrays for so many jobs, none of which is there."""
    state = State.allocate(cluster, rows, scenario=scenario)
    state.forget_jobs(0)
    return state


def _checked(remaining: FloatArray | None, count: int) -> npt.NDArray[np.float64] | None:
    """Check the samples left that a caller assumes."""
    if remaining is None:
        return None
    assumed: npt.NDArray[np.float64] = np.ascontiguousarray(remaining, np.float64)
    if assumed.shape != (count,):
        raise MurmurationError(f"snapshot: remaining has shape {assumed.shape}; give one for each of {count} jobs")
    if (assumed < 0).any():
        job = int(np.flatnonzero(assumed < 0)[0])
        raise MurmurationError(f"snapshot: remaining of job {job} is {assumed[job]:g} samples; give 0 or more, or NaN")
    return assumed
