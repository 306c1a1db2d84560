"""Train agents: imitate the best baseline, improve by PPO, validate, checkpoint.

python scripts/train.py experiment=demo
python scripts/train.py workload=philly workload.path=philly_jobs.csv.gz trainer.iterations=20
python scripts/train.py resume=runs/train/<date_time>
"""

import os
from pathlib import Path

os.environ.setdefault("OMP_WAIT_POLICY", "PASSIVE")  # before torch: waiting threads that spin starve the others

from omegaconf import DictConfig

from launch import build_schedulers, build_world, command
from launch.following import resumable
from launch.recall import resumed


@command("train", schedulers="fast")
def main(cfg: DictConfig, folder: Path) -> Path:
    """Build the run, train, and if asked compare the outcome with the baselines; return the run's folder."""
    cfg, folder = resumed(cfg, folder)

    from agents.checkpoint import Checkpoint
    from agents.terminal import ProgressListener
    from envs.evaluation.report import run_comparison, write_report
    from launch.training import build_trainer

    with resumable(folder), ProgressListener() as listener:
        state = build_trainer(cfg, folder, listener).run()
    if cfg.evaluate and state.best_iteration >= 0:
        world = build_world(cfg)
        policy = Checkpoint.load(folder).scheduler()
        comparison = run_comparison(
            {"policy": policy, **build_schedulers(cfg)},
            world.source.evaluation("test"),
            world.cluster,
            world.performance,
            world.scenario,
            world.seed,
            optional=cfg.schedulers if cfg.optional else (),
        )
        write_report(comparison, folder)
    return folder


if __name__ == "__main__":
    main()
