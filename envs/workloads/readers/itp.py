"""Microsoft's internal training platform: one row per job, in one file per cluster or in one file for all."""

from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import ClassVar

import numpy as np
import pandas as pd

from envs.types import TraceError
from envs.workloads.readers.report import ReadReport
from envs.workloads.readers.table import MAX_GPUS, TraceTable, read_csv

_COLUMNS = ("submission_time", "duration", "num_gpu")
_CLUSTER = "cluster"


@dataclass(frozen=True)
class ItpTrace:
    """The jobs of production clusters, March to May 2021 (ElasticFlow, ASPLOS'23; elasticflow-traces, MIT).

    The publication has ten files, cluster01.csv to cluster10.csv. The path may be their folder, one of them, whose name
    is then the cluster's, or one file with a column `cluster`: itp_jobs.csv.gz joins eight of the ten files, without
    cluster03 and cluster08. t = 0 is the first submission of all clusters that are read, also of those that `clusters`
    leaves out; so it is later if one published file is read alone.

    The publishers kept only jobs of at least 600 s. The jobs of a burst are submitted within one second; equal rows are
    jobs of one burst and are kept. Clusters become tenants. The trace names neither models nor GPU types: models are
    assigned afterwards, and V100 as the GPU type is an assumption.

    Args:
        clusters: the clusters to keep; all if empty.
    """

    clusters: Sequence[str] = ()
    gpu_type: str = "V100"
    gpus_per_node: int = 8
    name: ClassVar[str] = "itp"
    location: ClassVar[str] = "traces/microsoft_itp/itp_jobs.csv.gz"
    source: ClassVar[str] = (
        "github.com/microsoft/elasticflow-traces: unpack its data/raw-traces.tar.gz and give the folder of its "
        "cluster*.csv, one of them, or one file that joins them with a column cluster"
    )

    def read(self, path: Path, *, strict: bool = False) -> tuple[pd.DataFrame, ReadReport]:
        """Return the jobs and the report; `path` is a file or the folder of the ten. See `TraceReader.read`."""
        table = self._folder(path, strict) if path.is_dir() else self._file(path, strict)
        submit = table.numbers("submission_time")
        duration = table.numbers("duration")
        num_gpus = table.numbers("num_gpu", high=MAX_GPUS, whole=True)
        tenant = table.text(_CLUSTER)
        table.skip_idle(duration, num_gpus)
        first = submit[table.sound].min(initial=np.inf)  # over all clusters, so that t = 0 is the same for each
        if self.clusters:
            table.select(_CLUSTER, self.clusters, "workload.reader.clusters", "other clusters")
        note = "the publishers kept only jobs of at least 600 s; equal rows are jobs of a burst and are kept"
        columns = {"submit_time": submit, "duration": duration, "num_gpus": num_gpus, "tenant": tenant}
        return table.finish(columns, notes=(note,), origin=float(first))

    def _file(self, path: Path, strict: bool) -> TraceTable:
        """Read one file; without a column `cluster` it is one cluster's, named by the file."""
        table = read_csv(self.name, path, _COLUMNS, strict=strict)
        if _CLUSTER not in table.columns:
            table.columns[_CLUSTER] = np.full(len(table), _cluster_of(path), dtype=object)
        return table

    def _folder(self, folder: Path, strict: bool) -> TraceTable:
        files = sorted([*folder.glob("cluster*.csv"), *folder.glob("cluster*.csv.gz")])
        if not files:
            raise TraceError(
                f"{folder}: has no cluster*.csv; unpack data/raw-traces.tar.gz of elasticflow-traces there"
            )
        return TraceTable.joined(
            folder, {_cluster_of(file): read_csv(self.name, file, _COLUMNS, strict=strict) for file in files}, _CLUSTER
        )


def _cluster_of(path: Path) -> str:
    """Return the cluster that a file is named after, such as cluster02."""
    return path.name.split(".")[0]
