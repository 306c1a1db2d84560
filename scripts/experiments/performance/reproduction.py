"""The result of reproducing a published table, for any paper."""

from collections.abc import Sequence
from dataclasses import dataclass

import pandas as pd


@dataclass(frozen=True)
class Reproduction:
    """Tables to print, in order, and notes on them; the files are already in the run's folder."""

    tables: Sequence[tuple[str, pd.DataFrame]]  # title, rows as printed
    notes: Sequence[str] = ()
