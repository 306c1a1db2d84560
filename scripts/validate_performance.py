"""Compare the performance model with measurements that it was not fitted to: errors, predictions.csv and plots.

python scripts/validate_performance.py data=<folder with profiles/>
python scripts/validate_performance.py parts=pairs seed=3
python scripts/validate_performance.py parts=[held_out,conclusions]
"""

from pathlib import Path

from launch import command

# isort: split
from envs.evaluation.files import write_frame
from experiments.performance.conclusions import validate_conclusions
from experiments.performance.contention import fitted_contention, read_deepshare
from experiments.performance.held_out import validate_held_out
from experiments.performance.plot import plot_protocols
from experiments.performance.predictions import summarise_errors, validate_performance
from experiments.performance.report import describe_model
from experiments.performance.reproduction import keep_and_print
from experiments.performance.sharing import validate_pairs
from murmuration.config.describe import describe_validation
from murmuration.config.descriptions import ValidationRun
from murmuration.runs.comparing import print_frame


@command("validate_performance", describe_validation)
def main(run: ValidationRun, folder: Path) -> None:
    """Run the parts."""
    if "throughputs" in run.parts:
        print_throughputs(run, folder)
    if "pairs" in run.parts:
        keep_and_print(validate_pairs(run.data, seed=run.seed), folder / "pairs.csv", digits=3)
    if "held_out" in run.parts:
        keep_and_print(validate_held_out(), folder / "held_out.csv", digits=0)
    if "conclusions" in run.parts:
        keep_and_print(validate_conclusions(seed=run.seed), folder / "conclusions.csv", digits=2)


def print_throughputs(run: ValidationRun, folder: Path) -> None:
    """Predict, print the errors, write predictions and plots."""
    predictions = validate_performance(run.data, seed=run.seed)
    print_frame("Errors of predictions, all models together", summarise_errors(predictions), digits=1)
    by_model, by_type = ("protocol", "quantity", "model"), ("protocol", "quantity", "gpu_type")
    print_frame("Errors by model", summarise_errors(predictions, by_model), digits=1)
    print_frame("Errors by GPU type", summarise_errors(predictions, by_type), digits=1)
    fits = fitted_contention(*read_deepshare(Path(run.data) / "profiles" / "deepshare"))
    print_frame("Contention: best fit to all pairs, share of time on the link by model", fits, digits=2)
    write_frame(folder / "predictions.csv", predictions)
    plot_protocols(predictions, folder)
    report = describe_model(Path(run.data) / "profiles", seed=run.seed)
    for title, frame in report.tables:
        print_frame(title, frame, digits=1)
    print(*report.notes, sep="\n")


if __name__ == "__main__":
    main()
