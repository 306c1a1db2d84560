"""Alibaba, cluster-trace-gpu-v2023: one row per pod of a Kubernetes cluster, `openb_pod_list_*.csv`."""

from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from types import MappingProxyType
from typing import ClassVar

import numpy as np
import pandas as pd

from envs.workloads.readers.past import recorded_runs
from envs.workloads.readers.report import ReadReport
from envs.workloads.readers.table import TextArray, read_csv

COLUMNS = ("name", "num_gpu", "gpu_milli", "gpu_spec", "creation_time", "deletion_time", "scheduled_time")
# Names of GPU types in `gpu_spec`; G1, G2 and G3 are not disclosed.
_GPU_TYPES: Mapping[str, str] = MappingProxyType({"P100": "P100", "T4": "T4", "V100M16": "V100", "V100M32": "V100"})


@dataclass(frozen=True)
class OpenbTrace:
    """Pods on 6,200 GPUs, training and inference (Weng et al., ATC'23), by the published schema.

    A job is submitted when its pod is created, and runs from its scheduling to its deletion. Pods without GPUs and pods
    that were never scheduled or are not deleted are skipped. A share of a GPU (`gpu_milli` under 1,000) is a fraction
    of one (`envs.performance.slices`). Of a list of allowed GPU types the first known one turns the duration into work;
    most pods have none, and `gpu_type` stands for them. Models are assigned afterwards.
    """

    gpu_type: str = "T4"
    gpus_per_node: int = 8
    name: ClassVar[str] = "openb"
    location: ClassVar[str] = "traces/openb/openb_pod_list_default.csv"
    source: ClassVar[str] = "github.com/alibaba/clusterdata (cluster-trace-gpu-v2023)"

    def read(self, path: Path, *, strict: bool = False) -> tuple[pd.DataFrame, ReadReport]:
        """Return the jobs and the report; see `TraceReader.read`."""
        table = read_csv(self.name, path, COLUMNS, strict=strict)
        num_gpus = table.numbers("num_gpu", high=8, whole=True)
        table.skip(num_gpus == 0, "no GPUs requested")
        table.skip(table.text("scheduled_time") == "", "pods that were never scheduled")
        table.skip(table.text("deletion_time") == "", "pods that are not deleted within the trace")
        submit, start, end = (table.numbers(f"{name}_time") for name in ("creation", "scheduled", "deletion"))
        share = table.numbers("gpu_milli", high=1000)
        table.reject(start < submit, "scheduled_time", "must not be before creation_time")
        table.reject(end < start, "deletion_time", "must not be before scheduled_time")
        table.skip_idle(end - start, num_gpus)
        table.reject(share <= 0, "gpu_milli", "must be above 0 where GPUs are requested")
        table.reject((share < 1000) & (num_gpus > 1), "gpu_milli", "must be 1000 for pods of several GPUs")
        columns = {
            "submit_time": submit,
            "duration": end - start,
            "num_gpus": num_gpus,
            "name": table.text("name"),
            "gpu_type": _first_known(table.text("gpu_spec"), self.gpu_type),
            "gpu_fraction": share / 1000,
            **recorded_runs(table, submit, start, end, end - start),
        }
        return table.finish(columns)


def _first_known(specs: TextArray, default: str) -> TextArray:
    """Return for each list of allowed GPU types, such as V100M16|V100M32, the first of ours, else the default."""
    found = np.empty(len(specs), dtype=object)
    found[:] = [next((_GPU_TYPES[name] for name in spec.split("|") if name in _GPU_TYPES), default) for spec in specs]
    return found
