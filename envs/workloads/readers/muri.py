"""Muri's traces: one row per job, times in milliseconds, with a model and a batch size."""

from dataclasses import dataclass
from pathlib import Path
from typing import ClassVar, Literal

import pandas as pd

from envs.types import FloatArray, TraceError
from envs.workloads.readers.report import ReadReport
from envs.workloads.readers.table import MAX_GPUS, MAX_SECONDS, TraceTable, read_csv

MILLISECONDS = 1000.0
SERVICE_FACTOR = 1.015  # Muri's simulator: service time = iterations x iteration time x this


@dataclass(frozen=True)
class MuriTrace:
    """Philly virtual clusters as Muri replayed them (SIGCOMM'22; github.com/Rivendile/Muri, Apache-2.0).

    Times are in milliseconds in the file and in seconds here. Models and batch sizes were assigned by Muri's
    authors, not observed. A row that repeats an earlier row is left out and counted; a row that repeats only the
    `job_id` is malformed. Durations are assumed to be of Muri's testbed, 8 nodes of 8 V100.

    Args:
        trace: name of the file under $MURMURATION_DATA: trace1, trace2, trace3 or cluster_trace.
        service: source of a job's duration: the column `duration`, or `iterations` times `iteration_time` times
            the overhead factor of Muri's simulator.
        assigned_models: read the models. False ignores them, for performance models that do not distinguish models.
    """

    trace: str = "trace3"
    service: Literal["duration", "iterations"] = "duration"
    assigned_models: bool = True
    gpu_type: str = "V100"
    gpus_per_node: int = 8
    name: ClassVar[str] = "muri"
    source: ClassVar[str] = "github.com/Rivendile/Muri"

    def __post_init__(self) -> None:
        if self.service not in ("duration", "iterations"):
            raise TraceError(f"muri trace: service is {self.service!r}; it must be duration or iterations")

    @property
    def location(self) -> str:
        """Path of the file under $MURMURATION_DATA."""
        return f"traces/muri/{self.trace}.csv.gz"

    def read(self, path: Path, *, strict: bool = False) -> tuple[pd.DataFrame, ReadReport]:
        """Return the jobs and the report; see `TraceReader.read`."""
        timed = ("duration",) if self.service == "duration" else ("iterations", "iteration_time")
        named = ("model_name",) if self.assigned_models else ()
        table = read_csv(self.name, path, ("job_id", "num_gpu", "submit_time", *named, *timed), strict=strict)
        submit = table.numbers("submit_time", high=MAX_SECONDS * MILLISECONDS) / MILLISECONDS
        duration = self._duration(table)
        num_gpus = table.numbers("num_gpu", high=MAX_GPUS, whole=True)
        columns = {
            "submit_time": submit,
            "duration": duration,
            "num_gpus": num_gpus,
            "id": table.text("job_id"),
        }
        notes = ["times are in milliseconds in the file"]
        if self.assigned_models:
            columns["model"] = table.text("model_name")
            table.reject(columns["model"] == "", "model_name", "must name a model")
            notes = ["models were assigned by Muri's authors, not observed; times are in milliseconds in the file"]
        if self.service == "iterations":
            notes.append(f"service time is iterations x iteration_time x {SERVICE_FACTOR}, as in Muri's simulator")
        table.skip_repeated("job_id")
        table.skip_idle(duration, num_gpus)
        return table.finish(columns, notes=notes)

    def _duration(self, table: TraceTable) -> FloatArray:
        """float64[num_rows]: service time in seconds."""
        if self.service == "duration":
            return table.numbers("duration", high=MAX_SECONDS * MILLISECONDS) / MILLISECONDS
        iterations = table.numbers("iterations", high=1e12)
        iteration_time = table.numbers("iteration_time", high=MAX_SECONDS * MILLISECONDS)
        seconds: FloatArray = iterations * iteration_time / MILLISECONDS * SERVICE_FACTOR
        table.reject(seconds > MAX_SECONDS, "iterations", f"must take at most {MAX_SECONDS:g} s at its iteration time")
        return seconds
