"""Tables in Parquet as rows of text, so that every reader of comma-separated files reads them too."""

import math
import stat
from collections.abc import Iterator
from pathlib import Path
from typing import Any

from envs.types import TraceError
from envs.workloads.readers.files import most_characters, too_large

BATCH = 1000  # rows that are decoded at once
INSTALL = "pip install 'murmuration[parquet]'"


def is_parquet(path: Path) -> bool:
    """Whether a file begins as a Parquet file does; pipes and devices are not opened."""
    try:
        if not stat.S_ISREG(path.stat().st_mode):
            return False
        with path.open("rb") as file:
            return file.read(4) == b"PAR1"
    except OSError:
        return False


def import_pyarrow(path: Path) -> Any:
    """Return the module `pyarrow.parquet`.

    Args:
        path: the file that needs it, for the message.

    Raises:
        TraceError: the extra is not installed.
    """
    try:
        import pyarrow.parquet as found
    except ImportError as error:
        raise TraceError(f"{path}: is a Parquet file, which needs the extra parquet: {INSTALL}") from error
    return found


def parquet_rows(path: Path) -> Iterator[tuple[int, list[str]]]:
    """Yield the names of the columns as row 1, then the rows; missing values are empty.

    Raises:
        TraceError: the extra is not installed, the file is damaged, or it exceeds the limit on characters.
    """
    parquet = import_pyarrow(path)
    from pyarrow import ArrowException

    row, left = 1, most_characters()
    try:
        with parquet.ParquetFile(path) as file:
            yield row, list(file.schema_arrow.names)
            for batch in file.iter_batches(BATCH):
                left -= batch.nbytes
                if left < 0:
                    raise too_large(path)
                for values in zip(*(column.to_pylist() for column in batch.columns), strict=True):
                    row += 1
                    yield row, [_text(value) for value in values]
    except (ArrowException, OSError, ValueError, OverflowError) as error:
        reason = " ".join(str(error).split())[:120]
        raise TraceError(f"{path}: is a damaged Parquet file ({reason}); write it again") from error


def _text(value: Any) -> str:
    if value is None or (isinstance(value, float) and math.isnan(value)):
        return ""
    if isinstance(value, bool):
        return "1" if value else ""
    return value.decode("utf-8", "replace") if isinstance(value, bytes) else str(value)
