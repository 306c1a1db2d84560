"""Synthetic workloads: a job stream at a given offered load on a given cluster, drawn anew for each episode."""

from dataclasses import replace
from functools import cached_property
from typing import Literal, TypeAlias, get_args

import numpy as np
import numpy.typing as npt

from envs.performance import DrawnModel, PerformanceModel, name_of_draw
from envs.types import ClusterError, ClusterSpec, Constraints, FloatArray, IntArray, TraceError, constrain
from envs.workloads.assemble import ELASTIC, MOST_ELASTIC, elastic_range, range_note
from envs.workloads.calibration import JobStream
from envs.workloads.calibration import stream as stream_named
from envs.workloads.demand import (
    LoadDefinition,
    check_load_definition,
    efficient_throughputs,
    least_cluster_seconds,
)
from envs.workloads.fits import largest_job
from envs.workloads.habits import Habits
from envs.workloads.memory import require_memory
from envs.workloads.mix import JobMix, ModelThroughputs, mix_for, node_sizes
from envs.workloads.mixes import mix_named
from envs.workloads.requests import Requests
from envs.workloads.source import check_split
from envs.workloads.splits import window_of_jobs
from envs.workloads.workload import JOB_COLUMNS, Workload

SPLITS = ("train", "validation", "test")
MOST_JOBS = 10_000_000  # of a workload; more would need more memory than machines have
MOST_DRAWS = 1 << 32  # of curves; two workloads hardly ever share one
MOST_EPISODES = 100_000
SAMPLE = 4096  # run times that stand for a distribution, where habits choose among them
Curves: TypeAlias = Literal["measured", "by_model", "by_job"]


class SyntheticSource:
    """Workloads drawn from a job stream; each split has random seeds of its own.

    A job's duration is drawn for its requested GPUs of the reference type, which is the cluster's first GPU type. Work
    is this duration times the model's throughput there. The arrival rate makes the ratio of demand to capacity equal
    to `load`, as `Workload.load` computes it by `load_definition`.

    Without a warm-up and a tail, jobs arrive at an empty cluster, and the last ones run while it empties. With
    `warm_up` and `measured`, the first jobs fill the cluster, the measured ones follow, and the others keep it under
    load while the measured ones finish. Choose `num_jobs` so that few measured jobs end after the last submission;
    the caption of a comparison gives their share. Training draws have the same window, and rewards count all jobs.
    Workloads for which there is no memory are refused before they are drawn (`require_memory`).

    Args:
        cluster: the cluster on which the load is offered.
        performance: the performance model, which gives throughputs.
        num_jobs: jobs of every workload, with those before and after the measured ones.
        load: offered load.
        load_definition: "requested", by requested GPUs, or "efficient", by the most efficient size of each job.
        exact_load: stretch the submission times of each workload so that it offers exactly `load`. If false, only the
            mean over many workloads is `load`, and most short draws of a heavy-tailed stream offer far less.
        stream: a name in `envs.workloads.calibration.STREAMS`, or a `JobStream`.
        mix: a name in `envs.workloads.mixes.MIXES`, or models and weights; see `mix_for` for the default.
        elastic: factor of the elastic range; 1 is rigid.
        max_gpus: leave out the stream's larger jobs; None keeps all.
        num_tenants: number of tenants, who are equally active.
        guaranteed: share of jobs that are guaranteed.
        seed: seed of the splits.
        num_evaluation: number of fixed workloads of each split.
        warm_up: jobs that are submitted before the measured ones.
        measured: number of measured jobs; None: all after the warm-up. Jobs of one instant stay together.
        curves: "measured" throughputs, or others that are drawn around them: one curve for each model of a workload
            ("by_model") or for each job ("by_job"), which needs a `DrawnModel`. Work follows from measured throughputs.
        name: name shown in results.
        habits: of users, on which run times depend; None: they depend on the number of GPUs alone.
        requests: partitions and time limits; None: jobs run anywhere, without limits. Jobs of a sweep ask for the same.
            Run times are then drawn for the slowest GPUs of a job's partition, and the load must be exact.
    """

    def __init__(
        self,
        cluster: ClusterSpec,
        performance: PerformanceModel,
        *,
        num_jobs: int = 100,
        load: float = 0.9,
        load_definition: LoadDefinition = "requested",
        exact_load: bool = True,
        stream: str | JobStream = "demo",
        mix: str | JobMix | None = None,
        elastic: float = 2.0,
        max_gpus: int | None = None,
        num_tenants: int = 1,
        guaranteed: float = 0.0,
        seed: int = 0,
        num_evaluation: int = 5,
        warm_up: int = 0,
        measured: int | None = None,
        curves: Curves = "measured",
        name: str = "synthetic",
        habits: Habits | None = None,
        requests: Requests | None = None,
    ) -> None:
        for what, value, good, allowed in (
            ("num_jobs", num_jobs, 2 <= num_jobs <= MOST_JOBS, f"from 2 to {MOST_JOBS:,}"),
            ("load", load, 0 < load < np.inf, "above 0 and finite"),
            ("elastic", elastic, 1 <= elastic <= MOST_ELASTIC, ELASTIC),
            ("max_gpus", max_gpus, max_gpus is None or max_gpus >= 1, "at least 1, or null for all"),
            ("num_tenants", num_tenants, 1 <= num_tenants <= MOST_JOBS, f"from 1 to {MOST_JOBS:,}"),
            ("guaranteed", guaranteed, 0 <= guaranteed <= 1, "a share from 0 to 1"),
            ("num_evaluation", num_evaluation, 1 <= num_evaluation <= MOST_EPISODES, f"from 1 to {MOST_EPISODES:,}"),
            ("seed", seed, seed >= 0, "at least 0"),
            ("warm_up", warm_up, 0 <= warm_up < num_jobs, "at least 0 and less than num_jobs"),
            (
                "measured",
                measured,
                measured is None or 1 <= measured <= num_jobs - warm_up,
                "null, or from 1 to num_jobs - warm_up",
            ),
        ):
            if not good:
                raise TraceError(f"workload.{what} is {value}; it must be {allowed}")
        check_load_definition("workload.load_definition", load_definition)
        if curves not in get_args(Curves):
            raise TraceError(f"workload.curves is {curves!r}; it must be {', '.join(get_args(Curves))}")
        if curves != "measured" and not isinstance(performance, DrawnModel):
            raise TraceError(f"workload.curves is {curves}, but performance draws none; set performance=drawn")
        if requests is not None:
            requests.check_goes_with(curves, exact_load)
        self.curves, self.habits, self.requests = curves, habits, requests
        self.name = name
        self.cluster, self.performance = cluster, performance
        self.num_jobs, self.load, self.exact_load = num_jobs, float(load), exact_load
        self.stream = stream if isinstance(stream, JobStream) else stream_named(stream)
        self.mix = mix_for(performance, mix_named(mix) if isinstance(mix, str) else mix)
        self.elastic, self.max_gpus, self.seed, self.num_evaluation = float(elastic), max_gpus, seed, num_evaluation
        self.num_tenants, self.guaranteed = num_tenants, float(guaranteed)
        self.load_definition, self.warm_up, self.measured = load_definition, warm_up, measured
        self._evaluation: dict[str, tuple[Workload, ...]] = {}

    @property
    def models(self) -> tuple[str, ...]:
        """The models of the mix, with requests in each partition."""
        if self.requests is None:
            return tuple(self.mix.models)
        pools = [Constraints(pools=(pool,)) for pool in self.requests.partitions]
        return tuple(constrain(model, pool) for model in self.mix.models for pool in pools)

    @property
    def mean_gap(self) -> float:
        """Expected seconds between submissions at the requested load."""
        classes = self._classes
        if self.load_definition == "efficient":
            return classes.mean_seconds / self.load
        return float(classes.demand @ classes.shares) / self.load

    def episode(self, rng: np.random.Generator, split: str = "train") -> Workload:
        """Draw a new workload; see `WorkloadSource.episode`."""
        check_split(self.name, split, SPLITS)
        require_memory(self.num_jobs, 1)
        # The split is part of the seed, so that equal draws of `rng` give different jobs in different splits.
        key = (self.seed, SPLITS.index(split), 0, int(rng.integers(2**63)))
        return self._draw(np.random.default_rng(key), f"{self.name}-{split}")

    def evaluation(self, split: str | None = None) -> tuple[Workload, ...]:
        """Return `num_evaluation` fixed workloads of a split, by default "test"; see `WorkloadSource.evaluation`."""
        split = "test" if split is None else split
        check_split(self.name, split, SPLITS)
        if split not in self._evaluation:
            require_memory(self.num_jobs, self.num_evaluation)
            self._evaluation[split] = tuple(
                self._draw(
                    np.random.default_rng((self.seed, SPLITS.index(split), 1, index)), f"{self.name}-{split}-{index}"
                )
                for index in range(self.num_evaluation)
            )
        return self._evaluation[split]

    @cached_property
    def _classes(self) -> "_JobClasses":
        return _JobClasses(self)

    def _draw(self, rng: np.random.Generator, name: str) -> Workload:
        classes, size = self._classes, self.num_jobs
        job_class = np.searchsorted(classes.edges, rng.random(size), side="right")
        sweeps = None if self.habits is None else self.habits.draw(rng, size, self.seed)
        if sweeps is not None:
            job_class = job_class[np.unique(sweeps.of_job, return_index=True)[1]][sweeps.of_job]
        gpus = classes.num_gpus[job_class]
        duration = np.empty(size)
        for index, distribution in enumerate(classes.durations):
            rows = np.flatnonzero(classes.duration_of[job_class] == index)
            if self.habits is None or sweeps is None:
                duration[rows] = distribution.sample(rng, len(rows))
            else:
                parts = sweeps.part[sweeps.of_job[rows]]
                duration[rows] = self.habits.durations(rng, parts, classes.samples[index])
        submit = self.stream.arrivals.sample(rng, size, self.mean_gap)
        table = np.zeros(size, JOB_COLUMNS)
        table["num_gpus"], table["model"], table["duration"] = gpus, classes.model[job_class], duration
        table["work"] = duration * classes.throughput[job_class]
        if self.requests is not None:
            group = np.arange(size) if sweeps is None else sweeps.of_job
            self._ask(rng, table, job_class, group)
        if self.exact_load and submit[-1] > 0:
            submit *= self._cluster_seconds(table, job_class) / (self.load * submit[-1])
        table["submit_time"] = submit
        table["min_gpus"], table["max_gpus"] = classes.min_gpus[job_class], classes.max_gpus[job_class]
        if self.num_tenants > 1:
            table["tenant"] = rng.integers(self.num_tenants, size=size)
        if self.guaranteed:
            table["guaranteed"] = rng.random(size) < self.guaranteed
        tenants = tuple(f"tenant-{i}" for i in range(self.num_tenants)) if self.num_tenants > 1 else ("",)
        window = window_of_jobs(submit, self.warm_up, self.measured)
        models = self.models
        if self.curves == "by_model":
            draw = int(rng.integers(MOST_DRAWS))
            models = tuple(name_of_draw(model, draw) for model in models)
        elif self.curves == "by_job":
            draw = int(rng.integers(MOST_DRAWS)) * MOST_JOBS
            models = tuple(name_of_draw(models[model], draw + job) for job, model in enumerate(table["model"].tolist()))
            table["model"] = np.arange(size)
        workload = Workload(name, table, models, tenants, window=window, notes=self._notes)
        if sweeps is None:
            return workload
        names = tuple(f"name-{i}" for i in sweeps.name[sweeps.of_job].tolist())
        return replace(workload, names=names, users=tuple(f"user-{i}" for i in sweeps.user[sweeps.of_job].tolist()))

    def _ask(self, rng: np.random.Generator, table: npt.NDArray[np.void], job_class: IntArray, group: IntArray) -> None:
        """Fill in partitions and limits, the same for all jobs of a group, and the work that goes with them."""
        requests = self.requests
        assert requests is not None, "a source with requests"
        slowest = self._classes.slowest
        first = np.unique(group, return_index=True)[1]
        drawn = requests.draw_partitions(rng, slowest[job_class[first]] > 0)
        longest = np.maximum.reduceat(table["duration"], first)
        partition = drawn[group]
        table["work"] = table["duration"] * slowest[job_class, partition]
        table["time_limit"] = requests.draw_limits(rng, longest, drawn)[group]
        table["model"] = table["model"] * len(requests.partitions) + partition

    def _cluster_seconds(self, table: npt.NDArray[np.void], job_class: IntArray) -> float:
        """Return the seconds that the whole cluster needs for these jobs, by the source's definition of load."""
        classes, work = self._classes, table["work"]
        if self.requests is not None:
            two = table.copy()  # whose submissions span a second
            two["submit_time"] = 0.0
            two["submit_time"][-1] = 1.0
            return Workload(self.name, two, self.models).load(self.cluster, self.performance, self.load_definition)
        if self.load_definition == "efficient":
            by_class = np.bincount(job_class, weights=work, minlength=len(classes.shares))
            return classes.least_seconds(by_class.astype(np.float64))
        return float(work @ (1 / classes.capacity[job_class]))

    @cached_property
    def _notes(self) -> tuple[str, ...]:
        left_out = f"; jobs of more than {self.max_gpus} GPUs are left out" if self.max_gpus else ""
        said = [f"synthetic jobs: {self.stream.source}{left_out}", range_note(self.elastic)]
        if self.curves != "measured":
            whose = "job" if self.curves == "by_job" else "model"
            said.append(f"throughputs are drawn around the measured ones, for each {whose} anew")
        if self.habits is not None:
            said.append(
                f"run times depend on {self.habits.users} users and the names of jobs: for one name their logarithms "
                f"have a standard deviation of about {self.habits.residual:g}"
            )
        if self.requests is not None:
            said.extend(self.requests.notes(self.cluster))
        if self.warm_up or self.measured is not None:
            left = self.num_jobs - self.warm_up
            measured = left if self.measured is None else self.measured
            said.append(
                f"measured are about {measured} of {self.num_jobs} jobs: {self.warm_up} are submitted before them, "
                f"{left - measured} after them"
            )
        return tuple(said)


class _JobClasses:
    """The classes of jobs (GPUs x model) of a source and their distributions, as arrays over the classes."""

    def __init__(self, source: SyntheticSource) -> None:
        cluster, mix, throughputs = source.cluster, source.mix, ModelThroughputs(source.performance)
        reference = cluster.gpu_types[0]
        per_node = node_sizes(cluster)[reference]
        rows: list[tuple[float, ...]] = []
        for size, share in _sizes(source).items():
            runs = [
                suits
                and throughputs.of(model, reference, size, per_node) > 0
                and throughputs.runs(model, size, cluster)
                for model, suits in zip(mix.models, mix.suits(size), strict=True)
            ]
            total = sum(weight for weight, good in zip(mix.weights, runs, strict=True) if good)
            if total <= 0:
                raise TraceError(
                    f"workload {source.name}: none of {', '.join(mix.models)} runs on {size} GPUs of "
                    f"cluster {cluster.name}; "
                    f"choose a mix with a model that does, or set workload.max_gpus={size - 1}"
                )
            mean = source.stream.durations_of(size).mean
            for index, model in enumerate(mix.models):
                if runs[index]:
                    throughput, capacity = (
                        throughputs.of(model, reference, size, per_node),
                        throughputs.capacity(model, size, cluster),
                    )
                    rows.append(
                        (
                            size,
                            index,
                            share * mix.weights[index] / total,
                            throughput,
                            capacity,
                            mean * throughput / capacity,
                            mean * throughput,
                        )
                    )
        columns = [np.array(column) for column in zip(*rows, strict=True)]
        self.num_gpus: IntArray = columns[0].astype(np.int64)
        self.model: IntArray = columns[1].astype(np.int64)
        self.shares: FloatArray = columns[2] / columns[2].sum()
        self.throughput: FloatArray = columns[3]  # samples/s on the requested GPUs of the reference type
        self.capacity: FloatArray = columns[4]  # samples/s if the whole cluster runs such jobs
        self.demand: FloatArray = columns[5]  # expected seconds that the whole cluster needs for such a job
        self.mean_work: FloatArray = columns[6]  # expected samples of such a job
        self.edges: FloatArray = np.cumsum(self.shares)[:-1]
        starts = sorted(source.stream.durations)
        self.durations = [source.stream.durations[start] for start in starts]
        self.duration_of: IntArray = np.searchsorted(starts, self.num_gpus, side="right") - 1
        self.min_gpus, self.max_gpus = elastic_range(self.num_gpus, source.elastic, cluster)
        self._source = source

    @cached_property
    def slowest(self) -> FloatArray:
        """float64[num_classes, num_partitions]: `Requests.find_partitions` of each class."""
        source = self._source
        assert source.requests is not None, "a source with requests"
        throughputs = ModelThroughputs(source.performance)
        jobs = [
            (source.mix.models[model], size) for model, size in zip(self.model, self.num_gpus.tolist(), strict=True)
        ]
        return source.requests.find_partitions(source.cluster, throughputs, jobs)

    @cached_property
    def samples(self) -> list[FloatArray]:
        """Sorted run times of each of `durations`, which are always the same."""
        return [np.sort(each.sample(np.random.default_rng(0), SAMPLE)) for each in self.durations]

    def least_seconds(self, work: FloatArray) -> float:
        """Return the least seconds in which the whole cluster does float64[num_classes] samples of each class."""
        with np.errstate(divide="ignore", invalid="ignore"):
            gpu_seconds = np.where(self._per_gpu > 0, work[:, None] / self._per_gpu, np.inf)
        return least_cluster_seconds(gpu_seconds, np.array(list(self._source.cluster.gpus_by_type.values())))

    @cached_property
    def mean_seconds(self) -> float:
        """Expected seconds that the whole cluster needs for a job; a linear program, so it is kept for all episodes."""
        return self.least_seconds(self.mean_work * self.shares)

    @cached_property
    def _per_gpu(self) -> FloatArray:
        """float64[num_classes, num_gpu_types]: samples/s per GPU at the most efficient size."""
        ranges = np.stack([self.model, self.min_gpus, self.max_gpus], axis=1)
        source = self._source
        return efficient_throughputs(source.models, ranges, source.cluster, source.performance)


def _sizes(source: SyntheticSource) -> dict[int, float]:
    """Return GPU counts and their shares of the stream, without jobs larger than `max_gpus`."""
    limit = largest_job(source.cluster)
    sizes = {
        size: share
        for size, share in sorted(source.stream.sizes.items())
        if share > 0 and (source.max_gpus is None or size <= source.max_gpus)
    }
    if not sizes:
        raise TraceError(
            f"workload {source.name}: max_gpus={source.max_gpus} leaves no job of the stream; its "
            f"smallest jobs request {min(source.stream.sizes)} GPUs"
        )
    if max(sizes) > limit:
        raise ClusterError(
            f"workload {source.name}: its stream has jobs of {max(sizes)} GPUs; cluster "
            f"{source.cluster.name} has {limit} of one type; "
            f"leave larger jobs out with workload.max_gpus={limit}, or take a larger cluster"
        )
    return sizes
