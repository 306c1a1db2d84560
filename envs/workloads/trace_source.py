"""Workloads from a trace, which is read on first use, split by time, and cut into episodes and windows."""

from collections.abc import Mapping, Sequence
from dataclasses import replace
from datetime import timedelta
from functools import cached_property

import numpy as np

from envs.performance import PerformanceModel
from envs.types import ClusterSpec, Seconds, TraceError
from envs.types.units import DAY
from envs.workloads.assemble import ELASTIC, MOST_ELASTIC, Assembly
from envs.workloads.constraining import ConstraintsSetting, LimitsSetting
from envs.workloads.fits import check_sizes, check_workload_fits
from envs.workloads.mix import JobMix
from envs.workloads.readers.reader import TraceReader, locate
from envs.workloads.readers.report import SOURCE_ATTRIBUTE, ReadReport
from envs.workloads.recorded import ZERO_ATTRIBUTE
from envs.workloads.source import check_split
from envs.workloads.splits import Windows, cut_by_days, cut_by_shares
from envs.workloads.workload import Workload

WHOLE = "all"  # the split that contains all jobs


class TraceSource:
    """The jobs of a public trace on a given cluster. The file is read on first use, never by the constructor.

    Splits are disjoint in time: consecutive shares of the jobs, or given days. A training episode is a random run of
    `num_jobs` consecutive jobs of its split, shifted to t = 0. Results are reported on `windows.count` windows of a
    split, each with a warm-up before the measured span and some load after it. With no windows, results are reported on
    the split as one workload.

    With `by_tenant`, each episode and each window has the jobs of one tenant, such as a virtual cluster, as if the
    cluster were its own. Splits have the same days for all tenants, so no day is in two splits. The tenant of an
    episode is drawn in proportion to its jobs in the split: every job is trained on about as often as any other, and
    the same few jobs of a small tenant do not return again and again, as they would if tenants were drawn evenly.

    Args:
        cluster: the cluster on which the jobs run; every job must fit.
        performance: the performance model, whose throughputs turn durations into work.
        reader: the reader of the trace's format.
        path: the file; the reader's location under $MURMURATION_DATA if None.
        strict: make the first malformed row an error instead of counting it.
        days: (first, last) days of the trace to use, the last excluded, from the reader's t = 0; all if None.
        max_gpus: leave out larger jobs and report their number; None keeps all.
        mix: the models to assign where the trace names none; see `mix_for` for the default.
        elastic: factor of the elastic range assigned to jobs; 1 is rigid.
        seed: seed of assigned models, the same for every window and episode.
        num_jobs: jobs of a training episode.
        splits: name -> share of the jobs, in order of time.
        split_days: name -> (first, last) days within the slice; replaces `splits`.
        evaluate_on: the split that `evaluation()` uses by default; "all" is the whole slice.
        windows: number and lengths of the windows to report on.
        by_tenant: cut episodes and windows out of one tenant's jobs each; needs windows.
        constraints: "trace" lets jobs run only on the GPU types, in the pools and on the nodes that the trace says;
            "none" lets them run anywhere.
        limits: "trace" lets jobs end at the time limits that the trace states; "drawn" gives a drawn one to each job
            without, see `Requests`; "none" lets them run on.
        holds: "trace" lets jobs wait for the begin times, and for the ends of other jobs, that the trace states.
        recommended_cluster: name of the preset under conf/cluster for which the slice was chosen.
        name: name shown in results; the reader's name if empty.
    """

    def __init__(
        self,
        cluster: ClusterSpec,
        performance: PerformanceModel,
        reader: TraceReader,
        *,
        path: str | None = None,
        strict: bool = False,
        days: Sequence[float] | None = None,
        max_gpus: int | None = None,
        mix: JobMix | None = None,
        elastic: float = 2.0,
        seed: int = 0,
        num_jobs: int = 120,
        splits: Mapping[str, float] | None = None,
        split_days: Mapping[str, Sequence[float]] | None = None,
        evaluate_on: str = "test",
        windows: Windows | None = None,
        by_tenant: bool = False,
        constraints: ConstraintsSetting = "none",
        limits: LimitsSetting = "none",
        holds: ConstraintsSetting = "none",
        recommended_cluster: str = "",
        name: str = "",
    ) -> None:
        if num_jobs < 1 or (max_gpus is not None and max_gpus < 1):
            raise TraceError(f"workload.num_jobs is {num_jobs} and max_gpus {max_gpus}; both must be at least 1")
        if not 1 <= elastic <= MOST_ELASTIC:
            raise TraceError(f"workload.elastic is {elastic}; it must be {ELASTIC}")
        if seed < 0:
            raise TraceError(f"workload.seed is {seed}; it must be at least 0")
        if days is not None and (len(days) != 2 or not 0 <= days[0] < days[1]):
            raise TraceError(f"workload.days is {list(days)}; it must be [first, last] with 0 <= first < last")
        if splits is not None and split_days is not None:
            raise TraceError("workload.splits and workload.split_days are both given; set one of them to null")
        if by_tenant and (windows is None or not windows.count):
            raise TraceError("workload.by_tenant is true without windows; set workload.windows.count to at least 1")
        self.name = name or reader.name
        self.cluster, self.performance, self.reader = cluster, performance, reader
        self.path, self.strict, self.days, self.max_gpus = path, strict, days, max_gpus
        self.num_jobs, self.evaluate_on, self.recommended_cluster = num_jobs, evaluate_on, recommended_cluster
        self.windows, self.by_tenant = windows if windows is not None else Windows(), by_tenant
        self._shares = {"train": 0.6, "validation": 0.2, "test": 0.2} if splits is None else dict(splits)
        self._split_days = None if split_days is None else {key: tuple(pair) for key, pair in split_days.items()}
        where = reader.gpu_type, reader.gpus_per_node, reader.name
        self._assembly = Assembly(performance, cluster, *where, mix, elastic, seed, constraints, limits, holds)
        check_split(self.name, evaluate_on, self.splits)
        self._evaluation: dict[str, tuple[Workload, ...]] = {}

    @property
    def splits(self) -> tuple[str, ...]:
        """Names of the splits, "all" included."""
        return (*(self._shares if self._split_days is None else self._split_days), WHOLE)

    @property
    def models(self) -> tuple[str, ...]:
        """Models of the jobs. Reads the trace."""
        return self.workload.models

    @property
    def report(self) -> ReadReport:
        """The report on the file's rows. Reads the trace."""
        return self._read[1]

    @property
    def workload(self) -> Workload:
        """The slice of the trace as one workload. Reads the trace.

        Raises:
            TraceError: the file is missing or not of its format, or the slice is empty.
            ClusterError: a job does not fit the cluster.
        """
        return self._read[0]

    def episode(self, rng: np.random.Generator, split: str = "train") -> Workload:
        """Draw a run of at most `num_jobs` consecutive jobs of a split; see `WorkloadSource.episode`.

        A split, or a tenant in it, with at most `num_jobs` jobs is returned whole, the same at every draw. Shorter runs
        would differ from each other, but the cluster would fill or empty during more of their time, which hides the
        differences between schedulers that wait for GPUs.
        """
        first, last, _ = self._bounds(split)
        workload, name = self.workload, f"{self.name}-{split}"
        if self.by_tenant:
            tenant = int(workload.jobs["tenant"][int(rng.integers(first, last))])
            workload = workload.slice(first, last, name=name).of_tenant(tenant)
            first, last, name = 0, len(workload), workload.name
        size = min(self.num_jobs, last - first)
        start = first + int(rng.integers(last - first - size + 1))
        return workload.slice(start, start + size, name=name)

    def evaluation(self, split: str | None = None) -> tuple[Workload, ...]:
        """Return the windows of a split, or the split as one workload; see `WorkloadSource.evaluation`."""
        split = self.evaluate_on if split is None else split
        if split not in self._evaluation:
            first, last, _ = self._bounds(split)
            name, num_gpus = f"{self.name}-{split}", self.cluster.num_gpus
            if self.windows.count:
                found = self.windows.cut(self.workload, first, last, name, num_gpus, by_tenant=self.by_tenant)
            else:
                found = (self.whole(split),)
            self._evaluation[split] = found
        return self._evaluation[split]

    def whole(self, split: str) -> Workload:
        """Return all jobs of a split as one workload.

        Raises:
            TraceError: the split does not exist.
        """
        first, last, start = self._bounds(split)
        name = self.name if split == WHOLE else f"{self.name}-{split}"
        return self.workload.slice(first, last, start=start, name=name)

    def rows(self, split: str) -> tuple[int, int]:
        """Return the first job of a split in `workload`, and the end of its jobs (excluded).

        Raises:
            TraceError: the split does not exist.
        """
        return self._bounds(split)[:2]

    def _bounds(self, split: str) -> tuple[int, int, Seconds]:
        """Return (first job, end of jobs (exclusive), start time) of a split."""
        check_split(self.name, split, self.splits)
        # "all" needs no cuts, so that a trace too short to be split can still be run as a whole.
        return (0, len(self.workload), 0.0) if split == WHOLE else self._cuts[split]

    @cached_property
    def _cuts(self) -> dict[str, tuple[int, int, Seconds]]:
        submit = self.workload.jobs["submit_time"]
        if self._split_days is not None:
            return cut_by_days(self.name, submit, self._split_days)
        return cut_by_shares(self.name, submit, self._shares)

    @cached_property
    def _read(self) -> tuple[Workload, ReadReport]:
        frame, report = self.reader.read(locate(self.reader, self.path), strict=self.strict)
        if self.days is not None:
            first, last = (day * DAY for day in self.days)
            inside = frame[(frame["submit_time"] >= first) & (frame["submit_time"] < last)].reset_index(drop=True)
            if inside.empty:
                end = frame["submit_time"].iloc[-1] / DAY
                raise TraceError(
                    f"workload {self.name}: no job was submitted in days {list(self.days)}; the trace "
                    f"spans days 0 to {end:.1f}"
                )
            report = report.dropping(f"outside days {self.days[0]:g} to {self.days[1]:g}", len(frame) - len(inside))
            frame = inside.assign(submit_time=inside["submit_time"] - first)
            if (zero := frame.attrs.get(ZERO_ATTRIBUTE)) is not None:
                frame.attrs[ZERO_ATTRIBUTE] = zero + timedelta(seconds=first)
        if self.max_gpus is not None:
            fits = frame[frame["num_gpus"] <= self.max_gpus].reset_index(drop=True)
            if fits.empty:
                raise TraceError(
                    f"workload {self.name}: max_gpus={self.max_gpus} leaves no job; its smallest job "
                    f"requests {frame['num_gpus'].min()} GPUs"
                )
            report = report.dropping(f"more than {self.max_gpus} GPUs", len(frame) - len(fits))
            frame = fits
        check_sizes(
            report.path, frame["num_gpus"].to_numpy(), self.cluster, lambda job: f"row {frame['row'].iloc[job]}"
        )
        notes = [report.summary(), *report.notes]
        if not self.cluster.name.startswith(self.recommended_cluster):  # the name may be followed by the bandwidth
            notes.append(f"the slice was chosen for cluster {self.recommended_cluster}, not {self.cluster.name}")
        assembly = self._assembly
        if (of_file := frame.attrs.get(SOURCE_ATTRIBUTE)) is not None:  # jobs that were converted from another trace
            assembly = replace(assembly, source=of_file[0], gpus_per_node=of_file[1])
        workload = assembly.workload(frame, self.name, notes)
        check_workload_fits(workload, self.cluster, self.performance)
        return workload, report
