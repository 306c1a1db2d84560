"""Reproduce a table of a paper: the table beside the published figures, CSV, JSON and pictures in the run's folder.

python scripts/reproduce.py paper=rubick table=prediction_error data=<folder with profiles/>
"""

from pathlib import Path

from omegaconf import DictConfig

from launch import command

# isort: split
from envs.performance.reproduction import Reproduction
from launch.build import build
from launch.names import ChoiceError, near
from launch.show import show


def chosen(tables: DictConfig, paper: str, table: str | None) -> DictConfig:
    """What reproduces a table, the paper's first if None, out of the registry in conf/reproduce.yaml."""
    table = table or str(next(iter(tables.get(paper) or {}), ""))
    for kind, name, known in (("paper", paper, tables), ("table", table, tables.get(paper) or {})):
        if name not in known:
            raise ChoiceError(f"{kind}={name}: no such {kind}{near(name, known)}; there are: {', '.join(known)}")
    node: DictConfig = tables[paper][table]
    return node


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
