"""The Standard Workload Format of the Parallel Workloads Archive: 18 numbers per line."""

from dataclasses import dataclass
from pathlib import Path
from typing import ClassVar

import numpy as np
import pandas as pd

from envs.types import TraceError
from envs.workloads.readers.files import limit_values, read_lines
from envs.workloads.readers.past import recorded_runs
from envs.workloads.readers.report import ReadReport
from envs.workloads.readers.table import MAX_GPUS, TextArray, TraceTable

# The fields of a line, in order: Feitelson, Tsafrir, Krakov, Experience with the Parallel Workloads Archive, 2014.
FIELDS = (
    *("job", "submit", "wait", "run_time", "allocated", "cpu_time", "used_memory", "requested"),
    *("requested_time", "requested_memory", "status", "user", "group", "executable"),
    *("queue", "partition", "preceding", "think_time"),
)
MAX_PROCESSORS = 64 * MAX_GPUS


@dataclass(frozen=True)
class SwfTrace:
    """Any trace in the Standard Workload Format, in which lines that begin with ; are comments and -1 means unknown.

    A job's GPUs are its requested processors, or the allocated ones if the request is unknown, divided by
    `processors_per_gpu` and rounded up. Users become tenants, too, and the number of the executable is a job's name.
    Models are assigned afterwards, since the jobs are not training jobs.

    Args:
        processors_per_gpu: processors that count as one GPU.
    """

    processors_per_gpu: int = 1
    gpu_type: str = "V100"
    gpus_per_node: int = 8
    name: ClassVar[str] = "swf"
    location: ClassVar[str] = "traces/swf/trace.swf.gz"
    source: ClassVar[str] = "the Parallel Workloads Archive (cs.huji.ac.il/labs/parallel/workload)"

    def __post_init__(self) -> None:
        if self.processors_per_gpu < 1:
            raise TraceError(f"swf reader: processors_per_gpu is {self.processors_per_gpu}; it must be at least 1")

    def read(self, path: Path, *, strict: bool = False) -> tuple[pd.DataFrame, ReadReport]:
        """Return the jobs and the report; see `TraceReader.read`."""
        table = _table(path, strict)
        submit = table.numbers("submit")
        run_time = table.numbers("run_time", low=-1)
        requested = table.numbers("requested", low=-1, high=MAX_PROCESSORS, whole=True)
        allocated = table.numbers("allocated", low=-1, high=MAX_PROCESSORS, whole=True)
        processors = np.where(requested > 0, requested, allocated)
        table.skip(run_time < 0, "run time unknown")
        table.skip(processors < 0, "processors unknown")
        table.skip_idle(run_time, processors)
        wait = table.numbers("wait", low=-1)
        start = submit + np.where(wait < 0, np.nan, wait)
        columns = {
            **recorded_runs(table, submit, start, start + run_time, run_time),
            "submit_time": submit,
            "duration": run_time,
            "num_gpus": np.ceil(processors / self.processors_per_gpu),
            "tenant": table.text("user"),
            "id": table.text("job"),
            "user": _known(table.text("user")),
            "name": _known(table.text("executable")),
        }
        return table.finish(columns, notes=(f"one GPU stands for {self.processors_per_gpu} processor(s)",))


def _known(texts: TextArray) -> TextArray:
    """object[num_rows]: the same texts, with "" for those that are unknown."""
    return np.where(texts == "-1", "", texts)


def _table(path: Path, strict: bool) -> TraceTable:
    """Read the lines of jobs as columns of text."""
    numbered = ((row, line.split()) for row, line in enumerate(read_lines(path), start=1))
    jobs = ((row, cells) for row, cells in numbered if cells and not cells[0].startswith(";"))
    found = list(limit_values(path, jobs))
    rows, lines = [row for row, _ in found], [cells for _, cells in found]
    if not lines:
        raise TraceError(
            f"{path}: is empty; a Standard Workload Format file has a line of {len(FIELDS)} numbers for each job"
        )
    columns = {name: [cells[at] if at < len(cells) else "" for cells in lines] for at, name in enumerate(FIELDS)}
    table = TraceTable(SwfTrace.name, path, columns, rows, strict=strict)
    table.reject(
        np.array([len(cells) != len(FIELDS) for cells in lines]), "job", f"must be in a line of {len(FIELDS)} fields"
    )
    return table
