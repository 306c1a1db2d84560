"""The protocol of trace readers, and the search for trace files."""

import os
from pathlib import Path
from typing import TYPE_CHECKING, Protocol

from envs.types import TraceError
from envs.workloads.readers.report import ReadReport

if TYPE_CHECKING:
    import pandas as pd

DATA_VARIABLE = "MURMURATION_DATA"  # names a folder with traces/<name>/...
PACKAGED = Path(__file__).parents[1]  # the same in the project itself


class TraceReader(Protocol):
    """A reader of one trace format into the standard columns.

    The frame is sorted by submission and has `submit_time` (s from t = 0), `duration` (s), `num_gpus` and `row` (of the
    file). It may have `model` (a name), `work` (samples), `tenant`, `user`, `name` (which jobs of one kind share), `id`
    (of one job, for messages), `guaranteed`, `gpu_type`, `gpu_fraction` (of its one GPU that a job asks for),
    `pool` and other columns that constrain it (`envs.workloads.constraining`), `time_limit` (s, 0 for none),
    `priority`, `nice`, `qos`, `begin_after` (s after its submission, 0 for none), `dependency` (on other jobs by their
    `id`, see `parse_dependency`), `min_gpus`, `max_gpus` and `plan` (an `ExecutionPlan` or None). Columns that a trace
    lacks are assigned later, with a note in the results. What really happened is in `start_after`, `end_after` and
    `waited` (s, the first two after submission; NaN if unknown), `attempts`, `queue` and `nodes`, see `RecordedPast`.
    """

    @property
    def name(self) -> str:
        """Short name of the trace."""
        ...

    @property
    def location(self) -> str:
        """Path of the file under $MURMURATION_DATA."""
        ...

    @property
    def source(self) -> str:
        """Place of publication, with instructions where needed."""
        ...

    @property
    def gpu_type(self) -> str:
        """GPU type on which the durations were measured."""
        ...

    @property
    def gpus_per_node(self) -> int:
        """GPUs of a usual node of the trace's cluster."""
        ...

    def read(self, path: Path, *, strict: bool = False) -> "tuple[pd.DataFrame, ReadReport]":
        """Return the jobs, and the report on the file's rows.

        Raises:
            TraceError: the file is not of this format, or `strict` is set and a row is malformed.
        """
        ...


def locate(reader: TraceReader, path: str | Path | None = None) -> Path:
    """Return the file to read: `path` if given, else the reader's location under $MURMURATION_DATA, or of the project.

    Raises:
        TraceError: the file does not exist; the message says where to get it and which option to set.
    """
    root = os.environ.get(DATA_VARIABLE)
    packaged = PACKAGED / reader.location
    if path is None and packaged.exists() and not (root and _published(Path(root) / reader.location).exists()):
        return packaged
    if path is None and not root:
        raise TraceError(
            f"{reader.name} trace: no file given; get it from {reader.source}, then set workload.path=<file>, "
            f"or ${DATA_VARIABLE} to a folder that contains {reader.location}"
        )
    found = Path(os.path.expanduser(path)) if path is not None else _published(Path(str(root)) / reader.location)
    try:
        exists = found.exists()
    except OSError as error:
        raise TraceError(f"{reader.name} trace: {str(found)[:200]}: cannot be looked at ({error.strerror})") from error
    if not exists:
        raise TraceError(
            f"{reader.name} trace: {found} does not exist; get it from {reader.source}, then set workload.path=<file>, "
            f"or ${DATA_VARIABLE} to a folder that contains {reader.location}"
        )
    return found


def _published(path: Path) -> Path:
    """Return a file of a trace, or the one that was compressed or unpacked since, where that alone exists."""
    other = path.with_suffix("") if path.suffix == ".gz" else path.with_name(f"{path.name}.gz")
    return other if other.exists() and not path.exists() else path
