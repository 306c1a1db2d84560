"""Gavel's traces: one row a job, tab-separated and without a header, with a job type and its steps."""

import re
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import ClassVar

import numpy as np
import pandas as pd

from envs.types import TraceError
from envs.workloads.readers.report import ReadReport
from envs.workloads.readers.table import MAX_GPUS, TraceTable, open_text

COLUMNS = (
    *("job_type", "command", "working_directory", "steps_argument", "needs_data", "total_steps"),
    *("scale_factor", "priority_weight", "slo", "arrival_time"),
)
BATCH = re.compile(r"\(batch size (\d+)\)$")


@dataclass(frozen=True)
class Gavel:
    """Jobs as Gavel's simulator takes them (OSDI'20; github.com/stanford-futuredata/gavel, MIT).

    A job type is a model and a batch size per GPU, "ResNet-18 (batch size 32)"; it is the job's model here. Work is
    counted in samples: steps times batch size times GPUs; a type that states no batch size counts a step as a sample
    of each GPU. Priority weights other than 1 and SLOs are not modelled: such rows are counted in the notes.
    """

    gpu_type: str = "V100"
    gpus_per_node: int = 8
    name: ClassVar[str] = "gavel"
    source: ClassVar[str] = "github.com/stanford-futuredata/gavel"
    location: ClassVar[str] = "traces/gavel/minimize_makespan.trace"

    def read(self, path: Path, *, strict: bool = False) -> tuple[pd.DataFrame, ReadReport]:
        """The jobs and the report; see `TraceReader.read`. Durations are not in the file: NaN."""
        table = read_rows(path, strict=strict)
        submit = table.numbers("arrival_time")
        steps = table.numbers("total_steps", high=1e15)
        num_gpus = table.numbers("scale_factor", low=1, high=MAX_GPUS, whole=True)
        model = table.text("job_type")
        table.reject(model == "", "job_type", "must name a job type")
        table.skip(steps == 0, "no steps to run")
        columns = {
            "submit_time": submit,
            "duration": np.full(len(table), np.nan),
            "num_gpus": num_gpus,
            "work": steps * num_gpus * np.array([batch_size(name) for name in model], dtype=np.float64),
            "model": model,
        }
        notes = ["work is steps times batch size times GPUs; the trace has no durations"]
        special = (table.numbers("priority_weight", low=-np.inf, high=np.inf) != 1.0) | (
            table.numbers("slo", low=-np.inf, high=np.inf) >= 0
        )
        if (special & table.sound).any():
            notes.append(
                f"{int((special & table.sound).sum())} jobs have a priority weight or an SLO, which is not used"
            )
        return table.finish(columns, notes=notes)


def batch_size(job_type: str) -> int:
    """Samples of one GPU's step, as the job type states them; 1 if it states none."""
    found = BATCH.search(job_type)
    return int(found.group(1)) if found else 1


def read_rows(path: Path, *, strict: bool = False) -> TraceTable:
    """A trace file as a table with the columns `COLUMNS`.

    Raises:
        TraceError: the file cannot be read as text or is empty; or `strict` and a row has not ten fields.
    """
    body = list(_split(path))
    if not body:
        raise TraceError(f"{path}: is empty; a gavel trace has one row of {len(COLUMNS)} tab-separated fields a job")
    columns = {name: [cells[at] if at < len(cells) else "" for _, cells in body] for at, name in enumerate(COLUMNS)}
    table = TraceTable("gavel", path, columns, [row for row, _ in body], strict=strict)
    wrong = np.array([len(cells) != len(COLUMNS) for _, cells in body])
    table.reject(wrong, "job_type", f"must stand in a row of {len(COLUMNS)} tab-separated fields")
    return table


def _split(path: Path) -> Iterator[tuple[int, list[str]]]:
    """(line number from 1, fields) of every line that is not blank."""
    try:
        with open_text(path) as file:
            for number, line in enumerate(file, start=1):
                if line.strip():
                    yield number, line.rstrip("\r\n").split("\t")
    except (OSError, EOFError, UnicodeDecodeError) as error:
        raise TraceError(
            f"{path}: cannot be read as text rows ({type(error).__name__}: {error}); get the file anew"
        ) from error
