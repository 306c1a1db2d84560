"""SenseTime Helios: one row per Slurm job, `cluster_log.csv` of one cluster."""

from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import ClassVar

import numpy as np
import pandas as pd

from envs.workloads.readers.clock import midnight_before
from envs.workloads.readers.past import recorded_runs
from envs.workloads.readers.philly import VIRTUAL_CLUSTERS
from envs.workloads.readers.report import ReadReport
from envs.workloads.readers.slurm_json import NO_TIME
from envs.workloads.readers.table import MAX_GPUS, read_csv


@dataclass(frozen=True)
class HeliosTrace:
    """The jobs of one Helios cluster, April to September 2020 (Hu et al., SC'21; HeliosData).

    The published schema is `job_id, user, vc, gpu_num, cpu_num, node_num, state, submit_time, start_time, end_time,
    duration, queue`. Times are local calendar text; the duration is seconds of execution. Jobs without GPUs, more than
    half of all jobs, are skipped. Failed and cancelled jobs are kept, because they held their GPUs for the stated
    duration. Users are kept; the publication has no names of jobs. t = 0 is the midnight
    before the first job. Models are assigned afterwards. V100 as the GPU type is an
    assumption.

    Args:
        virtual_clusters: the virtual clusters to keep; all if empty.
        timezone: IANA name of the zone of the times, such as Asia/Shanghai; None uses them unchanged.
    """

    virtual_clusters: Sequence[str] = ()
    gpu_type: str = "V100"
    gpus_per_node: int = 8
    timezone: str | None = None
    name: ClassVar[str] = "helios"
    location: ClassVar[str] = "traces/helios/Venus/cluster_log.csv"
    source: ClassVar[str] = "github.com/S-Lab-System-Group/HeliosData"

    def read(self, path: Path, *, strict: bool = False) -> tuple[pd.DataFrame, ReadReport]:
        """Return the jobs and the report; see `TraceReader.read`."""
        table = read_csv(self.name, path, ("job_id", "vc", "gpu_num", "submit_time", "duration"), strict=strict)
        submit = table.times("submit_time", timezone=self.timezone)
        num_gpus = table.numbers("gpu_num", high=MAX_GPUS, whole=True)
        duration = table.numbers("duration")
        tenant = table.text("vc")
        table.skip_idle(duration, num_gpus)
        first = submit[table.sound].min(initial=np.inf)  # over all virtual clusters, so that t = 0 is the same for each
        if self.virtual_clusters:
            table.select("vc", self.virtual_clusters, VIRTUAL_CLUSTERS, "other virtual clusters")
        columns = {
            "submit_time": submit,
            "duration": duration,
            "num_gpus": num_gpus,
            "tenant": tenant,
            "id": table.text("job_id"),
        }
        if "start_time" in table.columns and "end_time" in table.columns:
            names = "start_time", "end_time"
            start, end = (table.times(name, timezone=self.timezone, absent=NO_TIME) for name in names)
            columns |= recorded_runs(table, submit, start, end, duration)
        if "user" in table.columns:
            columns["user"] = table.text("user")
        note = "failed and cancelled jobs are kept with the time that they ran"
        if self.timezone is None:
            note += "; times are local, without a stated zone"
        return table.finish(columns, notes=(note,), origin=midnight_before(first, self.timezone))
