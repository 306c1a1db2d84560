"""Hold the performance model against measurements that it did not see: table of errors, predictions.csv and pictures.

python scripts/validate_performance.py data=<folder with profiles/>
python scripts/validate_performance.py seed=3
"""

from pathlib import Path

from omegaconf import DictConfig

from launch import command

# isort: split
from envs.performance.prediction_plot import plot_protocols
from envs.performance.validation import summary, validate
from launch.show import show


@command("validate_performance")
def main(cfg: DictConfig, folder: Path) -> None:
    """Predict, print the errors, keep predictions and pictures."""
    predictions = validate(cfg.data, seed=cfg.seed)
    show("Errors of predictions, all models together", summary(predictions), digits=1)
    show("Errors by model", summary(predictions, ("protocol", "quantity", "model")), digits=1)
    show("Errors by GPU type", summary(predictions, ("protocol", "quantity", "gpu_type")), digits=1)
    predictions.to_csv(folder / "predictions.csv", index=False)
    plot_protocols(predictions, folder)


if __name__ == "__main__":
    main()
