"""Fit the parameters again and write their table: python -m envs.performance.refit."""

from pathlib import Path

from envs.performance.fitted import format_table
from envs.performance.measurements import fit_measured_surface, measured_points


def refit_table() -> str:
    """Fit all measured surfaces and return the table as text."""
    return format_table({pair: fit_measured_surface(*pair).parameters for pair in measured_points()})


if __name__ == "__main__":
    target = Path(__file__).parent / "tables" / "fitted.csv"
    target.write_text(refit_table(), encoding="utf-8")
