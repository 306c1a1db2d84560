"""Microsoft's internal training platform: one row a job, `cluster,submission_time,duration,num_gpu`."""

from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import ClassVar

import numpy as np
import pandas as pd

from envs.workloads.readers.report import ReadReport
from envs.workloads.readers.table import MAX_GPUS, read_csv


@dataclass(frozen=True)
class MicrosoftItp:
    """The jobs of 8 production clusters, March to May 2021 (ElasticFlow, ASPLOS'23; elasticflow-traces, MIT).

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
    source: ClassVar[str] = "github.com/pkusys/ElasticFlow (elasticflow-traces)"

    def read(self, path: Path, *, strict: bool = False) -> tuple[pd.DataFrame, ReadReport]:
        """The jobs and the report; see `TraceReader.read`."""
        table = read_csv(self.name, path, ("cluster", "submission_time", "duration", "num_gpu"), strict=strict)
        submit = table.numbers("submission_time")
        duration = table.numbers("duration")
        num_gpus = table.numbers("num_gpu", high=MAX_GPUS, whole=True)
        tenant = table.text("cluster")
        table.skip_idle(duration, num_gpus)
        first = submit[table.sound].min(initial=np.inf)  # of all clusters, so that days mean the same for each
        if self.clusters:
            table.skip(~np.isin(tenant, list(self.clusters)), "other clusters")
        note = "filtered upstream to jobs of at least 600 s; equal rows are bursts and are kept"
        columns = {"submit_time": submit, "duration": duration, "num_gpus": num_gpus, "tenant": tenant}
        return table.finish(columns, notes=(note,), origin=float(first))
