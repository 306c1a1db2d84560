"""Data frames on the terminal."""

import pandas as pd
from rich.table import Table

from envs.evaluation.table import wide_console


def show(title: str, frame: pd.DataFrame, digits: int = 2) -> None:
    """Print a frame as a table, numbers to the right."""
    table = Table(title=title, title_justify="left")
    for column in frame.columns:
        numeric = frame[column].dtype.kind in "if"
        table.add_column(column, justify="right" if numeric else "left", overflow="fold")
    for row in frame.itertuples(index=False):
        table.add_row(*(f"{cell:.{digits}f}" if isinstance(cell, float) else str(cell) for cell in row))
    wide_console().print(table)
