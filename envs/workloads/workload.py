"""What arrives: jobs as a table, in order of submission."""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field, replace

import numpy as np
import numpy.typing as npt

from envs.performance import PerformanceModel
from envs.types import ClusterSpec, JobId, JobSpec, Seconds, TraceError

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
    notes: tuple[str, ...] = field(default=())  # what a reader of results must know: skipped rows, assigned models

    def __post_init__(self) -> None:
        if self.jobs.dtype != JOB_COLUMNS:
            raise TraceError(f"workload {self.name}: jobs must have the dtype JOB_COLUMNS, has {self.jobs.dtype}")
        if len(self.jobs) == 0:
            raise TraceError(f"workload {self.name}: holds no jobs; widen its slice")
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
            for column in ("submit_time", "work", "num_gpus", "min_gpus", "max_gpus", "min_batch", "max_batch", "guaranteed"):
                row[column] = getattr(job, column)
            row["duration"] = np.nan
            row["model"] = models.index(job.model)
            row["tenant"] = tenants.index(job.tenant)
        names = tuple(job.name for job in ordered)
        return cls(name, table, models, tenants, names if any(names) else ())

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

        A job's demand is its requested GPUs for as long as its work takes on them. By type it is counted as if
        each job ran on that type alone and the type held its share of the jobs (its share of the GPUs): the figure
        answers "were all my GPUs of this type, how loaded would they be". The time base is the span of submissions.
        """
        submit = self.jobs["submit_time"]
        span = float(submit[-1] - submit[0])
        if span <= 0:
            return {**{name: float("inf") for name in cluster.gpu_types}, "all": float("inf")}
        load: dict[str, float] = {}
        for gpu_type in cluster.gpu_types:
            per_node = max(node.num_gpus for node in cluster.nodes if node.gpu_type == gpu_type)
            demand = 0.0
            for model, gpus in {(int(r["model"]), int(r["num_gpus"])) for r in self.jobs}:
                rows = (self.jobs["model"] == model) & (self.jobs["num_gpus"] == gpus)
                rate = performance.throughput(self.models[model], gpu_type, gpus, -(-gpus // per_node))
                demand += float(self.jobs["work"][rows].sum()) / rate * gpus if rate > 0 else 0.0
            load[gpu_type] = demand / (span * cluster.num_gpus)
        counts = cluster.gpus_by_type
        # All types together: capacities add, so the load is the harmonic mean weighted by GPUs.
        load["all"] = cluster.num_gpus / sum(counts[name] / load[name] for name in cluster.gpu_types if load[name] > 0)
        return load
