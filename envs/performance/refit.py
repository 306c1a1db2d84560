"""Write the table of fitted parameters anew: python -m envs.performance.refit."""

from pathlib import Path

from envs.performance.fitted import table_of
from envs.performance.measurements import fit_anew, measurements


def refitted() -> str:
    """The table as the fit gives it now."""
    return table_of({pair: fit_anew(*pair).parameters for pair in measurements()})


if __name__ == "__main__":
    target = Path(__file__).parent / "tables" / "fitted.csv"
    target.write_text(refitted(), encoding="utf-8")
