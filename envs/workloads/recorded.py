"""The recorded past of the jobs of a trace: when they started and ended, how often, in which queue and where."""

from dataclasses import dataclass, replace
from datetime import datetime, timedelta
from typing import TYPE_CHECKING

import numpy as np
import numpy.typing as npt

from envs.types import FloatArray, IntArray, Seconds

if TYPE_CHECKING:
    import pandas as pd

ZERO_ATTRIBUTE = "zero"  # attribute of a reader's frame: the date and time of t = 0, if the trace has dates


@dataclass(frozen=True)
class RecordedPast:
    """The past of each job of a workload, one entry per row. No scheduler sees it, and no hash has it.

    Attributes:
        start: float64[num_jobs], first start in seconds from t = 0; NaN where the trace does not say.
        end: float64[num_jobs], in seconds from t = 0; NaN where the trace does not say.
        waited: float64[num_jobs], seconds without GPUs from submission to end, also between runs; NaN if unknown.
        attempts: int64[num_jobs], runs; 0 if unknown.
        queue: object[num_jobs], the queue or partition as the trace names it; "" if unknown.
        nodes: object[num_jobs], the nodes of the last run as the trace writes their list; "" if unknown.
        zero: date and time of t = 0 on the trace's clock, without a zone if the trace states none; None if the trace
            has no dates.
    """

    start: FloatArray
    end: FloatArray
    waited: FloatArray
    attempts: IntArray
    queue: npt.NDArray[np.object_]
    nodes: npt.NDArray[np.object_]
    zero: datetime | None = None

    @classmethod
    def of(cls, frame: "pd.DataFrame") -> "RecordedPast":
        """Read the columns `start_after`, `end_after`, `waited`, `attempts`, `queue` and `nodes` of a reader's frame.

        Args:
            frame: see `TraceReader`; it may lack any of these columns.
        """
        submit, unknown = frame["submit_time"].to_numpy(np.float64), np.full(len(frame), np.nan)

        def numbers(column: str) -> FloatArray:
            return frame[column].to_numpy(np.float64) if column in frame else unknown

        def texts(column: str) -> npt.NDArray[np.object_]:
            made = np.full(len(frame), "", dtype=object)
            if column in frame:
                made[:] = frame[column]
            return made

        attempts = np.nan_to_num(numbers("attempts")).astype(np.int64)
        start, end = submit + numbers("start_after"), submit + numbers("end_after")
        queue = texts("queue" if "queue" in frame else "pool")
        return cls(start, end, numbers("waited"), attempts, queue, texts("nodes"), frame.attrs.get(ZERO_ATTRIBUTE))

    def __len__(self) -> int:
        return len(self.start)

    def at(self, rows: slice | IntArray, origin: Seconds = 0.0) -> "RecordedPast":
        """Return some rows, with times from `origin` on."""
        by_job = {name: getattr(self, name)[rows] for name in ("waited", "attempts", "queue", "nodes")}
        zero = self.zero and self.zero + timedelta(seconds=float(origin))
        return replace(self, start=self.start[rows] - origin, end=self.end[rows] - origin, zero=zero, **by_job)
