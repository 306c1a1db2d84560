"""Parameters of the measured surfaces, fitted ahead: the solver takes longer to load than everything else at a start.

`python -m envs.performance.refit` fits them anew, after a change of the measurements, of the priors or of the form; a
test holds the table to what the fit gives.
"""

import csv
from functools import cache
from importlib.resources import files

import numpy as np

from envs.types import FloatArray

NAMES = ("alpha", "beta", "kappa_1", "kappa_2", "kappa_3", "kappa_4")


@cache
def fitted() -> dict[tuple[str, str], FloatArray]:
    """float64[6], seconds (`StepTime.parameters`), by zoo model and GPU type."""
    text = (files("envs.performance") / "tables" / "fitted.csv").read_text(encoding="utf-8")
    return {
        (row["model"], row["gpu_type"]): np.array([float(row[name]) for name in NAMES])
        for row in csv.DictReader(text.splitlines())
    }


def table_of(parameters: dict[tuple[str, str], FloatArray]) -> str:
    """The table as text, in full precision."""
    rows = [",".join((*pair, *map(repr, values.tolist()))) for pair, values in sorted(parameters.items())]
    return "\n".join([",".join(("model", "gpu_type", *NAMES)), *rows]) + "\n"
