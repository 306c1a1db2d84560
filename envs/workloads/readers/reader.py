"""What a trace reader is, and where trace files are found."""

import os
from pathlib import Path
from typing import TYPE_CHECKING, Protocol

from envs.types import TraceError
from envs.workloads.readers.report import ReadReport

if TYPE_CHECKING:
    import pandas as pd

DATA_VARIABLE = "MURMURATION_DATA"  # a folder that holds traces/<name>/...


class TraceReader(Protocol):
    """Reads one trace format into the standard columns.

    The frame is sorted by submission and has `submit_time` (s from t = 0), `duration` (s), `num_gpus` and `row`
    (of the file). It may have `model` (a name), `work` (samples), `tenant`, `name`, `guaranteed`, `gpu_type` and
    `plan` (an `ExecutionPlan` or None); what a trace does not have is assigned later, and said.
    """

    @property
    def name(self) -> str:
        """Short name of the trace."""
        ...

    @property
    def location(self) -> str:
        """Where the file lies under $MURMURATION_DATA."""
        ...

    @property
    def source(self) -> str:
        """Where the trace was published."""
        ...

    @property
    def gpu_type(self) -> str:
        """GPU type on which the durations were taken."""
        ...

    @property
    def gpus_per_node(self) -> int:
        """GPUs of that cluster's usual node."""
        ...

    def read(self, path: Path, *, strict: bool = False) -> "tuple[pd.DataFrame, ReadReport]":
        """The jobs, and what became of the file's rows.

        Raises:
            TraceError: the file is not of this format, or `strict` and a row is malformed.
        """
        ...


def locate(reader: TraceReader, path: str | Path | None = None) -> Path:
    """The file to read: `path`, else the reader's place under $MURMURATION_DATA.

    Raises:
        TraceError: there is no such file; the message says where to get it and how to name it.
    """
    root = os.environ.get(DATA_VARIABLE)
    if path is None and not root:
        raise TraceError(
            f"{reader.name} trace: no file given; get it from {reader.source}, then set workload.path=<file>, "
            f"or ${DATA_VARIABLE} to a folder that holds {reader.location}"
        )
    found = Path(path).expanduser() if path is not None else Path(str(root)) / reader.location
    if not found.exists():
        raise TraceError(
            f"{reader.name} trace: {found} does not exist; get it from {reader.source}, then set workload.path=<file>, "
            f"or ${DATA_VARIABLE} to a folder that holds {reader.location}"
        )
    return found
