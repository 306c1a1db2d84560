"""Compare estimators of throughputs on jobs that they have not seen: coverage, score and error of their beliefs.

python scripts/calibrate_estimators.py
python scripts/calibrate_estimators.py task=profile-64 episodes=2
"""

from pathlib import Path

from launch import command

# isort: split
from envs.evaluation.files import write_frame
from envs.scheduling import ThroughputEstimator
from experiments.estimators.calibration import calibrate, summarise_calibration
from experiments.estimators.held_out import held_out_jobs
from experiments.estimators.plot import plot_calibration
from murmuration.config.building import build_object
from murmuration.config.describe_estimates import describe_calibration
from murmuration.config.descriptions import CalibrationRun
from murmuration.config.inputs import build_inputs
from murmuration.runs.comparing import print_frame


@command("calibrate_estimators", describe_calibration)
def main(run: CalibrationRun, folder: Path) -> None:
    """Form beliefs about held-out jobs, print how they agree with the truth, write scores and the figure."""
    inputs = build_inputs(run.problem)
    built = {name: build_object(component, ThroughputEstimator) for name, component in run.estimators.items()}
    workloads = inputs.source.evaluation(run.split)[: run.episodes]
    jobs = list(held_out_jobs(workloads, inputs.setup, max(run.measured), inputs.seed))
    scores = calibrate(built, jobs, inputs.setup, run.measured)
    print_frame(f"Beliefs about {len(jobs)} held-out jobs in cells not measured", summarise_calibration(scores), 3)
    write_frame(folder / "scores.csv", scores)
    plot_calibration(scores, folder / "estimator_calibration.png")


if __name__ == "__main__":
    main()
