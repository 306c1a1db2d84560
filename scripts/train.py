"""Train agents, validate, write checkpoints: imitation and PPO, or evolution strategies on bids.

python scripts/train.py experiment=demo
python scripts/train.py experiment=bidding task=shared-64 tasks=[rigid-64]
python scripts/train.py workload=philly workload.path=philly_jobs.csv.gz trainer.iterations=20
python scripts/train.py resume=runs/train/<date_time>
"""

import os
from pathlib import Path

os.environ.setdefault("OMP_WAIT_POLICY", "PASSIVE")  # before torch: waiting threads that spin slow down the others

from launch import command
from murmuration.config.describe import describe_training
from murmuration.config.descriptions import TrainingRun
from murmuration.runs.comparing import resumable


@command("train", describe_training, schedulers="fast")
def main(run: TrainingRun, folder: Path) -> Path:
    """Train; if `evaluate` is true, compare the best checkpoint with the baselines; return the run's folder."""
    folder = run.resumed or folder

    from murmuration.runs.seeds import train_and_evaluate

    with resumable(folder, len(run.seeds)):
        train_and_evaluate(run, folder)
    return folder


if __name__ == "__main__":
    main()
