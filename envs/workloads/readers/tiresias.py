"""The job files of Tiresias' simulator: one row per job, times in whole seconds."""

from dataclasses import dataclass
from pathlib import Path
from typing import ClassVar

import pandas as pd

from envs.workloads.readers.report import ReadReport
from envs.workloads.readers.table import MAX_GPUS, MAX_SECONDS, read_csv


@dataclass(frozen=True)
class TiresiasTrace:
    """Traces of Tiresias' simulator (NSDI'19; github.com/SymbioticLab/Tiresias, Apache-2.0).

    The columns are `job_id`, `num_gpu`, `submit_time` and `duration`, with times in seconds. That simulator uses
    durations and no throughputs, so the column of models is not read.
    """

    gpu_type: str = "V100"
    gpus_per_node: int = 4
    name: ClassVar[str] = "tiresias"
    source: ClassVar[str] = "github.com/SymbioticLab/Tiresias"
    location: ClassVar[str] = "traces/tiresias/60_job.csv"

    def read(self, path: Path, *, strict: bool = False) -> tuple[pd.DataFrame, ReadReport]:
        """Return the jobs and the report; see `TraceReader.read`."""
        table = read_csv(self.name, path, ("job_id", "num_gpu", "submit_time", "duration"), strict=strict)
        submit, duration = (table.numbers(field, high=MAX_SECONDS) for field in ("submit_time", "duration"))
        num_gpus = table.numbers("num_gpu", high=MAX_GPUS, whole=True)
        table.skip_idle(duration, num_gpus)
        columns = {
            "submit_time": submit,
            "duration": duration,
            "num_gpus": num_gpus,
            "id": table.text("job_id"),
        }
        return table.finish(columns)
