"""Alibaba PAI, cluster-trace-gpu-v2020: a folder of tables without headers, one for jobs and one for their tasks."""

from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from types import MappingProxyType
from typing import ClassVar

import numpy as np
import pandas as pd

from envs.types import TraceError
from envs.workloads.readers.past import recorded_runs
from envs.workloads.readers.report import ReadReport
from envs.workloads.readers.table import MAX_GPUS, TextArray, read_csv

JOB_HEADER = ("job_name", "inst_id", "user", "status", "start_time", "end_time")
TASK_HEADER = (
    *("job_name", "task_name", "inst_num", "status", "start_time", "end_time"),
    *("plan_cpu", "plan_mem", "plan_gpu", "gpu_type"),
)
GROUP_HEADER = ("inst_id", "user", "gpu_type_spec", "group", "workload")
# The trace's names of GPU types; MISC stands for K40m, K80 and M60 (README of the trace).
_GPU_TYPES: Mapping[str, str] = MappingProxyType(
    {"T4": "T4", "P100": "P100", "V100": "V100", "V100M32": "V100", "MISC": "K80"}
)


@dataclass(frozen=True)
class PaiTrace:
    """Training and inference jobs on 6,500 GPUs, July and August 2020 (Weng et al., NSDI'22), by the published schema.

    A job is submitted at its `start_time` and runs from the start of its first GPU task to the end of its last one. It
    requests the GPUs of all its tasks' instances; a share of a GPU (`plan_gpu` under 100) is a fraction of one if the
    job has no other GPU (`envs.performance.slices`), and counts as a whole GPU else. Jobs without GPUs and jobs without
    recorded times are skipped. The GPU type of the first GPU task turns the duration into work. Models are assigned
    afterwards. Users become tenants, too. If the folder has pai_group_tag_table.csv, a job's name is its group there:
    jobs of one group have similar inputs, such as scripts and parameters, and count as repeated.
    """

    gpu_type: str = "T4"  # where the trace names none
    gpus_per_node: int = 8
    name: ClassVar[str] = "pai"
    location: ClassVar[str] = "traces/pai"
    source: ClassVar[str] = "github.com/alibaba/clusterdata (cluster-trace-gpu-v2020)"

    def read(self, path: Path, *, strict: bool = False) -> tuple[pd.DataFrame, ReadReport]:
        """Return the jobs and the report; `path` is the folder. See `TraceReader.read`."""
        table = read_csv(self.name, _file(path, "pai_job_table"), JOB_HEADER, header=JOB_HEADER, strict=strict)
        tasks, shared, task_notes = self._tasks(_file(path, "pai_task_table"), strict)
        job = table.text("job_name")
        table.skip(table.text("start_time") == "", "no recorded submission")
        submit = table.numbers("start_time")
        known = pd.Series(job).isin(tasks.index).to_numpy()
        table.skip(~known, "no GPU task, or none with recorded times")
        mine = tasks.reindex(job)
        start, end = (mine[name].to_numpy(np.float64) for name in ("start", "end"))
        duration = np.where(known, end - start, 0.0)
        num_gpus = np.nan_to_num(mine["gpus"].to_numpy(np.float64))
        table.skip_idle(duration, num_gpus)
        columns = {
            "submit_time": submit,
            "duration": duration,
            "num_gpus": num_gpus,
            "tenant": table.text("user"),
            "user": table.text("user"),
            "id": job,
            "gpu_type": mine["gpu_type"].to_numpy(),
            "gpu_fraction": np.where(num_gpus == 1, mine["fraction"].to_numpy(np.float64), 1.0),
            **recorded_runs(table, submit, start, end, duration),
        }
        if groups := _find(path, "pai_group_tag_table"):
            columns["name"] = _groups(groups, table.text("inst_id"), strict)
        notes = (
            f"{shared:,} GPU tasks request a share of a GPU, which counts as a whole GPU unless a job has no other",
            *task_notes,
        )
        return table.finish(columns, notes=notes)

    def _tasks(self, path: Path, strict: bool) -> tuple[pd.DataFrame, int, tuple[str, ...]]:
        """Return (start, end, gpus, gpu_type, fraction by job; number of tasks on a share of a GPU; notes on rows)."""
        table = read_csv("pai task", path, TASK_HEADER, header=TASK_HEADER, strict=strict)
        table.skip(np.isin(table.text("plan_gpu"), ["", "0", "0.0"]), "tasks without GPUs")
        table.skip(
            (table.text("start_time") == "") | (table.text("end_time") == ""), "GPU tasks without recorded times"
        )
        share = table.numbers("plan_gpu", high=100.0 * MAX_GPUS)
        instances = table.numbers("inst_num", high=MAX_GPUS)
        start, end = table.numbers("start_time"), table.numbers("end_time")
        table.reject(end < start, "end_time", "must not be before start_time")
        sound = table.sound
        frame = pd.DataFrame(
            {
                "job": table.text("job_name")[sound],
                "start": start[sound],
                "end": end[sound],
                "gpus": (np.ceil(share / 100) * instances)[sound],
                "gpu_type": _types(table.text("gpu_type"), self.gpu_type)[sound],
                "fraction": (share % 100 / 100)[sound],
            }
        )
        grouped = frame.groupby("job", sort=False).agg(
            start=("start", "min"),
            end=("end", "max"),
            gpus=("gpus", "sum"),
            gpu_type=("gpu_type", "first"),
            fraction=("fraction", "max"),
        )
        grouped["fraction"] = grouped["fraction"].where(grouped["fraction"] > 0, 1.0)
        notes = [f"{count:,} {why}" for why, count in table.skipped.items()]
        notes += [f"{count:,} bad task rows ({why})" for why, count in table.bad.items()]
        return grouped, int((sound & (share % 100 > 0)).sum()), tuple(notes)


def _types(named: TextArray, default: str) -> TextArray:
    """Translate the trace's GPU types to our names; an unknown or missing type becomes the default."""
    found = np.empty(len(named), dtype=object)
    found[:] = [_GPU_TYPES.get(name, default) for name in named]
    return found


def _groups(path: Path, instances: TextArray, strict: bool) -> TextArray:
    """object[num_jobs]: the group of each job by its `inst_id`, "" for those that have none."""
    table = read_csv("pai group tag", path, GROUP_HEADER, header=GROUP_HEADER, strict=strict)
    group_of = dict(zip(table.text("inst_id")[table.sound], table.text("group")[table.sound], strict=True))
    found = np.empty(len(instances), dtype=object)
    found[:] = [group_of.get(instance, "") for instance in instances]
    return found


def _file(folder: Path, table: str) -> Path:
    if not folder.is_dir():
        raise TraceError(
            f"{folder}: is not a folder; a PAI trace is a folder with pai_job_table.csv and pai_task_table.csv"
        )
    found = _find(folder, table)
    if found is None:
        raise TraceError(f"{folder}: has no {table}.csv; unpack {table}.tar.gz of the trace there")
    return found


def _find(folder: Path, table: str) -> Path | None:
    """Return the file of a table, compressed or not, or None."""
    return next((file for suffix in (".csv", ".csv.gz") if (file := folder / f"{table}{suffix}").exists()), None)
