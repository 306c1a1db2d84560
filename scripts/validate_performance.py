"""Hold the performance model against measurements that it did not see: table of errors, predictions.csv and pictures.

python scripts/validate_performance.py data=<folder with profiles/>
python scripts/validate_performance.py seed=3
"""

from pathlib import Path

from omegaconf import DictConfig
from rich.console import Console
from rich.table import Table

from launch import command

# isort: split
import pandas as pd

from envs.performance.prediction_plot import plot_protocols
from envs.performance.validation import summary, validate


def show(title: str, frame: pd.DataFrame) -> None:
    """Print a frame as a table."""
    table = Table(title=title, title_justify="left")
    for column in frame.columns:
        table.add_column(column, justify="right" if frame[column].dtype.kind in "if" else "left")
    for row in frame.itertuples(index=False):
        table.add_row(*(f"{cell:.1f}" if isinstance(cell, float) else str(cell) for cell in row))
    Console().print(table)


@command("validate_performance")
def main(cfg: DictConfig, folder: Path) -> None:
    """Predict, print the errors, keep predictions and pictures."""
    predictions = validate(cfg.data, seed=cfg.seed)
    show("Errors of predictions, all models together", summary(predictions))
    show("Errors by model", summary(predictions, ("protocol", "quantity", "model")))
    show("Errors by GPU type", summary(predictions, ("protocol", "quantity", "gpu_type")))
    predictions.to_csv(folder / "predictions.csv", index=False)
    plot_protocols(predictions, folder)


if __name__ == "__main__":
    main()
