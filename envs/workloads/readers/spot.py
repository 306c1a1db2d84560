"""Alibaba, cluster-trace-v2026-spot-gpu: one row per job with high priority or on spot GPUs, `job_info_df.csv`."""

from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from types import MappingProxyType
from typing import ClassVar

import numpy as np
import pandas as pd

from envs.workloads.readers.report import ReadReport
from envs.workloads.readers.table import MAX_GPUS, read_csv

COLUMNS = ("job_name", "organization", "gpu_model", "gpu_request", "worker_num", "submit_time", "duration", "job_type")
PRIORITIES = ("HP", "Spot")
# The trace's names of GPU types that we have measurements for; the GPU-series-* are not disclosed.
_GPU_TYPES: Mapping[str, str] = MappingProxyType({"A100-SXM4-80GB": "A100"})


@dataclass(frozen=True)
class SpotTrace:
    """Jobs on 4,278 nodes with six GPU types, with high priority and on spot GPUs (Duan et al., ASPLOS'26).

    A job requests `gpu_request` GPUs for each of its `worker_num` workers; a share of a GPU counts as a whole one.
    Organizations are tenants, and jobs with high priority are guaranteed. GPU types without measurements of ours count
    as `gpu_type`. Jobs without GPUs or without a run time are skipped. Models are assigned afterwards.
    """

    gpu_type: str = "A100"
    gpus_per_node: int = 8
    name: ClassVar[str] = "spot"
    location: ClassVar[str] = "traces/spot/job_info_df.csv"
    source: ClassVar[str] = "github.com/alibaba/clusterdata (cluster-trace-v2026-spot-gpu)"

    def read(self, path: Path, *, strict: bool = False) -> tuple[pd.DataFrame, ReadReport]:
        """Return the jobs and the report; see `TraceReader.read`."""
        table = read_csv(self.name, path, COLUMNS, strict=strict)
        submit, duration = table.numbers("submit_time"), table.numbers("duration")
        gpus = table.numbers("gpu_request", high=MAX_GPUS)
        workers = table.numbers("worker_num", low=1, high=MAX_GPUS, whole=True)
        num_gpus = np.ceil(gpus) * workers
        table.reject(num_gpus > MAX_GPUS, "worker_num", f"must be at most {MAX_GPUS:,} GPUs with gpu_request")
        priority, gpu_model = table.text("job_type"), table.text("gpu_model")
        table.reject(~np.isin(priority, PRIORITIES), "job_type", f"must be {' or '.join(PRIORITIES)}")
        table.skip_idle(duration, num_gpus)
        known = np.isin(gpu_model, list(_GPU_TYPES))
        gpu_type = np.full(len(table), self.gpu_type, dtype=object)
        gpu_type[known] = [_GPU_TYPES[name] for name in gpu_model[known]]
        columns = {
            "submit_time": submit,
            "duration": duration,
            "num_gpus": num_gpus,
            "tenant": table.text("organization"),
            "name": table.text("job_name"),
            "gpu_type": gpu_type,
            "guaranteed": priority == "HP",
        }
        others = sorted(set(gpu_model[table.sound & ~known].tolist()))
        notes = [f"GPU types that count as {self.gpu_type}: {', '.join(others)}"] if others else []
        return table.finish(columns, notes=notes)
