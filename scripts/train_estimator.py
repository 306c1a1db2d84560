"""Train the network of the estimator learned_curves on jobs of training episodes, and compare it on held-out jobs.

python scripts/train_estimator.py
python scripts/train_estimator.py task=profile-24 steps=2000 hidden=16
"""

from pathlib import Path

from launch import command

# isort: split
import numpy as np

from agents.estimators import LearnedCurves, save_curves
from envs.scheduling import ThroughputEstimator
from experiments.estimators.calibration import calibrate, summarise_calibration
from experiments.estimators.held_out import held_out_jobs
from experiments.estimators.training import train_curves
from murmuration.config.building import build_object
from murmuration.config.describe_estimates import describe_estimator
from murmuration.config.descriptions import EstimatorRun
from murmuration.config.inputs import build_inputs
from murmuration.runs.comparing import print_frame


@command("train_estimator", describe_estimator)
def main(run: EstimatorRun, folder: Path) -> None:
    """Train the network, write its weights, and print how its beliefs agree with the truth beside other estimators'."""
    inputs = build_inputs(run.calibration.problem)
    built = {name: build_object(each, ThroughputEstimator) for name, each in run.calibration.estimators.items()}
    rng, most = np.random.default_rng(inputs.seed), max(run.calibration.measured)
    workloads = [inputs.source.episode(rng, "train") for _ in range(run.training_episodes)]
    jobs = list(held_out_jobs(workloads, inputs.setup, most, inputs.seed))
    network = train_curves(jobs, inputs.setup, run.steps, inputs.seed, run.hidden)
    save_curves(network, folder / "curves.safetensors")
    evaluated = inputs.source.evaluation(run.calibration.split)[: run.calibration.episodes]
    held_out = list(held_out_jobs(evaluated, inputs.setup, most, inputs.seed))
    scores = calibrate({"learned": LearnedCurves(network), **built}, held_out, inputs.setup, run.calibration.measured)
    title = f"Learnt from {len(jobs)} jobs; beliefs about {len(held_out)} held-out ones in cells not measured"
    print_frame(title, summarise_calibration(scores), 3)


if __name__ == "__main__":
    main()
