"""Acme of the Shanghai AI Laboratory: one row per job, `trace_seren.csv` or `trace_kalos.csv`."""

from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import ClassVar

import numpy as np
import pandas as pd

from envs.workloads.readers.past import recorded_runs
from envs.workloads.readers.report import ReadReport
from envs.workloads.readers.table import MAX_GPUS, MAX_SECONDS, read_csv

COLUMNS = ("job_id", "user", "gpu_num", "type", "submit_time", "start_time", "end_time")


@dataclass(frozen=True)
class AcmeTrace:
    """Development of language models on A100, March to August 2023 (Hu et al., NSDI'24), by the published schema.

    Both clusters, Seren and Kalos, have the columns that are read. A job ran from `start_time` to `end_time`; the
    column `duration` is not used, because that of Kalos includes the time in the queue. Jobs without GPUs and jobs that
    never started are skipped. Failed and cancelled jobs are kept, because they held their GPUs. Times state their zone;
    t = 0 is the first submission. Models are assigned afterwards.

    Args:
        workload_types: the values of `type` to keep, such as Pretrain; all if empty.
    """

    workload_types: Sequence[str] = ()
    gpu_type: str = "A100"
    gpus_per_node: int = 8
    name: ClassVar[str] = "acme"
    location: ClassVar[str] = "traces/acme/trace_seren.csv"
    source: ClassVar[str] = "github.com/InternLM/AcmeTrace"

    def read(self, path: Path, *, strict: bool = False) -> tuple[pd.DataFrame, ReadReport]:
        """Return the jobs and the report; see `TraceReader.read`."""
        table = read_csv(self.name, path, COLUMNS, strict=strict)
        table.skip((table.text("start_time") == "") | (table.text("end_time") == ""), "jobs that never started")
        num_gpus = table.numbers("gpu_num", high=MAX_GPUS, whole=True)
        submit, start, end = (table.times(f"{name}_time", "ISO8601") for name in ("submit", "start", "end"))
        table.reject(end < start, "end_time", "must not be before start_time")
        table.reject(end - start > MAX_SECONDS, "end_time", "must be within ten years of start_time")
        table.skip_idle(end - start, num_gpus)
        first = submit[table.sound].min(initial=np.inf)  # over all types, so that t = 0 is the same for each
        if self.workload_types:
            table.select("type", self.workload_types, "workload.reader.workload_types", "other types of work")
        columns = {
            "submit_time": submit,
            "duration": end - start,
            "num_gpus": num_gpus,
            "tenant": table.text("user"),
            "name": table.text("job_id"),
            **recorded_runs(table, submit, start, end, end - start),
        }
        notes = ("failed and cancelled jobs are kept with the time that they ran",)
        return table.finish(columns, notes=notes, origin=float(first) if np.isfinite(first) else None)
