"""Train agents, validate, write checkpoints: imitation and PPO, or evolution strategies on bids.

python scripts/train.py experiment=demo
python scripts/train.py experiment=bidding task=shared-64 tasks=[rigid-64]
python scripts/train.py workload=philly workload.path=philly_jobs.csv.gz trainer.iterations=20
python scripts/train.py resume=runs/train/<date_time>
"""

import os
from pathlib import Path

os.environ.setdefault("OMP_WAIT_POLICY", "PASSIVE")  # before torch: waiting threads that spin slow down the others

from omegaconf import DictConfig

from launch import command
from launch.registry import registered
from launch.runs import compare_and_report, recall_run, resumable


@command("train", schedulers="fast")
def main(cfg: DictConfig, folder: Path) -> Path:
    """Train; if `evaluate` is true, compare the best checkpoint with the baselines; return the run's folder."""
    cfg, folder = recall_run(cfg, folder)

    from agents.terminal import ProgressListener
    from launch.policies import load_policy
    from launch.training import build_trainer

    with resumable(folder), ProgressListener() as listener:
        state = build_trainer(cfg, folder, listener).run()
    if cfg.evaluate and state.best_iteration >= 0:
        compare_and_report(cfg, folder, "test", {"policy": load_policy(folder, registered(cfg))})
    return folder


if __name__ == "__main__":
    main()
