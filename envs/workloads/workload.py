"""What arrives: jobs as a table, in order of submission."""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field, replace

import numpy as np
import numpy.typing as npt

from envs.performance import PerformanceModel
from envs.types import ClusterSpec, ExecutionPlan, JobId, JobSpec, Seconds, TraceError

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
    ]
)


@dataclass(frozen=True)
class Workload:
    """A sequence of jobs, and which of them are measured.

    `jobs` is a structured array of `JOB_COLUMNS`, sorted by submission; a job's row is its `JobId`.
    Jobs submitted within `window` (start included, end not) count in metrics; those before warm the cluster
    up, those after keep it under load.
    """

    name: str
    jobs: npt.NDArray[np.void]
    models: tuple[str, ...]
    tenants: tuple[str, ...] = ("",)
    names: Sequence[str] = ()  # the trace's own job names, one a row, or none
    window: tuple[Seconds, Seconds] = (0.0, np.inf)
    plans: Sequence[ExecutionPlan | None] = ()  # the users' own execution plans, one a row, or none
    notes: tuple[str, ...] = field(default=())  # what a reader of results must know: skipped rows, assigned models

    def __post_init__(self) -> None:
        if self.jobs.dtype != JOB_COLUMNS:
            raise TraceError(f"workload {self.name}: jobs must have the dtype JOB_COLUMNS, has {self.jobs.dtype}")
        if len(self.jobs) == 0:
            raise TraceError(f"workload {self.name}: holds no jobs; widen its slice")
        for column in ("names", "plans"):
            given = getattr(self, column)
            if given and len(given) != len(self.jobs):
                raise TraceError(
                    f"workload {self.name}: has {len(given)} {column} for {len(self.jobs)} jobs; give "
                    "one a job, or none"
                )
        submit = self.jobs["submit_time"]
        if not np.isfinite(submit).all() or submit[0] < 0 or (np.diff(submit) < 0).any():
            raise TraceError(f"workload {self.name}: submit times must be finite, not negative and ascending")
        bad = ~(np.isfinite(self.jobs["work"]) & (self.jobs["work"] > 0))
        if bad.any():
            row = int(np.flatnonzero(bad)[0])
            raise TraceError(f"workload {self.name}: job {row}: work is {self.jobs['work'][row]}; it must be positive")

    def __len__(self) -> int:
        return len(self.jobs)

    def __iter__(self) -> Iterator[JobSpec]:
        return (self.spec(job) for job in range(len(self)))

    def spec(self, job: JobId) -> JobSpec:
        """One row as a `JobSpec`."""
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
            name=self.names[job] if self.names else "",
        )

    @classmethod
    def of(cls, jobs: Sequence[JobSpec], name: str = "jobs") -> "Workload":
        """A workload from single jobs, in any order; ties keep theirs. Ids are given anew by submission."""
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
            ):
                row[column] = getattr(job, column)
            row["duration"] = np.nan
            row["model"] = models.index(job.model)
            row["tenant"] = tenants.index(job.tenant)
        names = tuple(job.name for job in ordered)
        plans = tuple(job.plan for job in ordered)
        return cls(name, table, models, tenants, names if any(names) else (), plans=plans if any(plans) else ())

    def slice(
        self,
        first: int,
        last: int,
        *,
        start: Seconds | None = None,
        name: str | None = None,
        window: tuple[Seconds, Seconds] = (0.0, np.inf),
    ) -> "Workload":
        """Jobs `first` to `last` (not included), re-based so that t = 0 is `start`, or the first of them if None.

        Raises:
            TraceError: no job is left, or one was submitted before `start`.
        """
        jobs = self.jobs[first:last].copy()
        if len(jobs):
            jobs["submit_time"] -= jobs["submit_time"][0] if start is None else start
        return replace(
            self,
            name=self.name if name is None else name,
            jobs=jobs,
            names=self.names[first:last],
            plans=self.plans[first:last],
            window=window,
        )

    @property
    def measured(self) -> npt.NDArray[np.bool_]:
        """bool[num_jobs]: the jobs that count in metrics."""
        submit = self.jobs["submit_time"]
        return (submit >= self.window[0]) & (submit < self.window[1])

    def renamed(self, name: str) -> "Workload":
        """The same jobs under another name."""
        return replace(self, name=name)

    def offered_load(self, cluster: ClusterSpec, performance: PerformanceModel) -> dict[str, float]:
        """GPU-seconds asked for per GPU-second that there is, by GPU type and in all (key "all").

        A job's demand is its requested GPUs, consolidated, for as long as its work takes on them. By type the figure
        answers "were all GPUs of this type, how loaded would they be", and is infinite where some job does not run.
        In all, a job's demand is the time that the whole cluster would need for it, each type at its own speed and
        types on which it does not run standing idle. The time base is the span of submissions.
        """
        submit = self.jobs["submit_time"]
        span = float(submit[-1] - submit[0])
        if span <= 0:
            return dict.fromkeys((*cluster.gpu_types, "all"), float("inf"))
        # One class per (model, GPUs): speeds are asked once a class, work is summed once over the jobs.
        key = self.jobs["model"] * (int(self.jobs["num_gpus"].max()) + 1) + self.jobs["num_gpus"]
        _, first, job_class = np.unique(key, return_index=True, return_inverse=True)
        work = np.bincount(job_class, weights=self.jobs["work"])
        gpus = self.jobs["num_gpus"][first]
        per_node = [int(cluster.node_gpus[cluster.node_types == kind].max()) for kind in range(len(cluster.gpu_types))]
        rate = np.array(
            [
                [
                    performance.throughput(self.models[model], name, int(n), -(-int(n) // size))
                    for model, n in self.jobs[["model", "num_gpus"]][first]
                ]
                for name, size in zip(cluster.gpu_types, per_node, strict=True)
            ]
        )  # float64[num_gpu_types, num_classes], samples/s of one job
        counts = np.array(list(cluster.gpus_by_type.values()))
        with np.errstate(divide="ignore", over="ignore"):
            by_type = (work * gpus / rate).sum(axis=1) / (span * cluster.num_gpus)
            overall = (work / (counts @ (rate / gpus))).sum() / span
        return {**dict(zip(cluster.gpu_types, by_type.tolist(), strict=True)), "all": float(overall)}
