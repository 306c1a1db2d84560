"""Columns of a reader's frame about what really happened, see `envs.workloads.recorded`."""

import numpy as np

from envs.types import FloatArray
from envs.workloads.readers.table import MAX_SECONDS, TraceTable


def recorded_runs(
    table: TraceTable, submit: FloatArray, start: FloatArray, end: FloatArray, ran: FloatArray
) -> dict[str, FloatArray]:
    """Return `start_after`, `end_after` and `waited`; times that contradict each other are unknown, as a note says.

    Args:
        table: the rows.
        submit: float64[num_rows], submissions in seconds.
        start: float64[num_rows], first starts on the same clock; NaN where the file does not say.
        end: float64[num_rows]; NaN where the file does not say.
        ran: float64[num_rows], seconds with GPUs, of all runs.
    """
    contradict = (start < submit) | (start - submit > MAX_SECONDS) | (end < start)
    contradict |= end - submit < ran - 1.0  # many files have times of a second's accuracy
    if count := int((contradict & table.sound).sum()):
        table.notes.append(f"{count:,} jobs have times that contradict each other; their start and end are unknown")
    start, end = (np.where(contradict, np.nan, each) for each in (start, end))
    waited = np.maximum(end - submit - ran, 0.0)
    return {"start_after": start - submit, "end_after": end - submit, "waited": waited}
