"""Compare estimators of throughputs on jobs that they have not seen: coverage, score and error of their beliefs.

python scripts/calibrate_estimators.py
python scripts/calibrate_estimators.py task=profile-64 episodes=2
"""

from pathlib import Path

from omegaconf import DictConfig

from launch import command

# isort: split
from envs.scheduling import ThroughputEstimator
from experiments.estimators.calibration import calibrate, summarise_calibration
from experiments.estimators.held_out import held_out_jobs
from experiments.estimators.plot import plot_calibration
from launch.arguments import compose_options
from launch.building import build_object
from launch.choices import list_choices
from launch.inputs import build_inputs
from launch.runs import print_frame


@command("calibrate_estimators")
def main(cfg: DictConfig, folder: Path) -> None:
    """Form beliefs about held-out jobs, print how they agree with the truth, write scores and the figure."""
    inputs = build_inputs(cfg)
    names = cfg.estimators or list_choices("estimator")
    nodes = {name: compose_options("compare", [f"estimator={name}"]).estimator for name in names}
    built = {name: build_object(node, ThroughputEstimator) for name, node in nodes.items()}
    workloads = inputs.source.evaluation(cfg.split)[: cfg.episodes]
    jobs = list(held_out_jobs(workloads, inputs.setup, max(cfg.measured), inputs.seed))
    scores = calibrate(built, jobs, inputs.setup, cfg.measured)
    print_frame(f"Beliefs about {len(jobs)} held-out jobs in cells not measured", summarise_calibration(scores), 3)
    scores.to_csv(folder / "scores.csv", index=False)
    plot_calibration(scores, folder / "estimator_calibration.png")


if __name__ == "__main__":
    main()
