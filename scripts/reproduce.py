"""Reproduce a table of a paper: the table beside the published figures, CSV, JSON and pictures in the run's folder.

python scripts/reproduce.py paper=rubick table=prediction_error data=<folder with profiles/>
"""

from pathlib import Path

from omegaconf import DictConfig
from rich.console import Console
from rich.table import Table

from launch import command

# isort: split
import pandas as pd

from envs.performance.reproduction import Reproduction
from launch.build import build
from launch.names import ChoiceError, near


def chosen(tables: DictConfig, paper: str, table: str) -> DictConfig:
    """What reproduces a table, out of the registry in conf/reproduce.yaml."""
    for kind, name, known in (("paper", paper, tables), ("table", table, tables.get(paper) or {})):
        if name not in known:
            raise ChoiceError(f"{kind}={name}: no such {kind}{near(name, known)}; there are: {', '.join(known)}")
    node: DictConfig = tables[paper][table]
    return node


def show(title: str, frame: pd.DataFrame) -> None:
    """Print a frame as a table."""
    table = Table(title=title, title_justify="left")
    for column in frame.columns:
        numeric = frame[column].dtype.kind in "if"
        table.add_column(column, justify="right" if numeric else "left", overflow="fold")
    for row in frame.itertuples(index=False):
        table.add_row(*(f"{cell:.2f}" if isinstance(cell, float) else str(cell) for cell in row))
    Console().print(table)


@command("reproduce")
def main(cfg: DictConfig, folder: Path) -> None:
    """Run what the registry has under paper and table, show its tables and notes."""
    result: Reproduction = build(chosen(cfg.tables, cfg.paper, cfg.table), data=cfg.data, folder=folder)
    for title, frame in result.tables:
        show(title, frame)
    for note in result.notes:
        print(note)


if __name__ == "__main__":
    main()
