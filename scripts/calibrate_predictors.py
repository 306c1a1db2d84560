"""Compare predictors of run times on jobs that they have not seen: coverage, score and error of their predictions.

python scripts/calibrate_predictors.py
python scripts/calibrate_predictors.py task=users-64 episodes=2 predictors=[group_history]
"""

from pathlib import Path

from launch import command

# isort: split
from dataclasses import replace

from envs.evaluation.files import write_frame
from envs.scheduling import WorkPredictor
from envs.simulation import check_unseen, train_predictor
from experiments.predictors.scores import score_predictors, summarise_scores
from murmuration.config.building import build_object
from murmuration.config.describe_estimates import describe_prediction
from murmuration.config.descriptions import PredictionRun
from murmuration.config.inputs import build_inputs
from murmuration.runs.comparing import print_frame


@command("calibrate_predictors", describe_prediction)
def main(run: PredictionRun, folder: Path) -> None:
    """Train predictors, predict the run times of held-out jobs, print how they agree with the truth, write scores."""
    inputs = build_inputs(run.problem)
    check_unseen(inputs.source, run.split)
    built = {name: build_object(component, WorkPredictor) for name, component in run.predictors.items()}
    for predictor in built.values():
        train_predictor(replace(inputs.setup, predictor=predictor), inputs.source)
    workloads = inputs.source.evaluation(run.split)[: run.episodes]
    scores = score_predictors(built, workloads, inputs.setup)
    count = sum(len(workload) for workload in workloads)
    print_frame(f"Logarithms of the run times of {count} held-out jobs", summarise_scores(scores), 3)
    write_frame(folder / "scores.csv", scores)


if __name__ == "__main__":
    main()
