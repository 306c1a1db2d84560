"""Predictions of remaining work in one episode: what the setup's predictor makes of the jobs that have ended."""

from copy import copy

import numpy as np

from envs.performance import plain_model
from envs.scheduling import FollowingPredictor
from envs.simulation.compiled.jit import Records, leaf, part
from envs.simulation.setup import Setup
from envs.simulation.world.arrays import World
from envs.simulation.world.ideal import ideal_throughput
from envs.simulation.world.kernels import DONE, PENDING, remaining_work
from envs.simulation.world.ordered_set import next_member
from envs.simulation.world.throughput import ThroughputTable
from envs.types import NUM_OUTCOMES, FloatArray, IntArray, JobFacts, MurmurationError, TraceError
from envs.workloads import TraceSource, Workload, WorkloadSource

HISTORY = 20  # past episodes
HISTORY_SEED = 40
TRAIN, ALL = "train", "all"  # the split from which predictors learn, and that of all jobs of a trace
QUARTILES = 0.25, 0.75
SHORTEST_RUN = 1e-3  # seconds; no outcome is shorter


class Predictions:
    """Predicted work of the jobs of an episode, and what views show of it in place of the truth.

    A job's total work is one of `NUM_OUTCOMES` equally likely amounts. Of these, those that it has done already are
    ruled out, and its remaining work is the mean of the others less what it has done. A job that has outlived them all
    is taken to need as much again as it has done.

    The predictor is asked anew whenever a job is submitted or has ended. It sees the jobs in the system, with what they
    have done so far, and the ended ones. Work is predicted as run time on the requested GPUs, and converted by the
    throughput there. Where throughputs are hidden, that is the believed one (`believe`), so that no amount of work
    tells the true one.

    Args:
        setup: it has the predictor.
        workload: the jobs.
        table: their throughputs.

    Attributes:
        work: float64[num_jobs, NUM_OUTCOMES], samples of each job in ascending order; 0 before it is submitted.
    """

    def __init__(self, setup: Setup, workload: Workload, table: ThroughputTable) -> None:
        self._workload, self._table = workload, table
        self._rows = model_rows(workload, table)
        self._throughput = ideal_throughputs(workload, setup, table)
        self._predictor = setup.predictor
        self._facts = facts_of(workload, workload.jobs["work"] / self._throughput)
        self._episode = self._predictor.follow() if isinstance(self._predictor, FollowingPredictor) else None
        self._known = 0, -1
        self.work: FloatArray = np.zeros((len(workload), NUM_OUTCOMES))
        self._run_times = self.work.copy()  # of which these amounts follow

    def believe(self, table: ThroughputTable) -> None:
        """Convert run times by believed throughputs from now on, in the rows of the true ones."""
        if table is self._table:
            return
        self._table = table
        jobs = self._workload.jobs
        self._throughput = believed_throughput(table, self._rows, jobs["num_gpus"])
        self._facts = self._facts._replace(run_time=jobs["work"] / self._throughput)
        self.work[:] = self._run_times * self._throughput[:, None]

    def look(self, num_submitted: int, present: IntArray, done: FloatArray) -> None:
        """Predict anew at the beginning of a round, if a job was submitted or has ended.

        Args:
            num_submitted: jobs submitted so far.
            present: int64[n], those in the system.
            done: float64[n], samples that they have done.

        Raises:
            MurmurationError: the predictor returns something else than ascending positive run times.
        """
        known = num_submitted, num_submitted - len(present)
        if known == self._known:
            return
        new = np.arange(self._known[0], num_submitted)
        self._known = known
        order = np.argsort(present)
        present, done = present[order], done[order]
        ended = np.ones(num_submitted, np.bool_)
        ended[present] = False
        found = self._predict(new, present, done / self._throughput[present], np.flatnonzero(ended))
        self._run_times[present] = _checked(found, len(present))
        self.work[present] = self._run_times[present] * self._throughput[present, None]

    def copy(self) -> "Predictions":
        """Return a copy that goes on by itself."""
        other = copy(self)
        other.work, other._run_times = self.work.copy(), self._run_times.copy()
        other._episode = self._episode and self._episode.copy()
        return other

    def _predict(self, new: IntArray, present: IntArray, so_far: FloatArray, ended: IntArray) -> FloatArray:
        """Ask the predictor.

        Args:
            new: jobs that were submitted since it was asked last.
            present: jobs in the system.
            so_far: float64[n], seconds that these have run.
            ended: jobs that have ended.
        """
        if self._episode is None:
            return self._predictor.predict(self._facts.rows(present)._replace(run_time=so_far), self._facts.rows(ended))
        if len(new):
            self._episode.submit(self._facts.rows(new)._replace(run_time=np.zeros(len(new))))
        run_time = self._facts.run_time[: len(present) + len(ended)].copy()
        run_time[present] = so_far
        return self._episode.predict(present, ended, run_time)


def train_predictor(setup: Setup, source: WorkloadSource, num_episodes: int = HISTORY) -> None:
    """Train the setup's predictor on the source's split for training: on all of a trace's, or on the same draws always.

    Args:
        setup: the setup.
        source: of the jobs that will be predicted.
        num_episodes: the number of workloads that are drawn, where jobs are drawn.

    Raises:
        TraceError: a trace has no split for training.
    """
    rng = np.random.default_rng(HISTORY_SEED)
    if isinstance(source, TraceSource):
        workloads = [source.whole(TRAIN)]
    else:
        workloads = [source.episode(rng, TRAIN) for _ in range(num_episodes)]
    episodes = []
    for workload in workloads:
        table = ThroughputTable.of(setup, workload.models, int(workload.jobs["max_gpus"].max()))
        episodes.append(facts_of(workload, workload.jobs["work"] / ideal_throughputs(workload, setup, table)))
    setup.predictor.train(episodes)


def check_unseen(source: WorkloadSource, split: str | None) -> None:
    """Assert that predictors have not learnt from the jobs that they are asked about.

    Args:
        source: of the jobs.
        split: the split that is played; None for the source's own choice.

    Raises:
        TraceError: the split of a trace has jobs of its training days. Splits of drawn jobs share none.
    """
    if isinstance(source, TraceSource) and (played := split or source.evaluate_on) in (TRAIN, ALL):
        others = ", ".join(name for name in source.splits if name not in (TRAIN, ALL))
        raise TraceError(
            f"workload {source.name}: split {played!r} has the jobs from whose run times the predictor learns; "
            f"play another one with split=, of {others or 'none: set workload.splits'}"
        )


def ideal_throughputs(workload: Workload, setup: Setup, table: ThroughputTable) -> FloatArray:
    """float64[num_jobs]: samples/s of each job alone on its requested GPUs."""
    return ideal_throughput(setup, table, model_rows(workload, table), workload.jobs["num_gpus"])


def believed_throughput(table: ThroughputTable, rows: IntArray, num_gpus: IntArray) -> FloatArray:
    """Return the believed throughput of each job alone on its requested GPUs, as `ideal_throughput` does.

    Of gangs over several types nothing is believed: where no type has so many GPUs, it is the highest of the model.

    Args:
        table: believed throughputs.
        rows: int64[num_jobs], places of the models.
        num_gpus: int64[num_jobs], requested.
    """
    found = table.requested_throughput(rows, num_gpus)
    highest = table.consolidated()[rows].max(axis=(1, 2))
    believed: FloatArray = np.where(found > 0, found, np.where(highest > 0, highest, 1.0))
    return believed


def model_rows(workload: Workload, table: ThroughputTable) -> IntArray:
    """int64[num_jobs]: the place of each job's model in a table."""
    models: IntArray = np.array([table.models.index(model) for model in workload.models], np.int64)
    rows: IntArray = models[workload.jobs["model"]]
    return rows


def facts_of(workload: Workload, run_time: FloatArray) -> JobFacts:
    """Return the facts about all jobs of a workload, with float64[num_jobs] seconds as their run time."""
    jobs = workload.jobs
    return JobFacts(
        jobs["submit_time"].copy(),
        jobs["num_gpus"].copy(),
        np.array([plain_model(model) for model in workload.models])[jobs["model"]],
        np.array(workload.tenants)[jobs["tenant"]],
        np.array(workload.users or [""] * len(jobs)),
        np.array(workload.names or [""] * len(jobs)),
        run_time,
    )


def remaining_outcomes(outcomes: FloatArray, done: FloatArray) -> FloatArray:
    """Return what is left of predicted amounts of work: float64[n, NUM_OUTCOMES], NaN for those that are ruled out.

    Args:
        outcomes: float64[n, NUM_OUTCOMES], total samples.
        done: float64[n], samples done.
    """
    left = np.where(outcomes > done[:, None], outcomes - done[:, None], np.nan)
    outlived = np.isnan(left).all(axis=1)
    left[outlived, 0] = done[outlived]  # as much again
    return left


def quantiles_left(left: FloatArray) -> FloatArray:
    """Return the quartiles of what is left of predicted work: float64[n, 2], samples, of the outcomes not ruled out.

    Args:
        left: float64[n, any], as `remaining_outcomes` returns it.
    """
    known = ~np.isnan(left)
    spread = known.sum(axis=1) - 1
    first, rows = known.argmax(axis=1), np.arange(len(left))
    return np.stack([left[rows, first + (share * spread).astype(np.int64)] for share in QUARTILES], axis=1)


def _checked(found: FloatArray, count: int) -> FloatArray:
    """Return what a predictor found, with no run time below `SHORTEST_RUN`."""
    found = np.asarray(found, np.float64)
    if found.shape != (count, NUM_OUTCOMES):
        raise MurmurationError(
            f"predictor: returned run times of shape {found.shape}; it must be ({count}, {NUM_OUTCOMES})"
        )
    if not (np.isfinite(found).all() and (found >= 0).all() and (np.diff(found, axis=1) >= 0).all()):
        raise MurmurationError("predictor: run times must be finite, not negative and ascending in each row")
    return np.maximum(found, SHORTEST_RUN)


@leaf
def expected_left(outcomes: FloatArray, done: float) -> float:
    """Return the mean of what is left of the outcomes above `done`, or `done` if there are none."""
    total = 0.0
    count = 0
    for k in range(len(outcomes)):
        if outcomes[k] > done:
            total += outcomes[k] - done
            count += 1
    return total / count if count else done


@leaf
def set_estimate(job: Records, outcomes: FloatArray, time: float) -> None:
    """Set the factor of a job by which views show its remaining work; never 1, which would mean exact."""
    left = remaining_work(job, time)
    if left > 0.0:
        job.estimate = expected_left(outcomes, job.work - left) / left
        if job.estimate == 1.0:
            job.estimate = 1.0 + 2.0**-52


@part
def list_jobs_present(world: World, present: IntArray, done: FloatArray) -> int:
    """List the jobs that have not run to their end, and the samples that each has done; return their number.

    Args:
        world: the engine's arrays.
        present: int64[num_jobs], overwritten.
        done: float64[num_jobs], overwritten.
    """
    time = world.episode[0].time
    count = 0
    for members in (world.queued, world.running):
        j = next_member(members, len(world.jobs), 0)
        while j >= 0:
            present[count] = j
            done[count] = world.jobs[j].work - remaining_work(world.jobs[j], time)
            count += 1
            j = next_member(members, len(world.jobs), j + 1)
    if world.episode[0].holds:  # of jobs that have not run nothing can be learnt
        for j in range(world.episode[0].next_job):
            job = world.jobs[j]
            if job.status == PENDING or (job.status == DONE and np.isnan(job.start)):
                present[count] = j
                done[count] = 0.0
                count += 1
    return count


@part
def show_predicted(world: World, present: IntArray, work: FloatArray) -> None:
    """Call `set_estimate` for jobs in the system.

    Args:
        world: the engine's arrays.
        present: int64[any], the jobs.
        work: `Predictions.work`.
    """
    for j in present:
        set_estimate(world.jobs[j], work[j], world.episode[0].time)
