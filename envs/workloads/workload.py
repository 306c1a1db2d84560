"""Workloads: jobs as a table, in order of submission."""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field, replace
from functools import cached_property
from typing import Any

import numpy as np
import numpy.typing as npt

from envs.performance import PerformanceModel, find_throughput, plain_model
from envs.types import (
    LATEST_SUBMISSION,
    ClusterSpec,
    Configuration,
    ExecutionPlan,
    JobId,
    JobSpec,
    Seconds,
    TraceError,
    as_line,
    constraints_of,
)
from envs.workloads.classes import classes_of
from envs.workloads.demand import (
    LoadDefinition,
    check_load_definition,
    efficient_throughputs,
    least_cluster_seconds,
)
from envs.workloads.recorded import RecordedPast
from envs.workloads.waiting import Dependencies, find_dependencies, renumber, write_dependency

JOB_COLUMNS = np.dtype(
    [
        ("submit_time", np.float64),  # seconds from t = 0, ascending
        ("work", np.float64),  # samples
        ("duration", np.float64),  # seconds on the requested GPUs of the trace's own GPU type; NaN if not from a trace
        ("num_gpus", np.int64),
        ("min_gpus", np.int64),
        ("max_gpus", np.int64),
        ("model", np.int64),  # index into Workload.models
        ("min_batch", np.int64),
        ("max_batch", np.int64),
        ("tenant", np.int64),  # index into Workload.tenants
        ("guaranteed", np.bool_),
        ("time_limit", np.float64),  # seconds on GPUs after which the job ends; 0 for none
        ("priority", np.float64),  # shown, not enforced
        ("begin_time", np.float64),  # seconds from t = 0, before which it does not enter the queue; 0 for none
        ("nice", np.float64),
    ]
)
NEUTRAL: dict[str, float] = {"duration": np.nan}  # what a column holds that is not used; 0 or false in all others


def used_columns(jobs: npt.NDArray[np.void]) -> list[str]:
    """Return the columns of jobs that do not have their neutral value in every row; hashes of tasks cover these.

    Args:
        jobs: an array of `JOB_COLUMNS`.
    """
    return [name for name in jobs.dtype.names or () if not _all_are(jobs[name], NEUTRAL.get(name, 0))]


def _all_are(column: npt.NDArray[Any], neutral: float) -> bool:
    return bool((np.isnan(column) if np.isnan(neutral) else column == neutral).all())


@dataclass(frozen=True)
class Workload:
    """A sequence of jobs with the time window in which jobs are measured.

    `jobs` is a structured array of `JOB_COLUMNS`, sorted by submission; a job's row is its `JobId`.
    Jobs submitted within `window` (start included, end excluded) count in metrics. Earlier jobs warm the cluster up,
    and later ones keep it under load.
    """

    name: str
    jobs: npt.NDArray[np.void]
    models: tuple[str, ...]
    tenants: tuple[str, ...] = ("",)
    names: Sequence[str] = ()  # each job's own name, which jobs of one kind share, one per row; may be empty
    window: tuple[Seconds, Seconds] = (0.0, np.inf)
    plans: Sequence[ExecutionPlan | None] = ()  # the users' own execution plans, one per row; may be empty
    notes: tuple[str, ...] = field(default=())  # printed with results: skipped rows, assigned models
    users: Sequence[str] = ()  # who submitted each job, one per row; may be empty
    ids: Sequence[str] = ()  # of each job in its trace, one per row, shown in messages; may be empty
    dependencies: Dependencies = ()  # of jobs on earlier ones
    qos: Sequence[str] = ()  # quality of service of each job, one per row; may be empty
    recorded: RecordedPast | None = None  # what really happened, of jobs of a trace; no scheduler sees it

    def __post_init__(self) -> None:
        if self.jobs.dtype != JOB_COLUMNS:
            raise TraceError(f"workload {self.name}: the dtype of jobs is {self.jobs.dtype}; it must be JOB_COLUMNS")
        if len(self.jobs) == 0:
            raise TraceError(f"workload {self.name}: has no jobs; widen its slice")
        for column in ("names", "plans", "users", "ids", "qos", "recorded"):
            given = getattr(self, column)
            if given and len(given) != len(self.jobs):
                raise TraceError(
                    f"workload {self.name}: has {len(given)} {column} for {len(self.jobs)} jobs; give "
                    "one per job, or none"
                )
        submit = self.jobs["submit_time"]
        if not np.isfinite(submit).all() or submit[0] < 0 or (np.diff(submit) < 0).any():
            raise TraceError(f"workload {self.name}: submit times must be finite, not negative and ascending")
        if submit[-1] > LATEST_SUBMISSION:
            raise TraceError(
                f"workload {self.name}: job {len(submit) - 1} is submitted at {submit[-1]:g} s; at most "
                f"{LATEST_SUBMISSION:g} s are allowed, after which seconds are too coarse"
            )
        bad = ~(np.isfinite(self.jobs["work"]) & (self.jobs["work"] > 0))
        if bad.any():
            row = int(np.flatnonzero(bad)[0])
            raise TraceError(f"workload {self.name}: job {row}: work is {self.jobs['work'][row]}; it must be positive")

        begins = self.jobs["begin_time"]
        bad = ~((begins >= 0) & (begins <= LATEST_SUBMISSION))
        if bad.any():
            row = int(np.flatnonzero(bad)[0])
            raise TraceError(
                f"workload {self.name}: job {row}: begin_time is {begins[row]} s; it must be from 0 to "
                f"{LATEST_SUBMISSION:g} s"
            )
        if wrong := [
            each for each in self.dependencies if not (0 <= each[1] < each[0] < len(self) and 1 <= each[2] <= 3)
        ]:
            raise TraceError(
                f"workload {self.name}: job {wrong[0][0]} depends on job {wrong[0][1]} (ends: {wrong[0][2]}); it must "
                "depend on one submitted before it"
            )
        limits = self.jobs["time_limit"]
        bad = ~(np.isfinite(limits) & (limits >= 0))
        if bad.any():
            row = int(np.flatnonzero(bad)[0])
            raise TraceError(
                f"workload {self.name}: job {row}: time_limit is {limits[row]} s; it must be positive, or 0 for none"
            )

    def __len__(self) -> int:
        return len(self.jobs)

    def __iter__(self) -> Iterator[JobSpec]:
        return (self.spec(job) for job in range(len(self)))

    def spec(self, job: JobId) -> JobSpec:
        """Return one row as a `JobSpec`."""
        row = self.jobs[job]
        return JobSpec(
            id=job,
            submit_time=float(row["submit_time"]),
            num_gpus=int(row["num_gpus"]),
            work=float(row["work"]),
            model=self.models[row["model"]],
            min_gpus=int(row["min_gpus"]),
            max_gpus=int(row["max_gpus"]),
            min_batch=int(row["min_batch"]),
            max_batch=int(row["max_batch"]),
            plan=self.plans[job] if self.plans else None,
            tenant=self.tenants[row["tenant"]],
            guaranteed=bool(row["guaranteed"]),
            time_limit=float(row["time_limit"]) or np.inf,
            priority=float(row["priority"]),
            begin_time=float(row["begin_time"]),
            dependency=write_dependency(self._of_job.get(job, ())) if self.dependencies else "",
            nice=float(row["nice"]),
            name=self.names[job] if self.names else "",
            user=self.users[job] if self.users else "",
            qos=self.qos[job] if self.qos else "",
        )

    @cached_property
    def _of_job(self) -> dict[JobId, list[tuple[JobId, int]]]:
        """By job, the jobs on which it depends and which ends do."""
        found: dict[JobId, list[tuple[JobId, int]]] = {}
        for job, on, met_by in self.dependencies:
            found.setdefault(job, []).append((on, met_by))
        return found

    @classmethod
    def of(cls, jobs: Sequence[JobSpec], name: str = "jobs") -> "Workload":
        """Build a workload from jobs in any order. They are sorted by submission (a stable sort) and get new ids.

        Raises:
            TraceError: a job depends on one that is not there, or not submitted before it.
        """
        ordered = sorted(jobs, key=lambda job: job.submit_time)
        models = tuple(dict.fromkeys(job.model for job in ordered))
        tenants = tuple(dict.fromkeys(job.tenant for job in ordered)) or ("",)
        table = np.zeros(len(ordered), JOB_COLUMNS)
        for row, job in zip(table, ordered, strict=True):
            for column in (
                "submit_time",
                "work",
                "num_gpus",
                "min_gpus",
                "max_gpus",
                "min_batch",
                "max_batch",
                "guaranteed",
                "priority",
                "begin_time",
                "nice",
            ):
                row[column] = getattr(job, column)
            row["time_limit"] = job.time_limit if np.isfinite(job.time_limit) else 0.0
            row["duration"] = np.nan
            row["model"] = models.index(job.model)
            row["tenant"] = tenants.index(job.tenant)
        names = tuple(job.name for job in ordered)
        plans = tuple(job.plan for job in ordered)
        users = tuple(job.user for job in ordered)

        def refuse(job: int, why: str) -> None:
            raise TraceError(f"workload {name}: job {ordered[job].id} {why}")

        dependencies = find_dependencies(
            [job.dependency for job in ordered],
            [str(job.id) for job in ordered],
            list(zip(users, names, strict=True)),
            refuse,
        )
        qos = tuple(job.qos for job in ordered)
        by_job = {"names": names, "plans": plans, "users": users, "qos": qos}
        given: dict[str, Any] = {column: values for column, values in by_job.items() if any(values)}
        return cls(name, table, models, tenants, dependencies=dependencies, **given)

    def slice(
        self,
        first: int,
        last: int,
        *,
        start: Seconds | None = None,
        name: str | None = None,
        window: tuple[Seconds, Seconds] = (0.0, np.inf),
    ) -> "Workload":
        """Return jobs `first` to `last` (excluded), shifted so that t = 0 is `start`, or the first submission if None.

        Raises:
            TraceError: no job is left, or a job was submitted before `start`.
        """
        jobs, origin = self.jobs[first:last].copy(), 0.0
        if len(jobs):
            origin = jobs["submit_time"][0] if start is None else start
            jobs["submit_time"] -= origin
            jobs["begin_time"] = np.maximum(jobs["begin_time"] - origin, 0.0)
        return replace(
            self,
            name=self.name if name is None else name,
            jobs=jobs,
            names=self.names[first:last],
            plans=self.plans[first:last],
            users=self.users[first:last],
            ids=self.ids[first:last],
            dependencies=renumber(self.dependencies, {job: job - first for job in range(len(self))[first:last]})
            if self.dependencies
            else (),
            qos=self.qos[first:last],
            recorded=self.recorded and self.recorded.at(slice(first, last), origin),
            window=window,
        )

    def of_tenant(self, tenant: int) -> "Workload":
        """Return the jobs of one tenant at their times, with the tenant's name at the end of the workload's.

        Args:
            tenant: index into `tenants`.

        Raises:
            TraceError: the tenant has no job.
        """
        rows = np.flatnonzero(self.jobs["tenant"] == tenant).tolist()
        by_job: dict[str, Any] = {
            column: [values[row] for row in rows]
            for column in ("names", "plans", "users", "ids", "qos")
            if (values := getattr(self, column))
        }
        name = f"{self.name}-{as_line(self.tenants[tenant])}"
        among = renumber(self.dependencies, {job: row for row, job in enumerate(rows)})
        recorded = self.recorded and self.recorded.at(np.array(rows, np.int64))
        return replace(self, name=name, jobs=self.jobs[rows], dependencies=among, recorded=recorded, **by_job)

    def label(self, job: JobId) -> str:
        """Return a job as messages name it: by its row, and by its id or name in the trace."""
        own = self.ids[job] if self.ids else self.names[job] if self.names else ""
        return f"job {job} ({own})" if own else f"job {job}"

    @property
    def known_models(self) -> tuple[str, ...]:
        """The models without numbers of draws and constraints, each once."""
        return tuple(dict.fromkeys(plain_model(model) for model in self.models))

    @property
    def shapes(self) -> bool:
        """Whether constraints of jobs ask for a certain division among nodes, or for whole nodes."""
        return any(constraints_of(model).shapes for model in self.models)

    @property
    def limited(self) -> bool:
        """Whether a job has a time limit."""
        return bool((self.jobs["time_limit"] > 0).any())

    @property
    def waits(self) -> bool:
        """Whether a job has a begin time or a dependency."""
        return bool(self.dependencies) or bool((self.jobs["begin_time"] > self.jobs["submit_time"]).any())

    def check_limits(self) -> None:
        """Assert that every job has a time limit, for schedulers that know run times by them.

        Raises:
            TraceError: a job has none.
        """
        without = np.flatnonzero(self.jobs["time_limit"] == 0)
        if len(without):
            raise TraceError(
                f"workload {self.name}: {self.label(int(without[0]))} has no time limit ({len(without):,} of "
                f"{len(self):,} jobs), and information.work is limit; state its limit (workload.limits=trace, "
                "workload.reader.default_limits), or set information.work to exact, estimate, predicted or none"
            )

    @property
    def measured(self) -> npt.NDArray[np.bool_]:
        """bool[num_jobs]: the jobs that count in metrics."""
        submit = self.jobs["submit_time"]
        return (submit >= self.window[0]) & (submit < self.window[1])

    def renamed(self, name: str) -> "Workload":
        """Return the same jobs under another name."""
        return replace(self, name=name)

    def offered_load(self, cluster: ClusterSpec, performance: PerformanceModel) -> dict[str, float]:
        """Requested GPU-seconds per available GPU-second, by GPU type and for the whole cluster (key "all").

        A job demands its requested GPUs, consolidated, for as long as its work takes on them. The load of a type is the
        load if all GPUs were of this type; it is infinite if some job does not run on the type. For "all", a job's
        demand is the time that the whole cluster would need for it: each type runs at its own throughput, and types on
        which the job does not run stay idle. Where jobs have constraints, it is the least time in which the whole
        cluster could do all work at once: jobs that may not use the same nodes run side by side. The time base is the
        span of submissions.
        """
        submit = self.jobs["submit_time"]
        span = float(submit[-1] - submit[0])
        if span <= 0:
            return dict.fromkeys((*cluster.gpu_types, "all"), float("inf"))
        # One class per (model, GPUs), so that each throughput is computed once.
        key = self.jobs["model"] * (int(self.jobs["num_gpus"].max()) + 1) + self.jobs["num_gpus"]
        _, first, job_class = np.unique(key, return_index=True, return_inverse=True)
        work = np.bincount(job_class, weights=self.jobs["work"])
        gpus = self.jobs["num_gpus"][first]
        types = range(len(cluster.gpu_types))
        per_node = [int(cluster.node_gpus[cluster.node_types == gpu_type].max()) for gpu_type in types]
        throughput = np.array(
            [
                [
                    find_throughput(
                        performance, self.models[model], Configuration(name, int(n), self._nodes(model, int(n), size))
                    )
                    for model, n in self.jobs[["model", "num_gpus"]][first]
                ]
                for name, size in zip(cluster.gpu_types, per_node, strict=True)
            ]
        )  # float64[num_gpu_types, num_classes], samples/s of one job
        counts = np.array(list(cluster.gpus_by_type.values()))
        with np.errstate(divide="ignore", over="ignore"):
            by_type = (work * gpus / throughput).sum(axis=1) / (span * cluster.num_gpus)
            overall = (work / (counts @ (throughput / gpus))).sum() / span
            if any(map(constraints_of, self.models)):
                overall = least_cluster_seconds((work * gpus / throughput).T, counts) / span
        return {**dict(zip(cluster.gpu_types, by_type.tolist(), strict=True)), "all": float(overall)}

    def _nodes(self, model: int, num_gpus: int, gpus_per_node: int) -> int:
        """Return the fewest nodes that hold so many GPUs and that the constraints of a model's jobs allow."""
        return max(-(-num_gpus // gpus_per_node), constraints_of(self.models[model]).demand_nodes(num_gpus))

    def efficient_load(self, cluster: ClusterSpec, performance: PerformanceModel) -> float:
        """GPU-seconds that the jobs need at their most efficient sizes per available GPU-second.

        Each job runs at the size in its range, and jobs on the GPU types, at which the whole cluster does all work in
        the least time (`least_cluster_seconds`). No scheduler that leaves batch sizes to the simulator keeps up with a
        load above 1 for long. For rigid jobs on one GPU type this is `offered_load`. The time base is the span of
        submissions; the load is infinite if all jobs are submitted at once, or if a job does not run.
        """
        submit = self.jobs["submit_time"]
        span = float(submit[-1] - submit[0])
        if span <= 0:
            return float("inf")
        ranges = np.stack([self.jobs[name] for name in ("model", "min_gpus", "max_gpus")], axis=1)
        classes, job_class = classes_of(ranges)
        work = np.bincount(job_class, weights=self.jobs["work"])
        with np.errstate(divide="ignore"):
            gpu_seconds = work[:, None] / efficient_throughputs(self.models, classes, cluster, performance)
        return least_cluster_seconds(gpu_seconds, np.array(list(cluster.gpus_by_type.values()))) / span

    def load(self, cluster: ClusterSpec, performance: PerformanceModel, definition: LoadDefinition) -> float:
        """Return the load of the whole cluster by a definition: `offered_load` under "all", or `efficient_load`.

        Raises:
            TraceError: there is no such definition.
        """
        check_load_definition("load_definition", definition)
        if definition == "efficient":
            return self.efficient_load(cluster, performance)
        return self.offered_load(cluster, performance)["all"]
