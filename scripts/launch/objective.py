"""The objective of a finished run, which sweepers minimise."""

import json
from pathlib import Path
from typing import Any


def objective_of(folder: Path) -> float | None:
    """Return what a sweeper minimises: the mean JCT in seconds of the run's first scheduler or of its best validation.

    The first scheduler is the policy where there is one. For policies that bid it is minus the best merit. None for
    runs without such a figure.
    """
    if rows := rows_with_figures(folder):
        figure = rows[0].get("mean_jct")
        return None if figure is None else float(figure)
    objective = _read(folder / "state.json").get("objective")
    if objective is not None:
        return float(objective)
    return None


def rows_with_figures(folder: Path) -> list[dict[str, Any]]:
    """Return the rows of results.json that have figures; none without the file."""
    rows = _read(folder / "results.json").get("schedulers", [])
    return [row for row in rows if "mean_jct" in row]


def _read(path: Path) -> dict[str, Any]:
    try:
        found: dict[str, Any] = json.loads(path.read_text(encoding="utf-8"))
    except (OSError, ValueError):
        return {}
    return found
