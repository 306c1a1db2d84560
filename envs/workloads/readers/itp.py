"""Microsoft's internal training platform: one row a job, in a file for each cluster or in one for all."""

from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import ClassVar

import numpy as np
import pandas as pd

from envs.types import TraceError
from envs.workloads.readers.report import ReadReport
from envs.workloads.readers.table import MAX_GPUS, TraceTable, read_csv

COLUMNS = ("submission_time", "duration", "num_gpu")
CLUSTER = "cluster"


@dataclass(frozen=True)
class MicrosoftItp:
    """The jobs of production clusters, March to May 2021 (ElasticFlow, ASPLOS'23; elasticflow-traces, MIT).

    Published are ten files, cluster01.csv to cluster10.csv; the path may be the folder that holds them. It may as well
    be one file with a column `cluster`: itp_jobs.csv.gz is eight of the ten in one, without cluster03 and cluster08.

    Filtered upstream to jobs of at least 600 s. Bursts share one second; equal rows are jobs of such a burst and are
    kept. Clusters become tenants. It names neither models nor GPU types: models are assigned afterwards, and V100 as
    the type of GPU is an assumption.

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
        "cluster*.csv, or those files in one with a column cluster"
    )

    def read(self, path: Path, *, strict: bool = False) -> tuple[pd.DataFrame, ReadReport]:
        """The jobs and the report; `path` is a file or the folder of the ten. See `TraceReader.read`."""
        table = (
            self._folder(path, strict)
            if path.is_dir()
            else read_csv(self.name, path, (CLUSTER, *COLUMNS), strict=strict)
        )
        submit = table.numbers("submission_time")
        duration = table.numbers("duration")
        num_gpus = table.numbers("num_gpu", high=MAX_GPUS, whole=True)
        tenant = table.text(CLUSTER)
        table.skip_idle(duration, num_gpus)
        first = submit[table.sound].min(initial=np.inf)  # of all clusters, so that days mean the same for each
        if self.clusters:
            table.skip(~np.isin(tenant, list(self.clusters)), "other clusters")
        note = "filtered upstream to jobs of at least 600 s; equal rows are bursts and are kept"
        columns = {"submit_time": submit, "duration": duration, "num_gpus": num_gpus, "tenant": tenant}
        return table.finish(columns, notes=(note,), origin=float(first))

    def _folder(self, folder: Path, strict: bool) -> TraceTable:
        files = sorted(folder.glob("cluster*.csv"))
        if not files:
            raise TraceError(
                f"{folder}: has no cluster*.csv; unpack data/raw-traces.tar.gz of elasticflow-traces there"
            )
        return TraceTable.joined(
            folder, {file.stem: read_csv(self.name, file, COLUMNS, strict=strict) for file in files}, CLUSTER
        )
