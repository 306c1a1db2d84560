"""What the reproduction of a published table hands back, whichever paper it is of."""

from collections.abc import Sequence
from dataclasses import dataclass

import pandas as pd


@dataclass(frozen=True)
class Reproduction:
    """Tables to show, in order, and what a reader must know of them; files are in the run's folder already."""

    tables: Sequence[tuple[str, pd.DataFrame]]  # title, rows as they are to be shown
    notes: Sequence[str] = ()
