"""Reproduce a table of a paper: print it beside the published figures; keep CSV, JSON and plots in the run's folder.

python scripts/reproduce.py paper=rubick table=prediction_error data=<folder with profiles/>
"""

from pathlib import Path

from omegaconf import DictConfig

from launch import command

# isort: split

from envs.types import did_you_mean
from experiments.performance.reproduction import Reproduction
from launch.building import build_object
from launch.errors import ChoiceError
from launch.runs import print_frame


def select_table(tables: DictConfig, paper: str, table: str | None) -> DictConfig:
    """The entry of the registry in conf/reproduce.yaml for a table; the paper's first table if it is None."""
    table = table or str(next(iter(tables.get(paper) or {}), ""))
    for option, name, known in (("paper", paper, tables), ("table", table, tables.get(paper) or {})):
        if name not in known:
            hint = did_you_mean(name, known, lead=", ")
            raise ChoiceError(f"{option}={name}: no such {option}{hint}; there are: {', '.join(known)}")
    node: DictConfig = tables[paper][table]
    return node


@command("reproduce")
def main(cfg: DictConfig, folder: Path) -> None:
    """Run the registry's entry for a paper and table; print its tables and notes."""
    entry = select_table(cfg.tables, cfg.paper, cfg.table)
    result: Reproduction = build_object(entry, data=cfg.data, folder=folder)
    for title, frame in result.tables:
        print_frame(title, frame)
    for note in result.notes:
        print(note)


if __name__ == "__main__":
    main()
