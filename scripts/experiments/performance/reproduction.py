"""The result of reproducing a published table, for any paper."""

from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

import pandas as pd

from envs.evaluation.files import write_frame
from murmuration.runs.comparing import print_frame


@dataclass(frozen=True)
class Reproduction:
    """Tables to print, in order, and notes on them; the files are already in the run's folder."""

    tables: Sequence[tuple[str, pd.DataFrame]]  # title, rows as printed
    notes: Sequence[str] = ()


def keep_and_print(result: tuple[pd.DataFrame, Reproduction], path: Path, *, digits: int) -> None:
    """Write the rows of a result to a CSV file, and print its tables.

    Args:
        result: the rows, and the tables computed from them.
        path: the file to write.
        digits: of the printed numbers.
    """
    rows, report = result
    write_frame(path, rows)
    for title, frame in report.tables:
        print_frame(title, frame, digits=digits)
