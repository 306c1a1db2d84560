"""Jobs of any trace in the project's own schema: read, checked, written."""

import math
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import pandas as pd

from envs.evaluation.files import whole_file, write_whole
from envs.types import TraceError
from envs.workloads.readers import JobsTrace, TraceReader, locate
from envs.workloads.readers.jobs import jobs_table
from envs.workloads.readers.parquet import import_pyarrow
from envs.workloads.readers.report import ReadReport
from murmuration.config.building import Component, build_object
from murmuration.config.choices import choose_workload
from murmuration.config.errors import ChoiceError

ENDINGS = (".csv", ".parquet")


def read_any_trace(
    path: Path, options: Sequence[str], config_dir: str | None = None
) -> tuple[pd.DataFrame, ReadReport]:
    """Read a trace with the reader of a workload, and return its jobs in the columns of murmuration-jobs-1.

    Args:
        path: the file or folder.
        options: such as `workload=slurm` (the default) and `workload.reader.timezone=Europe/Berlin`.
        config_dir: a folder of one's own with workloads.

    Raises:
        ChoiceError: the workload reads no trace, or an option does not exist.
        TraceError: the file cannot be read.
    """
    values = choose_workload(options, config_dir)
    reader: TraceReader = build_object(Component("workload.reader", values["reader"]))
    frame, report = reader.read(locate(reader, path), strict=bool(values.get("strict", False)))
    return jobs_table(frame, reader.name, reader.gpu_type, reader.gpus_per_node), report


def write_jobs(path: Path, table: pd.DataFrame) -> None:
    """Write jobs as CSV or Parquet, by the ending of the name, and check that they are read again unchanged.

    Raises:
        ChoiceError: the name has another ending.
        TraceError: the extra `parquet` is missing, or a job could not be read again; then the old file is kept.
    """
    if path.suffix not in ENDINGS:
        raise ChoiceError(f"{path}: must end in {' or '.join(ENDINGS)}")
    with whole_file(path) as part:
        if path.suffix == ".parquet":
            write_parquet(part, table)
        else:
            write_whole(part, table.map(_text).to_csv(index=False))
        _check(part, path, table)


def write_parquet(path: Path, table: pd.DataFrame) -> None:
    """Write a table as Parquet.

    Raises:
        TraceError: the extra `parquet` is missing.
    """
    parquet = import_pyarrow(path)
    from pyarrow import Table

    parquet.write_table(Table.from_pandas(table, preserve_index=False), path, compression="zstd")


def _check(part: Path, path: Path, table: pd.DataFrame) -> None:
    """Assert that a file gives the same jobs again."""
    try:
        again = jobs_table(JobsTrace().read(part, strict=True)[0], "", "", 1)
    except TraceError as error:
        why = str(error).removeprefix(f"{part}: ")
    else:
        same = (
            name for name in table if name in again and list(map(_text, table[name])) == list(map(_text, again[name]))
        )
        differs = sorted({*table, *again}.difference(same))
        why = f"column {differs[0]} would be another" if differs else ""
    if why:
        raise TraceError(f"{path}: was not written, as it could not be read again: {why}; correct the trace")


def _text(value: Any) -> str:
    """Return a value as a file has it: exact numbers, whole ones without a point, and nothing for what is unknown."""
    if isinstance(value, str):
        return value
    number = float(value)
    if math.isnan(number):
        return ""
    return str(int(number)) if number.is_integer() and abs(number) < 2**53 else repr(number)
