"""Muri's traces: one row a job, times in milliseconds, with a model and a batch size."""

from dataclasses import dataclass
from pathlib import Path
from typing import ClassVar

import pandas as pd

from envs.workloads.readers.report import ReadReport
from envs.workloads.readers.table import MAX_GPUS, MAX_SECONDS, read_csv

MILLISECONDS = 1000.0


@dataclass(frozen=True)
class Muri:
    """Philly virtual clusters as Muri replayed them (SIGCOMM'22; github.com/Rivendile/Muri, Apache-2.0).

    Times are in milliseconds in the file and in seconds here. Models and batch sizes were assigned by Muri's
    authors, not observed. The testbed, 8 nodes of 8 V100, is the type of GPU that the durations are taken to be of.

    Args:
        trace: which file under $MURMURATION_DATA: trace1, trace2, trace3 or cluster_trace.
    """

    trace: str = "trace3"
    gpu_type: str = "V100"
    gpus_per_node: int = 8
    name: ClassVar[str] = "muri"
    source: ClassVar[str] = "github.com/Rivendile/Muri"

    @property
    def location(self) -> str:
        """Where the file lies under $MURMURATION_DATA."""
        return f"traces/muri/{self.trace}.csv.gz"

    def read(self, path: Path, *, strict: bool = False) -> tuple[pd.DataFrame, ReadReport]:
        """The jobs and the report; see `TraceReader.read`."""
        table = read_csv(self.name, path, ("job_id", "num_gpu", "submit_time", "model_name", "duration"), strict=strict)
        submit = table.numbers("submit_time", high=MAX_SECONDS * MILLISECONDS) / MILLISECONDS
        duration = table.numbers("duration", high=MAX_SECONDS * MILLISECONDS) / MILLISECONDS
        num_gpus = table.numbers("num_gpu", high=MAX_GPUS, whole=True)
        model = table.text("model_name")
        table.reject(model == "", "model_name", "must name a model")
        table.skip_idle(duration, num_gpus)
        note = "models were assigned by Muri's authors, not observed; times are in milliseconds in the file"
        columns = {
            "submit_time": submit,
            "duration": duration,
            "num_gpus": num_gpus,
            "model": model,
            "name": table.text("job_id"),
        }
        return table.finish(columns, notes=(note,))
