"""Parameters of the measured surfaces, stored in a table.

They are not fitted at start-up because the solver takes longer to load than everything else. After a change of the
measurements, the priors or the form, `python -m envs.performance.refit` fits them again; a test compares the table with
the fit.
"""

import csv
from functools import cache
from importlib.resources import files

import numpy as np

from envs.types import FloatArray

NAMES = ("alpha", "beta", "kappa_1", "kappa_2", "kappa_3", "kappa_4")


@cache
def fitted_parameters() -> dict[tuple[str, str], FloatArray]:
    """Read the fitted parameters by (zoo model, GPU type): float64[6], seconds (`StepTime.parameters`)."""
    text = (files("envs.performance") / "tables" / "fitted.csv").read_text(encoding="utf-8")
    return {
        (row["model"], row["gpu_type"]): np.array([float(row[name]) for name in NAMES])
        for row in csv.DictReader(text.splitlines())
    }


def format_table(parameters: dict[tuple[str, str], FloatArray]) -> str:
    """Format the table as text, in full precision."""
    rows = [",".join((*pair, *map(repr, values.tolist()))) for pair, values in sorted(parameters.items())]
    return "\n".join([",".join(("model", "gpu_type", *NAMES)), *rows]) + "\n"
