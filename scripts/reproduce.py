"""Reproduce a table of a paper: print it beside the published figures; keep CSV, JSON and plots in the run's folder.

python scripts/reproduce.py paper=rubick table=prediction_error data=<folder with profiles/>
"""

from pathlib import Path

from launch import command

# isort: split

from experiments.performance.reproduction import Reproduction
from murmuration.config.building import build_object
from murmuration.config.describe import describe_reproduction
from murmuration.config.descriptions import ReproductionRun
from murmuration.runs.comparing import print_frame


@command("reproduce", describe_reproduction)
def main(run: ReproductionRun, folder: Path) -> None:
    """Run the registry's entry for a paper and table; print its tables and notes."""
    result: Reproduction = build_object(run.table, data=run.data, folder=folder)
    for title, frame in result.tables:
        print_frame(title, frame)
    for note in result.notes:
        print(note)


if __name__ == "__main__":
    main()
