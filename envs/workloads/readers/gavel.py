"""Gavel's traces: one row per job, tab-separated, without a header, with a job type and a number of steps."""

import re
from dataclasses import dataclass
from pathlib import Path
from typing import ClassVar

import numpy as np
import pandas as pd

from envs.types import TraceError
from envs.workloads.readers.report import ReadReport
from envs.workloads.readers.table import MAX_GPUS, TraceTable, rows_of

_COLUMNS = (
    *("job_type", "command", "working_directory", "steps_argument", "needs_data", "total_steps"),
    *("scale_factor", "priority_weight", "slo", "arrival_time"),
)
_SHORT_COLUMNS = (
    *("job_type", "command", "steps_argument", "needs_data", "total_steps", "arrival_time", "scale_factor"),
)
_BATCH = re.compile(r"\(batch size ([0-9]+)\)$")
_LONGEST_BATCH = 9  # digits


@dataclass(frozen=True)
class GavelTrace:
    """Traces of Gavel's simulator (OSDI'20; github.com/stanford-futuredata/gavel, MIT).

    A job type is a model and a batch size per GPU, such as "ResNet-18 (batch size 32)"; it becomes the job's model.
    Work is in samples: steps times batch size times GPUs. If the type states no batch size, a step is one sample of
    each GPU. Priority weights other than 1 and SLOs are not modelled; the notes state the number of such rows.

    The traces of its testbed have ten fields. Those that it derived from Philly (traces/msr) have seven, without
    working directory, priority weight and SLO, and with the arrival before the number of GPUs. The first row decides.
    """

    gpu_type: str = "V100"
    gpus_per_node: int = 8
    name: ClassVar[str] = "gavel"
    source: ClassVar[str] = "github.com/stanford-futuredata/gavel"
    location: ClassVar[str] = "traces/gavel/minimize_makespan.trace"

    def read(self, path: Path, *, strict: bool = False) -> tuple[pd.DataFrame, ReadReport]:
        """Return the jobs and the report; see `TraceReader.read`. Durations are NaN: the file has none."""
        table = read_rows(path, strict=strict)
        submit = table.numbers("arrival_time")
        steps = table.numbers("total_steps", high=1e15)
        num_gpus = table.numbers("scale_factor", low=1, high=MAX_GPUS, whole=True)
        model = table.text("job_type")
        batch = np.array([batch_size(name) for name in model], dtype=np.float64)
        table.reject(model == "", "job_type", "must name a job type")
        table.reject(batch == 0, "job_type", "must state a batch size from 1 to 999,999,999, or none")
        table.skip(steps == 0, "no steps to run")
        columns = {
            "submit_time": submit,
            "duration": np.full(len(table), np.nan),
            "num_gpus": num_gpus,
            "work": steps * num_gpus * batch,
            "model": model,
        }
        notes = ["work is steps times batch size times GPUs; the trace has no durations"]
        if "slo" in table.columns:
            special = (table.numbers("priority_weight", low=-np.inf, high=np.inf) != 1.0) | (
                table.numbers("slo", low=-np.inf, high=np.inf) >= 0
            )
            if (special & table.sound).any():
                notes.append(
                    f"{int((special & table.sound).sum())} jobs have a priority weight or an SLO, which is ignored"
                )
        return table.finish(columns, notes=notes)


def batch_size(job_type: str) -> int:
    """Return the samples per GPU and step that the job type states: 1 if it states none, 0 if they are too many."""
    found = _BATCH.search(job_type)
    if found is None:
        return 1
    return int(found.group(1)) if len(found.group(1)) <= _LONGEST_BATCH else 0


def read_rows(path: Path, *, strict: bool = False) -> TraceTable:
    """Read a trace file as a table with the columns `_COLUMNS`, or `_SHORT_COLUMNS` if its first row has seven fields.

    Raises:
        TraceError: the file is empty or not text; or `strict` is set and a row does not have as many fields.
    """
    body = list(rows_of(path, "\t", quoted=False))
    if not body:
        raise TraceError(f"{path}: is empty; a gavel trace has one row of {len(_COLUMNS)} tab-separated fields per job")
    names = _SHORT_COLUMNS if len(body[0][1]) == len(_SHORT_COLUMNS) else _COLUMNS
    columns = {name: [cells[at] if at < len(cells) else "" for _, cells in body] for at, name in enumerate(names)}
    table = TraceTable("gavel", path, columns, [row for row, _ in body], strict=strict)
    wrong = np.array([len(cells) != len(names) for _, cells in body])
    table.reject(wrong, "job_type", f"must be in a row of {len(names)} tab-separated fields")
    return table
