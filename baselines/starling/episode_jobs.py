"""The jobs of the episodes of a batch, looked up before they arrive, for a market that decides in compiled code."""

import copy

import numpy as np

from baselines.parts.scalability import AnalysedJobs, Analyser
from baselines.starling.compiled import EveryJob
from baselines.starling.knee import Knees, ScalingGroups
from baselines.starling.tables import JobTables, tables_of_jobs
from envs.scheduling import ClusterView
from envs.simulation import ThroughputTable
from envs.simulation.world.arrays import World
from envs.simulation.world.exact import ExactThroughputs
from envs.types import ClusterSpec, Configuration, FloatArray, IntArray, JobId, JobSpec

RANGES = ("min_gpus", "max_gpus", "min_batch", "max_batch")  # of a job; jobs of one model that share them scale alike


class EpisodeJobs(EveryJob):
    """The jobs of one episode of a batch as submitted, future ones included; see `EveryJob`."""

    def __init__(
        self, worlds: World, b: int, cluster: ClusterSpec, table: ThroughputTable, exact: ExactThroughputs
    ) -> None:
        jobs = worlds.jobs[b]
        columns = jobs[jobs["submit"] < np.inf]
        self.cluster = cluster
        self.num_gpus, self.min_gpus = columns["num_gpus"].copy(), columns["min_gpus"].copy()
        self.max_gpus, self.model = columns["max_gpus"].copy(), columns["model"].copy()
        self.min_batch, self.max_batch = columns["min_batch"].copy(), columns["max_batch"].copy()
        self.num_beliefs = 0  # throughputs are told here
        self.models, self._table, self._exact = table.models, table, exact

    def job(self, job: JobId) -> JobSpec:
        """See `ClusterView.job`; of its columns, those on which throughputs depend."""
        requested, least, most, low, high = (int(getattr(self, name)[job]) for name in ("num_gpus", *RANGES))
        return JobSpec(job, 0.0, requested, np.nan, self._model(job), least, most, low, high)

    def goodput(self, job: JobId, configuration: Configuration) -> float:
        """See `ClusterView.goodput`."""
        return self._exact.goodput(self._model(job), configuration)

    def batch_range(self, job: JobId, gpu_type: str, num_gpus: int) -> tuple[int, int] | None:
        """See `ClusterView.batch_range`."""
        low, high = int(self.min_batch[job]), int(self.max_batch[job])
        return self._exact.batches.offered(self._model(job), gpu_type, num_gpus, low, high)

    def _model(self, job: JobId) -> str:
        return self._table.models[int(self.model[job])]

    def continues(self, earlier: "EpisodeJobs") -> bool:
        """Whether these are the jobs of an earlier round and perhaps further ones, as on snapshots of one episode."""
        count = len(earlier.model)
        return len(self.model) >= count and all(
            np.array_equal(getattr(self, name)[:count], getattr(earlier, name))
            for name in ("num_gpus", "model", *RANGES)
        )


class BatchTables:
    """`JobTables` of all episodes of a batch. Jobs of equal scaling form one group, in whichever episodes they are.

    Args:
        thresholds: knees of the variants, see `Knees`.
        gangs: `gang` of the variants.
        analyser: finds the batch sizes of best goodput; None leaves all batch sizes to the world.
        batch_size: number of episodes.
        num_jobs: the largest number of jobs of one episode.

    Attributes:
        by_job: int64[batch_size, 3, num_jobs], group, model and requested GPUs of each job.
        requested: float64[batch_size, num_jobs], samples/s on the requested GPUs.
        shared: the tables of the groups; its arrays by job are those of the episode that was entered last.
    """

    def __init__(
        self,
        thresholds: tuple[float, ...],
        gangs: tuple[float, ...],
        analyser: Analyser | None,
        batch_size: int,
        num_jobs: int,
    ) -> None:
        self._thresholds, self._gangs, self._analyser = thresholds, gangs, analyser
        self._index: dict[tuple[int, ...], int] = {}
        self._groups: list[ScalingGroups] = []
        self._entered: dict[int, tuple[Knees, ClusterView]] = {}
        self.by_job: IntArray = np.zeros((batch_size, 3, num_jobs), np.int64)
        self.requested: FloatArray = np.zeros((batch_size, num_jobs))
        self.shared: JobTables

    def enter(self, b: int, jobs: EpisodeJobs) -> None:
        """Enter the jobs of an episode in place of those that it had."""
        knees = self._look_up(b, jobs)
        columns = [getattr(jobs, name).tolist() for name in ("model", *RANGES)]
        keys = list(zip(*columns, strict=True))
        known = len(self._groups)
        for job, key in enumerate(keys):
            if key not in self._index:
                self._index[key] = len(self._groups)
                self._groups.append(group_of(knees.by_group, int(knees.group[job])))
        self.by_job[b, 0, : len(keys)] = [self._index[key] for key in keys]
        self._write_jobs(b, knees)
        if len(self._groups) > known:
            self._stack(knees, ScalingGroups(*(np.array(values) for values in zip(*self._groups, strict=True))))

    def believe(self, b: int, view: ClusterView) -> None:
        """Enter the jobs that an episode has by now, at believed throughputs; groups are those of this episode alone.

        Args:
            b: the episode. All episodes of the batch are entered in this way, or none.
            view: its present round.
        """
        knees, _ = self._entered.get(b) or (self._new_knees(view.cluster), view)
        changed, self._entered[b] = knees.look_up(view), (knees, view)
        if not changed:
            return
        self._write_jobs(b, knees)
        episodes = [knees for knees, _ in self._entered.values()]
        ends = np.cumsum([len(each.by_group.gpus) for each in episodes])
        for place, each, end in zip(self._entered, episodes, ends.tolist(), strict=True):
            self.by_job[place, 0, : len(each.group)] = each.group + end - len(each.by_group.gpus)
        columns = zip(
            *(each.by_group._replace(sizes=each.by_group.sizes.swapaxes(0, 1)) for each in episodes), strict=True
        )
        self._stack(knees, ScalingGroups(*(np.concatenate(values) for values in columns)))

    def _write_jobs(self, b: int, knees: Knees) -> None:
        """Write what does not depend on the numbers of groups."""
        count = len(knees.model)
        self.by_job[b, 1, :count], self.by_job[b, 2, :count] = knees.model, knees.num_gpus
        self.requested[b, :count] = knees.requested_throughput

    def _stack(self, knees: Knees, stacked: ScalingGroups) -> None:
        """Make tables of the groups of all episodes, by group and then by variant; `knees` are those of one of them."""
        everything = copy.copy(knees)  # the episode's own groups stay as they are
        everything.by_group = stacked._replace(sizes=np.ascontiguousarray(stacked.sizes.swapaxes(0, 1)))
        self.shared = tables_of_jobs(everything, self._gangs)

    def entered(self, b: int) -> tuple[Knees, ClusterView]:
        """Return the sizes and the jobs of an episode."""
        return self._entered[b]

    def _look_up(self, b: int, jobs: EpisodeJobs) -> Knees:
        """Return the sizes of an episode's jobs; those that were entered before are not looked up again."""
        knees, earlier = self._entered.get(b, (None, None))
        if knees is None or not isinstance(earlier, EpisodeJobs) or not jobs.continues(earlier):
            knees = self._new_knees(jobs.cluster)
        knees.look_up(jobs.view)
        self._entered[b] = knees, jobs.view
        return knees

    def _new_knees(self, cluster: ClusterSpec) -> Knees:
        """Return sizes of no jobs yet."""
        analysed = None if self._analyser is None else AnalysedJobs(self._analyser, cluster)
        return Knees(self._thresholds, analysed)


def group_of(groups: ScalingGroups, place: int) -> ScalingGroups:
    """Return one group, without the axis of groups."""
    taken = {name: np.asarray(getattr(groups, name)[place]) for name in groups._fields if name != "sizes"}
    return ScalingGroups(**taken, sizes=groups.sizes[:, place])
