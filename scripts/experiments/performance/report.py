"""The tables beside the errors of predictions: T4 by number of nodes, and what is known."""

from pathlib import Path

import pandas as pd

from experiments.performance.known import check_h100, describe_measured, describe_scaled
from experiments.performance.predictions import summarise_errors
from experiments.performance.reproduction import Reproduction
from experiments.performance.t4 import FITTED_NODES, t4_errors


def describe_model(profiles: Path | str, *, seed: int = 0) -> Reproduction:
    """Compute the tables that say how far the default model's throughputs can be trusted.

    Args:
        profiles: folder with the public profiles.
        seed: of the drawn points.

    Raises:
        PerformanceError: a file is missing or malformed.
    """
    root = Path(profiles)
    slow = pd.concat([t4_errors(root / "pollux_t4", variant=each, seed=seed) for each in FITTED_NODES])
    by_nodes = summarise_errors(slow.sort_values("num_nodes", kind="stable"), ("protocol", "num_nodes"))
    tables = (
        ("T4, by number of nodes", by_nodes),
        ("Measured pairs of model and GPU type", describe_measured()),
        ("Guessed pairs: throughputs scaled from another GPU type", describe_scaled()),
        ("H100 over A100: the rule, and language models", check_h100(root / "llm_foundry" / "mpt_throughput.csv")),
    )
    return Reproduction(tables, ("Uneven placements are priced like even ones.",))
